// Users: log-in, users, roles.
#include <icecore/v1/icecore.grpc.pb.h>

#include <fmt/format.h>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

using context = grpc::CallbackServerContext;
using unary = grpc::ServerUnaryReactor;

class user_calls final : public v1::Users::CallbackService {
 public:
  explicit user_calls(door_parts& door) : door_(door) {}

  /// The one call that needs no token.
  unary* LogIn(context* its, const v1::LogInRequest* request, v1::LogInResponse* response) override {
    auto* const made = new unary_call(door_, *its, "Users.LogIn");
    made->attempt([&](unary_call& c) {
      const std::uint64_t bytes_max = door_.all.options().limits.before_login_bytes;
      if (request->ByteSizeLong() > bytes_max) {
        throw error(errc::limit_reached, fmt::format("a log-in of {} bytes; limits.before_login_bytes is {}",
                                                     request->ByteSizeLong(), bytes_max));
      }
      c.admit_anybody(request->ByteSizeLong());
      c.go_on(door_.accounts, [=](unary_call& going_on) {
        const service::access_token token = going_on.door().all.users().log_in(request->user(), request->password());
        response->set_token(token.text);
        response->set_lives_ms(
            static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(token.lives).count()));
      });
    });
    return made;
  }

  unary* LogOut(context* its, const v1::LogOutRequest* request, v1::Nothing*) override {
    return answer_on(door_.accounts, door_, its, "Users.LogOut", *request,
                     [](unary_call& c) { c.door().all.users().log_out(c.token()); });
  }

  unary* AddUser(context* its, const v1::AddUserRequest* request, v1::Nothing*) override {
    return manage(its, "Users.AddUser", request, [](const call& c, service::access& users, const auto& what) {
      std::optional<std::string_view> password;
      if (what.has_password()) password = what.password();
      users.add_user(c.who(), what.name(), password);
    });
  }

  unary* RemoveUser(context* its, const v1::UserRequest* request, v1::Nothing*) override {
    return manage(its, "Users.RemoveUser", request, [](const call& c, service::access& users, const auto& what) {
      users.remove_user(c.who(), what.name());
    });
  }

  unary* SetPassword(context* its, const v1::SetPasswordRequest* request, v1::Nothing*) override {
    return manage(its, "Users.SetPassword", request, [](const call& c, service::access& users, const auto& what) {
      users.set_password(c.who(), what.name(), what.password());
    });
  }

  unary* Grant(context* its, const v1::GrantRoleRequest* request, v1::Nothing*) override {
    return manage(its, "Users.Grant", request, [](const call& c, service::access& users, const auto& what) {
      users.grant(c.who(), what.user(), what.role());
    });
  }

  unary* Withdraw(context* its, const v1::GrantRoleRequest* request, v1::Nothing*) override {
    return manage(its, "Users.Withdraw", request, [](const call& c, service::access& users, const auto& what) {
      users.withdraw(c.who(), what.user(), what.role());
    });
  }

  unary* SetRole(context* its, const v1::Role* request, v1::Nothing*) override {
    return manage(its, "Users.SetRole", request, [](const call& c, service::access& users, const auto& what) {
      users.set_role(c.who(), role_of(what));
    });
  }

  unary* RemoveRole(context* its, const v1::RoleRequest* request, v1::Nothing*) override {
    return manage(its, "Users.RemoveRole", request, [](const call& c, service::access& users, const auto& what) {
      users.remove_role(c.who(), what.name());
    });
  }

  unary* List(context* its, const v1::ListUsersRequest* request, v1::ListUsersResponse* response) override {
    return answer_on(door_.accounts, door_, its, "Users.List", *request, [=](unary_call& c) {
      const service::access& users = c.door().all.users();
      for (const service::user& user : users.users(c.who())) {
        v1::User& out = *response->add_users();
        out.set_name(user.name);
        for (const std::string& role : user.roles) out.add_roles(role);
        out.set_may_log_in(user.may_log_in);
      }
      for (const service::role& role : users.roles(c.who())) fill(*response->add_roles(), role);
    });
  }

 private:
  /// What changes users: `access` checks the rights, and its change is durable when it returns.
  template <typename Request, typename Change>
  unary* manage(context* its, const char* method, const Request* request, Change change) {
    return answer_on(door_.accounts, door_, its, method, *request,
                     [=](unary_call& c) { change(c, c.door().all.users(), *request); });
  }

  door_parts& door_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_user_calls(door_parts& door) { return std::make_unique<user_calls>(door); }

}  // namespace icecore::doors

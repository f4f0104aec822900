// Users: log-in, users, roles.
#include <icecore/v1/icecore.pb.h>

#include <fmt/format.h>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

class user_calls final : public served_service {
 public:
  explicit user_calls(door_parts& door) : served_service(door, "icecore.v1.Users") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "LogIn", &user_calls::log_in, callers::anybody);
    wait_for_unary(*this, queue, "LogOut", &user_calls::log_out);
    wait_for_unary(*this, queue, "AddUser", &user_calls::add_user);
    wait_for_unary(*this, queue, "RemoveUser", &user_calls::remove_user);
    wait_for_unary(*this, queue, "SetPassword", &user_calls::set_password);
    wait_for_unary(*this, queue, "Grant", &user_calls::grant);
    wait_for_unary(*this, queue, "Withdraw", &user_calls::withdraw);
    wait_for_unary(*this, queue, "SetRole", &user_calls::set_role);
    wait_for_unary(*this, queue, "RemoveRole", &user_calls::remove_role);
    wait_for_unary(*this, queue, "List", &user_calls::list);
  }

 private:
  void log_in(unary_call& its, const v1::LogInRequest* request, v1::LogInResponse* response) {
    its.attempt([&](unary_call& c) {
      // So many at once, waiting ones included: a flood of them is refused, and nobody else waits behind it.
      const auto one = std::make_shared<const service::gauge::share>(door_.log_ins_at_once.take(1));
      c.go_on(door_.log_ins, [request, response, one](unary_call& going_on) {
        const service::access_token token = going_on.door().all.users().log_in(request->user(), request->password());
        response->set_token(token.text);
        response->set_lives_ms(
            static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(token.lives).count()));
      });
    });
  }

  void log_out(unary_call& its, const v1::LogOutRequest* request, v1::Nothing*) {
    answer_on(door_.accounts, its, *request, [](unary_call& c) { c.door().all.users().log_out(c.token()); });
  }

  void add_user(unary_call& its, const v1::AddUserRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      std::optional<std::string_view> password;
      if (what.has_password()) password = what.password();
      users.add_user(c.who(), what.name(), password);
    });
  }

  void remove_user(unary_call& its, const v1::UserRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.remove_user(c.who(), what.name());
    });
  }

  void set_password(unary_call& its, const v1::SetPasswordRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.set_password(c.who(), what.name(), what.password());
    });
  }

  void grant(unary_call& its, const v1::GrantRoleRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.grant(c.who(), what.user(), what.role());
    });
  }

  void withdraw(unary_call& its, const v1::GrantRoleRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.withdraw(c.who(), what.user(), what.role());
    });
  }

  void set_role(unary_call& its, const v1::Role* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.set_role(c.who(), role_of(what));
    });
  }

  void remove_role(unary_call& its, const v1::RoleRequest* request, v1::Nothing*) {
    manage(its, *request, [](const grpc_call& c, service::access& users, const auto& what) {
      users.remove_role(c.who(), what.name());
    });
  }

  void list(unary_call& its, const v1::ListUsersRequest* request, v1::ListUsersResponse* response) {
    answer_on(door_.accounts, its, *request, [=](unary_call& c) {
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

  /// What changes users: `access` checks the rights, and its change is durable when it returns.
  template <typename Request, typename Change>
  void manage(unary_call& its, const Request& request, Change change) {
    answer_on(door_.accounts, its, request,
              [change, &request](unary_call& c) { change(c, c.door().all.users(), request); });
  }
};

}  // namespace

std::unique_ptr<served_service> make_user_calls(door_parts& door) { return std::make_unique<user_calls>(door); }

}  // namespace icecore::doors

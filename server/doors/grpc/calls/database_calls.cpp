// Databases, and Server: making, describing and dropping databases; the whole server.
#include <icecore/v1/icecore.pb.h>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/messages.hpp"
#include "icecore/version.hpp"

namespace icecore::doors {

namespace {

using service::right;

class database_calls final : public served_service {
 public:
  explicit database_calls(door_parts& door) : served_service(door, "icecore.v1.Databases") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Create", &database_calls::create);
    wait_for_unary(*this, queue, "List", &database_calls::list);
    wait_for_unary(*this, queue, "Describe", &database_calls::describe);
    wait_for_unary(*this, queue, "Copy", &database_calls::copy);
    wait_for_unary(*this, queue, "Alter", &database_calls::alter);
    wait_for_unary(*this, queue, "Drop", &database_calls::drop);
  }

 private:
  void create(unary_call& its, const v1::CreateDatabaseRequest* request, v1::CreateDatabaseResponse* response) {
    answer_on(door_.accounts, its, *request, [=](unary_call& c) {
      const auto made = c.door().all.create(c.who(), wanted(c, request->settings()));
      fill(*response->mutable_settings(), made->settings());
    });
  }

  void list(unary_call& its, const v1::ListDatabasesRequest* request, v1::ListDatabasesResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      for (const service::database_settings& one : c.door().all.list(c.who())) fill(*response->add_databases(), one);
    });
  }

  void describe(unary_call& its, const v1::DescribeDatabaseRequest* request, v1::DatabaseStatus* response) {
    answer_on(door_.work, its, *request,
              [=](unary_call& c) { fill(*response, c.find(request->database())->status()); });
  }

  void copy(unary_call& its, const v1::CopyDatabaseRequest* request, v1::CreateDatabaseResponse* response) {
    answer_on(door_.lengthy, its, *request, [=](unary_call& c) {
      const auto from = c.find(request->from(), key_bounds{}, right::read);
      const auto made = c.door().all.copy(c.who(), request->from(), point_of(request->at()),
                                          wanted_like(c, request->settings(), from->settings()));
      fill(*response->mutable_settings(), made->settings());
    });
  }

  void alter(unary_call& its, const v1::AlterDatabaseRequest* request, v1::AlterDatabaseResponse* response) {
    answer_on(door_.accounts, its, *request, [=](unary_call& c) {
      c.door().all.change(c.who(), request->database(), changes_of(*request));
      fill(*response->mutable_settings(), c.find(request->database())->settings());
    });
  }

  void drop(unary_call& its, const v1::DropDatabaseRequest* request, v1::DropDatabaseResponse*) {
    answer_on(door_.accounts, its, *request, [=](unary_call& c) { c.door().all.drop(c.who(), request->database()); });
  }

  static service::database_settings wanted(const grpc_call& c, const v1::DatabaseSettings& settings) {
    return wanted_like(c, settings, c.door().all.options().defaults);
  }
  /// Who makes a database owns it, unless root gives it to somebody else.
  static service::database_settings wanted_like(const grpc_call& c, const v1::DatabaseSettings& settings,
                                                const service::database_settings& defaults) {
    service::database_settings out = settings_of(settings, defaults);
    if (out.owner.empty() || !c.who().is_root()) out.owner = c.who().name();
    return out;
  }
};

class server_calls final : public served_service {
 public:
  explicit server_calls(door_parts& door) : served_service(door, "icecore.v1.Server") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Status", &server_calls::status);
    wait_for_unary(*this, queue, "Snapshot", &server_calls::snapshot);
    wait_for_unary(*this, queue, "Verify", &server_calls::verify);
  }

 private:
  void status(unary_call& its, const v1::StatusRequest* request, v1::StatusResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      const service::service& all = c.door().all;
      response->set_identity(c.door().all.identity());
      response->set_name(c.door().options.server_name);
      response->set_version(library_version());
      response->mutable_group()->set_name(all.options().group.name);
      response->mutable_group()->set_index(all.options().group.index);
      response->mutable_group()->set_size(all.options().group.size);
      response->mutable_group()->set_dependent(all.options().link != nullptr);
      if (!c.who().is_root()) return;  // names of databases are not for everybody
      for (const auto& [database, why] : all.not_ready()) {
        v1::StatusResponse::Sick& sick = *response->add_not_ready();
        sick.set_database(database);
        sick.set_code(static_cast<std::uint32_t>(why.code));
        sick.set_why(why.message);
      }
    });
  }

  void snapshot(unary_call& its, const v1::SnapshotRequest* request, v1::SnapshotResponse* response) {
    answer_on(door_.lengthy, its, *request, [=](unary_call& c) {
      for (const auto& part : c.door().all.write_snapshot(c.who(), request->to()).parts) {
        v1::SnapshotResponse::Part& out = *response->add_parts();
        out.set_database(part.database);
        out.set_version(part.version);
        out.set_bytes(part.bytes);
      }
    });
  }

  void verify(unary_call& its, const v1::VerifyRequest* request, v1::VerifyResponse* response) {
    answer_on(door_.lengthy, its, *request, [=](unary_call& c) {
      const auto database = c.find(request->database(), key_bounds{}, right::administer);
      const verify_report report = database->verify({});
      constexpr int damages_max = 1000;
      for (const damage& found : report.damages) {
        if (response->damages_size() == damages_max) break;
        v1::VerifyResponse::Damage& out = *response->add_damages();
        out.set_structure(found.structure);
        out.set_what(found.what);
        out.set_offset(found.offset);
        out.set_file(found.file);
      }
      response->set_damaged(report.damages.size());
      response->set_records(report.records);
      response->set_bytes(report.bytes);
    });
  }
};

}  // namespace

std::unique_ptr<served_service> make_database_calls(door_parts& door) { return std::make_unique<database_calls>(door); }
std::unique_ptr<served_service> make_server_calls(door_parts& door) { return std::make_unique<server_calls>(door); }

}  // namespace icecore::doors

// Rights that change while streams of the gRPC door are open, and those of a lease's keys.
#include "grpc_support.hpp"

namespace icecore::doors {
namespace {

/// A server with users; ann may read and write the keys ["m", "n"), which she watches. Calls are root's.
class GrpcRights : public door_fixture {
 protected:
  void SetUp() override {
    service::service_options options;
    options.users = true;
    start(options);
    service::access& users = service_->users();
    users.ensure_root("the root's password");
    users.add_user(service::principal::anyone(), "ann", "ann's password");
    set_middle("m", "n");
    users.grant(service::principal::anyone(), "ann", "middle");
    root_ = users.log_in("root", "the root's password").text;
    ann_ = users.log_in("ann", "ann's password").text;
    token_ = root_;
    create("db");
    token_ = ann_;
    v1::WatchRequest request;
    request.set_database("db");
    request.mutable_bounds()->set_from("m");
    request.mutable_bounds()->set_to("n");
    authorize(context_);
    watch_ = store_->Watch(&context_, request);
    v1::Rows rows;
    ASSERT_TRUE(watch_->Read(&rows));
    token_ = root_;
  }
  /// Ann's role allows these keys.
  void set_middle(const std::string& from, const std::string& to) {
    service_->users().set_role(
        service::principal::anyone(),
        {.name = "middle",
         .permissions = {{.database = "db",
                          .keys = {.from = from, .to = to},
                          .allowed = service::rights_of({service::right::read, service::right::write})}}});
  }
  errc end_of_watch() {
    v1::Rows rows;
    EXPECT_FALSE(watch_->Read(&rows));
    watch_->Finish();
    return code_of(context_);
  }
  std::string root_;
  std::string ann_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Rows>> watch_;
};

TEST_F(GrpcRights, who_loses_the_right_loses_the_watch) {
  set_middle("x", "z");
  put("db", "m1", "not for ann");
  EXPECT_EQ(end_of_watch(), errc::denied);
}

TEST_F(GrpcRights, a_user_who_is_changed_has_to_log_in_again) {
  service_->users().withdraw(service::principal::anyone(), "ann", "middle");
  put("db", "m1", "not for ann");
  EXPECT_EQ(end_of_watch(), errc::unauthenticated);
}

TEST_F(GrpcRights, streams_go_on_while_a_changed_role_still_allows_them) {
  v1::LoadResponse loaded;
  grpc::ClientContext load_context;
  load_context.AddMetadata("authorization", "Bearer " + ann_);
  const auto writer = store_->Load(&load_context, &loaded);
  const auto load_one = [&](const std::string& key) {
    v1::LoadRequest request;
    request.set_database("db");
    add_row(*request.mutable_rows(), key, "v");
    ASSERT_TRUE(writer->Write(request));
    ASSERT_TRUE(eventually([&] { return get("db", key) == "v"; }));
  };
  load_one("m1");
  v1::GrantRequest granting;
  granting.set_database("db");
  granting.set_time_ms(60'000);
  v1::Lease lease;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::Grant, granting, lease), errc{});
  grpc::ClientContext lease_context;
  lease_context.AddMetadata("authorization", "Bearer " + ann_);
  const auto keeping = leases_->KeepAlive(&lease_context);
  v1::LeaseRequest keep;
  keep.set_database("db");
  keep.set_number(lease.number());
  ASSERT_TRUE(keeping->Write(keep));
  ASSERT_TRUE(keeping->Read(&lease));

  set_middle("k", "p");
  load_one("m2");
  load_one("o1");
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(loaded.written(), 3U);
  EXPECT_TRUE(keeping->Write(keep));
  EXPECT_TRUE(keeping->Read(&lease));
  keeping->WritesDone();
  EXPECT_TRUE(keeping->Finish().ok());
  std::vector<told_row> seen;
  v1::Rows rows;
  while (seen.size() < 2 && watch_->Read(&rows)) append(seen, rows);
  EXPECT_EQ(seen, (std::vector<told_row>{{"m1", "v"}, {"m2", "v"}}));
  context_.TryCancel();
  watch_->Finish();
}

TEST_F(GrpcRights, a_lease_is_revoked_by_who_may_write_all_its_keys) {
  v1::GrantRequest granting;
  granting.set_database("db");
  granting.set_time_ms(60'000);
  v1::Lease lease;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::Grant, granting, lease), errc{});
  const auto attach = [&](const std::string& key) {
    v1::PutRequest request;
    request.set_database("db");
    request.set_key(key);
    request.set_lease(lease.number());
    v1::PutResponse response;
    ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Put, request, response), errc{}) << status_.error_message();
  };
  v1::LeaseRequest revoking;
  revoking.set_database("db");
  revoking.set_number(lease.number());
  v1::RevokeResponse revoked;
  attach("m1");
  attach("z");
  token_ = ann_;
  EXPECT_EQ(call(*leases_, &v1::Leases::StubInterface::Revoke, revoking, revoked), errc::denied);
  token_ = root_;
  EXPECT_EQ(get("db", "m1"), "");
  EXPECT_EQ(get("db", "z"), "");
  v1::RemoveRequest removing;
  removing.set_database("db");
  removing.set_key("z");
  v1::RemoveResponse removed;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Remove, removing, removed), errc{});
  token_ = ann_;
  EXPECT_EQ(call(*leases_, &v1::Leases::StubInterface::Revoke, revoking, revoked), errc{}) << status_.error_message();
  EXPECT_EQ(revoked.removed(), 1U);
}

}  // namespace
}  // namespace icecore::doors

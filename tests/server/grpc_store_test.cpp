// Every unary call of icecore.v1, and what it answers to bad input.
#include <grpcpp/impl/client_unary_call.h>

#include <array>
#include <filesystem>

#include "grpc_support.hpp"
#include "service/owner.hpp"

namespace icecore::doors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GrpcStore : public door_fixture {
 protected:
  void SetUp() override {
    door_fixture::SetUp();
    create("db");
  }
};

TEST_F(GrpcStore, put_is_read_back_and_every_version_stays) {
  const std::uint64_t first = put("db", "a", "1");
  const std::uint64_t second = put("db", "a", std::string("2\0x", 3));
  EXPECT_GT(second, first);
  EXPECT_EQ(get("db", "a"), std::string("2\0x", 3));
  EXPECT_EQ(get("db", "a", first), "1");
  EXPECT_EQ(get("db", "b"), "(none)");
}

class GrpcOfAGroup : public door_fixture {
 protected:
  void SetUp() override {
    service::service_options options;
    options.group = {.name = "g", .index = 1, .size = 2};
    start(options);
    create("db");
  }
};

TEST_F(GrpcOfAGroup, a_server_has_its_own_keys_alone) {
  std::uint64_t own = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const bool mine = service::owner_of(key(i), 2) == 1;
    own += mine ? 1 : 0;
    const errc expected = mine ? errc{} : errc::not_owner;
    const auto of_key = [&](auto request) {
      request.set_database("db");
      request.set_key(key(i));
      return request;
    };
    v1::PutResponse put;
    EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, of_key(v1::PutRequest()), put), expected);
    EXPECT_EQ(status_.error_code(), mine ? grpc::StatusCode::OK : grpc::StatusCode::FAILED_PRECONDITION);
    v1::GetResponse got;
    EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, of_key(v1::GetRequest()), got), expected);
    v1::GetManyRequest many;
    many.set_database("db");
    many.add_keys(key(i));
    v1::GetManyResponse got_many;
    EXPECT_EQ(call(*store_, &v1::Store::StubInterface::GetMany, many, got_many), expected);
    v1::WriteRequest conditional;
    conditional.set_database("db");
    conditional.add_conditions()->set_key(key(i));
    v1::WriteResponse written;
    EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Write, conditional, written), expected);
    grpc::ClientContext loading;
    authorize(loading);
    v1::LoadResponse loaded;
    const auto writer = store_->Load(&loading, &loaded);
    v1::LoadRequest rows;
    rows.set_database("db");
    add_row(*rows.mutable_rows(), key(i), "v");
    writer->Write(rows);
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().ok(), mine);
    grpc::ClientContext looking;
    authorize(looking);
    const auto history = store_->History(&looking, of_key(v1::HistoryRequest()));
    for (v1::Rows next; history->Read(&next);) continue;
    EXPECT_EQ(history->Finish().ok(), mine);
  }
  EXPECT_GT(own, 2U);
  v1::CountRequest all;
  all.set_database("db");
  v1::CountResponse count;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Count, all, count), errc{});
  EXPECT_EQ(count.count(), own);
}

TEST_F(GrpcStore, put_only_new_keeps_what_is_there) {
  put("db", "a", "1");
  v1::PutRequest request;
  request.set_database("db");
  request.set_key("a");
  request.set_value("2");
  request.set_only_new(true);
  v1::PutResponse response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, request, response), errc{});
  EXPECT_FALSE(response.written());
  EXPECT_EQ(get("db", "a"), "1");
  request.set_key("b");
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, request, response), errc{});
  EXPECT_TRUE(response.written());
}

TEST_F(GrpcStore, remove_removes_a_key_or_a_range) {
  for (const char* key : {"a", "b", "c", "d"}) put("db", key, "1");
  v1::RemoveRequest request;
  request.set_database("db");
  request.set_key("a");
  v1::RemoveResponse response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Remove, request, response), errc{});
  EXPECT_EQ(response.removed(), 1U);
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Remove, request, response), errc{});
  EXPECT_EQ(response.removed(), 0U);
  request.set_key("b");
  request.set_end("d");
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Remove, request, response), errc{});
  EXPECT_EQ(response.removed(), 2U);
  EXPECT_EQ(get("db", "d"), "1");
}

TEST_F(GrpcStore, get_many_reads_all_at_one_version) {
  put("db", "a", "1");
  const std::uint64_t then = put("db", "b", "2");
  put("db", "a", "3");
  v1::GetManyRequest request;
  request.set_database("db");
  for (const char* key : {"b", "x", "a"}) request.add_keys(key);
  request.mutable_at()->set_version(then);
  v1::GetManyResponse response;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::GetMany, request, response), errc{});
  ASSERT_EQ(response.values_size(), 3);
  EXPECT_EQ(response.version(), then);
  EXPECT_EQ(response.values(0).value(), "2");
  EXPECT_FALSE(response.values(1).found());
  EXPECT_EQ(response.values(2).value(), "1");
}

TEST_F(GrpcStore, a_transaction_takes_one_of_two_branches) {
  put("db", "n", "5");
  v1::WriteRequest request;
  request.set_database("db");
  v1::Condition& condition = *request.add_conditions();
  condition.set_key("n");
  condition.set_is(v1::Condition::KIND_VALUE_IS);
  condition.set_value("5");
  v1::Operation& adds = *request.add_then();
  adds.mutable_increment()->set_key("n");
  adds.mutable_increment()->set_by(-7);
  v1::Operation& updates = *request.add_then();
  updates.mutable_update()->set_key("text");
  updates.mutable_update()->set_part("end");
  updates.mutable_update()->set_rule(v1::UPDATE_RULE_APPEND);
  updates.mutable_update()->set_or_put(true);
  v1::Operation& reads = *request.add_otherwise();
  reads.mutable_get()->set_key("");
  reads.mutable_get()->set_end("");
  v1::WriteResponse response;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Write, request, response), errc{}) << status_.error_message();
  EXPECT_TRUE(response.succeeded());
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.results(0).number(), -2);
  EXPECT_EQ(response.results(1).size(), 3U);
  EXPECT_EQ(get("db", "text"), "end");

  response.Clear();
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Write, request, response), errc{});
  EXPECT_FALSE(response.succeeded());
  ASSERT_EQ(response.results_size(), 1);
  ASSERT_EQ(response.results(0).rows_size(), 2);
  EXPECT_EQ(response.results(0).rows(0).key(), "n");
  EXPECT_EQ(response.results(0).rows(0).value(), "-2");
}

TEST_F(GrpcStore, a_bad_transaction_is_refused_whole) {
  v1::WriteRequest request;
  request.set_database("db");
  v1::WriteResponse response;
  const auto refused = [&] { return call(*store_, &v1::Store::StubInterface::Write, request, response); };
  request.add_then()->mutable_put()->set_key("a");
  request.add_then()->mutable_remove()->set_key("a");
  EXPECT_EQ(refused(), errc::invalid_argument);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status_.error_message(), HasSubstr("same key"));

  request.clear_then();
  request.add_then()->mutable_put()->set_key("b");
  request.add_then()->mutable_remove()->set_key("a");
  request.mutable_then(1)->mutable_remove()->set_end("c");
  EXPECT_EQ(refused(), errc::invalid_argument);

  request.clear_then();
  request.add_then();
  EXPECT_EQ(refused(), errc::invalid_argument);

  request.clear_then();
  request.add_then()->mutable_update()->set_rule(static_cast<v1::UpdateRule>(99));
  EXPECT_EQ(refused(), errc::invalid_argument);

  request.clear_then();
  request.add_conditions()->set_is(static_cast<v1::Condition::Kind>(99));
  EXPECT_EQ(refused(), errc::invalid_argument);
  EXPECT_EQ(get("db", "a"), "(none)");
}

TEST_F(GrpcStore, a_transaction_may_have_as_many_operations_as_the_limit_says) {
  service::service_options options;
  options.limits.transaction_operations = 5;
  start(options);
  v1::WriteRequest request;
  request.set_database("db");
  for (int i = 0; i < 5; ++i) request.add_then()->mutable_put()->set_key(std::to_string(i));
  v1::WriteResponse response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Write, request, response), errc{}) << status_.error_message();
  request.add_then()->mutable_put()->set_key("one more");
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Write, request, response), errc::invalid_argument);
  EXPECT_THAT(status_.error_message(), HasSubstr("6 operations; limits.transaction_operations is 5"));
}

TEST_F(GrpcStore, errors_say_their_code_and_have_the_status_of_the_table) {
  const std::uint64_t last = put("db", "a", "1");
  v1::GetRequest request;
  request.set_database("db");
  request.set_key("a");
  v1::GetResponse response;
  request.mutable_at()->set_version(last + 1000);
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, request, response), errc::version_not_closed);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  request.mutable_at()->set_tag("nothing");
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, request, response), errc::unknown_tag);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::NOT_FOUND);
  request.clear_at();
  request.set_database("nothing");
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, request, response), errc::denied);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::PERMISSION_DENIED);

  v1::PutRequest put_request;
  put_request.set_database("db");
  put_request.set_key(std::string(70'000, 'k'));
  v1::PutResponse put_response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, put_request, put_response), errc::key_too_long);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  put_request.set_key("a");
  put_request.set_lease(77);
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, put_request, put_response), errc::no_such_lease);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcStore, what_compaction_gave_up_cannot_be_read) {
  const std::uint64_t first = put("db", "a", "1");
  const std::uint64_t second = put("db", "a", "2");
  v1::CompactRequest request;
  request.set_database("db");
  request.set_oldest_kept(second);
  v1::CompactResponse response;
  ASSERT_EQ(call(*versions_, &v1::Versions::StubInterface::Compact, request, response), errc{});
  v1::GetRequest read;
  read.set_database("db");
  read.set_key("a");
  read.mutable_at()->set_version(first);
  v1::GetResponse got;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, read, got), errc::version_expired);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(get("db", "a", second), "2");
}

TEST_F(GrpcStore, databases_are_made_listed_described_changed_copied_and_dropped) {
  const std::uint64_t first = put("db", "a", "1");
  put("db", "a", "2");
  v1::CreateDatabaseRequest creating;
  creating.mutable_settings()->set_name("db");
  v1::CreateDatabaseResponse created;
  EXPECT_EQ(call(*databases_, &v1::Databases::StubInterface::Create, creating, created), errc::database_exists);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  creating.mutable_settings()->set_name("no/good");
  EXPECT_EQ(call(*databases_, &v1::Databases::StubInterface::Create, creating, created), errc::invalid_argument);

  v1::CopyDatabaseRequest copying;
  copying.set_from("db");
  copying.mutable_at()->set_version(first);
  copying.mutable_settings()->set_name("copy");
  ASSERT_EQ(call(*databases_, &v1::Databases::StubInterface::Copy, copying, created), errc{})
      << status_.error_message();
  EXPECT_EQ(get("copy", "a"), "1");

  v1::AlterDatabaseRequest altering;
  altering.set_database("copy");
  altering.set_quota_bytes(1 << 30);
  v1::AlterDatabaseResponse altered;
  ASSERT_EQ(call(*databases_, &v1::Databases::StubInterface::Alter, altering, altered), errc{});
  EXPECT_EQ(altered.settings().quota_bytes(), std::uint64_t{1} << 30);

  v1::DescribeDatabaseRequest describing;
  describing.set_database("db");
  v1::DatabaseStatus described;
  ASSERT_EQ(call(*databases_, &v1::Databases::StubInterface::Describe, describing, described), errc{});
  EXPECT_EQ(described.settings().rule(), v1::VERSION_RULE_WRITE);
  EXPECT_EQ(described.keys(), 1U);

  v1::DropDatabaseRequest dropping;
  dropping.set_database("copy");
  v1::DropDatabaseResponse dropped;
  ASSERT_EQ(call(*databases_, &v1::Databases::StubInterface::Drop, dropping, dropped), errc{});
  EXPECT_EQ(call(*databases_, &v1::Databases::StubInterface::Drop, dropping, dropped), errc::denied);
  v1::ListDatabasesResponse listed;
  ASSERT_EQ(call(*databases_, &v1::Databases::StubInterface::List, v1::ListDatabasesRequest(), listed), errc{});
  ASSERT_EQ(listed.databases_size(), 1);
  EXPECT_EQ(listed.databases(0).name(), "db");
}

TEST_F(GrpcStore, tags_name_versions) {
  put("db", "a", "1");
  v1::TagRequest tagging;
  tagging.set_database("db");
  tagging.set_name("first");
  tagging.set_note("a note");
  v1::TagResponse tagged;
  ASSERT_EQ(call(*versions_, &v1::Versions::StubInterface::Tag, tagging, tagged), errc{}) << status_.error_message();
  put("db", "a", "2");
  EXPECT_EQ(get("db", "a", tagged.version()), "1");
  v1::TagResponse again;
  EXPECT_EQ(call(*versions_, &v1::Versions::StubInterface::Tag, tagging, again), errc::tag_exists);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::ALREADY_EXISTS);

  v1::ListTagsRequest listing;
  listing.set_database("db");
  v1::ListTagsResponse listed;
  ASSERT_EQ(call(*versions_, &v1::Versions::StubInterface::List, listing, listed), errc{});
  ASSERT_EQ(listed.tags_size(), 1);
  EXPECT_EQ(listed.tags(0).note(), "a note");

  v1::FindTagRequest finding;
  finding.set_database("db");
  finding.mutable_at()->set_tag("first");
  v1::FindTagResponse found;
  ASSERT_EQ(call(*versions_, &v1::Versions::StubInterface::Find, finding, found), errc{});
  EXPECT_EQ(found.tag().version(), tagged.version());

  v1::ResolveRequest resolving;
  resolving.set_database("db");
  resolving.mutable_at()->set_tag("first");
  v1::ResolveResponse resolved;
  ASSERT_EQ(call(*versions_, &v1::Versions::StubInterface::Resolve, resolving, resolved), errc{});
  EXPECT_EQ(resolved.version(), tagged.version());

  v1::SyncRequest syncing;
  syncing.set_database("db");
  v1::SyncResponse synced;
  EXPECT_EQ(call(*versions_, &v1::Versions::StubInterface::Sync, syncing, synced), errc{});
}

TEST_F(GrpcStore, a_lease_takes_its_keys_along) {
  v1::GrantRequest granting;
  granting.set_database("db");
  granting.set_time_ms(60'000);
  v1::Lease lease;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::Grant, granting, lease), errc{}) << status_.error_message();
  v1::PutRequest request;
  request.set_database("db");
  request.set_key("mine");
  request.set_lease(lease.number());
  v1::PutResponse put_response;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Put, request, put_response), errc{});

  v1::LeaseRequest asking;
  asking.set_database("db");
  asking.set_number(lease.number());
  asking.set_keys(true);
  v1::Lease is;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::Get, asking, is), errc{});
  EXPECT_THAT(is.keys(), ElementsAre("mine"));

  {
    grpc::ClientContext context;
    authorize(context);
    const auto keeping = leases_->KeepAlive(&context);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(keeping->Write(asking));
      v1::Lease kept;
      ASSERT_TRUE(keeping->Read(&kept));
      EXPECT_EQ(kept.number(), lease.number());
      EXPECT_GT(kept.left_ms(), 30'000U);
    }
    keeping->WritesDone();
    EXPECT_TRUE(keeping->Finish().ok());
  }

  v1::ListLeasesRequest listing;
  listing.set_database("db");
  v1::ListLeasesResponse listed;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::List, listing, listed), errc{});
  EXPECT_THAT(listed.numbers(), ElementsAre(lease.number()));

  v1::RevokeResponse revoked;
  ASSERT_EQ(call(*leases_, &v1::Leases::StubInterface::Revoke, asking, revoked), errc{});
  EXPECT_EQ(revoked.removed(), 1U);
  EXPECT_EQ(get("db", "mine"), "(none)");
  EXPECT_EQ(call(*leases_, &v1::Leases::StubInterface::Revoke, asking, revoked), errc::no_such_lease);
  granting.set_time_ms(999);
  EXPECT_EQ(call(*leases_, &v1::Leases::StubInterface::Grant, granting, lease), errc::invalid_argument);

  grpc::ClientContext context;
  authorize(context);
  const auto keeping = leases_->KeepAlive(&context);
  ASSERT_TRUE(keeping->Write(asking));
  v1::Lease kept;
  EXPECT_FALSE(keeping->Read(&kept));
  EXPECT_EQ(keeping->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcStore, the_server_tells_of_itself_verifies_and_writes_snapshots) {
  put("db", "a", "1");
  v1::StatusResponse status;
  ASSERT_EQ(call(*server_, &v1::Server::StubInterface::Status, v1::StatusRequest(), status), errc{});
  EXPECT_EQ(status.identity().size(), 32U);
  EXPECT_EQ(status.group().size(), 1U);
  EXPECT_EQ(status.not_ready_size(), 0);

  v1::VerifyRequest verifying;
  verifying.set_database("db");
  v1::VerifyResponse verified;
  ASSERT_EQ(call(*server_, &v1::Server::StubInterface::Verify, verifying, verified), errc{});
  EXPECT_EQ(verified.damages_size(), 0);
  EXPECT_GE(verified.records(), 1U);

  v1::SnapshotRequest request;
  request.set_to((folder_ / "snapshot").string());
  v1::SnapshotResponse response;
  ASSERT_EQ(call(*server_, &v1::Server::StubInterface::Snapshot, request, response), errc{}) << status_.error_message();
  ASSERT_EQ(response.parts_size(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "snapshot"));
  EXPECT_EQ(call(*server_, &v1::Server::StubInterface::Snapshot, request, response), errc::store_exists);
}

TEST_F(GrpcStore, a_message_that_cannot_be_decoded_is_an_internal_error_and_nothing_else_happens) {
  const grpc::internal::RpcMethod method("/icecore.v1.Store/Put", grpc::internal::RpcMethod::NORMAL_RPC);
  const std::string bytes = "\xff\xff\xff\xff";
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  authorize(context);
  const grpc::Status status = grpc::internal::BlockingUnaryCallImpl<grpc::ByteBuffer, grpc::ByteBuffer>(
                                  channel_.get(), method, &context, request, &response)
                                  .status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
  put("db", "a", "1");
  EXPECT_EQ(get("db", "a"), "1");
}

}  // namespace
}  // namespace icecore::doors

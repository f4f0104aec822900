// Streams of the gRPC door: scans, histories, differences, changes, loads, watches; cancelled, slow and ended ones.
#include <atomic>
#include <thread>

#include "grpc_support.hpp"
#include "support/own_memory.hpp"

namespace icecore::doors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GrpcStream : public door_fixture {
 protected:
  void SetUp() override {
    door_fixture::SetUp();
    create("db");
  }
  static told_row is(const std::string& key, const std::string& value) { return {key, value}; }

  std::vector<told_row> scan(const v1::ScanRequest& request) {
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Scan(&context, request);
    std::vector<told_row> all = read_all(reader);
    if (!status_.ok()) code_ = code_of(context);
    return all;
  }
  errc code_{};
};

TEST_F(GrpcStream, a_scan_shows_one_version_in_order_in_both_directions_between_bounds) {
  for (const char* key : {"a", "b", "c", "d"}) put("db", key, std::string("=") + key);
  v1::ScanRequest request;
  request.set_database("db");
  EXPECT_THAT(scan(request), ElementsAre(is("a", "=a"), is("b", "=b"), is("c", "=c"), is("d", "=d")));
  request.mutable_bounds()->set_from("b");
  request.mutable_bounds()->set_to("d");
  EXPECT_THAT(scan(request), ElementsAre(is("b", "=b"), is("c", "=c")));
  request.set_reverse(true);
  request.set_limit(1);
  EXPECT_THAT(scan(request), ElementsAre(is("c", "=c")));
  request.set_keys_only(true);
  EXPECT_THAT(scan(request), ElementsAre(is("c", "")));
  request.mutable_bounds()->set_from("x");
  request.clear_bounds();
  request.mutable_at()->set_version(1'000'000);
  EXPECT_THAT(scan(request), IsEmpty());
  EXPECT_EQ(code_, errc::version_not_closed);
}

TEST_F(GrpcStream, an_empty_scan_still_tells_its_version) {
  const std::uint64_t last = put("db", "a", "1");
  v1::ScanRequest request;
  request.set_database("db");
  request.mutable_bounds()->set_from("b");
  grpc::ClientContext context;
  authorize(context);
  const auto reader = store_->Scan(&context, request);
  v1::Rows rows;
  ASSERT_TRUE(reader->Read(&rows));
  EXPECT_EQ(rows.version(), last);
  EXPECT_EQ(rows.keys().ends_size(), 0);
  EXPECT_FALSE(reader->Read(&rows));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(GrpcStream, a_load_is_scanned_in_blocks_of_the_size_that_was_asked_for) {
  load("db", 25'000, "value");
  v1::ScanRequest request;
  request.set_database("db");
  request.set_block_rows(1000);
  grpc::ClientContext context;
  authorize(context);
  const auto reader = store_->Scan(&context, request);
  v1::Rows rows;
  std::size_t next = 0;
  while (reader->Read(&rows)) {
    ASSERT_LE(rows.keys().ends_size(), 1000);
    for (int i = 0; i < rows.keys().ends_size(); ++i) {
      ASSERT_EQ(cell(rows.keys(), i), key(next++));
      ASSERT_EQ(cell(rows.values(), i), "value");
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, 25'000U);

  v1::CountRequest counting;
  counting.set_database("db");
  counting.mutable_bounds()->set_from(key(24'990));
  v1::CountResponse counted;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Count, counting, counted), errc{});
  EXPECT_EQ(counted.count(), 10U);
}

TEST_F(GrpcStream, a_load_keeps_what_is_there_if_it_is_asked_to) {
  put("db", "a", "old");
  grpc::ClientContext context;
  authorize(context);
  v1::LoadResponse response;
  const auto writer = store_->Load(&context, &response);
  v1::LoadRequest request;
  request.set_database("db");
  request.set_keep(true);
  add_row(*request.mutable_rows(), "a", "new");
  add_row(*request.mutable_rows(), "b", "new");
  ASSERT_TRUE(writer->Write(request));
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response.rows(), 2U);
  EXPECT_EQ(response.written(), 1U);
  EXPECT_EQ(get("db", "a"), "old");
  EXPECT_EQ(get("db", "b"), "new");
}

TEST_F(GrpcStream, columns_that_contradict_themselves_are_refused) {
  const auto load_one = [&](const std::function<void(v1::Rows&)>& spoil) {
    grpc::ClientContext context;
    authorize(context);
    v1::LoadResponse response;
    const auto writer = store_->Load(&context, &response);
    v1::LoadRequest request;
    request.set_database("db");
    add_row(*request.mutable_rows(), "a", "1");
    add_row(*request.mutable_rows(), "b", "2");
    spoil(*request.mutable_rows());
    writer->Write(request);
    writer->WritesDone();
    status_ = writer->Finish();
    return code_of(context);
  };
  EXPECT_EQ(load_one([](v1::Rows& r) { r.mutable_keys()->add_ends(7); }), errc::invalid_argument);
  EXPECT_EQ(load_one([](v1::Rows& r) { r.mutable_keys()->set_ends(0, 9); }), errc::invalid_argument);
  EXPECT_EQ(load_one([](v1::Rows& r) { r.mutable_keys()->set_ends(0, ~std::uint64_t{0}); }), errc::invalid_argument);
  EXPECT_EQ(load_one([](v1::Rows& r) { r.mutable_values()->mutable_bytes()->append("more"); }), errc::invalid_argument);
  EXPECT_EQ(load_one([](v1::Rows& r) { r.mutable_values()->Clear(); }), errc::invalid_argument);
  EXPECT_EQ(load_one([](v1::Rows& r) { r.set_removed("\1\1"); }), errc::invalid_argument);
  EXPECT_EQ(get("db", "a"), "(none)");
}

TEST_F(GrpcStream, histories_differences_and_changes_tell_what_was) {
  const std::uint64_t first = put("db", "a", "1");
  put("db", "b", "x");
  v1::RemoveRequest removing;
  removing.set_database("db");
  removing.set_key("a");
  v1::RemoveResponse removed;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Remove, removing, removed), errc{});
  const std::uint64_t last = put("db", "c", "3");

  v1::HistoryRequest history;
  history.set_database("db");
  history.set_key("a");
  {
    grpc::ClientContext context;
    const auto reader = store_->History(&context, history);
    v1::Rows rows;
    ASSERT_TRUE(reader->Read(&rows));
    EXPECT_THAT(rows.versions(), ElementsAre(removed.version(), first));
    EXPECT_EQ(rows.removed(), std::string("\1\0", 2));
    EXPECT_FALSE(reader->Read(&rows));
    EXPECT_TRUE(reader->Finish().ok());
  }
  v1::DiffRequest difference;
  difference.set_database("db");
  difference.set_before(first);
  difference.mutable_after()->set_version(last);
  {
    grpc::ClientContext context;
    const auto reader = store_->Diff(&context, difference);
    EXPECT_THAT(read_all(reader), ElementsAre(is("a", "(removed)"), is("b", "x"), is("c", "3")));
    EXPECT_TRUE(status_.ok());
  }
  v1::ChangesRequest changes;
  changes.set_database("db");
  changes.set_after(first);
  {
    grpc::ClientContext context;
    const auto reader = store_->Changes(&context, changes);
    std::vector<told_row> all;
    v1::Rows rows;
    std::uint64_t told = 0;
    while (reader->Read(&rows)) {
      append(all, rows);
      told = rows.told();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_THAT(all, ElementsAre(is("b", "x"), is("a", "(removed)"), is("c", "3")));
    EXPECT_EQ(told, last);
  }
}

TEST_F(GrpcStream, a_watch_tells_every_change_once_in_order_whole_versions_at_a_time) {
  put("db", "a", "before");
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_database("db");
  const auto reader = store_->Watch(&context, request);
  v1::Rows rows;
  ASSERT_TRUE(reader->Read(&rows));  // it has begun
  EXPECT_EQ(rows.keys().ends_size(), 0);
  const std::uint64_t began = rows.told();
  std::thread writer([&] {
    for (int i = 0; i < 500; ++i) put("db", key(static_cast<std::size_t>(i)), std::to_string(i));
  });
  std::uint64_t version = began;
  std::size_t next = 0;
  std::uint64_t told = began;
  while (next < 500 && reader->Read(&rows)) {
    for (int i = 0; i < rows.keys().ends_size(); ++i) {
      ASSERT_EQ(cell(rows.keys(), i), key(next));
      ASSERT_EQ(cell(rows.values(), i), std::to_string(next));
      ASSERT_GT(rows.versions(i), version);
      version = rows.versions(i);
      ++next;
    }
    ASSERT_GE(rows.told(), told);
    told = rows.told();
  }
  writer.join();
  EXPECT_EQ(next, 500U);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(eventually([&] { return service_->watches().used() == 0; }));
}

TEST_F(GrpcStream, a_watch_goes_on_behind_any_version) {
  std::vector<std::uint64_t> versions;
  for (int i = 0; i < 20; ++i) versions.push_back(put("db", key(static_cast<std::size_t>(i)), "v"));
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_database("db");
  request.set_after(versions[9]);
  request.mutable_bounds()->set_to(key(15));
  const auto reader = store_->Watch(&context, request);
  std::vector<told_row> all;
  v1::Rows rows;
  while (all.size() < 5 && reader->Read(&rows)) append(all, rows);
  context.TryCancel();
  reader->Finish();
  EXPECT_THAT(all,
              ElementsAre(is(key(10), "v"), is(key(11), "v"), is(key(12), "v"), is(key(13), "v"), is(key(14), "v")));
}

TEST_F(GrpcStream, a_watch_tells_its_progress_when_nothing_matches) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_database("db");
  request.set_progress_ms(100);
  request.mutable_bounds()->set_from("x");
  const auto reader = store_->Watch(&context, request);
  v1::Rows rows;
  ASSERT_TRUE(reader->Read(&rows));
  const std::uint64_t last = put("db", "a", "1");
  do {
    ASSERT_TRUE(reader->Read(&rows));
    EXPECT_EQ(rows.keys().ends_size(), 0);
  } while (rows.told() < last);
  context.TryCancel();
  reader->Finish();
}

TEST_F(GrpcStream, stopping_ends_watches_and_lets_calls_end) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_database("db");
  const auto watching = store_->Watch(&context, request);
  v1::Rows rows;
  ASSERT_TRUE(watching->Read(&rows));
  grpc::ClientContext lease_context;
  const auto keeping = leases_->KeepAlive(&lease_context);
  keeping->WaitForInitialMetadata();
  std::thread stopper([&] { door_->stop(std::chrono::seconds(30)); });
  EXPECT_FALSE(watching->Read(&rows));
  const grpc::Status status = watching->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(code_of(context), errc::unavailable);
  EXPECT_EQ(keeping->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  stopper.join();
  v1::GetRequest get;
  v1::GetResponse got;
  grpc::ClientContext late;
  EXPECT_EQ(store_->Get(&late, get, &got).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcStream, a_slow_reader_holds_no_more_than_its_blocks) {
  load("db", 200'000, std::string(500, 'v'));  // 100 MB
  v1::ScanRequest request;
  request.set_database("db");
  grpc::ClientContext context;
  const auto reader = store_->Scan(&context, request);
  v1::Rows rows;
  ASSERT_TRUE(reader->Read(&rows));
  const std::uint64_t before = icecore::testing::own_memory();
  for (int i = 0; i < 100; ++i) put("db", "other", std::to_string(i));  // writes go on meanwhile
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(icecore::testing::own_memory(), before + (std::size_t{16} << 20));
  EXPECT_EQ(service_->open_scans().used(), 1U);
  std::size_t count = static_cast<std::size_t>(rows.keys().ends_size());
  std::uint64_t most = before;
  while (reader->Read(&rows)) {
    count += static_cast<std::size_t>(rows.keys().ends_size());
    most = std::max(most, icecore::testing::own_memory());
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(count, 200'000U);
  EXPECT_LE(most, before + (std::size_t{16} << 20));
}

TEST_F(GrpcStream, a_cancelled_scan_ends_and_gives_back_what_it_held) {
  load("db", 100'000, std::string(500, 'v'));
  for (int i = 0; i < 20; ++i) {
    v1::ScanRequest request;
    request.set_database("db");
    grpc::ClientContext context;
    const auto reader = store_->Scan(&context, request);
    v1::Rows rows;
    if (i % 2 == 0) {
      ASSERT_TRUE(reader->Read(&rows));
    }
    context.TryCancel();
    while (reader->Read(&rows)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(eventually([&] { return service_->open_scans().used() == 0; }));
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
}

TEST_F(GrpcStream, a_client_that_never_reads_is_cut) {
  grpc_door_options door;
  door.stalled_limit = std::chrono::milliseconds(500);
  start({}, door);
  load("db", 100'000, std::string(500, 'v'));
  v1::ScanRequest request;
  request.set_database("db");
  grpc::ClientContext context;
  const auto reader = store_->Scan(&context, request);
  EXPECT_TRUE(eventually([&] { return service_->open_scans().used() == 1; }));
  EXPECT_TRUE(eventually([&] { return service_->open_scans().used() == 0; }));
  v1::Rows rows;
  while (reader->Read(&rows)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcStream, so_many_scans_and_watches_may_be_open_as_the_limits_say) {
  service::service_options options;
  options.limits.watches = 2;
  options.limits.open_scans = 1;
  start(options);
  load("db", 100'000, std::string(500, 'v'));
  v1::WatchRequest request;
  request.set_database("db");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Rows>>> watches;
  v1::Rows rows;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(store_->Watch(contexts.back().get(), request));
    ASSERT_TRUE(watches.back()->Read(&rows));
  }
  {
    grpc::ClientContext context;
    const auto one_more = store_->Watch(&context, request);
    EXPECT_FALSE(one_more->Read(&rows));
    EXPECT_EQ(one_more->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(code_of(context), errc::limit_reached);
  }
  v1::ScanRequest scanning;
  scanning.set_database("db");
  grpc::ClientContext first;
  const auto open = store_->Scan(&first, scanning);
  ASSERT_TRUE(open->Read(&rows));
  scan(scanning);
  EXPECT_EQ(code_, errc::limit_reached);
  first.TryCancel();
  while (open->Read(&rows)) {
  }
  open->Finish();
  for (std::size_t i = 0; i < watches.size(); ++i) {
    contexts[i]->TryCancel();
    watches[i]->Finish();
  }
  EXPECT_TRUE(eventually([&] { return service_->watches().used() == 0 && service_->open_scans().used() == 0; }));
  EXPECT_EQ(scan(scanning).size(), 100'000U);
}

}  // namespace
}  // namespace icecore::doors

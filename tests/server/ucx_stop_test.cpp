// The UCX door while it stops: what clients are told who go on asking.
#include <condition_variable>
#include <future>
#include <mutex>

#include "icecore/remote.hpp"
#include "ucx_door_support.hpp"

namespace icecore::doors {
namespace {

using namespace testing;

/// Holds the thread that stops the server when it tells of the first request that failed, until it may go on.
class holding_observer final : public ucx_observer {
 public:
  /// In the thread that is about to stop the server. A thread of the service may tell of requests as well: to hold that
  /// one would hold up nothing.
  void hold_this_thread() {
    const std::lock_guard lock(mutex_);
    held_ = std::this_thread::get_id();
  }
  void finished(const ucx_call_report& what) noexcept override {
    if (what.status != static_cast<int>(errc::unavailable)) return;
    std::unique_lock lock(mutex_);
    if (held_ != std::this_thread::get_id() || std::exchange(holds_, true)) return;
    changed_.notify_all();
    changed_.wait_for(lock, 30s, [&] { return goes_on_; });
  }
  [[nodiscard]] bool wait_until_it_holds() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return holds_; });
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false;
  bool goes_on_ = false;
  std::thread::id held_;
};

class UcxDoorStops : public UcxDoor {
 protected:
  ucx_door_options door_options() override {
    ucx_door_options all = UcxDoor::door_options();
    all.observer = observer_;
    all.port = port_;
    return all;
  }
  void stop() {
    observer_->hold_this_thread();
    door_->stop(5s);
  }
  /// Requests for changes that wait. The thread that stops the server answers each, unless a thread of the service is
  /// just looking at its watch: of so many it is at few.
  static std::vector<std::future<wire::answer>> let_some_wait(client& c) {
    std::vector<std::future<wire::answer>> all;
    for (int i = 0; i < 16; ++i) {
      const auto watch = c.ask(wire::open_watch_request{}).as<wire::changes_answer>().watch;
      all.push_back(c.send(wire::next_changes_request{.watch = watch, .wait_ms = 60'000}));
    }
    EXPECT_EQ(c.ask(wire::get_request{.key = "a"}).status, 0);  // the server has read them
    return all;
  }
  std::uint16_t port_ = 0;
  std::shared_ptr<holding_observer> observer_ = std::make_shared<holding_observer>();
};

// Between the end of its sessions and that of its connections the door still reads requests. A scan that is told to be
// at its end there would be taken for whole.
TEST_F(UcxDoorStops, clients_are_told_so_whatever_they_ask_for) {
  start();
  client c = connect();
  c.create("db");
  for (int i = 0; i < 1000; ++i) c.put("key" + std::to_string(10'000 + i), "value");
  const auto block = c.ask(wire::open_scan_request{.block_bytes = 1024}).as<wire::rows_answer>();
  ASSERT_FALSE(block.end);
  const auto watch = c.ask(wire::open_watch_request{}).as<wire::changes_answer>().watch;
  auto waiting = let_some_wait(c);

  std::thread stops([&] { stop(); });
  ASSERT_TRUE(observer_->wait_until_it_holds());
  for (const told& is : {c.ask(wire::next_rows_request{.rows = block.rows, .block = 1}),
                         c.ask(wire::next_changes_request{.watch = watch, .wait_ms = 0}),
                         c.ask(wire::open_scan_request{.block_bytes = 1024}), c.ask(wire::open_watch_request{})}) {
    EXPECT_EQ(is.how, wire::outcome::answered);
    EXPECT_EQ(is.status, wire::status_stopping) << is.message();
  }
  observer_->go_on();
  stops.join();
  for (auto& each : waiting) EXPECT_EQ(each.get().status, wire::status_stopping);
}

TEST_F(UcxDoorStops, a_remote_store_goes_on_at_the_next_server) {
  start();
  port_ = door_->port();
  client c = connect();
  c.create("db", wire::wire_rule::write);
  remote::client all("ucx://127.0.0.1:" + std::to_string(port_), {.token = job_token});
  remote::store store = all.open("db");
  constexpr int keys = 40'000;  // more than the blocks that a scan has under way
  std::vector<std::string> names;
  for (int i = 0; i < keys; ++i) names.push_back("key" + std::to_string(100'000 + i));
  const std::string value(50, 'v');
  std::vector<item> items;
  for (const std::string& each : names) items.push_back({each, value});
  store.insert_many(items);
  const remote::snapshot then = store.latest();
  auto rows = then.range();
  auto row = rows.begin();
  remote::watch watch = store.watch({.after = then.version()});
  auto waiting = let_some_wait(c);

  std::thread stops([&] { stop(); });
  ASSERT_TRUE(observer_->wait_until_it_holds());
  auto reads = std::async([&] {
    int count = 0;
    for (; row != rows.end(); ++row) ++count;
    EXPECT_EQ(count, keys);
  });
  auto watches = std::async([&] {
    remote::watch::batch some;
    while (some.changes.empty()) some = watch.next(100ms);
    EXPECT_EQ(some.changes.front().key, "later");
  });
  auto scans = std::async([&] {
    int count = 0;
    for (const auto& each : then.prefix("key1")) count += each.value == value ? 1 : 0;
    EXPECT_EQ(count, keys);
  });
  std::this_thread::sleep_for(200ms);  // for them to ask while the server stops; too early or late, they only see less
  observer_->go_on();
  stops.join();
  door_ = std::make_unique<ucx_door>(*service_, door_options());
  door_->start();
  store.insert("later", "1");
  for (auto* const each : {&reads, &watches, &scans}) each->get();
}

}  // namespace
}  // namespace icecore::doors

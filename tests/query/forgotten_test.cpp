// Kept queries that a compaction drops because keys are forgotten, while they run or are read: nobody takes their space
// before that ends, and then nothing of the keys is left.
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "pool/query/query_space.hpp"
#include "store/core.hpp"
#include "store/opened.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

// Bytes that come from nowhere else; the last of the keys.
const std::string secret = "p3rs0n-w1th-4-k3y";

constexpr int keys = 20'000;

std::string key_of(int i) { return "key/" + std::to_string(100'000 + i); }

void fill(store& s) {
  batch many;
  for (int i = 0; i < keys; ++i) many.insert(key_of(i), "v");
  for (int i = 0; i < 50; ++i) many.insert(secret + std::to_string(i), "v");
  s.apply(many);
  s.tag("filled");
}

void expect_all_keys(const query& q) {
  int n = 0;
  for (auto rows = q.results(0, false); const auto& row : rows) {
    ASSERT_EQ(row.key, key_of(n));
    ++n;
  }
  EXPECT_EQ(n, keys);
}

/// A run in a thread of its own that waits amid its query, until it is told to go on.
class waiting_run {
 public:
  waiting_run(store& s, const std::string& name) {
    const auto waits = [this](const item& i) {
      if (i.key == key_of(9'000)) {
        waits_.count_down();
        goes_on_.wait();
      }
      return true;
    };
    query q = s.start({.name = name, .where = filter::of("waits", 1, item_function(waits))});
    ended_ = std::async(std::launch::async, [q]() mutable { return q.run({.threads = 1, .every_item = true}).state; });
    waits_.wait();
  }
  ~waiting_run() {
    if (ended_.valid()) goes_on_.count_down();
  }
  waiting_run(const waiting_run&) = delete;
  waiting_run& operator=(const waiting_run&) = delete;

  [[nodiscard]] query_state end() {
    goes_on_.count_down();
    return ended_.get();
  }

 private:
  std::latch waits_{1};
  std::latch goes_on_{1};
  std::future<query_state> ended_;
};

class ForgottenQueries : public SharedStore {
 protected:
  /// Has the store packed while the pin that is returned keeps what was replaced: the end is left to a later call.
  static snapshot forget_beside_a_pin(store& s) {
    snapshot before = s.latest();
    s.forget({.prefixes = {secret}});
    EXPECT_FALSE(s.compact().erased);
    return before;
  }
  /// What automatic compaction does from time to time: it packs nothing.
  [[nodiscard]] static bool is_erased(const store& s) {
    detail::opened_store& opened = s.core().opened();
    const std::scoped_lock nobody_compacts(opened.compacting);
    return opened.give_back_replaced();
  }
  void expect_nothing_of_it() const { EXPECT_EQ(read_file(path_).find(secret), std::string::npos); }

  struct signals {
    std::atomic<int> step;
  };
  shared<signals> log_;
};

TEST_P(ForgottenQueries, a_run_goes_on_in_the_space_of_its_query_and_ends_without_it) {
  store s(path_, GetParam().options_at(path_));
  fill(s);
  s.start({.name = "before"}).run();
  std::optional before = forget_beside_a_pin(s);
  waiting_run run(s, "amid");
  before.reset();
  EXPECT_FALSE(is_erased(s)) << "space of a query that runs was given back";
  EXPECT_TRUE(s.queries().empty());
  // These take all the space that is there.
  std::vector<query> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(s.start({.name = std::to_string(i)}));
    others.back().run({.every_item = i == 0});
  }
  expect_error(errc::no_such_query, "dropped", [&] { static_cast<void>(run.end()); });
  for (const query& other : others) {
    EXPECT_EQ(other.state(), query_state::finished);
    expect_all_keys(other);
  }
  EXPECT_TRUE(s.verify().ok());
  EXPECT_TRUE(is_erased(s));
  EXPECT_EQ(s.queries().size(), others.size()) << "those that were started later hold none of the keys";
  for (const query& other : others) expect_all_keys(other);
  expect_nothing_of_it();
  EXPECT_TRUE(s.verify().ok());
  s.close();
  store again(path_, GetParam().options_at(path_));
  EXPECT_EQ(again.queries().size(), others.size());
  for (const query& other : again.queries()) expect_all_keys(other);
}

// The same, laid out alike, but for the rows of the keys at the end: these would stay behind it.
TEST_P(ForgottenQueries, a_query_that_takes_space_meanwhile_has_nothing_of_the_keys_in_it) {
  store s(path_, GetParam().options_at(path_));
  fill(s);
  const run_options in_large_chunks{.threads = 1, .every = 1h};
  s.start({.name = "before", .select = {"key"}}).run(in_large_chunks);
  std::optional before = forget_beside_a_pin(s);
  waiting_run run(s, "amid");
  before.reset();
  EXPECT_FALSE(is_erased(s));
  EXPECT_NE(read_file(path_).find(secret + "49"), std::string::npos);
  query other = s.start({.name = "other", .select = {"key"}});
  other.run(in_large_chunks);
  expect_error(errc::no_such_query, "dropped", [&] { static_cast<void>(run.end()); });
  EXPECT_TRUE(is_erased(s));
  EXPECT_EQ(other.rows().size(), keys);
  expect_nothing_of_it();
}

TEST_P(ForgottenQueries, a_range_over_rows_keeps_them_until_it_ends) {
  store s(path_, GetParam().options_at(path_));
  fill(s);
  s.start({.name = "before"}).run();
  std::optional before = forget_beside_a_pin(s);
  s.start({.name = "read"}).run();
  {
    auto rows = s.query("read").results(0, false);
    auto row = rows.begin();
    before.reset();
    EXPECT_FALSE(is_erased(s)) << "space of rows that are read was given back";
    query other = s.start({.name = "other", .where = filter("key > 'key/100500'")});
    other.run();
    EXPECT_EQ(row->key, key_of(0));
    expect_error(errc::no_such_query, "dropped", [&] {
      while (row != rows.end()) ++row;
    });
  }
  EXPECT_TRUE(is_erased(s));
  expect_nothing_of_it();
  EXPECT_TRUE(s.verify().ok());
}

// It has examined all keys, and looks no more whether it is to stop: that it is finished must not bring the query back.
TEST_P(ForgottenQueries, a_run_that_has_come_to_its_end_stays_dropped) {
  store s(path_, GetParam().options_at(path_));
  fill(s);
  std::optional before = forget_beside_a_pin(s);
  const auto is_slow = [](const item& i) {
    if (i.key == key_of(0)) std::this_thread::sleep_for(150ms);  // else there is nothing to report
    return true;
  };
  query q =
      s.start({.name = "amid",
               .where = filter::all_of({filter("key < 'key/100010'"), filter::of("slow", 1, item_function(is_slow))})});
  before.reset();
  bool is_first = true;
  const auto drops = [&](const query_progress& p) {
    if (!std::exchange(is_first, false)) return;
    EXPECT_EQ(p.state, query_state::running);
    EXPECT_FALSE(is_erased(s));
  };
  expect_error(errc::no_such_query, "dropped",
               [&] { static_cast<void>(q.run({.threads = 1, .every = 1h, .on_progress = drops})); });
  EXPECT_FALSE(is_first);
  EXPECT_TRUE(s.queries().empty());
  EXPECT_TRUE(is_erased(s));
  s.close();
  EXPECT_TRUE(store(path_, GetParam().options_at(path_)).queries().empty());
}

// What a run or an opening that a kill has ended leaves in the query's head keeps nothing.
TEST_P(ForgottenQueries, a_killed_run_keeps_no_compaction_from_its_end) {
  child runner([&] {
    store s(path_, GetParam().options_at(path_));
    fill(s);
    const auto dies = [](const item& i) {
      if (i.key == key_of(9'000)) ::raise(SIGKILL);
      return true;
    };
    s.start({.name = "killed", .where = filter::of("dies", 1, item_function(dies))}).run({.every_item = true});
    return 0;
  });
  ASSERT_EQ(runner.wait(), -SIGKILL);
  store s(path_, GetParam().options_at(path_));
  {
    // numbers of processes, epochs and pids come again: it may even name this process
    query_space space(s.core().the_pool(), s.core().opened().shared->queries);
    auto& head = space.head_at(space.heads([](link, const std::string&) {}).front());
    EXPECT_NE(space.read(head.runner), 0);
    space.write(head.runner, detail::query_users(s.core().opened()).own_word());
  }
  s.forget({.prefixes = {secret}});
  EXPECT_TRUE(s.compact().erased);
  EXPECT_TRUE(s.queries().empty());
  expect_nothing_of_it();
}

TEST_P(ForgottenQueries, a_run_of_an_attached_process_ends_first) {
  child runner([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    const auto waits = [this](const item& i) {
      if (i.key != key_of(9'000)) return true;
      log_->step = 2;
      wait_for(log_, 3);
      return true;
    };
    query q = s.start({.name = "elsewhere", .where = filter::of("waits", 1, item_function(waits))});
    try {
      q.run({.threads = 1, .every_item = true});
      return 1;
    } catch (const error& e) {
      return e.code() == errc::no_such_query ? 0 : 2;
    }
  });
  store s(path_, first());
  fill(s);
  std::optional before = forget_beside_a_pin(s);
  log_->step = 1;
  wait_for(log_, 2);
  before.reset();
  EXPECT_FALSE(is_erased(s));
  query other = s.start({.name = "other"});
  other.run();
  log_->step = 3;
  EXPECT_EQ(runner.wait(), 0);
  expect_all_keys(other);
  EXPECT_TRUE(is_erased(s));
  expect_nothing_of_it();
  expect_all_keys(other);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(ForgottenQueries, a_killed_process_that_ran_one_is_not_waited_for) {
  child runner([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    const auto waits = [this](const item& i) {
      if (i.key != key_of(9'000)) return true;
      log_->step = 2;
      ::pause();
      return true;
    };
    s.start({.name = "killed", .where = filter::of("waits", 1, item_function(waits))}).run({.every_item = true});
    return 0;
  });
  store s(path_, first());
  fill(s);
  std::optional before = forget_beside_a_pin(s);
  log_->step = 1;
  wait_for(log_, 2);
  before.reset();
  EXPECT_FALSE(is_erased(s));
  runner.kill(SIGKILL);
  ASSERT_EQ(runner.wait(), -SIGKILL);
  EXPECT_TRUE(is_erased(s));
  expect_nothing_of_it();
}

INSTANTIATE_TEST_SUITE_P(All, ForgottenQueries,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

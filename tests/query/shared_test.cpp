// Kept queries of a store that processes share: one runs a query at a time, whoever was killed is followed at once, and
// each sees what the others did.
#include <gtest/gtest.h>
#include <signal.h>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "support/expect.hpp"
#include "support/process.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

struct signals {
  std::atomic<int> step;
};

class SharedQueries : public SharedStore {
 protected:
  static constexpr int keys = 30'000;

  static filter some() { return filter("ends_with(value, '7')"); }
  static void expect_answer(const store& s, const query& q) {
    const auto then = s.at(q.version());
    std::vector<std::string> wanted;
    for (const auto& i : then.range()) {
      if (i.value.ends_with('7')) wanted.emplace_back(i.key);
    }
    std::size_t n = 0;
    for (auto rows = q.results(); const auto& row : rows) {
      ASSERT_LT(n, wanted.size());
      ASSERT_EQ(row.key, wanted[n]);
      ASSERT_EQ(row.number, n++);
    }
    ASSERT_EQ(n, wanted.size());
  }
  /// Opens the store, and starts a query.
  [[nodiscard]] store opened() const {
    options how = first();
    how.grow_in_background = false;  // tests compare the file's size
    store s(path_, how);
    batch many;
    for (int i = 0; i < keys; ++i) many.insert(std::to_string(i * 7919 % 100'003), std::to_string(i));
    s.apply(many);
    s.start({.name = "shared", .where = some()});
    return s;
  }

  shared<signals> log_;
};

TEST_P(SharedQueries, a_killed_runner_is_followed_at_once) {
  child runner([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    query q = s.query("shared");
    bool told = false;
    q.run({.every_item = true, .keys_per_second = 20'000, .on_progress = [&](const query_progress& p) {
             if (!told && p.rows > 0) log_->step = 2;
             told = told || p.rows > 0;
           }});
    return 0;
  });
  child other([&] {
    wait_for(log_, 2);
    store s(path_, beside());
    query q = s.query("shared");
    if (q.state() != query_state::running) return 2;
    try {
      q.run();
      return 3;
    } catch (const error& e) {
      if (e.code() != errc::query_busy || e.message().find(std::to_string(runner.pid())) == std::string::npos) return 4;
    }
    try {
      q.drop();
      return 5;
    } catch (const error& e) {
      if (e.code() != errc::query_busy) return 6;
    }
    log_->step = 3;
    wait_for(log_, 4);
    const query_progress before = q.progress();
    if (before.state != query_state::paused || before.rows == 0) return 7;
    q.run({.keys = 5'000});
    if (q.progress().examined < before.examined + 5'000) return 8;
    return 0;
  });
  store s = opened();
  log_->step = 1;
  wait_for(log_, 3);
  runner.kill(SIGKILL);
  ASSERT_EQ(runner.wait(), -SIGKILL);
  log_->step = 4;
  ASSERT_EQ(other.wait(), 0);
  query q = s.query("shared");
  EXPECT_EQ(q.state(), query_state::paused);
  q.run();
  expect_answer(s, q);
  EXPECT_EQ(q.progress().examined, keys);
}

TEST_P(SharedQueries, another_process_pauses_and_cancels_a_run) {
  child runner([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    query q = s.query("shared");
    log_->step = 2;
    if (q.run({.every_item = true, .keys_per_second = 2'000}).state != query_state::paused) return 2;
    log_->step = 3;
    try {
      q.run({.every_item = true, .keys_per_second = 2'000});
    } catch (const error& e) {
      return e.code() == errc::invalid_argument ? 0 : 3;  // it was cancelled before it began
    }
    return q.state() == query_state::cancelled ? 0 : 4;
  });
  store s = opened();
  query q = s.query("shared");
  log_->step = 1;
  wait_for(log_, 2);
  while (q.state() != query_state::running) std::this_thread::sleep_for(100us);
  q.pause();
  wait_for(log_, 3);
  q.cancel();
  ASSERT_EQ(runner.wait(), 0);
  EXPECT_EQ(q.state(), query_state::cancelled);
}

TEST_P(SharedQueries, what_is_dropped_stays_for_readers_of_other_processes_until_these_end) {
  child reader([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    query q = s.query("shared");
    auto rows = q.results();
    auto row = rows.begin();
    const std::string first(row->key);
    query same = s.query("shared");
    same.drop();
    log_->step = 2;
    wait_for(log_, 3);
    try {
      for (; row != rows.end(); ++row) {
        if (!row->value->ends_with('7')) return 2;
      }
    } catch (const error& e) {
      if (e.code() != errc::no_such_query) return 3;
    }
    log_->step = 4;
    ::pause();  // with its range, until it is killed
    return 5;
  });
  store s = opened();
  s.query("shared").run();
  log_->step = 1;
  wait_for(log_, 2);
  EXPECT_TRUE(s.queries().empty());
  for (int i = 0; i < 3; ++i) s.start({.name = "after " + std::to_string(i), .where = some()}).run();
  log_->step = 3;
  wait_for(log_, 4);
  for (query& q : s.queries()) expect_answer(s, q);

  const auto size_after_many = [&] {
    for (int i = 0; i < 20; ++i) {
      query q = s.start({.name = "once", .where = some()});
      q.run();
      q.drop();
    }
    return std::filesystem::file_size(path_);
  };
  const auto before = std::filesystem::file_size(path_);
  const auto beside_reader = size_after_many();
  EXPECT_GT(beside_reader, before) << "space was used again while a range was there";
  reader.kill(SIGKILL);
  ASSERT_EQ(reader.wait(), -SIGKILL);
  EXPECT_EQ(size_after_many(), beside_reader);
  for (query& q : s.queries()) expect_answer(s, q);
  EXPECT_TRUE(s.verify().ok());
}

// The place of a query that was dropped is used again.
TEST_P(SharedQueries, what_a_process_knows_of_a_dropped_one_changes_none_that_has_its_place) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    query q = s.query("shared");
    log_->step = 2;
    wait_for(log_, 3);
    const auto is_gone = [&](auto&& call) {
      try {
        call();
        return false;
      } catch (const error& e) {
        return e.code() == errc::no_such_query;
      }
    };
    if (!is_gone([&] { q.cancel(); })) return 1;
    if (!is_gone([&] { q.restart_part(0); })) return 2;
    if (!is_gone([&] { q.acknowledge(0); })) return 3;
    if (!is_gone([&] { static_cast<void>(q.acknowledged()); })) return 4;
    if (!is_gone([&] { static_cast<void>(q.progress()); })) return 5;
    if (!is_gone([&] { static_cast<void>(q.state()); })) return 6;
    if (!is_gone([&] { q.pause(); })) return 7;
    if (!is_gone([&] { static_cast<void>(q.results(0)); })) return 8;
    if (!is_gone([&] { q.run(); })) return 9;
    if (!is_gone([&] { q.drop(); })) return 10;
    return 0;
  });
  store s = opened();
  log_->step = 1;
  wait_for(log_, 2);
  s.query("shared").drop();
  query made = s.start({.name = "new", .where = some()});
  made.run({.keys = 100});
  made.acknowledge(1);
  log_->step = 3;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(made.state(), query_state::paused);
  EXPECT_EQ(made.acknowledged(), 1);
  made.run();
  expect_answer(s, made);
}

TEST_P(SharedQueries, processes_that_drop_and_read_use_each_space_once) {
  constexpr int rounds = 30;
  const auto work = [&](const char* name) {
    wait_for(log_, 1);
    store s(path_, beside());
    for (int i = 0; i < rounds; ++i) {
      query q = s.start({.name = name + std::to_string(i), .where = some()});
      q.run();
      {
        auto rows = q.results(0, false);
        if (std::ranges::distance(rows.begin(), rows.end()) != keys / 10) return 2;
      }
      q.drop();
    }
    return 0;
  };
  child one([&] { return work("one "); });
  child other([&] { return work("other "); });
  store s = opened();
  query kept = s.query("shared");
  kept.run();
  log_->step = 1;
  for (int i = 0; i < rounds; ++i) expect_answer(s, kept);
  ASSERT_EQ(one.wait(), 0);
  ASSERT_EQ(other.wait(), 0);
  expect_answer(s, kept);
  const auto report = s.verify();
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_EQ(report.queries, 1);
}

TEST_P(SharedQueries, of_processes_that_start_one_name_one_does) {
  constexpr int names = 40;
  const auto work = [&] {
    wait_for(log_, 1);
    store s(path_, beside());
    int started = 0;
    for (int i = 0; i < names; ++i) {
      while (log_->step <= i) std::this_thread::yield();
      try {
        static_cast<void>(s.start({.name = std::to_string(i), .where = some()}));
        ++started;
      } catch (const error& e) {
        if (e.code() != errc::query_exists) throw;
      }
    }
    return started;
  };
  child one(work);
  child other(work);
  store s = opened();
  for (int i = 1; i <= names; ++i) {
    log_->step = i;
    std::this_thread::sleep_for(1ms);
  }
  const int started = one.wait() + other.wait();
  EXPECT_EQ(started, names);
  EXPECT_EQ(s.queries().size(), names + 1);
}

INSTANTIATE_TEST_SUITE_P(All, SharedQueries,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

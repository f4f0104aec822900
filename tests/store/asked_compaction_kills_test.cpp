// A process that is attached has the store packed by the process that opened it, and one of the two is killed: at each
// step, and at any time. The asker never waits for an answer that cannot come, and an answer is never another one's.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "icecore/icecore.hpp"
#include "support/asked_compaction.hpp"
#include "support/expect.hpp"
#include "support/line_functions.hpp"
#include "support/promises.hpp"
#include "support/seed.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// Set in the opener, which is to be killed.
struct {
  std::atomic<std::uint64_t>* flushes = nullptr;
  std::uint64_t last = 0;
} counted;

void count_flush() {
  if (counted.flushes->fetch_add(1) + 1 == counted.last) kill_this_process();
}

class AskedCompactionKills : public AskedCompaction {
 protected:
  static constexpr unsigned few = 60;

  static void fill_few(store& s) {
    for (unsigned i = 0; i < few; ++i) s.insert(key_of(i), "old " + std::to_string(i));
    s.tag("old");
    for (unsigned i = 0; i < few; i += 3) s.insert(key_of(i), "new " + std::to_string(i));
  }
  static void expect_few(const store& s) {
    const snapshot old = s.at("old");
    for (unsigned i = 0; i < few; ++i) {
      ASSERT_EQ(old.find(key_of(i)), "old " + std::to_string(i));
      ASSERT_EQ(s.find(key_of(i)), (i % 3 == 0 ? "new " : "old ") + std::to_string(i));
    }
    const auto report = s.verify();
    ASSERT_TRUE(report.ok()) << report.damages.front().what;
  }
  void begin_anew() {
    std::filesystem::remove(path_);
    std::filesystem::remove(common_);
    log_->step = 0;
    log_->count = 0;
    log_->ends = false;
  }
  /// Returns how many calls had an answer.
  static unsigned ask_until_it_is_dead(store& s) {
    for (unsigned answers = 0;; ++answers) {
      try {
        s.insert("counter", std::to_string(answers));
        static_cast<void>(s.compact());
      } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::invalid_argument) << failure.message();
        EXPECT_NE(failure.message().find("has ended"), std::string::npos) << failure.message();
        return answers;
      }
    }
  }
  /// Who is left goes on, and the next opening packs the store.
  void go_on(std::optional<store>& s) {
    ASSERT_NO_FATAL_FAILURE(expect_few(*s));
    s->insert("later", "there");
    s.reset();
    std::filesystem::remove(common_);
    store again(path_, first());
    ASSERT_NO_FATAL_FAILURE(expect_few(again));
    ASSERT_EQ(again.find("later"), "there");
    s.emplace(path_, beside());
    s->insert("later", "packed");
    ASSERT_TRUE(s->compact().packed);
    ASSERT_NO_FATAL_FAILURE(expect_few(*s));
    s.reset();
    again.close();
    EXPECT_TRUE(verify_file(path_).ok());
  }
};

TEST_P(AskedCompactionKills, opener_at_each_flush_and_the_asker_learns_of_it) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed";
  unsigned before = 0;
  unsigned behind = 0;
  bool all = false;
  // each third: the answer to a request ends the last of them
  for (std::uint64_t flush = 1 + test_seed() % 3; !all; flush += 3) {
    SCOPED_TRACE(flush);
    begin_anew();
    child opener([&] {
      store s(path_, first());
      fill_few(s);
      counted.flushes = &log_->count;
      counted.last = flush;
      call_at_line_functions<count_flush>(s);
      log_->step = 1;
      for (;;) pause();
      return 0;
    });
    wait_for(log_, 1);
    std::optional<store> s(std::in_place, path_, beside());
    try {
      static_cast<void>(s->compact({.threads = 1, .on_progress = {}}));
      all = true;
      opener.kill(SIGKILL);
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::invalid_argument) << failure.message();
      EXPECT_NE(failure.message().find("has ended"), std::string::npos) << failure.message();
    }
    EXPECT_EQ(opener.wait(), -SIGKILL);
    ASSERT_NO_FATAL_FAILURE(expect_few(*s));
    ++(s->opened().hold()->generation() == 1 ? before : behind);
    ASSERT_NO_FATAL_FAILURE(go_on(s));
  }
  EXPECT_GT(before, 3U);
  EXPECT_GT(behind, 1U);
}

TEST_P(AskedCompactionKills, opener_at_any_time_and_no_asker_waits_for_ever) {
  std::mt19937 random(test_seed());
  for (unsigned round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    begin_anew();
    child opener([&] {
      store s(path_, first());
      fill_few(s);
      log_->step = 1;
      for (;;) pause();
      return 0;
    });
    child another([&] {
      wait_for(log_, 1);
      store s(path_, beside());
      log_->step = 2;
      promise_error("a dead opener", errc::invalid_argument, [&] {
        for (;;) static_cast<void>(s.compact({.dry_run = true, .on_progress = {}}));
      });
      return 0;
    });
    wait_for(log_, 2);
    std::optional<store> s(std::in_place, path_, beside());
    std::thread kills([&, after = random() % 150'000] {
      std::this_thread::sleep_for(std::chrono::microseconds(after));
      opener.kill(SIGKILL);
    });
    static_cast<void>(ask_until_it_is_dead(*s));
    kills.join();
    EXPECT_EQ(opener.wait(), -SIGKILL);
    EXPECT_EQ(another.wait(), 0);
    ASSERT_NO_FATAL_FAILURE(go_on(s));
  }
}

/// The request that it leaves would take hours.
TEST_P(AskedCompactionKills, asker_that_waits_leaves_the_opener_free) {
  child asker([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    static_cast<void>(s.compact(slow([&](const progress&) { ++log_->count; })));
    return 1;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  while (log_->count == 0) std::this_thread::sleep_for(1ms);
  asker.kill(SIGKILL);
  EXPECT_EQ(asker.wait(), -SIGKILL);
  EXPECT_TRUE(s.compact().packed);  // waits for what is under way
  s.insert("more", "1");
  store another(path_, beside());
  EXPECT_TRUE(another.compact().packed);
  EXPECT_TRUE(s.verify().ok());
}

/// It is killed when its request is answered, and before it has looked at the answer: the next one asks for more.
TEST_P(AskedCompactionKills, asker_before_it_reads_its_answer_and_the_next_one_gets_its_own) {
  child asker([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    static_cast<void>(s.compact({.dry_run = true, .on_progress = [](const progress&) {
                                   ::kill(getpid(), SIGKILL);
                                   for (;;) pause();
                                 }}));
    return 1;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  EXPECT_EQ(asker.wait(), -SIGKILL);
  store another(path_, beside());
  EXPECT_TRUE(another.compact().packed);
  EXPECT_EQ(s.stats().packed_records, keys);
  EXPECT_EQ(asked(s), 2U);
}

TEST_P(AskedCompactionKills, asker_at_any_time_and_the_next_one_gets_its_own_answer) {
  std::mt19937 random(test_seed());
  constexpr unsigned rounds = 8;
  std::vector<std::unique_ptr<child>> askers;
  for (unsigned n = 0; n < rounds; ++n) {
    askers.push_back(std::make_unique<child>([&, n] {
      wait_for(log_, static_cast<int>(n) + 1);
      store s(path_, beside());
      for (;;) {
        ++log_->count;
        static_cast<void>(s.compact({.dry_run = n % 2 == 0, .on_progress = {}}));
      }
      return 1;
    }));
  }
  store s(path_, first());
  store another(path_, beside());
  fill(s, "first ");
  for (unsigned n = 0; n < rounds; ++n) {
    const std::uint64_t then = log_->count;
    log_->step = static_cast<int>(n) + 1;
    while (log_->count == then) std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    askers[n]->kill(SIGKILL);
    EXPECT_EQ(askers[n]->wait(), -SIGKILL);
    another.insert("new", std::to_string(n));
    const version written = another.clock();
    if (n % 2 == 0) {
      const compaction_report done = another.compact();
      EXPECT_TRUE(done.packed);
      EXPECT_GE(done.up_to, written);
    } else {
      EXPECT_FALSE(another.compact({.dry_run = true, .on_progress = {}}).packed);
    }
    EXPECT_EQ(another.find("new"), std::to_string(n));
  }
  require_all(another, "first ");
  EXPECT_TRUE(s.verify().ok());
}

INSTANTIATE_TEST_SUITE_P(EverySetting, AskedCompactionKills, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

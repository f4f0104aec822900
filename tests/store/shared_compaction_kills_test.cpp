// The process that packs a store which others share is killed, at each step and at any time; so are others. The
// survivors go on, and nothing that was acknowledged is lost.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/line_functions.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

#ifdef ICECORE_LONG_TESTS
constexpr bool is_long = true;
#else
constexpr bool is_long = false;
#endif

constexpr unsigned keys = 60;

std::string key_of(unsigned i) { return "key-" + std::to_string(1000 + i); }

struct signals {
  std::atomic<int> step;
  std::atomic<unsigned> flushes;
  std::atomic<bool> is_done;      ///< the compaction returned
  std::atomic<bool> amid_change;  ///< the kill came while the generation changed
};

/// Set in the process that is to be killed.
struct {
  signals* at = nullptr;
  const std::atomic<std::uint64_t>* change = nullptr;
  unsigned last = 0;
} counted;

void count_flush() {
  if (counted.at->flushes.fetch_add(1) + 1 != counted.last) return;
  counted.at->amid_change = counted.change->load() != 0;
  kill_this_process();
}

class SharedCompactionKills : public SharedStore {
 protected:
  static void fill(store& s) {
    for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), "old " + std::to_string(i));
    s.tag("old");
    for (unsigned i = 0; i < keys; i += 3) s.insert(key_of(i), "new " + std::to_string(i));
    for (unsigned i = 1; i < keys; i += 3) s.remove(key_of(i));
  }
  /// What fill() has left, and that `counter` has this value.
  static void expect_all(const store& s, std::uint64_t counter) {
    const snapshot old = s.at("old");
    std::size_t there = 0;
    for (const auto& [key, value] : old.prefix("key-")) {
      ASSERT_EQ(key, key_of(static_cast<unsigned>(there)));
      ASSERT_EQ(value, "old " + std::to_string(there++));
    }
    ASSERT_EQ(there, keys);
    for (unsigned i = 0; i < keys; ++i) {
      ASSERT_EQ(old.find(key_of(i)), "old " + std::to_string(i));
      const auto found = s.find(key_of(i));
      ASSERT_EQ(found.has_value(), i % 3 != 1) << i;
      if (found) {
        ASSERT_EQ(found->bytes(), (i % 3 == 0 ? "new " : "old ") + std::to_string(i));
      }
    }
    ASSERT_EQ(s.find("counter")->bytes(), std::to_string(counter));
    const auto report = s.verify();
    ASSERT_TRUE(report.ok()) << report.damages.front().what;
  }
  /// The first process opens and fills the store and runs `packs`, in which it is killed, or kills itself. This one is
  /// attached, and writes all the while. `met` waits for that.
  template <class Packs, class Met>
  void survive(const Packs& packs, const Met& met) {
    std::filesystem::remove(path_);
    std::filesystem::remove(common_);
    log_->step = 0;
    log_->flushes = 0;
    log_->is_done = false;
    log_->amid_change = false;
    child opener([&] {
      store s(path_, first());
      fill(s);
      log_->step = 1;
      wait_for(log_, 2);
      packs(s);
      log_->is_done = true;
      ::kill(getpid(), SIGKILL);
      return 0;
    });
    wait_for(log_, 1);
    std::uint64_t counter = 0;
    {
      store s(path_, beside());
      std::atomic<bool> ends{false};
      s.insert("counter", std::to_string(++counter));
      std::exception_ptr failed;
      std::thread writer([&] {
        try {
          while (!ends) {
            s.insert("counter", std::to_string(counter + 1));
            ++counter;
            if (s.find("counter")->bytes() != std::to_string(counter)) throw broken_promise("a write is lost");
            std::this_thread::sleep_for(100us);
          }
        } catch (...) {
          failed = std::current_exception();
        }
      });
      log_->step = 2;
      EXPECT_EQ(met(opener), -SIGKILL);
      ends = true;
      writer.join();
      if (failed) std::rethrow_exception(failed);
      ASSERT_NO_FATAL_FAILURE(expect_all(s, counter));
      is_packed_ = s.opened().hold()->generation() != 1;
      for (unsigned i = 0; i < keys; ++i) s.insert("later " + key_of(i), "later");
      s.insert("counter", std::to_string(++counter));
      ASSERT_NO_FATAL_FAILURE(expect_all(s, counter));
      const store another(path_, beside());
      ASSERT_NO_FATAL_FAILURE(expect_all(another, counter));
    }
    std::filesystem::remove(common_);
    store again(path_, first());
    ASSERT_NO_FATAL_FAILURE(expect_all(again, counter));
    ASSERT_EQ(again.find("later " + key_of(keys - 1))->bytes(), "later");
    again.insert(key_of(0), "new 0");
    EXPECT_TRUE(again.compact().packed);
    ASSERT_NO_FATAL_FAILURE(expect_all(again, counter));
    again.close();
    EXPECT_TRUE(verify_file(path_).ok());
  }

  const deadline soon_{"survivors of a compaction", is_long ? 3600s : 120s};
  const shared<signals> log_;
  bool is_packed_ = false;  // in the last survive()
};

TEST_P(SharedCompactionKills, at_each_flush_others_go_on_and_lose_nothing) {
  std::array<unsigned, 4> met{};  // before it, behind it, and amid the change of the generation: it was completed
  const auto kill_at = [&](unsigned flush) {
    SCOPED_TRACE(flush);
    survive(
        [&](store& s) {
          counted.at = &*log_;
          counted.change = &s.core().shared().generations.change.to;
          counted.last = flush;
          call_at_line_functions<count_flush>(s);
          static_cast<void>(s.compact({.threads = 1, .on_progress = {}}));
        },
        [](child& opener) { return opener.wait(); });
    ++met[(log_->amid_change ? 2 : 0) + (is_packed_ ? 1 : 0)];
  };
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed";
  log_->is_done = false;
  for (unsigned flush = 1; !log_->is_done; ++flush) ASSERT_NO_FATAL_FAILURE(kill_at(flush));
  EXPECT_GT(met[0], 10U);
  EXPECT_GT(met[1], 5U);
  EXPECT_EQ(met[2], 0U) << "the first flush behind the note is behind the root, too";
  EXPECT_GT(met[3], 0U);
}

/// Killed between the note of the change and the first root.
TEST_P(SharedCompactionKills, a_change_to_which_no_root_leads_is_forgotten) {
  survive(
      [&](store& s) {
        const detail::store_core& core = s.core();
        auto& change = core.shared().generations.change;
        const writer_set::gate stopped(core.writers());
        core.writers().prepare_generation({});
        change.manifest = core.the_pool().roots().read().manifest + 1;
        change.newest = core.clock().now() - 1;
        change.left = {};
        change.to = core.generation() + 1;
        ::kill(getpid(), SIGKILL);
      },
      [](child& opener) { return opener.wait(); });
  EXPECT_FALSE(is_packed_);
}

TEST_P(SharedCompactionKills, at_any_time_others_go_on_and_lose_nothing) {
  std::mt19937 random(test_seed());
  for (unsigned round = 0; round < (is_long ? 300 : 5); ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(survive(
        [&](store& s) {
          for (;;) static_cast<void>(s.compact({.threads = 1, .on_progress = {}}));
        },
        [&](child& opener) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
          opener.kill(SIGKILL);
          return opener.wait();
        }));
  }
}

TEST_P(SharedCompactionKills, of_a_process_that_looks_or_has_shut_the_gate_keep_nothing) {
  for (const bool shuts_gate : {false, true}) {
    log_->step = 0;
    child other([&] {
      wait_for(log_, 1);
      store s(path_, beside());
      const snapshot then = s.latest();
      std::optional<writer_set::gate> gate;
      if (shuts_gate) gate.emplace(s.core().writers());
      log_->step = 2;
      for (;;) pause();
      return 0;
    });
    std::filesystem::remove(path_);
    std::filesystem::remove(common_);
    store s(path_, first());
    fill(s);
    s.insert("counter", "1");
    log_->step = 1;
    wait_for(log_, 2);
    if (!shuts_gate) {
      EXPECT_FALSE(s.compact().erased);
    }
    other.kill(SIGKILL);
    EXPECT_EQ(other.wait(), -SIGKILL);
    s.insert(key_of(0), "new 0");
    const compaction_report done = s.compact();
    EXPECT_TRUE(done.packed);
    EXPECT_TRUE(done.erased);
    ASSERT_NO_FATAL_FAILURE(expect_all(s, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, SharedCompactionKills, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

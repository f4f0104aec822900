// A process that shares a store with the B+-tree or the skip list is killed amid a write. Any process that waits for
// it, for what it held or for what it was about to finish, gets errc::poisoned, and none waits for ever.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <barrier>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace {
/// How often this process has yielded its core.
std::atomic<unsigned> turns{0};
}  // namespace

/// The system's function, replaced for this whole program.
extern "C" int sched_yield() noexcept {
  ++turns;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

struct progress {
  std::atomic<int> step;
  std::atomic<unsigned> held;  ///< threads that have reached their first flush
};
progress* noted = nullptr;

/// The killed process stops at its first flush, in each thread.
void rest_at_flush(const void*, std::size_t) {
  ++noted->held;
  for (;;) pause();
}
void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

class KilledSharer : public SharedStore {
 protected:
  /// Opens the store with one key in it.
  [[nodiscard]] pool& pool_with_a_key() {
    store_.emplace(path_, first());
    store_->insert("key", "value");
    return store_->core().the_pool().first();
  }
  /// Another process attaches. It is killed when `threads` of its threads, which run `write`, have reached a flush.
  void kill_amid(unsigned threads, const std::function<void(store&, unsigned)>& write) {
    child other([&] {
      while (log_->step < 1) std::this_thread::sleep_for(100us);
      store s(path_, beside());
      noted = &*log_;
      // Each thread has a segment before: taking one also flushes.
      std::barrier ready(
          threads, [&]() noexcept { s.core().the_pool().persist().replace_line_functions(rest_at_flush, fence); });
      in_threads(threads, [&](unsigned i) {
        s.insert("key " + std::to_string(i), "old");
        ready.arrive_and_wait();
        write(s, i);
      });
      return 0;
    });
    store_.emplace(path_, first());
    for (unsigned i = 0; i < 1'000; ++i) store_->insert("key " + std::to_string(i), "old");
    log_->step = 1;
    while (log_->held < threads) std::this_thread::sleep_for(100us);
    other.kill(SIGKILL);
    ASSERT_EQ(other.wait(), -SIGKILL);
  }
  void expect_poisoned(const std::function<void()>& call) {
    turns = 0;
    expect_error(errc::poisoned, "killed", call);
    // On a busy machine each turn may take as long as those of all others together.
    EXPECT_LT(turns, 1'000U) << "who waits for a killed process hardly ever looks";
    expect_error(errc::poisoned, "close it and open it again", [&] { store_->insert("a", "b"); });
    expect_error(errc::poisoned, "close it and open it again", [&] { static_cast<void>(store_->find("a")); });
  }

  const deadline soon_{"waiting for a killed process", 50s};
  const shared<progress> log_;
  std::optional<store> store_;
};

TEST_P(KilledSharer, makes_no_reader_wait_for_the_node_that_it_was_changing) {
  if (GetParam().index != index_kind::btree) GTEST_SKIP() << "the skip list has no locks";
  for (int i = 0; i < 7; ++i) {
    std::filesystem::remove(path_);
    log_->step = 0;
    log_->held = 0;
    kill_amid(1, [](store& s, unsigned) { s.insert("key 500 and a half", "new"); });
    const version closed = store_->tag();
    const std::vector<std::string_view> some{"key 500 and a half"};
    std::vector<std::optional<std::string_view>> found(1);
    const std::function<void()> reads[] = {
        [&] { static_cast<void>(store_->find("key 500 and a half")); },
        [&] { static_cast<void>(store_->find("key 500 and a half", closed)); },
        [&] { static_cast<void>(store_->find_many(some, closed, found)); },
        [&] { store_->insert("key 500 and a quarter", "new"); },
        [&] { static_cast<void>(store_->keys({})); },
        [&] { static_cast<void>(store_->at(closed).size()); },
        [&] {
          for (const auto& [key, value] : store_->at(closed).range()) static_cast<void>(key.size() + value.size());
        },
    };
    expect_poisoned(reads[i]);
    store_.reset();
    std::filesystem::remove(common_);
  }
}

TEST_P(KilledSharer, makes_no_writer_wait_for_the_batch_that_it_was_linking) {
  kill_amid(1, [](store& s, unsigned) {
    batch some;
    some.insert("key 1", "new");
    some.insert("key 2", "new");
    s.apply(some);
  });
  EXPECT_EQ(store_->find("key 1"), "old") << "readers need not wait";
  expect_poisoned([&] { store_->insert("key 1", "newer"); });
}

TEST_P(KilledSharer, makes_nobody_wait_for_the_writers_that_it_had) {
  kill_amid(format::writers_max, [](store& s, unsigned i) { s.insert("key " + std::to_string(i), "new"); });
  expect_poisoned([&] { store_->insert("another", "value"); });
}

TEST_P(KilledSharer, makes_no_gate_wait_for_its_write) {
  kill_amid(1, [](store& s, unsigned) { s.insert("key 1", "new"); });
  expect_poisoned([&] { static_cast<void>(store_->stats()); });
}

TEST_P(KilledSharer, is_reported_to_whoever_attaches) {
  kill_amid(1, [](store& s, unsigned) { s.insert("key 1", "new"); });
  expect_error(errc::poisoned, "killed", [&] { const store late(path_, beside()); });
}

/// Writes a part of a header, as a kill amid it leaves it.
[[noreturn]] void begin_header_and_be_killed(pool& p, link at, std::uint64_t size) {
  auto& header = p.header_of(at);
  header.magic = format::forget_segment_magic;
  header.granules = static_cast<std::uint32_t>(size / format::granule_size);
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

/// Is killed while it gives out a segment.
int give_out_and_be_killed(pool& p) {
  static_cast<void>(p.allocate(100, format::forget_segment_magic, [&p](const segment& claimed) {
    begin_header_and_be_killed(p, claimed.offset, claimed.size);
  }));
  return 0;
}

TEST_P(KilledSharer, leaves_no_half_header_where_it_was_giving_out_space_behind_all_segments) {
  child other([&] {
    while (log_->step < 1) std::this_thread::sleep_for(100us);
    const store s(path_, beside());
    return give_out_and_be_killed(s.core().the_pool().first());
  });
  pool& p = pool_with_a_key();
  const std::uint64_t before = p.used_end();
  log_->step = 1;
  ASSERT_EQ(other.wait(), -SIGKILL);
  // A claim may lead there, whose owner comes later.
  EXPECT_EQ(p.allocate(100).offset, before + format::granule_size);
  EXPECT_EQ(p.header_of(before).magic, 0U);
  EXPECT_EQ(p.header_of(before).granules, 0U);
  static_cast<void>(store_->forget({.keys = {"other"}}));
  store_->close();
  store_.reset();
  const store again(path_, GetParam().options_at(path_));
  EXPECT_EQ(again.find("key"), "value");
}

TEST_P(KilledSharer, leaves_no_half_header_where_it_was_giving_out_a_part_of_free_space) {
  child other([&] {
    while (log_->step < 1) std::this_thread::sleep_for(100us);
    const store s(path_, beside());
    pool& p = s.core().the_pool().first();
    const segment hole = p.segment_at(log_->held);
    p.add_free(hole.offset, hole.size);  // as a compaction does in the process that packs
    return give_out_and_be_killed(p);
  });
  pool& p = pool_with_a_key();
  const segment hole = p.allocate(3 * format::granule_size - sizeof(format::segment_header));
  static_cast<void>(p.format_segment(hole.offset, hole.size, format::free_segment_magic));
  static_cast<void>(p.allocate(100));  // behind it: the closed file has it
  log_->held = static_cast<unsigned>(hole.offset);
  log_->step = 1;
  ASSERT_EQ(other.wait(), -SIGKILL);
  EXPECT_EQ(p.header_of(hole.offset).magic, format::forget_segment_magic);
  store_->close();
  store_.reset();
  const store again(path_, GetParam().options_at(path_));
  EXPECT_EQ(again.find("key"), "value");
}

INSTANTIATE_TEST_SUITE_P(EveryIndexInMemory, KilledSharer,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::skip_list},
                                           setting{place::tmpfs, durability::operation, index_kind::hash}),
                         [](const auto& tried) { return tried.param.name(); });

}  // namespace
}  // namespace icecore::testing

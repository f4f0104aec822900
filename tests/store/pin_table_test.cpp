// Pins are counted by plain stores of many threads: what they keep is given up once, behind the last read, never
// before.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/read/pin_table.hpp"

namespace icecore::testing {
namespace {

using detail::pin_table;

/// No table looks at the core.
const detail::store_core& some_core() {
  static const char place = 0;
  return reinterpret_cast<const detail::store_core&>(place);
}

/// What a store's views would lead into; a sanitizer sees who frees it while another thread reads it.
struct kept_bytes {
  std::shared_ptr<std::string> bytes = std::make_shared<std::string>(100, 'x');
  std::weak_ptr<std::string> watched = bytes;

  [[nodiscard]] pin_table::memory handed_over() { return {std::move(bytes)}; }
};

TEST(PinTable, memory_is_given_up_behind_the_last_read_whoever_releases_last) {
  constexpr unsigned threads = 4;
  constexpr int rounds = 2000;
  pin_table* table = nullptr;
  const std::string* seen = nullptr;
  std::barrier together(threads + 1);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        together.arrive_and_wait();  // the table is open
        table->take();
        if (t % 2 == 1) {
          table->take();  // as a copy does
          table->release();
        }
        together.arrive_and_wait();  // nobody takes a first pin any more
        if (seen->back() != 'x') ++wrong;
        table->release();
        together.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    kept_bytes kept;
    seen = kept.bytes.get();
    table = &pin_table::open(some_core(), kept.handed_over());
    together.arrive_and_wait();
    together.arrive_and_wait();
    table->retire();
    together.arrive_and_wait();
    ASSERT_TRUE(kept.watched.expired()) << "in round " << round;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(PinTable, threads_that_open_and_retire_tables_do_not_get_each_others) {
  constexpr unsigned threads = 6;
  std::vector<std::jthread> openers;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < threads; ++t) {
    openers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        kept_bytes kept;
        const std::string* const bytes = kept.bytes.get();
        pin_table& mine = pin_table::open(some_core(), kept.handed_over());
        mine.take();
        if (mine.live() != 1 || mine.core() != &some_core()) ++wrong;
        mine.retire();
        if (mine.core() != nullptr || kept.watched.expired() || bytes->front() != 'x') ++wrong;
        mine.release();
        // another thread may have been looking at the table: then it gives the memory up, at its next look
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!kept.watched.expired()) {
          if (std::chrono::steady_clock::now() > end) return void(++wrong);
          std::this_thread::yield();
        }
      }
    });
  }
  openers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(PinTable, a_copy_that_is_taken_before_its_original_is_released_is_never_missed) {
  kept_bytes kept;
  pin_table& table = pin_table::open(some_core(), kept.handed_over());
  std::atomic<bool> over{false};
  table.take();
  std::vector<std::jthread> movers;
  for (unsigned t = 0; t < 3; ++t) {
    movers.emplace_back([&] {  // each holds a pin that it copies and releases, so never fewer than three live
      table.take();
      while (!over) {
        table.take();
        table.release();
      }
      table.release();
    });
  }
  for (int i = 0; i < 20'000; ++i) ASSERT_GE(table.live(), 1U);
  table.retire();
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(kept.watched.expired());
  over = true;
  movers.clear();
  EXPECT_FALSE(kept.watched.expired());
  table.release();
  EXPECT_TRUE(kept.watched.expired());
}

}  // namespace
}  // namespace icecore::testing

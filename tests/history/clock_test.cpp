// The clock and its limit: the clock reaches no version before the root allows it.
#include "history/clock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "icecore/error.hpp"

namespace icecore {
namespace {

class clock_test : public testing::Test {
 protected:
  clock_test()
      : pages_(2 * format::page_size), roots_(pages_.data(), first(), persist_), clock_(word_, &roots_, limit) {
    roots_.update([](format::root&) {});
  }

  static constexpr std::uint64_t limit = version_clock::step;

  static format::root first() {
    format::root r{};
    r.magic = format::magic;
    r.byte_order = format::byte_order_mark;
    r.clock_limit = limit;
    return r;
  }
  /// What a restart would find.
  [[nodiscard]] std::uint64_t limit_in_root() const {
    const auto root = newest_root(pages_.data());
    return root ? root->clock_limit : 0;
  }

  std::vector<std::byte> pages_;
  persistence persist_;
  root_pages roots_;
  std::atomic<std::uint64_t> word_{1};
  version_clock clock_;
};

TEST_F(clock_test, closes_one_version_after_the_other_and_writes_no_root) {
  for (version v = 1; v <= 1000; ++v) ASSERT_EQ(clock_.tick(), v);
  EXPECT_EQ(clock_.now(), 1001U);
  EXPECT_EQ(limit_in_root(), limit);
}

TEST_F(clock_test, reaches_no_version_that_the_root_does_not_allow) {
  for (std::uint64_t i = 0; i < 3 * version_clock::step; ++i) {
    const version closed = clock_.tick();
    if (closed % 1021 == 0) {
      ASSERT_LT(clock_.now(), limit_in_root());
    }
  }
  EXPECT_GT(limit_in_root(), 3 * version_clock::step);
}

TEST_F(clock_test, gives_each_version_once_while_many_threads_move_the_limit) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t ticks = version_clock::step / threads;
  word_ = limit - ticks;  // the limit is near
  std::vector<std::uint64_t> sums(threads);
  {
    std::vector<std::jthread> running;
    for (unsigned t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < ticks; ++i) sums[t] += clock_.tick();
      });
    }
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t s : sums) sum += s;
  const std::uint64_t first = limit - ticks;
  const std::uint64_t count = threads * ticks;
  EXPECT_EQ(sum, count * first + count * (count - 1) / 2);
  EXPECT_LT(clock_.now(), limit_in_root());
}

TEST_F(clock_test, leaps_over_any_number_of_versions_once_the_root_allows_it) {
  for (const version open : {limit - 1, 5 * limit, version_max / 2, version_clock::last_open}) {
    clock_.advance_to(open);
    EXPECT_EQ(clock_.now(), open);
    EXPECT_LT(clock_.now(), limit_in_root());
  }
  EXPECT_THROW((void)clock_.tick(), error);
}

TEST_F(clock_test, leaps_nowhere_when_the_root_cannot_be_written) {
  persistence no_file(-1, "no file", medium::block_device, durability::tag, nullptr, nullptr, false);
  root_pages roots(pages_.data(), first(), no_file);
  version_clock clock(word_, &roots, limit);
  EXPECT_THROW(clock.advance_to(5 * limit), error);
  EXPECT_EQ(clock.now(), 1U);
}

TEST_F(clock_test, leaps_to_no_version_beyond_the_last) {
  for (const version open : {version_clock::last_open + 1, version_max}) {
    try {
      clock_.advance_to(open);
      ADD_FAILURE() << "opened version " << open;
    } catch (const error& reported) {
      EXPECT_EQ(reported.code(), errc::invalid_argument);
      EXPECT_NE(reported.message().find(std::to_string(version_clock::last_open)), std::string::npos)
          << reported.what();
    }
    EXPECT_EQ(clock_.now(), 1U);
    EXPECT_EQ(limit_in_root(), limit);
  }
}

TEST_F(clock_test, says_when_all_versions_are_used_up_and_moves_no_further) {
  word_ = version_max - 10;
  try {
    (void)clock_.tick();
    ADD_FAILURE() << "closed a version beyond the last";
  } catch (const error& reported) {
    EXPECT_EQ(reported.code(), errc::invalid_argument);
    EXPECT_NE(reported.message().find("used up"), std::string::npos) << reported.what();
  }
  EXPECT_EQ(clock_.now(), version_max - 10);
  EXPECT_EQ(limit_in_root(), limit);
}

}  // namespace
}  // namespace icecore

// What a write costs the medium: how many cache lines it flushes, and how often it waits for them.
#include <gtest/gtest.h>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "store/core.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

thread_local std::uint64_t lines_flushed = 0;
thread_local std::uint64_t fences = 0;

void count_flush(const void* data, std::size_t size) {
  const auto first = reinterpret_cast<std::uintptr_t>(data) / format::cache_line_size;
  const auto last = (reinterpret_cast<std::uintptr_t>(data) + size - 1) / format::cache_line_size;
  lines_flushed += last - first + 1;
}
void count_fence() { ++fences; }

/// A store on a memory file system under operation durability. Its flushes and fences are counted.
class flush_count : public ::testing::TestWithParam<index_kind> {
 protected:
  flush_count() : store_(folder_ / "counted.ice", setting{place::tmpfs, durability::operation, GetParam()}.options()) {
    store_.core().the_pool().persist().replace_line_functions(count_flush, count_fence);
  }

  /// Does something once without measuring, so that a segment is at hand, and checks the cost of each of a hundred
  /// times.
  template <class Operation>
  void expect_each(std::uint64_t lines_max, std::uint64_t fences_expected, Operation operation) {
    operation(0);
    for (std::uint64_t i = 1; i <= 100; ++i) {
      lines_flushed = fences = 0;
      operation(i);
      ASSERT_EQ(fences, fences_expected) << i;
      ASSERT_LE(lines_flushed, lines_max) << i;
      ASSERT_EQ(lines_flushed > 0, fences_expected > 0) << i;
    }
  }

  [[nodiscard]] static std::uint64_t key(std::uint64_t i) { return i * 0x9e3779b97f4a7c15U; }

  scratch folder_;
  store store_;
  map<std::uint64_t, std::uint64_t> numbers_{store_};
};

TEST_P(flush_count, an_insert_of_a_small_new_key_flushes_one_line_and_waits_once) {
  expect_each(1, 1, [&](std::uint64_t i) { numbers_.insert(key(i), i); });
}

TEST_P(flush_count, an_insert_of_a_new_key_of_31_bytes_flushes_two_lines_at_most_and_waits_once) {
  expect_each(2, 1, [&](std::uint64_t i) {
    store_.insert("/models/000/layers/0000/t" + std::to_string(100'000 + i), "8 bytes.");
  });
}

TEST_P(flush_count, an_insert_that_fills_a_line_but_for_the_entrys_header_flushes_one_line) {
  expect_each(1, 1, [&](std::uint64_t i) { store_.insert(std::to_string(10'000'000 + i), "sixteen bytes..."); });
}

TEST_P(flush_count, an_insert_of_a_16_byte_key_and_value_flushes_two_lines_at_most) {
  expect_each(2, 1,
              [&](std::uint64_t i) { store_.insert(std::to_string(1'000'000'000'000'000 + i), "sixteen bytes..."); });
}

TEST_P(flush_count, an_update_flushes_one_line_and_waits_once) {
  expect_each(1, 1, [&](std::uint64_t i) { numbers_.insert(1, i); });
}

TEST_P(flush_count, a_remove_flushes_one_line_and_waits_once) {
  for (std::uint64_t i = 0; i <= 100; ++i) numbers_.insert(key(i), i);
  expect_each(1, 1, [&](std::uint64_t i) { ASSERT_TRUE(numbers_.remove(key(i))); });
}

TEST_P(flush_count, a_find_of_what_is_durable_flushes_nothing) {
  numbers_.insert(1, 1);
  expect_each(0, 0, [&](std::uint64_t) { ASSERT_EQ(numbers_.find(1), 1U); });
}

TEST_P(flush_count, a_tag_without_a_name_flushes_nothing) {
  expect_each(0, 0, [&](std::uint64_t) { store_.tag(); });
}

TEST_P(flush_count, large_values_flush_their_lines_and_two_more_at_most_and_wait_once_each) {
  constexpr std::uint64_t count = 100;
  constexpr std::uint64_t segments_max = 10;  // begun meanwhile; each costs one line and one wait
  const std::string value(4096, 'v');
  store_.insert("first", std::string(2 * count * value.size(), 'v'));  // growth of the file meanwhile would count
  lines_flushed = fences = 0;
  for (std::uint64_t i = 0; i < count; ++i) store_.insert(std::to_string(i), value);
  EXPECT_GE(lines_flushed, count * (value.size() / format::cache_line_size + 1));
  EXPECT_LE(lines_flushed, count * (value.size() / format::cache_line_size + 2) + segments_max);
  EXPECT_GE(fences, count);
  EXPECT_LE(fences, count + segments_max);
}

INSTANTIATE_TEST_SUITE_P(Indexes, flush_count, ::testing::Values(index_kind::btree, index_kind::skip_list),
                         [](const auto& about) { return about.param == index_kind::btree ? "btree" : "skip_list"; });

}  // namespace
}  // namespace icecore::testing

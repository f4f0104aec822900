// Merging within a process: any two and any many sorted inputs, by any number of threads.
#include "cluster/gather/columns/merge.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "model.hpp"

namespace icecore::ranks {
namespace {

using testing::item_shape;
using testing::items_of;
using testing::map;
using testing::part_columns;

struct shapes {
  item_shape keys;
  item_shape values;
};
constexpr shapes words{{8, 0}, {8, 0}};
constexpr shapes fixed{{5, 0}, {16, 0}};
constexpr shapes any{{0, 9}, {0, 30}};
constexpr shapes words_with_any_values{{8, 0}, {0, 30}};
const std::vector<shapes> all_shapes{words, fixed, any, words_with_any_values};

/// Parts of one random map, no key in two.
struct merge_case {
  map all_pairs;
  std::vector<map> maps;
  std::vector<part_columns> columns;

  merge_case(std::uint64_t seed, std::size_t count, int parts, const shapes& of, testing::spread how) {
    std::mt19937_64 random(seed);
    all_pairs = testing::random_map(random, count, of.keys, of.values);
    maps = testing::spread_over(random, all_pairs, parts, how);
    for (const map& m : maps) columns.emplace_back(m, of.keys.width, of.values.width);
  }

  [[nodiscard]] std::vector<pairs_view> views() const {
    std::vector<pairs_view> made;
    for (const part_columns& c : columns) made.push_back(c.view());
    return made;
  }
  [[nodiscard]] pairs room() const {
    const std::vector<pairs_view> all = views();
    extent sum = extent_of(all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) sum = sum.plus(extent_of(all[i]));
    return pairs(sum);
  }
};

testing::spread any_spread() {
  return *rc::gen::element(testing::spread::by_hash, testing::spread::by_range, testing::spread::on_one_rank);
}

RC_GTEST_PROP(merge, two_parts_are_the_whole_by_any_number_of_threads, ()) {
  const auto of = *rc::gen::elementOf(all_shapes);
  const merge_case c(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::size_t>(0, 2000), 2, of,
                     any_spread());
  pairs out = c.room();
  const auto views = c.views();
  RC_ASSERT(merge_two(views[0], views[1], out, *rc::gen::inRange(1U, 4U)) == std::nullopt);
  RC_ASSERT(items_of(out.view()) == items_of(c.all_pairs));
}

RC_GTEST_PROP(merge, many_parts_are_the_whole_however_the_least_head_is_found, ()) {
  const auto of = *rc::gen::elementOf(all_shapes);
  const merge_case c(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::size_t>(0, 500),
                     *rc::gen::inRange(1, 20), of, any_spread());
  for (const heads how : {heads::tournament, heads::linear_scan}) {
    pairs out = c.room();
    RC_ASSERT(merge_many(c.views(), out, how) == std::nullopt);
    RC_ASSERT(items_of(out.view()) == items_of(c.all_pairs));
  }
}

RC_GTEST_PROP(merge, slices_are_parts_like_any_others, ()) {
  const auto of = *rc::gen::elementOf(all_shapes);
  const merge_case c(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::size_t>(0, 300), 1, of,
                     testing::spread::by_hash);
  const pairs_view all = c.views()[0];
  const auto cut = *rc::gen::inRange<std::size_t>(0, all.count + 1);
  const pairs_view low = all.slice(0, cut);
  const pairs_view high = all.slice(cut, all.count);
  pairs out(extent_of(low).plus(extent_of(high)));
  RC_ASSERT(merge_two(high, low, out) == std::nullopt);
  RC_ASSERT(items_of(out.view()) == items_of(c.all_pairs));
  RC_ASSERT(items_of(copy_of(high).view()) == items_of(high));
}

RC_GTEST_PROP(merge, a_key_in_two_parts_is_reported, ()) {
  const auto of = *rc::gen::elementOf(all_shapes);
  merge_case c(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::size_t>(1, 500), 2, of,
               testing::spread::by_hash);
  const std::size_t filled = c.maps[0].empty() ? 1 : 0;
  const auto [key, value] = *c.maps[filled].begin();
  c.maps[1 - filled][key] = value;
  c.columns.clear();
  for (const map& m : c.maps) c.columns.emplace_back(m, of.keys.width, of.values.width);
  pairs out = c.room();
  const auto views = c.views();
  RC_ASSERT(merge_two(views[0], views[1], out, 2) == key);
  for (const heads how : {heads::tournament, heads::linear_scan}) RC_ASSERT(merge_many(views, out, how) == key);
}

/// Large enough for several threads, which small merges do not get.
TEST(merge, of_large_parts_is_shared_by_threads) {
  constexpr std::size_t count = 200'000;
  std::vector<std::uint64_t> odd(count);
  std::vector<std::uint64_t> even(count / 3);
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = __builtin_bswap64(2 * i + 1);
  for (std::size_t i = 0; i < even.size(); ++i) even[i] = __builtin_bswap64(6 * i);
  const auto view = [](const std::vector<std::uint64_t>& keys) {
    const auto* const bytes = reinterpret_cast<const char*>(keys.data());
    return pairs_view{keys.size(), {8, nullptr, bytes}, {8, nullptr, bytes}};
  };
  for (unsigned threads = 1; threads <= 5; ++threads) {
    pairs out(extent_of(view(odd)).plus(extent_of(view(even))));
    ASSERT_EQ(merge_two(view(even), view(odd), out, threads), std::nullopt);
    const pairs_view merged = out.view();
    for (std::size_t i = 0; i < merged.count; ++i) {
      ASSERT_EQ(merged.keys[i], merged.values[i]);
      if (i > 0) {
        ASSERT_LT(merged.keys[i - 1], merged.keys[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace icecore::ranks

// Extraction, parallel visits and bounds: which arguments are allowed, and what happens when they are wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] bool holds_nothing(item_range range) { return range.begin() == std::default_sentinel; }

class Snapshots : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 20'000;

  void SetUp() override {
    for (std::uint64_t n = 0; n < count; ++n) numbers_.insert(n * 3, n * n);
    closed_ = store_.tag();
  }

  scratch folder_;
  store store_{folder_ / "snapshot.ice"};
  map<std::uint64_t, std::uint64_t> numbers_{store_};
  version closed_ = 0;
};

TEST_F(Snapshots, fixed_columns_hold_all_items_in_key_order_whatever_the_number_of_threads) {
  for (const unsigned threads : {0U, 1U, 2U, 3U, 7U, 64U}) {
    std::vector<std::uint64_t> keys(count + 5, 77);
    std::vector<std::uint64_t> values(count + 5, 77);
    ASSERT_EQ(numbers_.at(closed_).extract(keys, values, threads), count);
    for (std::uint64_t n = 0; n < count; ++n) {
      ASSERT_EQ(keys[n], n * 3) << threads << " threads";
      ASSERT_EQ(values[n], n * n) << threads << " threads";
    }
    EXPECT_EQ(values[count], 77U) << "written behind the last item";
  }
}

TEST_F(Snapshots, either_column_can_be_left_out) {
  const snapshot then = store_.at(closed_);
  std::vector<std::uint64_t> values(count);
  fixed_columns only_values;
  only_values.values = values.data();
  only_values.value_size = 8;
  only_values.capacity = count;
  EXPECT_EQ(then.extract(only_values, 2), count);
  EXPECT_EQ(values[count - 1], (count - 1) * (count - 1));
  std::vector<char> keys(count * 8);
  fixed_columns only_keys;
  only_keys.keys = keys.data();
  only_keys.key_size = 8;
  only_keys.capacity = count;
  EXPECT_EQ(then.extract(only_keys, 2), count);
  EXPECT_EQ(key_codec<std::uint64_t>::decode(&keys[(count - 1) * 8]), (count - 1) * 3);
}

TEST_F(Snapshots, columns_without_room_are_refused) {
  for (const unsigned threads : {1U, 3U}) {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{count - 1}}) {
      std::vector<char> keys(count * 8 + 1, 'x');
      fixed_columns out;
      out.keys = keys.data();
      out.key_size = 8;
      out.capacity = capacity;
      expect_error(errc::invalid_argument, "", [&] { store_.at(closed_).extract(out, threads); });
      EXPECT_EQ(keys[capacity * 8], 'x') << "written behind the columns";
    }
  }
}

TEST_F(Snapshots, keys_and_values_of_another_size_are_refused) {
  std::vector<char> room((count + 1) * 16);
  for (const unsigned threads : {1U, 3U}) {
    for (const std::size_t wrong : {0U, 4U, 7U, 9U, 16U}) {
      fixed_columns out;
      out.capacity = count;
      out.keys = room.data();
      out.key_size = wrong;
      expect_error(errc::invalid_argument, "", [&] { store_.at(closed_).extract(out, threads); });
      out.keys = nullptr;
      out.values = room.data();
      out.value_size = wrong;
      expect_error(errc::invalid_argument, "", [&] { store_.at(closed_).extract(out, threads); });
    }
  }
  numbers_.remove(3);
  store_.insert("an odd key", "12345678");
  std::vector<std::uint64_t> keys(count + 1);
  std::vector<std::uint64_t> values(count + 1);
  expect_error(errc::invalid_argument, "", [&] { numbers_.latest().extract(keys, values, 2); });
  EXPECT_EQ(numbers_.at(closed_).extract(keys, values, 2), count) << "the closed version is as it was";
}

TEST_F(Snapshots, an_empty_version_has_empty_columns) {
  const snapshot none = store_.at(version{0});
  fixed_columns nothing;
  EXPECT_EQ(none.extract(nothing, 4), 0U);
  EXPECT_EQ(none.extract(4).keys.offsets, std::vector<std::uint64_t>{0});
  EXPECT_TRUE(none.extract(4).values.bytes.empty());
  EXPECT_TRUE(none.items(4).empty());
  EXPECT_TRUE(holds_nothing(none.range()));
  none.for_each([](const item&) { FAIL(); }, 4);
}

TEST_F(Snapshots, visits_reach_each_item_once_and_each_thread_in_key_order) {
  for (const unsigned threads : {0U, 1U, 4U, 16U}) {
    std::mutex together;
    std::map<std::thread::id, std::string> last;
    std::set<std::string> seen;
    store_.at(closed_).for_each(
        [&](const item& one) {
          const std::lock_guard lock(together);
          std::string& before = last[std::this_thread::get_id()];
          EXPECT_TRUE(before.empty() || before < one.key);
          before = one.key;
          EXPECT_TRUE(seen.emplace(one.key).second);
        },
        threads);
    EXPECT_EQ(seen.size(), count);
    EXPECT_LE(last.size(), threads == 0 ? std::thread::hardware_concurrency() : threads);
  }
}

TEST_F(Snapshots, the_first_exception_of_a_visit_stops_all_and_comes_out) {
  struct enough {};
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<std::uint64_t> visited{0};
    EXPECT_THROW(store_.at(closed_).for_each(
                     [&](const item&) {
                       if (++visited == 100) throw enough{};
                     },
                     threads),
                 enough);
    EXPECT_LT(visited, count);
  }
}

TEST_F(Snapshots, bounds_that_hold_nothing_hold_nothing) {
  const snapshot then = store_.at(closed_);
  EXPECT_TRUE(holds_nothing(then.range("b", "a")));
  EXPECT_TRUE(holds_nothing(then.range("a", "a")));
  EXPECT_TRUE(holds_nothing(then.range("b", "a").reversed()));
  key_bounds inverted;
  inverted.from = "b";
  inverted.to = "a";
  EXPECT_EQ(then.extract(3, inverted).keys.offsets.size(), 1U);
  EXPECT_TRUE(then.items(3, inverted).empty());
  EXPECT_TRUE(store_.keys(inverted).empty());
  for (const auto& one : store_.diff(0, closed_, inverted)) FAIL() << one.key;
}

TEST_F(Snapshots, the_prefix_of_all_ones_has_no_upper_bound) {
  store_.insert("\xff\xff", "1");
  store_.insert("\xff\xff\xff", "2");
  EXPECT_EQ(key_bounds::of_prefix("\xff\xff").to, std::nullopt);
  EXPECT_EQ(key_bounds::of_prefix("a\xff").to, "b");
  EXPECT_EQ(key_bounds::of_prefix("").from.value_or(""), "");
  EXPECT_EQ(key_bounds::of_prefix("").to, std::nullopt);
  EXPECT_EQ(std::ranges::distance(store_.latest().prefix("\xff\xff")), 2);
  EXPECT_EQ(std::ranges::distance(store_.latest().prefix("")), static_cast<std::ptrdiff_t>(count + 2));
}

TEST_F(Snapshots, cursors_past_an_end_are_invalid_and_can_be_sought_again) {
  auto cursor = store_.at(closed_).cursor();
  EXPECT_FALSE(cursor.valid()) << "a new cursor is nowhere";
  cursor.seek_last();
  cursor.next();
  EXPECT_FALSE(cursor.valid());
  cursor.seek_first();
  cursor.previous();
  EXPECT_FALSE(cursor.valid());
  cursor.seek("");
  EXPECT_TRUE(cursor.valid());
  cursor.seek_before("");
  EXPECT_FALSE(cursor.valid());
  cursor.seek_after("\xff");
  EXPECT_FALSE(cursor.valid());
  auto copy = cursor;
  cursor.seek_first();
  EXPECT_FALSE(copy.valid());
  copy = cursor;
  cursor.next();
  EXPECT_EQ(key_codec<std::uint64_t>::decode(copy->key.data()), 0U);
  EXPECT_EQ(key_codec<std::uint64_t>::decode(cursor->key.data()), 3U);
  copy.next();
  EXPECT_EQ(*copy, *cursor) << "a copied cursor walks by itself";
}

TEST_F(Snapshots, views_stay_valid_while_the_store_grows) {
  const snapshot then = store_.at(closed_);
  const auto items = then.items();
  const std::string first_value(items.front().value);
  for (std::uint64_t n = 0; n < count; ++n) numbers_.insert(n * 3 + 1, n);
  store_.insert("large", std::string(30 << 20, 'x'));
  EXPECT_EQ(items.front().value, first_value);
  EXPECT_EQ(items.back().value, then.last()->value);
  EXPECT_EQ(then.size(), count);
}

// The lookup cache keeps 19 bits of a hash beside the bits that choose the line. So of three million absent keys some
// 40 have the word of another key there.
TEST_F(Snapshots, a_key_with_the_word_of_another_one_in_the_lookup_cache_is_not_taken_for_it) {
  constexpr std::size_t together = 1000;
  const snapshot then = store_.at(closed_);
  std::array<std::string, together> keys;
  std::array<std::string_view, together> views;
  std::array<std::optional<std::string_view>, together> found;
  const auto key_of = [](std::uint64_t n) {
    std::string key(sizeof n, '\0');
    key_codec<std::uint64_t>::encode(n, key.data());
    return key;
  };
  for (std::uint64_t first = 0; first < 3'000'000; first += together) {
    for (std::size_t i = 0; i < together; ++i) {
      // one in a hundred is there: find_many() finds it among the others
      keys[i] = key_of(i % 100 == 0 ? (first + i) % count * 3 : 1'000'000 + first + i);
      views[i] = keys[i];
    }
    then.find_many(views, found);
    for (std::size_t i = 0; i < together; ++i) {
      ASSERT_EQ(found[i].has_value(), i % 100 == 0) << first + i;
      if (!found[i]) continue;
      const std::uint64_t n = (first + i) % count;
      std::uint64_t value = 0;
      ASSERT_EQ(found[i]->size(), sizeof value);
      std::memcpy(&value, found[i]->data(), sizeof value);
      ASSERT_EQ(value, n * n);
    }
  }
}

}  // namespace
}  // namespace icecore::testing

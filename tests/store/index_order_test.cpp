// Stores whose index is a list: what promises key order keeps it, whatever the index's own order is, and that order
// lasts as long as the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/file.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using content = std::map<std::string, std::string>;

std::string name_of(index_kind index) { return setting{place::tmpfs, durability::none, index}.name(); }

class IndexOrder : public ::testing::TestWithParam<index_kind> {
 protected:
  [[nodiscard]] options opening() const {
    options o;
    o.index = GetParam();
    return o;
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "ordered.ice"; }

  /// Fills the store with some keys of all kinds; the second version has changes.
  void fill(store& s) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 700; ++i) {
      const std::string key = "key-" + std::to_string(random() % 100'000) + std::string(random() % 30, 'x');
      s.insert(key, first_[key] = std::to_string(i));
    }
    s.insert("", first_[""] = "the empty key");
    s.tag("first");
    second_ = first_;
    for (auto at = second_.begin(); at != second_.end();) {
      const auto here = at++;
      if (random() % 5 == 0) {
        s.remove(here->first);
        second_.erase(here);
      } else if (random() % 5 == 0) {
        s.insert(here->first, here->second = "changed");
      }
    }
    s.insert("key-new", second_["key-new"] = "new");
    s.tag("second");
  }

  [[nodiscard]] static content content_of(item_range range) {
    content all;
    std::string last;
    for (const auto& [key, value] : range) {
      EXPECT_TRUE(all.empty() || last < key) << last << " before " << key;
      last = key;
      all.emplace(key, value);
    }
    return all;
  }
  [[nodiscard]] static std::vector<std::string> keys_in_own_order(const store& s) {
    std::vector<std::string> all;
    s.at("second").for_each([&](const item& i) { all.emplace_back(i.key); }, 1);
    return all;
  }

  static void expect_shows(const snapshot& at, const content& expected) {
    EXPECT_EQ(content_of(at.range()), expected);
    EXPECT_EQ(at.size(1), expected.size());
    EXPECT_EQ(at.size(3), expected.size());
    for (const auto& [key, value] : expected) {
      EXPECT_EQ(at.find(key), value);
      EXPECT_EQ(at.lower_bound(key)->key, key);
    }
    EXPECT_EQ(at.first()->key, expected.begin()->first);
    EXPECT_EQ(at.last()->key, expected.rbegin()->first);
    const std::string middle = std::next(expected.begin(), static_cast<std::ptrdiff_t>(expected.size() / 2))->first;
    EXPECT_EQ(content_of(at.range(middle, "key-8")),
              content(expected.lower_bound(middle), expected.lower_bound("key-8")));
    EXPECT_EQ(content_of(at.prefix("key-3")), content(expected.lower_bound("key-3"), expected.lower_bound("key-4")));
    EXPECT_EQ(at.upper_bound(middle)->key, expected.upper_bound(middle)->first);

    auto backward = at.cursor();
    backward.seek_last();
    for (auto item = expected.rbegin(); item != expected.rend(); ++item, backward.previous())
      ASSERT_EQ(backward->key, item->first);
    EXPECT_FALSE(backward.valid());
    auto copied = at.cursor();
    copied.seek(middle);
    auto other = copied;
    copied.next();
    other.previous();
    EXPECT_EQ(copied->key, expected.upper_bound(middle)->first);
    EXPECT_EQ(other->key, std::prev(expected.find(middle))->first);

    for (const unsigned threads : {1U, 3U}) {
      content visited;
      std::mutex mutex;
      at.for_each(
          [&](const item& i) {
            const std::scoped_lock lock(mutex);
            EXPECT_TRUE(visited.emplace(i.key, i.value).second) << i.key << " came twice";
          },
          threads);
      EXPECT_EQ(visited, expected);
      const auto items = at.items(threads, {.from = "key-2", .to = "key-7"});
      EXPECT_TRUE(
          std::ranges::equal(items, std::ranges::subrange(expected.lower_bound("key-2"), expected.lower_bound("key-7")),
                             [](const item& a, const auto& b) { return a.key == b.first && a.value == b.second; }));
      EXPECT_EQ(at.extract(threads).keys.offsets.size(), expected.size() + 1);
    }
  }
  void expect_all(const store& s) const {
    expect_shows(s.at("first"), first_);
    expect_shows(s.at("second"), second_);
    content all = first_;
    all.insert(second_.begin(), second_.end());
    EXPECT_TRUE(std::ranges::equal(s.keys(), all, [](std::string_view a, const auto& b) { return a == b.first; }));
    content before;
    content after;
    std::string last;
    for (const auto& d : s.diff(1, 2)) {
      EXPECT_TRUE((before.empty() && after.empty()) || last < d.key);
      last = d.key;
      if (d.before) before.emplace(d.key, *d.before);
      if (d.after) after.emplace(d.key, *d.after);
    }
    for (const auto& [key, value] : first_) {
      const auto then = second_.find(key);
      EXPECT_EQ(before.contains(key), then == second_.end() || then->second != value) << key;
    }
    for (const auto& [key, value] : second_) {
      const auto earlier = first_.find(key);
      EXPECT_EQ(after.contains(key), earlier == first_.end() || earlier->second != value) << key;
    }
    EXPECT_TRUE(s.verify().ok());
  }

  scratch folder_{place::tmpfs};
  content first_;
  content second_;
};

TEST_P(IndexOrder, what_promises_key_order_comes_in_key_order) {
  {
    store s(path(), opening());
    fill(s);
    expect_all(s);
  }
  const store again(path());
  EXPECT_EQ(again.stats().index, GetParam());
  expect_all(again);
}

TEST_P(IndexOrder, fixed_columns_come_in_key_order) {
  store s(path(), opening());
  map<std::uint32_t, std::uint32_t> numbers(s);
  constexpr std::uint32_t count = 30'000;
  const std::uint32_t step = GetParam() == index_kind::list ? 50 : 1;
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < count; i += step) expected.push_back(i);
  auto shuffled = expected;
  std::ranges::shuffle(shuffled, std::mt19937(1));
  for (const std::uint32_t i : shuffled) numbers.insert(i, ~i);
  const auto then = numbers.latest();
  for (const unsigned threads : {1U, 2U}) {
    const auto columns = then.columns(threads);
    EXPECT_EQ(columns.keys, expected);
    EXPECT_EQ(columns.values.back(), ~expected.back());
  }
}

TEST_P(IndexOrder, the_order_lasts_as_long_as_the_store) {
  std::vector<std::string> order;
  {
    store s(path(), opening());
    fill(s);
    order = keys_in_own_order(s);
    EXPECT_EQ(std::ranges::is_sorted(order), GetParam() != index_kind::hash);
    s.checkpoint().write(folder_ / "checkpoint.ice");
  }
  EXPECT_EQ(keys_in_own_order(store(path())), order);
  EXPECT_EQ(keys_in_own_order(store(folder_ / "checkpoint.ice")), order) << "a checkpoint";

  options copying;
  copying.copy_of = path();
  EXPECT_EQ(keys_in_own_order(store(folder_ / "copy.ice", copying)), order) << "a copy";

  static_cast<void>(repair({.from = path(), .to = folder_ / "repaired.ice"}));
  EXPECT_EQ(keys_in_own_order(store(folder_ / "repaired.ice")), order) << "a repaired store";

  options other;
  other.change_index = true;
  for (const index_kind away : {index_kind::persistent, index_kind::btree}) {
    other.index = away;
    store(path(), other).close();
  }
  other.index = GetParam();
  EXPECT_EQ(keys_in_own_order(store(path(), other)), order) << "the index changed and changed back";
}

TEST_P(IndexOrder, two_stores_have_orders_of_their_own) {
  if (GetParam() != index_kind::hash) GTEST_SKIP() << "the order is that of the keys";
  store one(path(), opening());
  fill(one);
  store other(folder_ / "other.ice", opening());
  fill(other);
  EXPECT_NE(keys_in_own_order(one), keys_in_own_order(other));
}

INSTANTIATE_TEST_SUITE_P(Indexes, IndexOrder,
                         ::testing::Values(index_kind::btree, index_kind::persistent, index_kind::list,
                                           index_kind::hash),
                         [](const auto& tested) { return name_of(tested.param); });

/// The roots of a store, as they are in its file.
std::vector<format::root> roots_of(const std::filesystem::path& file) {
  std::vector<format::root> roots;
  static_cast<void>(with_roots_changed(read_file(file), [&](format::root& r) { roots.push_back(r); }));
  return roots;
}

TEST(HashSeed, is_in_the_file_only_of_a_store_that_has_had_the_index) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "seed.ice";
  const format::root unseeded{};
  options o;
  o.change_index = true;
  for (const index_kind without : {index_kind::btree, index_kind::list, index_kind::persistent}) {
    o.index = without;
    store(path, o).close();
    for (const format::root& r : roots_of(path)) EXPECT_EQ(0, std::memcmp(r.hash_seed, unseeded.hash_seed, 16));
  }
  o.index = index_kind::hash;
  store(path, o).close();
  const format::root seeded = roots_of(path).back();
  EXPECT_NE(0, std::memcmp(seeded.hash_seed, unseeded.hash_seed, 16));
  o.index = index_kind::btree;
  store(path, o).close();
  for (const format::root& r : roots_of(path)) EXPECT_EQ(0, std::memcmp(r.hash_seed, seeded.hash_seed, 16));
}

}  // namespace
}  // namespace icecore::testing

// An index next to a std::map of the same keys: every function of ordered_index must agree with the map.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "key_table.hpp"

namespace icecore::index {

/// Where a key comes in an index's order, among all keys; keys with equal places are in their own order.
using place_function = std::uint64_t (*)(std::string_view key);

/// The order of an index: that of the keys, unless it has places for them.
struct index_order {
  using is_transparent = void;
  place_function place = nullptr;

  [[nodiscard]] bool operator()(std::string_view a, std::string_view b) const {
    if (place != nullptr && place(a) != place(b)) return place(a) < place(b);
    return a < b;
  }
};

using model = std::map<std::string, link, index_order>;
using keys = std::vector<std::string>;

/// Keys close to `key`, which are often not in the tree.
inline keys neighbours(const std::string& key) {
  keys near{key, key + '\0', key + '\xff'};
  if (!key.empty()) {
    near.push_back(key.substr(0, key.size() - 1));
    for (const int step : {-1, 1}) {
      near.push_back(key);
      near.back().back() = static_cast<char>(near.back().back() + step);
    }
  }
  return near;
}

/// About `count` of the model's keys and their neighbours, and some that are greater than all.
inline keys probes(const model& m, std::size_t count) {
  keys result{"", std::string(1, '\0'), std::string(9, '\xff'), "m", std::string(70'000, 'z')};
  const std::size_t step = m.size() / count + 1;
  std::size_t i = 0;
  for (const auto& item : m) {
    if (i++ % step == 0) std::ranges::move(neighbours(item.first), std::back_inserter(result));
  }
  return result;
}

inline link in_model(const model& m, std::string_view key) {
  const auto found = m.find(key);
  return found == m.end() ? null_link : found->second;
}

inline void expect_finds(const ordered_index& tree, const model& m) {
  for (const auto& [key, entry] : m) ASSERT_EQ(tree.find(key), entry);
  const keys probed = probes(m, 500);
  const std::vector<std::string_view> views(probed.begin(), probed.end());
  std::vector<link> found(views.size(), 1);
  tree.find_many(views, found);
  for (std::size_t i = 0; i < probed.size(); ++i) {
    ASSERT_EQ(tree.find(probed[i]), in_model(m, probed[i]));
    ASSERT_EQ(found[i], in_model(m, probed[i]));
  }
}

/// Walks forward from block `b`, which must begin at `at` and cover everything behind it.
inline void expect_walk(const ordered_index& tree, block b, const model& m, model::const_iterator at) {
  for (;;) {
    for (std::size_t i = 0; i < b.size; ++i, ++at) {
      ASSERT_NE(at, m.end());
      ASSERT_EQ(b.entries[i], at->second);
    }
    if (!tree.next_block(b)) break;
    ASSERT_GT(b.size, 0U);
  }
  EXPECT_EQ(b.size, 0U);
  EXPECT_EQ(at, m.end());
}

inline void expect_walks(const ordered_index& tree, const key_source& source, const model& m) {
  block b;
  tree.seek_first(b);
  expect_walk(tree, b, m, m.begin());

  // backward
  tree.seek_last(b);
  auto behind = m.end();
  for (bool more = b.size != 0; more; more = tree.block_before(source.key_of(b.entries[0]), b)) {
    ASSERT_GT(b.size, 0U);
    for (std::size_t i = b.size; i > 0; --i) {
      ASSERT_NE(behind, m.begin());
      ASSERT_EQ(b.entries[i - 1], (--behind)->second);
    }
  }
  EXPECT_EQ(b.size, 0U);
  EXPECT_EQ(behind, m.begin());
}

inline void expect_seeks(const ordered_index& tree, const model& m) {
  std::size_t i = 0;
  for (const std::string& key : probes(m, 200)) {
    block b;
    tree.seek(key, b);
    const auto bound = m.lower_bound(key);
    ASSERT_EQ(b.size == 0, bound == m.end());
    if (b.size != 0) {
      ASSERT_EQ(b.entries[0], bound->second);
    }
    if (i % 50 == 0) expect_walk(tree, b, m, bound);

    ASSERT_EQ(tree.block_before(key, b), bound != m.begin());
    ASSERT_EQ(b.size == 0, bound == m.begin());
    if (b.size != 0) {
      ASSERT_EQ(b.entries[b.size - 1], std::prev(bound)->second);
      // and forward again from its end, without gap or overlap, using only `next`
      block on;
      on.next = b.next;
      const bool more = tree.next_block(on);
      ASSERT_EQ(more, bound != m.end());
      if (more) {
        ASSERT_EQ(on.entries[0], bound->second);
      }
      if (i % 50 == 0) expect_walk(tree, on, m, bound);
    }
    ++i;
  }
}

inline void expect_split_points(const ordered_index& tree, const key_source& source, const model& m) {
  for (const std::size_t count : {0U, 1U, 3U, 7U, 100U}) {
    const std::vector<link> points = tree.split_points(count);
    ASSERT_LE(points.size(), count);
    ASSERT_EQ(points.size(), std::min<std::size_t>(count, m.size()));
    std::size_t largest = 0;
    auto before = m.begin();
    for (const link point : points) {
      const auto at = m.find(source.key_of(point));
      ASSERT_NE(at, m.end());
      ASSERT_EQ(at->second, point);
      const auto part = std::distance(before, at);
      ASSERT_GE(part, 0);
      if (point != points.front()) {
        ASSERT_GT(part, 0);
      }
      largest = std::max(largest, static_cast<std::size_t>(part));
      before = at;
    }
    largest = std::max(largest, static_cast<std::size_t>(std::distance(before, m.end())));
    if (count > 0 && m.size() > 1000) {
      EXPECT_LE(largest, 3 * m.size() / (count + 1) + 64) << "of " << m.size();
    }
  }
}

inline void expect_agrees(const ordered_index& tree, const key_source& source, const model& m) {
  EXPECT_THAT(tree.check(), testing::IsEmpty());
  EXPECT_EQ(tree.size(), m.size());
  expect_finds(tree, m);
  expect_walks(tree, source, m);
  expect_seeks(tree, m);
  expect_split_points(tree, source, m);
}

inline keys random_integers() {
  std::mt19937_64 random(1);
  keys all(20'000);
  for (auto& key : all) key = big_endian(random());
  return all;
}

}  // namespace icecore::index

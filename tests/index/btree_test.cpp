// The B+-tree against a std::map, for keys and orders that are hard on heads, prefixes and splits.
#include "index/btree/btree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "key_table.hpp"

namespace icecore::index {
namespace {

using model = std::map<std::string, link, std::less<>>;
using keys = std::vector<std::string>;

// ---- Comparing the tree with the model -----------------------------------------------------------------------------

/// Keys just beside `key`, which are often not in the tree.
keys neighbours(const std::string& key) {
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

/// About `count` of the model's keys and their neighbours, and some that are beyond all.
keys probes(const model& m, std::size_t count) {
  keys result{"", std::string(1, '\0'), std::string(9, '\xff'), "m", std::string(70'000, 'z')};
  const std::size_t step = m.size() / count + 1;
  std::size_t i = 0;
  for (const auto& item : m) {
    if (i++ % step == 0) std::ranges::move(neighbours(item.first), std::back_inserter(result));
  }
  return result;
}

link in_model(const model& m, std::string_view key) {
  const auto found = m.find(key);
  return found == m.end() ? null_link : found->second;
}

void expect_finds(const ordered_index& tree, const model& m) {
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
void expect_walk(const ordered_index& tree, block b, const model& m, model::const_iterator at) {
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

void expect_walks(const ordered_index& tree, const key_source& source, const model& m) {
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

void expect_seeks(const ordered_index& tree, const model& m) {
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
      // and from its end forward again, without gap or overlap, even by `next` alone
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

void expect_split_points(const ordered_index& tree, const key_source& source, const model& m) {
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

void expect_agrees(const ordered_index& tree, const key_source& source, const model& m) {
  EXPECT_THAT(tree.check(), testing::IsEmpty());
  EXPECT_EQ(tree.size(), m.size());
  expect_finds(tree, m);
  expect_walks(tree, source, m);
  expect_seeks(tree, m);
  expect_split_points(tree, source, m);
}

// ---- Keys ----------------------------------------------------------------------------------------------------------

keys random_integers() {
  std::mt19937_64 random(1);
  keys all(20'000);
  for (auto& key : all) key = big_endian(random());
  return all;
}

keys close_integers() {
  keys all;
  for (std::uint64_t i = 0; i < 20'000; ++i) all.push_back(big_endian(i * 3));
  return all;
}

/// Few different bytes, the extreme ones among them: heads tie, padding matters.
keys short_keys() {
  std::mt19937_64 random(2);
  keys all{""};
  for (int i = 0; i < 20'000; ++i) {
    std::string key(random() % 12, '\0');
    for (char& c : key) c = std::string_view("\0\1\xff", 3)[random() % 3];
    all.push_back(key);
  }
  return all;
}

/// Each a prefix of the next: "", "a", "aa", ...
keys prefixes_of_each_other(char c) {
  keys all;
  for (std::size_t size = 0; size < 1500; ++size) all.emplace_back(size, c);
  return all;
}

keys paths() {
  std::mt19937_64 random(3);
  keys all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back("models/resnet/layer" + std::to_string(random() % 50) + "/block" + std::to_string(random() % 7) +
                  "/weights/" + std::to_string(random() % 100));
  }
  return all;
}

/// As long as keys can be, different only at the end.
keys long_keys() {
  keys all;
  for (std::size_t i = 0; i < 300; ++i) {
    std::string key(65'535 - i % 3, 'k');
    const std::string number = std::to_string(i);
    key.replace(65'500, number.size(), number);
    all.push_back(key);
  }
  return all;
}

/// Long common prefixes first, then keys that lack them, shorter and shorter: prefixes must shrink again.
keys outsiders() {
  keys all;
  for (std::size_t shared = 40; shared > 0; --shared) {
    for (std::size_t i = 0; i < 100; ++i) {
      all.push_back(std::string(shared, 'p') + (i % 2 == 0 ? "a" : "z") + std::to_string(i * i));
    }
  }
  return all;
}

struct key_set {
  const char* name;
  std::function<keys()> make;
};

const key_set key_sets[] = {
    {"random_integers", random_integers},
    {"close_integers", close_integers},
    {"short_keys", short_keys},
    {"prefixes", [] { return prefixes_of_each_other('a'); }},
    {"zeros", [] { return prefixes_of_each_other('\0'); }},
    {"ones", [] { return prefixes_of_each_other('\xff'); }},
    {"paths", paths},
    {"long_keys", long_keys},
    {"outsiders", outsiders},
};

enum class order { as_they_come, ascending, descending, shuffled };

class btree_of : public testing::TestWithParam<std::tuple<key_set, order>> {
 protected:
  [[nodiscard]] static keys ordered_keys() {
    keys all = std::get<0>(GetParam()).make();
    switch (std::get<1>(GetParam())) {
      case order::as_they_come:
        break;
      case order::ascending:
        std::ranges::sort(all);
        break;
      case order::descending:
        std::ranges::sort(all, std::greater<>());
        break;
      case order::shuffled:
        std::ranges::shuffle(all, std::mt19937_64(7));
        break;
    }
    return all;
  }
};

TEST_P(btree_of, inserted_keys_agrees_with_a_map) {
  const keys all = ordered_keys();
  key_table table(all.size());
  const auto tree = make_btree(table);
  model m;
  std::size_t next_look = 1;
  for (const std::string& key : all) {
    const link entry = table.add(key);
    const link there = m.try_emplace(key, entry).first->second;
    ASSERT_EQ(tree->insert(key, entry), there);
    if (m.size() == next_look) {  // at small sizes too: one leaf, the first split, the first inner split
      ASSERT_NO_FATAL_FAILURE(expect_agrees(*tree, table, m));
      next_look = next_look * 3 + 1;
    }
  }
  expect_agrees(*tree, table, m);
}

TEST_P(btree_of, built_keys_agrees_with_a_map_and_takes_inserts) {
  const keys all = ordered_keys();
  key_table table(all.size());
  model m;
  for (std::size_t i = 0; i < all.size() / 2; ++i) {
    if (!m.contains(all[i])) m.emplace(all[i], table.add(all[i]));
  }
  std::vector<link> sorted;
  for (const auto& item : m) sorted.push_back(item.second);
  const auto tree = make_btree(table);
  tree->build(sorted, 3);
  expect_agrees(*tree, table, m);
  for (std::size_t i = all.size() / 2; i < all.size(); ++i) {
    const link entry = table.add(all[i]);
    ASSERT_EQ(tree->insert(all[i], entry), m.try_emplace(all[i], entry).first->second);
  }
  expect_agrees(*tree, table, m);
}

std::string name_of(const testing::TestParamInfo<std::tuple<key_set, order>>& instance) {
  constexpr const char* orders[] = {"as_they_come", "ascending", "descending", "shuffled"};
  return std::string(std::get<0>(instance.param).name) + "_" + orders[static_cast<int>(std::get<1>(instance.param))];
}

INSTANTIATE_TEST_SUITE_P(all, btree_of,
                         testing::Combine(testing::ValuesIn(key_sets),
                                          testing::Values(order::as_they_come, order::ascending, order::descending,
                                                          order::shuffled)),
                         name_of);

RC_GTEST_PROP(btree, agrees_with_a_map_on_any_keys, ()) {
  // Few letters and common beginnings, so that keys meet.
  const auto letter = rc::gen::element('\0', '\1', 'a', '\xff');
  const auto tail = rc::gen::container<std::string>(letter);
  const auto beginning = rc::gen::element<std::string>("", "a", std::string(8, 'a'), std::string(20, '\0'));
  const auto key = rc::gen::map(rc::gen::pair(beginning, tail), [](const auto& p) { return p.first + p.second; });
  const auto all = *rc::gen::scale(4.0, rc::gen::container<keys>(key));
  key_table table(all.size() + 1);
  const auto tree = make_btree(table);
  model m;
  for (const std::string& k : all) {
    const link entry = table.add(k);
    RC_ASSERT(tree->insert(k, entry) == m.try_emplace(k, entry).first->second);
  }
  expect_agrees(*tree, table, m);
  RC_ASSERT(!testing::Test::HasFailure());
}

// ---- Single promises -----------------------------------------------------------------------------------------------

TEST(btree, empty_has_nothing) {
  key_table table(1);
  const auto tree = make_btree(table);
  tree->build({}, 2);
  expect_agrees(*tree, table, {});
}

TEST(btree, key_and_key_with_zero_behind_are_two) {
  key_table table(3);
  const auto tree = make_btree(table);
  const std::string zero(1, '\0');
  const link a0 = table.add("a" + zero);
  const link a = table.add("a");
  const link a00 = table.add("a" + zero + zero);
  EXPECT_EQ(tree->insert("a" + zero, a0), a0);
  EXPECT_EQ(tree->find("a"), null_link);
  EXPECT_EQ(tree->insert("a", a), a);
  EXPECT_EQ(tree->insert("a" + zero + zero, a00), a00);
  block b;
  tree->seek_first(b);
  EXPECT_THAT(std::vector(b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size)),
              testing::ElementsAre(a, a0, a00));
}

/// Links over the room there is for them in all blocks.
double fill_of(const ordered_index& tree) {
  block b;
  std::size_t blocks = 0;
  std::size_t links = 0;
  tree.seek_first(b);
  do {
    ++blocks;
    links += b.size;
  } while (tree.next_block(b));
  return static_cast<double>(links) / static_cast<double>(blocks * slot_count);
}

double fill_after_inserting(const keys& all) {
  key_table table(all.size());
  const auto tree = make_btree(table);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  return fill_of(*tree);
}

TEST(btree, ascending_and_descending_inserts_leave_full_leaves) {
  keys all;
  for (std::uint64_t i = 0; i < 20'000; ++i) all.push_back(big_endian(i));
  EXPECT_GT(fill_after_inserting(all), 0.98);
  std::ranges::reverse(all);
  EXPECT_GT(fill_after_inserting(all), 0.95);
}

TEST(btree, streams_that_ascend_side_by_side_leave_full_leaves) {
  keys all;
  for (std::uint64_t i = 0; i < 10'000; ++i) all.push_back("b/" + big_endian(i));
  for (std::uint64_t i = 0; i < 10'000; ++i) all.push_back("a/" + big_endian(i));
  EXPECT_GT(fill_after_inserting(all), 0.95);
}

TEST(btree, random_inserts_fill_leaves_by_two_thirds) {
  EXPECT_NEAR(fill_after_inserting(random_integers()), 0.69, 0.05);
}

/// Counts how often keys are read.
class counting_keys final : public key_source {
 public:
  explicit counting_keys(const key_source& source) : source_(source) {}
  [[nodiscard]] std::string_view key_of(link entry) const noexcept override {
    ++reads;
    return source_.key_of(entry);
  }
  void prefetch(link entry) const noexcept override { source_.prefetch(entry); }

  mutable std::size_t reads = 0;

 private:
  const key_source& source_;
};

TEST(btree, integer_keys_are_told_apart_by_their_heads) {
  const keys all = random_integers();
  key_table table(all.size());
  const counting_keys counted(table);
  const auto tree = make_btree(counted);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  EXPECT_LT(counted.reads, all.size() / 20);
  counted.reads = 0;
  for (const std::string& key : all) {
    ASSERT_NE(tree->find(key), null_link);
    (void)tree->find(key.substr(0, 7) + static_cast<char>(key[7] ^ 1));
  }
  EXPECT_EQ(counted.reads, 0U);
}

TEST(btree, integer_keys_and_keys_of_other_sizes_live_together) {
  keys all;
  for (std::uint64_t i = 0; i < 5000; ++i) all.push_back(big_endian(i << 8));  // the last byte is zero, like padding
  key_table table(3 * all.size());
  const auto tree = make_btree(table);
  model m;
  const auto insert = [&](const std::string& key) {
    ASSERT_EQ(tree->find(key), null_link);
    m[key] = table.add(key);
    ASSERT_EQ(tree->insert(key, m[key]), m[key]);
  };
  for (const std::string& key : all) ASSERT_NO_FATAL_FAILURE(insert(key));
  expect_agrees(*tree, table, m);
  for (const std::string& key : all) ASSERT_NO_FATAL_FAILURE(insert(key.substr(0, 7)));
  for (const std::string& key : all) ASSERT_NO_FATAL_FAILURE(insert(key + '\0'));
  expect_agrees(*tree, table, m);
}

TEST(btree, shared_prefixes_are_left_out_of_heads) {
  keys all;
  for (int i = 0; i < 20'000; ++i) all.push_back("some/long/prefix/of/all/" + std::to_string(1'000'000 + i));
  std::ranges::shuffle(all, std::mt19937_64(5));
  key_table table(all.size());
  const counting_keys counted(table);
  const auto tree = make_btree(counted);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  counted.reads = 0;
  for (const std::string& key : all) ASSERT_NE(tree->find(key), null_link);
  // the key found itself, and the prefix of open nodes: the root on every way, the edges on few
  EXPECT_LT(counted.reads, all.size() * 5 / 2);
}

TEST(btree, a_small_one_takes_little_memory) {
  key_table table(1000);
  const auto tree = make_btree(table);
  EXPECT_LE(tree->memory_bytes(), 4096U);
  for (std::uint64_t i = 0; i < 1000; ++i) (void)tree->insert(big_endian(i), table.add(big_endian(i)));
  EXPECT_LE(tree->memory_bytes(), 1000U * 22);
}

TEST(btree, that_gets_no_memory_throws_and_is_unharmed) {
  const keys all = random_integers();
  key_table table(all.size());
  const auto tree = make_btree(table, {.huge_pages = false, .size_max_bytes = 150'000});
  model m;
  std::size_t refused = 0;
  for (const std::string& key : all) {
    const link entry = table.add(key);
    try {
      ASSERT_EQ(tree->insert(key, entry), entry);
      m.emplace(key, entry);
    } catch (const std::bad_alloc&) {
      ++refused;
      ASSERT_EQ(tree->find(key), null_link);
    }
  }
  EXPECT_GT(refused, all.size() / 2);
  EXPECT_GT(m.size(), 5000U);
  expect_agrees(*tree, table, m);

  std::vector<link> sorted;
  for (const auto& item : m) sorted.push_back(item.second);
  const auto small = make_btree(table, {.huge_pages = false, .size_max_bytes = 50'000});
  EXPECT_THROW(small->build(sorted, 2), std::bad_alloc);
  expect_agrees(*small, table, {});
  EXPECT_EQ(small->insert(m.begin()->first, sorted[0]), sorted[0]);
}

}  // namespace
}  // namespace icecore::index

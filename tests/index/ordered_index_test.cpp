// Every index against a std::map, for keys and orders that are difficult for heads, prefixes, splits and towers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "index_model.hpp"
#include "indexes.hpp"

namespace icecore::index {
namespace {

// ---- Keys ----------------------------------------------------------------------------------------------------------

keys close_integers() {
  keys all;
  for (std::uint64_t i = 0; i < 20'000; ++i) all.push_back(big_endian(i * 3));
  return all;
}

/// Few different bytes, the extreme ones among them: heads are often equal, and padding matters.
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

/// First long common prefixes, then ever shorter keys without them: prefixes must shrink again.
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

class an_index_of : public testing::TestWithParam<std::tuple<index_under_test, key_set, order>> {
 protected:
  [[nodiscard]] static std::unique_ptr<ordered_index> make(const key_source& source) {
    return std::get<0>(GetParam()).make(source, {});
  }
  [[nodiscard]] static model empty_model() { return model({std::get<0>(GetParam()).place}); }
  [[nodiscard]] static keys ordered_keys() {
    keys all = std::get<1>(GetParam()).make();
    if (const std::size_t sparser = std::get<0>(GetParam()).sparser; all.size() > 100 && sparser > 1) {
      std::ranges::shuffle(all, std::mt19937_64(5));
      all.resize(all.size() / sparser);
    }
    switch (std::get<2>(GetParam())) {
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

TEST_P(an_index_of, inserted_keys_agrees_with_a_map) {
  const keys all = ordered_keys();
  key_table table(all.size());
  const auto tree = make(table);
  model m = empty_model();
  std::size_t next_look = 1;
  for (const std::string& key : all) {
    const link entry = table.add(key);
    const link there = m.try_emplace(key, entry).first->second;
    ASSERT_EQ(tree->insert(key, entry), there);
    if (m.size() == next_look) {  // also at small sizes: one leaf, the first split, the first inner split
      ASSERT_NO_FATAL_FAILURE(expect_agrees(*tree, table, m));
      next_look = next_look * 3 + 1;
    }
  }
  expect_agrees(*tree, table, m);
}

TEST_P(an_index_of, built_keys_agrees_with_a_map_and_takes_inserts) {
  const keys all = ordered_keys();
  key_table table(all.size());
  model m = empty_model();
  for (std::size_t i = 0; i < all.size() / 2; ++i) {
    if (!m.contains(all[i])) m.emplace(all[i], table.add(all[i]));
  }
  std::vector<link> sorted;
  for (const auto& item : m) sorted.push_back(item.second);
  const auto tree = make(table);
  tree->build(sorted, 3);
  expect_agrees(*tree, table, m);
  for (std::size_t i = all.size() / 2; i < all.size(); ++i) {
    const link entry = table.add(all[i]);
    ASSERT_EQ(tree->insert(all[i], entry), m.try_emplace(all[i], entry).first->second);
  }
  expect_agrees(*tree, table, m);
}

std::string name_of(const testing::TestParamInfo<std::tuple<index_under_test, key_set, order>>& instance) {
  constexpr const char* orders[] = {"as_they_come", "ascending", "descending", "shuffled"};
  const auto& [of, keys_used, in_order] = instance.param;
  return std::string(of.name) + "_" + keys_used.name + "_" + orders[static_cast<int>(in_order)];
}

INSTANTIATE_TEST_SUITE_P(all, an_index_of,
                         testing::Combine(testing::ValuesIn(indexes), testing::ValuesIn(key_sets),
                                          testing::Values(order::as_they_come, order::ascending, order::descending,
                                                          order::shuffled)),
                         name_of);

RC_GTEST_PROP(an_index, agrees_with_a_map_on_any_keys, ()) {
  // Few letters and common beginnings, so that the same key occurs several times.
  const auto letter = rc::gen::element('\0', '\1', 'a', '\xff');
  const auto tail = rc::gen::container<std::string>(letter);
  const auto beginning = rc::gen::element<std::string>("", "a", std::string(8, 'a'), std::string(20, '\0'));
  const auto key = rc::gen::map(rc::gen::pair(beginning, tail), [](const auto& p) { return p.first + p.second; });
  const auto all = *rc::gen::scale(4.0, rc::gen::container<keys>(key));
  key_table table(all.size() + 1);
  const auto kind = *rc::gen::elementOf(std::vector<index_under_test>(std::begin(indexes), std::end(indexes)));
  const auto tree = kind.make(table, {});
  model m({kind.place});
  for (const std::string& k : all) {
    const link entry = table.add(k);
    RC_ASSERT(tree->insert(k, entry) == m.try_emplace(k, entry).first->second);
  }
  expect_agrees(*tree, table, m);
  RC_ASSERT(!testing::Test::HasFailure());
}

// ---- Single promises -----------------------------------------------------------------------------------------------

class an_index : public testing::TestWithParam<index_under_test> {};

TEST_P(an_index, empty_has_nothing) {
  key_table table(1);
  const auto tree = GetParam().make(table, {});
  tree->build({}, 2);
  expect_agrees(*tree, table, model({GetParam().place}));
}

TEST_P(an_index, key_and_key_with_zero_behind_are_two) {
  key_table table(3);
  const auto tree = GetParam().make(table, {});
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
  const std::vector all(b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size));
  EXPECT_THAT(all, testing::UnorderedElementsAre(a, a0, a00));
  if (tree->orders_keys()) {
    EXPECT_THAT(all, testing::ElementsAre(a, a0, a00));
  }
}

TEST_P(an_index, integer_keys_and_keys_of_other_sizes_live_together) {
  keys all;
  for (std::uint64_t i = 0; i < 5000 / GetParam().sparser; ++i)
    all.push_back(big_endian(i << 8));  // the last byte is zero, like padding
  key_table table(3 * all.size());
  const auto tree = GetParam().make(table, {});
  model m({GetParam().place});
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

TEST_P(an_index, that_gets_no_memory_throws_and_is_unharmed) {
  const keys all = random_integers();
  key_table table(all.size());
  const auto tree = GetParam().make(table, {.huge_pages = false, .size_max_bytes = 150'000});
  model m({GetParam().place});
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
  EXPECT_GT(m.size(), 2000U);
  expect_agrees(*tree, table, m);

  std::vector<link> sorted;
  for (const auto& item : m) sorted.push_back(item.second);
  const auto small = GetParam().make(table, {.huge_pages = false, .size_max_bytes = 50'000});
  EXPECT_THROW(small->build(sorted, 2), std::bad_alloc);
  expect_agrees(*small, table, model({GetParam().place}));
  EXPECT_EQ(small->insert(m.begin()->first, sorted[0]), sorted[0]);
}

INSTANTIATE_TEST_SUITE_P(all, an_index, testing::ValuesIn(indexes), index_name);

}  // namespace
}  // namespace icecore::index

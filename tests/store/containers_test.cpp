// Containers with types and names: several share a store, its versions, tags and batches, and none sees another's keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

struct order {
  std::uint32_t count;
  float price;
  friend bool operator==(const order&, const order&) = default;
};

std::string name_of(index_kind index) { return setting{place::tmpfs, durability::none, index}.name(); }

template <class Range>
[[nodiscard]] std::vector<std::uint32_t> keys_of(Range range) {
  std::vector<std::uint32_t> keys;
  for (const auto& item : range) keys.push_back(item.key);
  return keys;
}

class Containers : public ::testing::TestWithParam<index_kind> {
 protected:
  [[nodiscard]] options opening() const {
    options o;
    o.index = GetParam();
    return o;
  }
  scratch folder_{place::tmpfs};
  store store_{folder_ / "containers.ice", opening()};
};

TEST_P(Containers, of_different_names_do_not_meet) {
  map<std::uint32_t, order> orders(store_, "orders");
  map<std::uint32_t, std::string> other(store_, "orders2");
  map<std::string, std::uint32_t> names(store_, "order");
  set<std::uint32_t> paid(store_, "p");
  for (const std::uint32_t id : {7U, 1U, 300U}) orders.insert(id, {id, 0.5F});
  other.insert(7, "another seven");
  names.insert("", 0);
  names.insert("s", 1);
  EXPECT_TRUE(paid.insert(7));
  EXPECT_FALSE(paid.insert(7)) << "it is there";
  const version v = store_.tag("first");
  EXPECT_TRUE(orders.remove(1));
  EXPECT_TRUE(paid.remove(7));
  EXPECT_FALSE(paid.remove(7));
  orders.insert(8, {8, 1});

  EXPECT_EQ(orders.name(), "orders");
  EXPECT_EQ(orders.find(7), (order{7, 0.5F}));
  EXPECT_EQ(orders.find(1), std::nullopt);
  EXPECT_EQ(orders.find(1, v), (order{1, 0.5F}));
  EXPECT_FALSE(other.contains(1, v));
  EXPECT_TRUE(paid.contains(7, v));
  EXPECT_FALSE(paid.contains(7));
  EXPECT_EQ(orders.history_oldest_first(1).size(), 2U);

  const auto then = orders.at("first");
  EXPECT_THAT(keys_of(then.range()), ElementsAre(1, 7, 300));
  EXPECT_THAT(keys_of(then.range().reversed()), ElementsAre(300, 7, 1));
  EXPECT_THAT(keys_of(then.range(2, 300)), ElementsAre(7));
  EXPECT_THAT(keys_of(then.range(std::nullopt, 7)), ElementsAre(1));
  EXPECT_THAT(keys_of(then.range(8, std::nullopt)), ElementsAre(300));
  EXPECT_EQ(then.first()->key, 1U);
  EXPECT_EQ(then.last()->key, 300U);
  EXPECT_EQ(then.lower_bound(8)->key, 300U);
  EXPECT_EQ(then.upper_bound(7)->key, 300U);
  EXPECT_EQ(then.upper_bound(300), std::nullopt) << "what comes behind is another container's";
  EXPECT_EQ(then.size(), 3U);
  EXPECT_EQ(names.at(v).size(2), 2U);
  std::vector<std::uint32_t> visited;
  then.for_each(
      [&](std::uint32_t key, const order& value) {
        EXPECT_EQ(value.count, key);
        visited.push_back(key);
      },
      1);
  EXPECT_THAT(visited, UnorderedElementsAre(1, 7, 300));
  EXPECT_EQ(then.columns().keys, (std::vector<std::uint32_t>{1, 7, 300}));
  std::vector<std::uint32_t> few(2);
  expect_error(errc::invalid_argument, "room for 2", [&] { then.extract(few, {}); });
  const std::vector<std::uint32_t> wanted{300, 5, 7};
  std::vector<std::optional<order>> found(3);
  then.find_many(wanted, found);
  EXPECT_THAT(found, ElementsAre(order{300, 0.5F}, std::nullopt, order{7, 0.5F}));
  orders.find_many(wanted, v, found);
  EXPECT_EQ(found[2], (order{7, 0.5F}));

  std::vector<std::uint32_t> changed;
  store_.tag();
  for (const auto& d : orders.diff(v, v + 1)) changed.push_back(d.key);
  EXPECT_THAT(changed, ElementsAre(1, 8));
  std::vector<std::uint32_t> in_set;
  for (const std::uint32_t key : paid.at(v).range()) in_set.push_back(key);
  EXPECT_THAT(in_set, ElementsAre(7));
  EXPECT_EQ(paid.latest().size(), 0U);
}

TEST_P(Containers, share_batches) {
  map<std::string, std::int64_t> balances(store_, "balances");
  set<std::string> closed(store_, "closed");
  batch both;
  balances.insert(both, "alice", 10);
  balances.insert_new(both, "bob", 20);
  closed.insert(both, "carol");
  const version v = *store_.apply_if(both);
  EXPECT_EQ(balances.find("alice"), 10);
  EXPECT_TRUE(closed.contains("carol"));
  batch again;
  balances.replace(again, "alice", 11, v);
  closed.insert_new(again, "carol");
  EXPECT_EQ(store_.apply_if(again), std::nullopt);
  EXPECT_EQ(balances.find("alice"), 10);
  batch last;
  closed.remove(last, "carol");
  balances.remove(last, "alice");
  store_.apply(last);
  EXPECT_FALSE(closed.contains("carol"));

  map<std::string, std::int64_t>::batch own;  // names no container
  own.insert_new("dave", 1);
  own.replace("bob", 21, v);
  own.insert("erin", 2);
  own.remove("alice");
  EXPECT_TRUE(balances.apply_if(own));
  EXPECT_EQ(balances.find("dave"), 1);
  EXPECT_EQ(balances.find("bob"), 21);
  EXPECT_EQ(balances.apply_if(own), std::nullopt);
  own.clear();
  own.insert("erin", 3);
  balances.apply(own);
  EXPECT_EQ(balances.find("erin"), 3);
  EXPECT_EQ(balances.insert_new("erin", 4), std::nullopt);
  EXPECT_TRUE(balances.replace("erin", 4, v));
  EXPECT_EQ(store_.find(std::string("\x08", 1) + "balanceserin").has_value(), true) << "a format to rely on";
}

TEST_P(Containers, a_hash_map_has_all_but_an_order) {
  hash_map<std::string, std::string> words(store_, "words");
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "word " + std::to_string(i * 7919 % 1000);
    words.insert(key, expected[key] = std::to_string(i));
  }
  EXPECT_EQ(words.insert_new("word 0", "no"), std::nullopt);
  EXPECT_EQ(words.find("word 0"), "0");
  const auto now = words.latest();
  EXPECT_EQ(now.size(), expected.size());
  std::map<std::string, std::string> visited;
  now.for_each([&](std::string_view key, std::string_view value) { visited.emplace(key, value); }, 1);
  EXPECT_EQ(visited, expected);
  std::vector<std::string> sorted;
  for (const auto& [key, value] : now.sorted().range()) sorted.emplace_back(key);
  EXPECT_TRUE(std::ranges::equal(sorted, expected, {}, {}, [](const auto& item) { return item.first; }));
}

TEST_P(Containers, a_list_is_a_map) {
  list<int, int> numbers(store_, "numbers");
  for (const int i : {3, -1, 2}) numbers.insert(i, -i);
  std::vector<int> keys;
  for (const auto& item : numbers.latest().range()) keys.push_back(item.key);
  EXPECT_THAT(keys, ElementsAre(-1, 2, 3));
}

TEST_P(Containers, without_a_name_is_the_whole_store) {
  set<std::string> all(store_);
  all.insert("b");
  all.insert("a");
  EXPECT_EQ(all.name(), "");
  EXPECT_TRUE(store_.contains("a"));
  std::vector<std::string> keys;
  const auto now = all.latest();
  for (const std::string_view key : now.range("a", "b")) keys.emplace_back(key);
  EXPECT_THAT(keys, ElementsAre("a"));
  std::size_t visited = 0;
  now.for_each([&](std::string_view) { ++visited; }, 1);
  EXPECT_EQ(visited, 2U);
}

TEST_P(Containers, have_names_of_1_to_255_bytes) {
  expect_error(errc::invalid_argument, "0 bytes", [&] { map<int, int>(store_, ""); });
  const std::string longest(255, '\xff');
  expect_error(errc::invalid_argument, "256 bytes", [&] { set<int>(store_, longest + "x"); });
  map<int, int> far(store_, longest);
  far.insert(1, 2);
  const auto now = far.latest();
  EXPECT_EQ(now.last()->key, 1) << "no prefix is greater";
  EXPECT_EQ(now.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Containers, ::testing::Values(index_kind::btree, index_kind::list, index_kind::hash),
                         [](const auto& tested) { return name_of(tested.param); });

static_assert(list<int, int>::index == index_kind::list && hash_map<int, int>::index == index_kind::hash);

}  // namespace
}  // namespace icecore::testing

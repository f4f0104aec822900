// Every index used by several threads: what index.hpp promises as X1 to X3, while nodes are split and towers linked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "indexes.hpp"
#include "key_table.hpp"

namespace icecore::index {
namespace {

constexpr std::size_t thread_count = 8;

/// Runs body(t) in `thread_count` threads that start together.
template <class Body>
void in_threads(const Body& body) {
  std::barrier start(thread_count);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      body(t);
    });
  }
}

enum class pattern { random, ascending, descending, paths };

std::string key_of_number(pattern kind, std::uint64_t i) {
  switch (kind) {
    case pattern::random:
      return big_endian(i * 0x9E3779B97F4A7C15U);
    case pattern::ascending:
      return big_endian(i);
    case pattern::descending:
      return big_endian(~i);
    case pattern::paths:
      return "store/of/paths/" + std::to_string(i * 0x9E3779B97F4A7C15U % 1000) + "/" + std::to_string(i);
  }
  return {};
}

std::vector<link> all_links(const ordered_index& tree) {
  std::vector<link> all;
  block b;
  tree.seek_first(b);
  do {
    all.insert(all.end(), b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size));
  } while (tree.next_block(b));
  return all;
}

class an_index_with_threads : public testing::TestWithParam<std::tuple<index_under_test, pattern>> {
 protected:
  [[nodiscard]] static std::unique_ptr<ordered_index> make(const key_source& source, arena_options options = {}) {
    return std::get<0>(GetParam()).make(source, options);
  }
  [[nodiscard]] static pattern keys_pattern() { return std::get<1>(GetParam()); }
  /// So many keys, or fewer if more take too long.
  [[nodiscard]] static std::size_t at_most(std::size_t keys) { return keys / std::get<0>(GetParam()).sparser; }
  [[nodiscard]] static index_order order() { return {std::get<0>(GetParam()).place}; }
};

TEST_P(an_index_with_threads, each_key_gets_one_entry_whoever_inserts_it) {
  const std::size_t keys = at_most(6000);
  key_table table(keys * thread_count);
  const auto tree = make(table);
  std::vector<std::vector<link>> got(thread_count, std::vector<link>(keys));
  std::atomic<std::size_t> won{0};
  in_threads([&](std::size_t t) {
    for (std::size_t i = 0; i < keys; ++i) {
      const std::string key = key_of_number(keys_pattern(), i);
      const link mine = table.add(key);
      got[t][i] = tree->insert(key, mine);
      if (got[t][i] == mine) won.fetch_add(1);
    }
  });
  EXPECT_EQ(won, keys);
  for (std::size_t t = 1; t < thread_count; ++t) EXPECT_EQ(got[t], got[0]);
  EXPECT_EQ(tree->size(), keys);
  EXPECT_THAT(tree->check(), testing::IsEmpty());
  EXPECT_EQ(all_links(*tree).size(), keys);
}

/// Half of the threads insert, each its own keys; `inserted[t]` says how many keys of thread t are certainly inserted.
class writers {
 public:
  static constexpr std::size_t count = thread_count / 2;

  writers(ordered_index& tree, key_table& table, pattern kind, std::size_t each)
      : tree_(tree), table_(table), kind_(kind), each_(each), links_(count * each) {}

  [[nodiscard]] std::size_t number(std::size_t writer, std::size_t i) const { return i * count + writer; }

  void write(std::size_t writer) {
    for (std::size_t i = 0; i < each_; ++i) {
      const std::string key = key_of_number(kind_, number(writer, i));
      const link entry = table_.add(key);
      links_[number(writer, i)] = entry;
      EXPECT_EQ(tree_.insert(key, entry), entry);
      inserted_[writer].store(i + 1, std::memory_order_release);  // X2 is about finds that start after the insert
    }
  }

  [[nodiscard]] std::size_t inserted(std::size_t writer) const {
    return inserted_[writer].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool done() const {
    for (std::size_t w = 0; w < count; ++w) {
      if (inserted(w) != each_) return false;
    }
    return true;
  }

 private:
  ordered_index& tree_;
  key_table& table_;
  pattern kind_;
  std::size_t each_;
  std::vector<link> links_;
  std::array<std::atomic<std::size_t>, count> inserted_{};
};

TEST_P(an_index_with_threads, what_was_inserted_is_found_by_every_later_find) {
  const std::size_t each = at_most(6000);
  key_table table(writers::count * each);
  const auto tree = make(table);
  writers w(*tree, table, keys_pattern(), each);
  in_threads([&](std::size_t t) {
    if (t < writers::count) return w.write(t);
    std::mt19937_64 random(t);
    while (!w.done()) {
      std::vector<std::string> keys;
      for (std::size_t writer = 0; writer < writers::count; ++writer) {
        const std::size_t known = w.inserted(writer);
        if (known == 0) continue;
        for (const std::size_t i : {known - 1, random() % known}) {
          keys.push_back(key_of_number(keys_pattern(), w.number(writer, i)));
          const link found = tree->find(keys.back());
          ASSERT_NE(found, null_link);
          ASSERT_EQ(table.key_of(found), keys.back());
        }
      }
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      std::vector<link> found(views.size());
      tree->find_many(views, found);
      for (std::size_t i = 0; i < views.size(); ++i) {
        ASSERT_NE(found[i], null_link);
        ASSERT_EQ(table.key_of(found[i]), views[i]);
      }
    }
  });
  EXPECT_THAT(tree->check(), testing::IsEmpty());
}

/// The keys of a block ascend, and lie behind (forward) or before (backward) those seen so far.
struct walk {
  const key_table& table;
  index_order before;
  std::set<link> expected;  ///< each must come exactly once

  void take(const block& b) {
    for (std::size_t i = 0; i < b.size; ++i) {
      if (i > 0) {
        ASSERT_TRUE(before(table.key_of(b.entries[i - 1]), table.key_of(b.entries[i])));
      }
      expected.erase(b.entries[i]);
    }
  }
  void forward(const ordered_index& tree, block b) {
    std::string last;
    bool first = true;
    do {
      if (b.size == 0) break;
      if (!first) {
        ASSERT_TRUE(before(last, table.key_of(b.entries[0])));
      }
      first = false;
      ASSERT_NO_FATAL_FAILURE(take(b));
      last = table.key_of(b.entries[b.size - 1]);
    } while (tree.next_block(b));
    EXPECT_EQ(expected.size(), 0U) << "links missed";
  }
  void backward(const ordered_index& tree) {
    block b;
    tree.seek_last(b);
    for (bool more = b.size != 0; more;) {
      ASSERT_NO_FATAL_FAILURE(take(b));
      const std::string first(table.key_of(b.entries[0]));
      more = tree.block_before(first, b);
      if (more) {
        ASSERT_TRUE(before(table.key_of(b.entries[b.size - 1]), first));
      }
    }
    EXPECT_EQ(expected.size(), 0U) << "links missed";
  }
};

TEST_P(an_index_with_threads, a_walk_meets_all_there_was_exactly_once_in_order) {
  const std::size_t each = at_most(6000);
  key_table table(2 * writers::count * each);
  const auto tree = make(table);
  model before(order());  // numbers that the writers leave out
  for (std::size_t i = 0; i < at_most(3000); ++i) {
    const std::string key = key_of_number(keys_pattern(), writers::count * each + i * 7);
    before[key] = table.add(key);
    ASSERT_EQ(tree->insert(key, before[key]), before[key]);
  }
  std::set<link> links;
  for (const auto& item : before) links.insert(item.second);
  writers w(*tree, table, keys_pattern(), each);
  in_threads([&](std::size_t t) {
    if (t < writers::count) return w.write(t);
    std::mt19937_64 random(t);
    for (bool last_round = false; !last_round;) {
      last_round = w.done();
      block b;
      switch (t % 4) {
        case 0:
          tree->seek_first(b);
          walk{table, order(), links}.forward(*tree, b);
          break;
        case 1:
          walk{table, order(), links}.backward(*tree);
          break;
        case 2: {  // from the middle
          auto from = before.begin();
          std::advance(from, random() % before.size());
          std::set<link> behind;
          for (auto at = from; at != before.end(); ++at) behind.insert(at->second);
          tree->seek(from->first, b);
          ASSERT_EQ(b.entries[0], from->second);
          walk{table, order(), behind}.forward(*tree, b);
          break;
        }
        default: {
          const std::vector<link> points = tree->split_points(20);
          for (std::size_t i = 1; i < points.size(); ++i) {
            ASSERT_TRUE(order()(table.key_of(points[i - 1]), table.key_of(points[i])));
          }
        }
      }
    }
  });
  EXPECT_THAT(tree->check(), testing::IsEmpty());
  EXPECT_EQ(tree->size(), before.size() + writers::count * each);
}

TEST_P(an_index_with_threads, the_first_splits_are_safe) {
  constexpr std::size_t keys = 600;  // one leaf, splits of the root, and little else
  for (std::size_t round = 0; round < 60; ++round) {
    key_table table(keys);
    const auto tree = make(table);
    in_threads([&](std::size_t t) {
      for (std::size_t i = t; i < keys; i += thread_count) {
        const std::string key = key_of_number(keys_pattern(), i);
        const link entry = table.add(key);
        ASSERT_EQ(tree->insert(key, entry), entry);
        ASSERT_EQ(tree->find(key), entry);
      }
    });
    ASSERT_THAT(tree->check(), testing::IsEmpty());
    ASSERT_EQ(all_links(*tree).size(), keys);
  }
}

TEST_P(an_index_with_threads, a_built_tree_takes_inserts) {
  const std::size_t each = at_most(3000);
  const std::size_t built = at_most(20'000);
  key_table table(built + writers::count * each);
  std::map<std::string, link> before;
  for (std::size_t i = 0; i < built; ++i) {
    const std::string key = key_of_number(keys_pattern(), writers::count * each + i);
    before[key] = table.add(key);
  }
  std::vector<link> sorted;
  for (const auto& item : before) sorted.push_back(item.second);
  const auto tree = make(table);
  tree->build(sorted, thread_count);
  EXPECT_THAT(tree->check(), testing::IsEmpty());
  writers w(*tree, table, keys_pattern(), each);
  in_threads([&](std::size_t t) {
    if (t < writers::count) return w.write(t);
    while (!w.done()) {
      for (const auto& [key, entry] : before) ASSERT_EQ(tree->find(key), entry);
    }
  });
  EXPECT_THAT(tree->check(), testing::IsEmpty());
  EXPECT_EQ(all_links(*tree).size(), built + writers::count * each);
}

TEST_P(an_index_with_threads, that_run_out_of_memory_leaves_no_lock_and_no_half_split) {
  constexpr std::size_t each = 4000;
  key_table table(thread_count * each);
  const std::uint64_t bytes_max = std::max<std::size_t>(80'000, at_most(200'000));
  const auto tree = make(table, {.huge_pages = false, .size_max_bytes = bytes_max});
  std::atomic<std::size_t> inserted{0};
  std::atomic<std::size_t> refused{0};
  in_threads([&](std::size_t t) {
    for (std::size_t i = 0; i < each; ++i) {
      const std::string key = key_of_number(keys_pattern(), i * thread_count + t);
      const link entry = table.add(key);
      try {
        ASSERT_EQ(tree->insert(key, entry), entry);
        inserted.fetch_add(1);
        ASSERT_EQ(tree->find(key), entry);
      } catch (const std::bad_alloc&) {
        refused.fetch_add(1);
      }
    }
  });
  EXPECT_GT(refused, 0U);
  EXPECT_THAT(tree->check(), testing::IsEmpty());
  EXPECT_EQ(all_links(*tree).size(), inserted);
}

/// While an entry is being published, another thread searches for it.
class watched_maker final : public entry_factory {
 public:
  watched_maker(const ordered_index& tree, std::string key, link entry)
      : tree_(tree), key_(std::move(key)), it_(entry) {}

  [[nodiscard]] link make() override { return it_; }
  void before_publish() noexcept override {
    ++published;
    searcher_ = std::jthread([this] {
      looking_ = true;
      looking_.notify_all();
      found = tree_.find(key_);
      answered = true;
    });
    looking_.wait(false);
    // Time enough for a find that does not wait. A find that starts late proves nothing, but is harmless.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answered_too_early = answered;
  }
  void wait() { searcher_ = {}; }

  int published = 0;
  bool answered_too_early = false;
  std::atomic<bool> answered{false};
  link found = null_link;

 private:
  const ordered_index& tree_;
  std::string key_;
  link it_;
  std::atomic<bool> looking_{false};
  std::jthread searcher_;
};

TEST_P(an_index_with_threads, lets_finds_wait_for_an_entry_from_before_it_learns_of_its_publishing) {
  constexpr std::size_t keys = 150;  // with and without splits
  key_table table(keys);
  const auto tree = make(table);
  int published = 0;
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string key = key_of_number(keys_pattern(), i);
    const link entry = table.add(key);
    watched_maker factory(*tree, key, entry);
    ASSERT_EQ(tree->insert(key, factory), entry);
    factory.wait();
    ASSERT_LE(factory.published, 1);
    ASSERT_FALSE(factory.answered_too_early) << "key " << i;
    if (factory.published == 1) {
      ASSERT_EQ(factory.found, entry) << "key " << i;
    }
    published += factory.published;
  }
  const bool has_locks = std::string_view(std::get<0>(GetParam()).name) == "btree";
  EXPECT_GT(published, has_locks ? static_cast<int>(keys) / 2 : -1) << "most inserts split nothing";
}

std::string name_of(const testing::TestParamInfo<std::tuple<index_under_test, pattern>>& instance) {
  constexpr const char* names[] = {"random", "ascending", "descending", "paths"};
  return std::string(std::get<0>(instance.param).name) + "_" + names[static_cast<int>(std::get<1>(instance.param))];
}

INSTANTIATE_TEST_SUITE_P(all, an_index_with_threads,
                         testing::Combine(testing::ValuesIn(indexes),
                                          testing::Values(pattern::random, pattern::ascending, pattern::descending,
                                                          pattern::paths)),
                         name_of);

}  // namespace
}  // namespace icecore::index

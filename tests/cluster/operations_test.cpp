// Inserts, removes, finds and histories from any rank to any key, against a model.
#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

using model = std::map<std::string, std::string>;

/// Keys of many kinds: empty, short, with NUL bytes, numbers, very long.
std::vector<std::string> many_keys(std::mt19937_64& random, int count) {
  std::set<std::string> keys{std::string(),          std::string(1, '\0'),           std::string("a\0b", 3),
                             std::string("a\0c", 3), std::string(key_size_max, 'k'), std::string(key_size_max, '\0')};
  while (keys.size() < static_cast<std::size_t>(count)) {
    std::string key(random() % 24, '\0');
    for (char& byte : key) byte = static_cast<char>(random() % 7 == 0 ? random() : 'a' + random() % 4);
    keys.insert(key);
  }
  return {keys.begin(), keys.end()};
}

std::string some_value(std::mt19937_64& random) {
  std::size_t size = random() % 40;
  if (random() % 8 == 0) size = 0;
  if (random() % 32 == 0) size = 128 * 1024;
  if (random() % 256 == 0) size = 3'000'000;
  return std::string(size, static_cast<char>(random()));
}

/// All ranks run the same script: in each round every key is written by one rank at most, and the script says by whom.
class Operations : public ClusterTest {
 protected:
  void run_script(const cluster_options& opening) {
    const std::uint64_t seed = of_rank_0(std::random_device{}());
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::vector<std::string> keys = many_keys(random, 150);
    std::map<version, model> versions;
    std::map<std::string, std::vector<versioned_value>> histories;
    {
      cluster c(MPI_COMM_WORLD, path(), opening);
      model now;
      for (int round = 0; round < (long_tests ? 40 : 6); ++round) {
        for (const std::string& key : keys) write_one(c, random, key, now, histories);
        c.barrier();
        check_present(c, keys, now);
        versions[c.tag()] = now;
      }
      check_past(c, keys, versions, histories);
      c.close();
    }
    cluster again(MPI_COMM_WORLD, path(), opening);
    check_past(again, keys, versions, histories);
    again.close();
  }

 private:
  static void write_one(cluster& c, std::mt19937_64& random, const std::string& key, model& now,
                        std::map<std::string, std::vector<versioned_value>>& histories) {
    const std::uint64_t what = random() % 4;
    const bool mine = random() % static_cast<std::uint64_t>(ranks()) == static_cast<std::uint64_t>(rank());
    const std::string value = some_value(random);
    if (what == 0) return;
    if (what == 1) {
      if (mine) {
        EXPECT_EQ(c.remove(key), c.clock());
      }
      if (now.erase(key) != 0) histories[key].insert(histories[key].begin(), {c.clock(), std::nullopt});
    } else {
      if (mine) {
        EXPECT_EQ(c.insert(key, value), c.clock());
      }
      now[key] = value;
      histories[key].insert(histories[key].begin(), {c.clock(), value});
    }
    if (mine) {
      const auto it = now.find(key);
      EXPECT_EQ(c.find(key), it == now.end() ? std::nullopt : std::optional(it->second)) << "its own write";
    }
  }

  static void check_present(const cluster& c, const std::vector<std::string>& keys, const model& now) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const auto found = c.find_many(views);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto it = now.find(keys[i]);
      const auto expected = it == now.end() ? std::nullopt : std::optional(it->second);
      ASSERT_EQ(found[i], expected) << "key " << i;
      ASSERT_EQ(c.find(keys[i]), expected) << "key " << i;
      ASSERT_EQ(c.contains(keys[i]), expected.has_value());
    }
  }

  static void check_past(const cluster& c, const std::vector<std::string>& keys,
                         const std::map<version, model>& versions,
                         const std::map<std::string, std::vector<versioned_value>>& histories) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    for (const auto& [at, then] : versions) {
      const auto found = c.find_many(views, at);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto it = then.find(keys[i]);
        ASSERT_EQ(found[i], it == then.end() ? std::nullopt : std::optional(it->second)) << "version " << at;
        ASSERT_EQ(c.contains(keys[i], at), it != then.end());
      }
      auto expected = then.begin();
      for (const auto& [key, value] : c.at(at).range()) {
        ASSERT_NE(expected, then.end());
        ASSERT_EQ(key, expected->first);
        ASSERT_EQ(value, expected->second);
        ++expected;
      }
      ASSERT_EQ(expected, then.end());
      ASSERT_EQ(c.at(at).size(), then.size());
    }
    for (const auto& [key, past] : histories) ASSERT_EQ(c.history(key), past);
  }
};

TEST_F(Operations, of_all_ranks_are_what_one_map_would_hold_relaxed) { run_script(small_buffers()); }

TEST_F(Operations, of_all_ranks_are_what_one_map_would_hold_sequential) {
  run_script(small_buffers(consistency::sequential));
}

TEST_F(Operations, of_all_ranks_are_what_one_map_would_hold_by_ranges) {
  cluster_options o = small_buffers();
  std::vector<std::string> splits;
  for (int r = 1; r < ranks(); ++r) {
    splits.emplace_back(1, static_cast<char>('a' + r / 2));
    if (r % 2 != 0) splits.back().push_back('b');
  }
  o.ownership = ownership::by_ranges(splits);
  run_script(o);
}

TEST_F(Operations, of_all_ranks_are_what_one_map_would_hold_by_function) {
  cluster_options o = small_buffers();
  o.ownership = ownership::by_function("length", [](std::string_view key, int ranks) {
    return static_cast<int>(key.size() % static_cast<std::size_t>(ranks));
  });
  run_script(o);
}

TEST_F(Operations, insert_many_lets_the_later_of_equal_keys_win) {
  for (const auto mode : {consistency::relaxed, consistency::sequential}) {
    cluster c(MPI_COMM_WORLD, path(), small_buffers(mode));
    std::vector<std::string> texts;
    for (int i = 0; i < 2000; ++i) texts.push_back("many-" + std::to_string(rank()) + "-" + std::to_string(i % 500));
    std::vector<std::string> values;
    for (int i = 0; i < 2000; ++i) values.push_back(std::to_string(i));
    std::vector<item> items;
    for (std::size_t i = 0; i < texts.size(); ++i) items.push_back({texts[i], values[i]});
    EXPECT_EQ(c.insert_many(items), c.clock());
    c.barrier();
    for (int r = 0; r < ranks(); ++r) {
      for (int i = 0; i < 500; i += 7) {
        const std::string key = "many-" + std::to_string(r) + "-" + std::to_string(i);
        ASSERT_EQ(c.find(key), std::to_string(1500 + i));
      }
    }
    c.close();
  }
}

TEST_F(Operations, a_batch_takes_effect_at_one_owner) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  const int next = (rank() + 1) % ranks();
  const std::string a = key_of(c, next, 100 * rank());
  const std::string b = key_of(c, next, 100 * rank() + 1);
  c.insert(b, "before");  // staged, and yet before the batch
  batch both;
  both.insert(a, "1");
  both.remove(b);
  EXPECT_EQ(c.apply(both), c.clock());
  EXPECT_EQ(c.find(a), "1");
  EXPECT_EQ(c.find(b), std::nullopt);
  EXPECT_EQ(c.history(b).size(), 2U);
  EXPECT_EQ(c.apply(batch()), c.clock());
  if (ranks() > 1) {
    both.insert(key_of(c, rank()), "2");
    const thrown reported = error_of([&] { c.apply(both); });
    EXPECT_EQ(reported.code, errc::invalid_argument);
    EXPECT_THAT(reported.message, HasSubstr("one owner"));
  }
  c.close();
}

TEST_F(Operations, the_owner_decides_about_conditions) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  const std::string all_want = "wanted by all";
  const bool won = c.insert_new(all_want, std::to_string(rank())).has_value();
  c.barrier();  // without threads an owner answers in calls of the cluster only, not while it waits in MPI's
  int mine = won ? 1 : 0;
  int winners = 0;
  MPI_Allreduce(&mine, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(winners, 1);
  if (won) {
    EXPECT_EQ(c.find(all_want), std::to_string(rank()));
  }

  const int next = (rank() + 1) % ranks();
  const std::string a = key_of(c, next, 100 * rank());
  const std::string b = key_of(c, next, 100 * rank() + 1);
  c.insert(a, "staged, and yet before the conditions");
  const version first = c.history(a).front().version;
  EXPECT_EQ(c.insert_new(a, "no"), std::nullopt);
  EXPECT_EQ(c.replace(a, "no", first + 1), std::nullopt);
  EXPECT_EQ(c.replace(a, "no", 0), std::nullopt);
  EXPECT_EQ(c.replace(b, "no", first), std::nullopt);
  EXPECT_EQ(c.replace(a, "yes", first), c.clock());
  EXPECT_EQ(c.find(a), "yes");

  batch both;
  both.replace(a, "both", c.history(a).front().version);
  both.insert_new(b, "both");
  both.remove(key_of(c, next, 100 * rank() + 2));
  EXPECT_EQ(error_of([&] { c.apply(both); }).code, errc::invalid_argument);
  EXPECT_EQ(c.apply_if(both), c.clock());
  EXPECT_EQ(c.find(b), "both");
  EXPECT_EQ(c.apply_if(both), std::nullopt) << "b is there now";
  EXPECT_EQ(c.apply_if(batch()), c.clock());
  if (ranks() > 1) {
    batch of_two;
    of_two.insert_new(key_of(c, next, 100 * rank() + 3), "1");
    of_two.insert_new(key_of(c, rank(), 100 * rank() + 3), "2");
    EXPECT_THAT(error_of([&] { c.apply_if(of_two); }).message, HasSubstr("one owner"));
  }
  c.close();
}

TEST_F(Operations, a_large_value_travels_in_one_message) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  const std::string value(20'000'000, static_cast<char>('a' + rank()));
  c.insert("large-" + std::to_string(rank()), value);
  EXPECT_EQ(c.find("large-" + std::to_string(rank())), value) << "staged or not";
  c.barrier();
  for (int r = 0; r < ranks(); ++r) {
    EXPECT_EQ(c.find("large-" + std::to_string(r)), std::string(20'000'000, static_cast<char>('a' + r)));
  }
  c.close();
}

TEST_F(Operations, answers_of_more_than_a_message_holds_come_in_parts) {
  cluster c(MPI_COMM_WORLD, path());
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) keys.push_back(key_of(c, 0, i));
  if (rank() == 0) {
    for (std::size_t i = 0; i < keys.size(); ++i) c.insert(keys[i], std::string(30'000'000 + i, 'p'));
  }
  c.barrier();
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const auto found = c.find_many(views);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].has_value());
    EXPECT_EQ(found[i]->size(), 30'000'000 + i);
  }
  c.close();
}

TEST_F(Operations, refuse_what_is_too_long_before_it_travels) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key(key_size_max + 1, 'x');
  EXPECT_EQ(error_of([&] { c.insert(key, ""); }).code, errc::key_too_long);
  EXPECT_EQ(error_of([&] { c.remove(key); }).code, errc::key_too_long);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.find(key)); }).code, errc::key_too_long);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.find("a", c.clock())); }).code, errc::version_not_closed);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.at(c.clock())); }).code, errc::version_not_closed);
  EXPECT_EQ(c.find("a", 0), std::nullopt) << "version 0 is the empty store";
  c.close();
  EXPECT_EQ(error_of([&] { c.insert("a", "b"); }).code, errc::closed);
}

TEST_F(Operations, local_reads_the_own_store) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string mine = key_of(c, rank());
  c.insert(mine, "here");
  EXPECT_EQ(c.local().find(mine), "here");
  EXPECT_EQ(c.rank(), rank());
  EXPECT_EQ(c.size(), ranks());
  EXPECT_EQ(c.local().path(), path() / ("rank-" + std::to_string(rank()) + ".ice"));
  c.close();
}

}  // namespace
}  // namespace icecore::testing

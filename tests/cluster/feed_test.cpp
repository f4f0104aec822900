// Feeds of a cluster: what changes on all ranks, told to one of them, or to several at once.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <tuple>
#include <vector>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using Feed = ClusterTest;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using changes = std::vector<cluster_change>;

constexpr int keys_each = 12;

/// A tag is durable: feeds tell it at once.
cluster_options with_durable_tags() {
  cluster_options o = small_buffers();
  o.store.durability = durability::tag;
  o.store.emulate_durability = true;
  return o;
}

std::string name(int owner, int i) { return "key " + std::to_string(100 + i) + " of " + std::to_string(owner); }

/// Each rank writes in a few versions: new keys, further values, removals, keys of others.
void write(cluster& c, int rounds, bool tags = true) {
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < keys_each; ++i) {
      const std::string key = name(rank(), i);
      if ((i + round) % 5 == 4) {
        c.remove(key);
      } else {
        c.insert(key, "value " + std::to_string(round * 100 + i));
      }
    }
    c.insert("shared", "of rank " + std::to_string(rank()) + " in round " + std::to_string(round));
    if (tags) c.tag();
  }
}

/// The changes in (after, up_to] by the histories of the keys.
changes by_hand(const cluster& c, version after, version up_to) {
  changes all;
  std::vector<std::string> names{"shared"};
  for (int owner = 0; owner < ranks(); ++owner) {
    for (int i = 0; i < keys_each; ++i) names.push_back(name(owner, i));
  }
  for (const std::string& key : names) {
    std::optional<std::string> before;
    bool first = true;
    auto past = c.history(key);
    std::ranges::reverse(past);
    for (const versioned_value& v : past) {
      const bool changes_something = v.value || before;
      if (changes_something && v.version > after && v.version <= up_to) {
        all.push_back({key, v.version, v.value, before, first});
      }
      before = v.value;
      first = first && !v.value;
    }
  }
  std::ranges::stable_sort(
      all, [](const auto& a, const auto& b) { return std::tie(a.version, a.key) < std::tie(b.version, b.key); });
  return all;
}

/// All that it tells now, in batches of so many.
changes all_of(cluster_feed& f, std::size_t max = 1000) {
  changes all;
  for (;;) {
    const cluster_feed_batch some = f.next(max);
    if (some.changes.empty()) return all;
    EXPECT_LE(some.changes.size(), max);
    all.insert(all.end(), some.changes.begin(), some.changes.end());
  }
}

TEST_F(Feed, tells_the_changes_of_all_ranks_by_version_then_key) {
  cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
  write(c, 6);
  const version newest = c.clock() - 1;
  const changes wanted = by_hand(c, 1, newest);
  ASSERT_GT(wanted.size(), 10U);
  for (const std::size_t max : {1U, 7U, 1000U}) {
    cluster_feed f = c.feed({.after = 1});
    EXPECT_EQ(all_of(f, max), wanted);
    EXPECT_EQ(f.next().told, newest);
  }
  c.barrier();
  // one rank alone, while the others wait for it
  if (rank() == ranks() - 1) {
    cluster_feed f = c.feed({.after = 0, .where = filter("removed or ends_with(value, '7')")});
    changes some = by_hand(c, 0, newest);
    std::erase_if(some, [](const cluster_change& change) { return change.value && !change.value->ends_with('7'); });
    EXPECT_EQ(all_of(f, 5), some);
  }
  c.barrier();
  // and what is written later
  cluster_feed f = c.feed({});
  EXPECT_TRUE(f.next().changes.empty());
  c.barrier();
  write(c, 2);
  EXPECT_EQ(all_of(f, 3), by_hand(c, newest, newest + 2));
  write(c, 1, false);
  EXPECT_TRUE(f.next(1000, 1ms).changes.empty()) << "the version is open";
  EXPECT_EQ(f.next().told, newest + 2);
  c.barrier();
  c.close();
  EXPECT_EQ(error_of([&] { static_cast<void>(f.next()); }).code, errc::closed);
}

TEST_F(Feed, goes_on_behind_any_token_on_any_rank_and_in_a_later_run) {
  std::string token;
  changes wanted;
  version newest = 0;
  {
    cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
    write(c, 5);
    newest = c.clock() - 1;
    wanted = by_hand(c, 0, newest);
    changes all;
    token = c.feed({.after = 0}).token();
    for (;;) {
      cluster_feed f = c.feed({.token = token});
      const cluster_feed_batch some = f.next(3);
      token = some.token;
      EXPECT_LE(token.size(), 54U + key_size_max);
      if (some.changes.empty()) break;
      all.insert(all.end(), some.changes.begin(), some.changes.end());
    }
    EXPECT_EQ(all, wanted);
    cluster_feed f = c.feed({.after = 0});
    token = f.next(wanted.size() / 2).token;
    wanted.erase(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(wanted.size()) -
                                     static_cast<std::ptrdiff_t>(all_of(f).size()));
    c.barrier();  // a rank without threads answers only within calls of the cluster
    // rank 0's token for all
    std::string of_rank_0 = token;
    auto size = static_cast<int>(of_rank_0.size());
    MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
    of_rank_0.resize(static_cast<std::size_t>(size));
    MPI_Bcast(of_rank_0.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
    token = of_rank_0;
    c.barrier();
    c.close();
  }
  for (const access how : {access::read_write, access::read_only}) {
    cluster_options opening = with_durable_tags();
    opening.store.access = how;
    cluster c(MPI_COMM_WORLD, path(), opening);
    cluster_feed f = c.feed({.token = token});
    EXPECT_EQ(all_of(f, 4), wanted);
    EXPECT_GE(f.next().told, newest);
    c.barrier();
    c.close();
  }
}

TEST_F(Feed, begins_with_a_snapshot_in_key_order_and_goes_over_to_changes) {
  cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
  write(c, 3);
  const version at = c.clock() - 1;
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [key, value] : c.at(at).range()) items.emplace_back(key, value);
  c.barrier();
  write(c, 2);
  std::vector<std::pair<std::string, std::string>> found;
  changes later;
  std::string token = c.feed({.after = at, .snapshot = true}).token();
  for (bool anew = true;; anew = !anew) {
    cluster_feed f = c.feed({.token = token});
    cluster_feed_batch some = f.next(5);
    if (!anew && !some.changes.empty()) {  // two batches of one object, then another one
      token = some.token;
      for (auto& change : some.changes) {
        some.is_snapshot ? static_cast<void>(found.emplace_back(change.key, change.value.value()))
                         : later.push_back(change);
      }
      some = f.next(5);
    }
    token = some.token;
    if (some.changes.empty()) break;
    if (!some.is_snapshot) {
      EXPECT_GE(some.told, at);
    }
    for (auto& change : some.changes) {
      some.is_snapshot ? static_cast<void>(found.emplace_back(change.key, change.value.value()))
                       : later.push_back(change);
    }
  }
  EXPECT_EQ(found, items);
  EXPECT_EQ(later, by_hand(c, at, c.clock() - 1));
  c.barrier();
  c.close();
}

TEST_F(Feed, tells_what_a_power_cut_would_keep_on_all_ranks_unless_asked_for_more) {
  cluster_options opening = small_buffers();
  opening.store.durability = durability::none;
  cluster c(MPI_COMM_WORLD, path(), opening);
  cluster_feed careful = c.feed({.after = 0});
  cluster_feed bold = c.feed({.after = 0, .unsynced = true});
  write(c, 2);
  const version newest = c.clock() - 1;
  const changes wanted = by_hand(c, 0, newest);
  EXPECT_EQ(all_of(bold), wanted);
  EXPECT_TRUE(careful.next(1000, 1ms).changes.empty());
  c.barrier();
  c.barrier(barrier_level::storage);
  EXPECT_EQ(all_of(careful), wanted);
  c.barrier();
  c.close();
}

TEST_F(Feed, waits_until_a_version_is_closed) {
  cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
  if (!c.has_progress_thread()) {
    EXPECT_TRUE(c.feed({}).next(1, 2ms).changes.empty());
    c.barrier();
    c.close();
    GTEST_SKIP() << "one thread cannot wait and close a version";
  }
  cluster_feed f = c.feed({});
  cluster_feed_batch told;
  std::thread waits([&] { told = f.next(1000, 30s); });
  c.insert("shared", "value of rank " + std::to_string(rank()));
  c.tag();
  waits.join();
  ASSERT_FALSE(told.changes.empty());
  EXPECT_EQ(told.changes.front().key, "shared");
  c.barrier();
  c.close();
}

TEST_F(Feed, beside_writers_tells_each_change_once) {
  cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
  cluster_feed f = c.feed({.after = 0});
  changes all;
  for (int round = 0; round < 10; ++round) {
    write(c, 1, false);
    if (round % 3 != 2) c.tag();
    const cluster_feed_batch some = f.next(static_cast<std::size_t>(1 + 5 * rank()));
    all.insert(all.end(), some.changes.begin(), some.changes.end());
  }
  c.tag();
  const changes rest = all_of(f, 9);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, by_hand(c, 0, c.clock() - 1));
  c.barrier();
  c.close();
}

TEST_F(Feed, bad_requests_are_refused) {
  cluster c(MPI_COMM_WORLD, path(), with_durable_tags());
  write(c, 2);
  const std::string token = c.feed({.after = 1}).next(3).token;
  const auto refused = [&](const feed_request& what) { return error_of([&] { static_cast<void>(c.feed(what)); }); };
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string bad = token;
    bad[i] = static_cast<char>(bad[i] ^ 8);
    ASSERT_EQ(refused({.token = bad}).code, errc::bad_token) << "byte " << i;
  }
  EXPECT_EQ(refused({.token = "short"}).code, errc::bad_token);
  EXPECT_THAT(refused({.where = filter("removed"), .token = token}).message, HasSubstr("another filter"));
  EXPECT_EQ(refused({.token = c.local().feed({.after = 1}).token()}).code, errc::bad_token);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.local().feed({.token = token})); }).code, errc::bad_token);
  EXPECT_EQ(refused({.name = "mirror"}).code, errc::invalid_argument);
  EXPECT_EQ(refused({.secret = "known to the ranks alone"}).code, errc::invalid_argument);
  EXPECT_EQ(refused({.after = c.clock()}).code, errc::version_not_closed);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.feed({}).next(0)); }).code, errc::invalid_argument);
  c.barrier();
  c.close();
}

}  // namespace
}  // namespace icecore::testing

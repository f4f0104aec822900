// Atomic batches: all or nothing, for every reader, in every version, beside any other batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "icecore/icecore.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Batches : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  store store_{folder_ / "batch.ice", GetParam().options()};
  deadline deadline_{"batches: perhaps a deadlock", 100s};

  /// Runs `work` in `threads` threads again and again until `length` has passed or one of them throws.
  static void for_a_while(unsigned threads, std::chrono::milliseconds length,
                          const std::function<void(unsigned thread, std::mt19937& random)>& work) {
    std::atomic<bool> stop{false};
    const auto end = std::chrono::steady_clock::now() + length;
    in_threads(threads, [&](unsigned thread) {
      std::mt19937 random(thread + 1);
      try {
        while (!stop && std::chrono::steady_clock::now() < end) work(thread, random);
      } catch (...) {
        stop = true;
        throw;
      }
    });
  }
};

TEST_P(Batches, money_moved_between_accounts_is_never_lost_nor_doubled_in_any_snapshot) {
  constexpr unsigned accounts = 40;
  constexpr unsigned movers = 4;
  constexpr std::int64_t start = 1000;
  map<unsigned, std::int64_t> balances(store_);
  map<unsigned, std::int64_t>::batch opening;
  for (unsigned account = 0; account < accounts; ++account) opening.insert(account, start);
  balances.apply(opening);
  store_.tag();
  const auto total_is_right = [&](const typed_snapshot<unsigned, std::int64_t>& at) {
    std::int64_t total = 0;
    std::size_t count = 0;
    for (const auto& [account, balance] : at.range()) {
      total += balance;
      ++count;
    }
    promise(total == start * accounts && count == accounts, [&] {
      return "version " + std::to_string(at.version()) + " has a total of " + std::to_string(total) + " in " +
             std::to_string(count) + " accounts";
    });
  };
  // Each mover has accounts of its own, so that the balances it read are the ones it changes.
  for_a_while(movers + 3, 1200ms, [&](unsigned thread, std::mt19937& random) {
    if (thread < movers) {
      const unsigned own = accounts / movers;
      const unsigned from = thread * own + static_cast<unsigned>(random()) % own;
      const unsigned to = thread * own + static_cast<unsigned>(random()) % own;
      if (from == to) return;
      const auto amount = static_cast<std::int64_t>(random() % 100);
      map<unsigned, std::int64_t>::batch transfer;
      transfer.insert(from, balances.find(from).value() - amount);
      transfer.insert(to, balances.find(to).value() + amount);
      balances.apply(transfer);
    } else if (thread == movers) {
      total_is_right(balances.latest());
    } else if (thread == movers + 1) {
      total_is_right(balances.at(store_.tag()));
    } else {
      total_is_right(balances.at(1 + random() % (store_.clock() - 1)));
    }
  });
  for (version at = 1; at < store_.clock(); at += 1 + store_.clock() / 200) total_is_right(balances.at(at));
}

TEST_P(Batches, who_sees_one_key_of_a_batch_in_the_present_sees_the_others_too) {
  constexpr unsigned keys = 16;
  map<unsigned, std::uint64_t> counters(store_);
  std::uint64_t next = 0;
  for_a_while(4, 1000ms, [&](unsigned thread, std::mt19937& random) {
    if (thread == 0) {
      map<unsigned, std::uint64_t>::batch all;
      for (unsigned key = 0; key < keys; ++key) all.insert(key, next + 1);
      counters.apply(all);
      ++next;
      if (next % 100 == 0) store_.tag();
      return;
    }
    const unsigned first = static_cast<unsigned>(random()) % keys;
    const unsigned second = static_cast<unsigned>(random()) % keys;
    const std::uint64_t seen = counters.find(first).value_or(0);
    const std::uint64_t then = counters.find(second).value_or(0);
    promise(then >= seen, [&] {
      return "key " + std::to_string(first) + " showed batch " + std::to_string(seen) + ", key " +
             std::to_string(second) + " afterwards only batch " + std::to_string(then);
    });
  });
}

TEST_P(Batches, overlapping_batches_in_opposite_orders_do_not_wait_for_each_other_for_ever) {
  constexpr unsigned threads = 8;
  constexpr std::uint64_t keys = 12;
  map<std::uint64_t, std::uint64_t> registers(store_);
  std::array<std::atomic<std::uint64_t>, threads> applied{};
  for_a_while(threads, 1000ms, [&](unsigned thread, std::mt19937& random) {
    std::vector<std::uint64_t> order(keys);
    for (std::uint64_t i = 0; i < keys; ++i) order[i] = thread % 2 == 0 ? i : keys - 1 - i;
    if (thread % 3 == 0) std::ranges::shuffle(order, random);
    map<std::uint64_t, std::uint64_t>::batch all;
    const std::uint64_t id = (++applied[thread] << 8) | thread;
    for (const std::uint64_t key : order) all.insert(key, id);
    registers.apply(all);
    static_cast<void>(registers.find(random() % keys));
    if (thread == 1) store_.tag();
  });
  // All histories have batches over the same keys in one order.
  const auto ids = [&](std::uint64_t key) {
    std::vector<std::uint64_t> found;
    for (const auto& [version, value] : registers.history(key)) found.push_back(value.value());
    return found;
  };
  const auto wanted = ids(0);
  std::uint64_t total = 0;
  for (const auto& count : applied) total += count;
  EXPECT_EQ(wanted.size(), total);
  for (std::uint64_t key = 1; key < keys; ++key) EXPECT_EQ(ids(key), wanted) << "key " << key;
}

TEST_P(Batches, batches_and_single_writes_of_the_same_keys_end_in_one_order) {
  map<unsigned, std::uint64_t> registers(store_);
  std::atomic<std::uint64_t> writes{0};
  for_a_while(6, 1000ms, [&](unsigned thread, std::mt19937& random) {
    if (thread % 2 == 0) {
      map<unsigned, std::uint64_t>::batch some;
      for (unsigned key = 0; key < 10; key += 1 + static_cast<unsigned>(random()) % 3) some.insert(key, 1);
      registers.apply(some);
      writes += some.size();
    } else {
      registers.insert(static_cast<unsigned>(random()) % 10, 2);
      ++writes;
    }
    if (random() % 64 == 0) store_.tag();
  });
  std::uint64_t kept = 0;
  for (unsigned key = 0; key < 10; ++key) {
    version latest = version_max;
    for (const auto& [version, value] : registers.history(key)) {
      ASSERT_LE(version, latest);
      latest = version;
      ++kept;
    }
  }
  EXPECT_EQ(kept, writes);
  EXPECT_TRUE(store_.verify().ok());
}

TEST_P(Batches, new_keys_of_a_batch_appear_together) {
  map<std::uint64_t, std::uint64_t> entries(store_);
  std::atomic<std::uint64_t> next{0};
  constexpr std::uint64_t size = 50;
  for_a_while(4, 1000ms, [&](unsigned thread, std::mt19937&) {
    if (thread < 2) {
      const std::uint64_t first = next.fetch_add(size);
      map<std::uint64_t, std::uint64_t>::batch fresh;
      for (std::uint64_t i = 0; i < size; ++i) fresh.insert((first + i) * 0x9e3779b97f4a7c15U, first);
      entries.apply(fresh);
    } else {
      const std::size_t seen = entries.latest().size(1);
      promise(seen % size == 0, [&] { return std::to_string(seen) + " keys of batches of " + std::to_string(size); });
    }
  });
  EXPECT_EQ(entries.latest().size(), next);
}

TEST_P(Batches, later_operations_on_a_key_win) {
  batch some;
  some.insert("a", "1");
  some.remove("a");
  some.insert("b", "1");
  some.insert("b", "2");
  some.remove("c");
  some.insert("c", "3");
  const version written = store_.apply(some);
  EXPECT_EQ(store_.find("a"), std::nullopt);
  EXPECT_EQ(store_.find("b"), "2");
  EXPECT_EQ(store_.find("c"), "3");
  EXPECT_EQ(store_.history("b").newest_first().size(), 1U);
  EXPECT_EQ(written, store_.tag());
  EXPECT_EQ(store_.at(written).size(), 2U);
}

TEST_P(Batches, an_empty_batch_changes_nothing) {
  store_.insert("a", "1");
  EXPECT_EQ(store_.apply(batch{}), store_.clock());
  EXPECT_EQ(store_.stats().records, 1U);
}

TEST_P(Batches, a_batch_larger_than_a_segment_is_still_one) {
  batch large;
  const std::string value(3000, 'v');
  for (int i = 0; i < 1500; ++i) large.insert("key-" + std::to_string(i), value);
  const version written = store_.apply(large);
  store_.tag();
  EXPECT_EQ(store_.at(written).size(), 1500U);
  EXPECT_EQ(store_.at(written - 1).size(), 0U);
}

TEST_P(Batches, survive_a_reopening_whole) {
  const auto path = store_.path();
  for (int i = 0; i < 100; ++i) {
    batch pair;
    pair.insert("left", std::to_string(i));
    pair.insert("right", std::to_string(i));
    if (i % 10 == 9) pair.remove("left");
    store_.apply(pair);
    store_.tag();
  }
  store_ = store(folder_ / "other.ice", GetParam().options());  // closes
  const store again(path, GetParam().options());
  for (version at = 1; at <= 100; ++at) {
    const auto right = again.find("right", at);
    ASSERT_EQ(right, std::to_string(at - 1));
    ASSERT_EQ(again.find("left", at), at % 10 == 0 ? std::nullopt : right);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Batches, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

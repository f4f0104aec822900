// G1: each insert, remove, find and tag takes effect at one instant between call and return.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <limits>
#include <map>
#include <set>

#include "icecore/icecore.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Linearizability : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  store store_{folder_ / "linear.ice", GetParam().options()};
  deadline deadline_{"linearizability", 100s};
};

TEST_P(Linearizability, a_reader_gets_a_value_between_the_last_acknowledged_and_the_last_begun) {
  constexpr unsigned writers = 4;
  constexpr unsigned readers = 4;
  struct alignas(64) register_state {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> acknowledged{0};
  };
  std::array<register_state, writers> states;
  std::atomic<bool> stop{false};
  map<unsigned, std::uint64_t> registers(store_);
  const auto write = [&](unsigned key) {
    for (std::uint64_t n = 1; !stop; ++n) {
      states[key].begun = n;
      registers.insert(key, n);
      states[key].acknowledged = n;
      if (key == 0 && n % 64 == 0) store_.tag();
    }
  };
  const auto read = [&](unsigned reader) {
    std::array<std::uint64_t, writers> seen{};
    for (std::uint64_t i = reader; !stop; ++i) {
      const unsigned key = static_cast<unsigned>(i % writers);
      const std::uint64_t least = std::max(states[key].acknowledged.load(), seen[key]);
      const std::uint64_t found = registers.find(key).value_or(0);
      const std::uint64_t most = states[key].begun;
      promise(least <= found && found <= most, [&] {
        return "a find returned " + std::to_string(found) + " when " + std::to_string(least) +
               " was acknowledged or seen before and " + std::to_string(most) + " begun";
      });
      seen[key] = found;
    }
  };
  in_threads(writers + readers + 1, [&](unsigned thread) {
    if (thread == writers + readers) {
      std::this_thread::sleep_for(700ms);
      stop = true;
      return;
    }
    try {
      thread < writers ? write(thread) : read(thread);
    } catch (...) {
      stop = true;
      throw;
    }
  });
  for (const auto& state : states) EXPECT_GT(state.acknowledged, 0U);
}

struct operation {
  std::int64_t invoked_ns;
  std::int64_t returned_ns;
  version belongs_to;
  std::uint64_t id;
};

/// `threads` threads write unique values to `keys` keys, removing now and then, while one more tags.
struct recorded_run {
  std::map<std::uint64_t, operation> writes;  // by value; removes have no value and are not recorded
  std::vector<operation> tags;
  std::map<unsigned, std::uint64_t> removes;  // for each key
};

recorded_run run_and_record(store& store, unsigned threads, unsigned keys, std::uint64_t writes_each) {
  std::vector<std::vector<operation>> done(threads);
  std::vector<operation> tags;
  std::vector<std::atomic<std::uint64_t>> removed(keys);
  std::atomic<unsigned> running{threads};
  map<unsigned, std::uint64_t> registers(store);
  std::barrier start(threads + 1);
  in_threads(threads + 1, [&](unsigned thread) {
    start.arrive_and_wait();
    if (thread == threads) {
      do {
        operation tag{ticks_ns(), 0, 0, 0};
        tag.belongs_to = store.tag();
        tag.returned_ns = ticks_ns();
        tags.push_back(tag);
        std::this_thread::yield();
      } while (running != 0);
      return;
    }
    for (std::uint64_t n = 0; n < writes_each; ++n) {
      operation write{ticks_ns(), 0, 0, thread * writes_each + n + 1};
      const unsigned key = static_cast<unsigned>((n * 7 + thread) % keys);
      write.belongs_to = registers.insert(key, write.id);
      write.returned_ns = ticks_ns();
      done[thread].push_back(write);
      if (n % 11 == 0 && registers.remove(key)) ++removed[key];
      if (n % 64 == 0) std::this_thread::yield();  // to the thread that tags
    }
    --running;
  });
  recorded_run run;
  for (const auto& own : done) {
    for (const auto& write : own) run.writes.emplace(write.id, write);
  }
  std::ranges::sort(tags, {}, &operation::belongs_to);
  run.tags = std::move(tags);
  for (unsigned key = 0; key < keys; ++key) run.removes[key] = removed[key];
  return run;
}

TEST_P(Linearizability, histories_hold_every_write_once_in_an_order_that_agrees_with_real_time) {
  constexpr unsigned keys = 3;
  const auto run = run_and_record(store_, 8, keys, 1500);
  map<unsigned, std::uint64_t> registers(store_);
  std::set<std::uint64_t> seen;
  for (unsigned key = 0; key < keys; ++key) {
    std::int64_t latest_invocation_ns = 0;
    version latest_version = 0;
    std::uint64_t removes = 0;
    bool present = false;
    for (const auto& [version, value] : registers.history_oldest_first(key)) {
      ASSERT_GE(version, latest_version) << "versions go back along a history";
      latest_version = version;
      if (!value) {
        EXPECT_TRUE(present) << "a remove of a key that was not there is in the history";
        present = false;
        ++removes;
        continue;
      }
      present = true;
      const auto write = run.writes.find(*value);
      ASSERT_NE(write, run.writes.end()) << "a value that nobody wrote: " << *value;
      EXPECT_TRUE(seen.insert(*value).second) << "a write is in the history twice";
      EXPECT_EQ(write->second.belongs_to, version) << "insert() returned another version than the history has";
      EXPECT_GE(write->second.returned_ns, latest_invocation_ns)
          << "a write that had returned comes after one that began later";
      latest_invocation_ns = std::max(latest_invocation_ns, write->second.invoked_ns);
    }
    EXPECT_EQ(removes, run.removes.at(key)) << "remove() reported other removals than the history has";
  }
  EXPECT_EQ(seen.size(), run.writes.size()) << "acknowledged writes are missing";
}

TEST_P(Linearizability, a_tag_covers_all_that_returned_before_it_and_nothing_that_began_after_it) {
  const auto run = run_and_record(store_, 8, 64, 6000);
  ASSERT_GT(run.tags.size(), 3U);
  for (std::size_t i = 1; i < run.tags.size(); ++i) {
    ASSERT_LT(run.tags[i - 1].belongs_to, run.tags[i].belongs_to) << "a version was given to two tags";
  }
  // latest_begin[i]: the last call of the tags 0..i; earliest_return[i]: the first return of the tags i..end
  std::vector<std::int64_t> latest_begin(run.tags.size());
  std::vector<std::int64_t> earliest_return(run.tags.size());
  for (std::size_t i = 0; i < run.tags.size(); ++i) {
    latest_begin[i] = std::max(run.tags[i].invoked_ns, i == 0 ? 0 : latest_begin[i - 1]);
  }
  for (std::size_t i = run.tags.size(); i-- > 0;) {
    earliest_return[i] =
        std::min(run.tags[i].returned_ns,
                 i + 1 == run.tags.size() ? std::numeric_limits<std::int64_t>::max() : earliest_return[i + 1]);
  }
  for (const auto& [id, write] : run.writes) {
    const auto first_covering = std::ranges::lower_bound(run.tags, write.belongs_to, {}, &operation::belongs_to);
    const auto place = static_cast<std::size_t>(first_covering - run.tags.begin());
    if (place > 0) {
      EXPECT_GE(write.returned_ns, latest_begin[place - 1])
          << "a write that had returned before a tag was called is not covered by it";
    }
    if (place < run.tags.size()) {
      EXPECT_LE(write.invoked_ns, earliest_return[place])
          << "a write that began after a tag had returned is covered by it";
    }
  }
}

TEST_P(Linearizability, no_write_is_lost_when_threads_write_one_key) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t writes_each = 20'000;
  map<unsigned, std::uint64_t> registers(store_);
  registers.insert(7, 0);
  std::barrier start(threads);
  in_threads(threads, [&](unsigned thread) {
    start.arrive_and_wait();
    for (std::uint64_t n = 1; n <= writes_each; ++n) registers.insert(7, thread * writes_each + n);
  });
  std::vector<bool> seen(threads * writes_each + 1);
  std::size_t count = 0;
  for (const auto& [version, value] : registers.history(7)) {
    ASSERT_FALSE(seen.at(value.value())) << "a write is in the history twice";
    seen[*value] = true;
    ++count;
  }
  EXPECT_EQ(count, threads * writes_each + 1) << "acknowledged writes are missing";
}

TEST_P(Linearizability, of_two_removes_of_one_insert_exactly_one_finds_it) {
  for (unsigned round = 0; round < 300; ++round) {
    const std::string key = "key-" + std::to_string(round % 5);
    store_.insert(key, "there");
    std::atomic<unsigned> found{0};
    in_threads(4, [&](unsigned) {
      if (store_.remove(key)) ++found;
    });
    ASSERT_EQ(found, 1U);
    ASSERT_FALSE(store_.contains(key));
  }
}

TEST_P(Linearizability, threads_that_insert_the_same_new_keys_make_one_entry_of_each) {
  constexpr unsigned threads = 8;
  constexpr unsigned keys = 2000;
  in_threads(threads, [&](unsigned thread) {
    map<std::uint64_t, unsigned> entries(store_);
    for (std::uint64_t key = 0; key < keys; ++key) entries.insert(key * 0x9e3779b97f4a7c15U, thread);
  });
  map<std::uint64_t, unsigned> entries(store_);
  EXPECT_EQ(entries.latest().size(), keys);
  EXPECT_EQ(store_.stats().keys, keys);
  EXPECT_EQ(store_.stats().records, keys * threads);
  for (std::uint64_t key = 0; key < keys; ++key) {
    std::set<unsigned> writers;
    for (const auto& [version, value] : entries.history(key * 0x9e3779b97f4a7c15U)) writers.insert(value.value());
    ASSERT_EQ(writers.size(), threads) << "an insert of key " << key << " was lost";
  }
  EXPECT_TRUE(store_.verify().ok());
}

TEST_P(Linearizability, what_a_thread_has_found_is_in_the_snapshot_it_takes_next) {
  constexpr std::uint64_t keys = 20'000;
  map<std::uint64_t, std::uint64_t> numbers(store_);
  std::atomic<bool> done{false};
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < keys; ++i) numbers.insert(i, i);
    done = true;
  });
  for (std::uint64_t next = 0; !done;) {
    if (!numbers.find(next)) continue;
    ASSERT_EQ(numbers.latest().find(next), next) << "found, and then not in the latest snapshot";
    while (next < keys && numbers.find(next)) ++next;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Linearizability, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

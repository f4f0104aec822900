// Conditional writes: insert_new, replace, and batches of them. They are decided at one instant, whatever runs beside
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Conditions : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  store store_{folder_ / "conditions.ice", GetParam().options()};
  deadline deadline_{"conditions: perhaps a deadlock", 100s};
};

TEST_P(Conditions, insert_new_inserts_only_what_is_not_there) {
  EXPECT_EQ(store_.insert_new("k", "1"), 1U);
  EXPECT_EQ(store_.insert_new("k", "2"), std::nullopt);
  EXPECT_EQ(store_.find("k"), "1");
  store_.tag();
  store_.remove("k");
  EXPECT_EQ(store_.insert_new("k", "3"), 2U);
  EXPECT_EQ(store_.find("k"), "3");
  EXPECT_EQ(store_.find("k", 1), "1");
  EXPECT_EQ(store_.history("k").oldest_first().size(), 3U) << "what did not happen left no record";
  EXPECT_TRUE(store_.verify().ok());
}

TEST_P(Conditions, insert_new_takes_the_place_of_a_removal_that_only_a_batch_recorded) {
  batch idle;
  idle.remove("k");
  store_.apply(idle);
  EXPECT_EQ(store_.insert_new("k", "1"), 1U);
  EXPECT_EQ(store_.insert_new("k", "2"), std::nullopt);
}

TEST_P(Conditions, replace_writes_only_on_the_version_that_is_expected) {
  EXPECT_EQ(store_.replace("k", "1", 1), std::nullopt) << "the key is not there";
  EXPECT_EQ(store_.keys().size(), 0U);
  const version first = store_.insert("k", "1");
  store_.tag();
  EXPECT_EQ(store_.replace("k", "2", first + 1), std::nullopt);
  EXPECT_EQ(store_.replace("k", "2", first), 2U);
  EXPECT_EQ(store_.replace("k", "3", first), std::nullopt);
  EXPECT_EQ(store_.find("k"), "2");
  store_.tag();
  const version removed = *store_.remove("k");
  EXPECT_EQ(store_.replace("k", "4", removed), std::nullopt) << "the key is not there";
  EXPECT_EQ(store_.find("k"), std::nullopt);
}

TEST_P(Conditions, a_batch_whose_conditions_hold_takes_effect_as_a_whole) {
  const version one = store_.insert("one", "1");
  store_.tag();
  batch both;
  both.replace("one", "1a", one);
  both.insert_new("two", "2");
  both.insert("three", "3");
  both.remove("four");
  EXPECT_TRUE(both.has_conditions());
  expect_error(errc::invalid_argument, "apply_if", [&] { store_.apply(both); });
  EXPECT_EQ(store_.apply_if(both), 2U);
  EXPECT_EQ(store_.find("one"), "1a");
  EXPECT_EQ(store_.find("two"), "2");
  EXPECT_EQ(store_.find("three"), "3");
}

TEST_P(Conditions, a_batch_of_which_one_condition_fails_changes_nothing) {
  const version one = store_.insert("one", "1");
  store_.insert("two", "2");
  for (const bool absent : {false, true}) {
    batch both;
    both.insert("three", "3");
    both.replace("one", "1a", one);
    absent ? both.insert_new("two", "2a") : both.replace("two", "2a", one + 1);
    EXPECT_EQ(store_.apply_if(both), std::nullopt);
  }
  EXPECT_EQ(store_.find("one"), "1");
  EXPECT_EQ(store_.find("two"), "2");
  EXPECT_EQ(store_.find("three"), std::nullopt);
  EXPECT_EQ(store_.keys().size(), 2U);
  store_.insert("one", "still written");
  EXPECT_TRUE(store_.verify().ok());
}

TEST_P(Conditions, of_several_operations_on_one_key_all_conditions_count_and_the_last_write) {
  batch some;
  some.insert_new("k", "1");
  some.insert("k", "2");
  EXPECT_EQ(store_.apply_if(some), 1U);
  EXPECT_EQ(store_.find("k"), "2");
  EXPECT_EQ(store_.apply_if(some), std::nullopt);
  batch none;
  none.insert("k", "3");
  EXPECT_EQ(store_.apply_if(none), 1U) << "without conditions";
}

TEST_P(Conditions, a_batch_cannot_replace_version_0) {
  batch some;
  expect_error(errc::invalid_argument, "insert_new", [&] { some.replace("k", "v", 0); });
  EXPECT_TRUE(some.empty());
  EXPECT_EQ(store_.replace("k", "v", 0), std::nullopt);
}

TEST_P(Conditions, one_of_several_threads_inserts_a_key) {
  constexpr unsigned threads = 4;
  constexpr unsigned keys = 200;
  std::array<std::atomic<unsigned>, keys> won{};
  in_threads(threads, [&](unsigned thread) {
    for (unsigned k = 0; k < keys; ++k) {
      const std::string key = std::to_string(k);
      if (thread == 3 && k % 2 == 0) {
        batch some;
        some.insert_new(key, "3");
        some.insert("beside " + key, "3");
        if (store_.apply_if(some)) ++won[k];
      } else if (store_.insert_new(key, std::to_string(thread))) {
        ++won[k];
      }
    }
  });
  for (unsigned k = 0; k < keys; ++k) {
    EXPECT_EQ(won[k], 1U) << "key " << k;
    EXPECT_EQ(store_.history(std::to_string(k)).oldest_first().size(), 1U);
    const bool beside = store_.contains("beside " + std::to_string(k));
    EXPECT_EQ(beside, k % 2 == 0 && store_.find(std::to_string(k)) == "3");
  }
}

TEST_P(Conditions, of_what_threads_insert_and_remove_each_is_inserted_once) {
  constexpr unsigned threads = 4;
  constexpr unsigned rounds = 300;
  std::atomic<unsigned> inserted{0};
  std::atomic<unsigned> removed{0};
  in_threads(threads, [&](unsigned thread) {
    std::mt19937 random(thread);
    for (unsigned i = 0; i < rounds; ++i) {
      const std::string key = std::to_string(random() % 3);
      if (random() % 2 == 0) {
        if (store_.insert_new(key, std::to_string(i))) ++inserted;
      } else if (store_.remove(key)) {
        ++removed;
      }
    }
  });
  std::size_t left = 0;
  for (unsigned k = 0; k < 3; ++k) {
    bool was_there = false;  // inserts and removals alternate
    for (const auto& change : store_.history(std::to_string(k)).oldest_first()) {
      EXPECT_NE(was_there, change.value.has_value());
      was_there = change.value.has_value();
    }
    left += was_there ? 1 : 0;
  }
  EXPECT_EQ(inserted - removed, left);
}

TEST_P(Conditions, no_update_is_lost_where_each_replaces_what_it_has_read) {
  constexpr unsigned threads = 3;
  constexpr unsigned each = 30;
  store_.insert("sum", "0");
  store_.insert("batches", "0");
  store_.tag();
  in_threads(threads, [&](unsigned thread) {
    for (unsigned done = 0; done < each;) {
      const snapshot now = store_.latest();
      const auto newest = now.history("sum");
      const version read = newest.front().version;
      const std::string more = std::to_string(std::stoul(std::string(*newest.front().value)) + 1);
      if (thread == 0) {
        batch both;
        both.replace("sum", more, read);
        both.insert("batches", more);
        if (!store_.apply_if(both)) continue;
      } else if (!store_.replace("sum", more, read)) {
        continue;
      }
      store_.tag();  // the next version is another one
      ++done;
    }
  });
  // Within one open version two replacements may follow each other with one expected version only if the version that
  // they expect is the open one: here each read is of a closed version.
  EXPECT_EQ(store_.find("sum"), std::to_string(threads * each));
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Conditions, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing

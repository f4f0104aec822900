// Scans of packed versions while others write keys of these: a key that was only packed has an entry then.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "icecore/changes.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr unsigned keys = 2000;  // many blocks of the index, and of what is packed

std::string key_of(char group, unsigned i) { return group + std::to_string(10'000 + i); }

class ScansOfPacked : public ::testing::TestWithParam<index_kind> {
 protected:
  ScansOfPacked()
      : store_(folder_ / "packed.ice", [] {
          options opening;
          opening.index = GetParam();
          return opening;
        }()) {
    for (const char* value : {"old", "new"}) {
      for (const char group : {'a', 'b'}) {
        for (unsigned i = 0; i < keys; ++i) store_.insert(key_of(group, i), value);
      }
      (value[0] == 'o' ? before_ : after_) = store_.tag();
    }
    EXPECT_TRUE(store_.compact().packed);
  }

  /// Goes through `range`, which shows the keys of group `a`; the first key behind these is written on the way.
  template <class Range>
  void shows_the_group_alone(Range&& range) {
    unsigned shown = 0;
    for (const auto& each : range) {
      ASSERT_EQ(each.key, key_of('a', shown));
      if (++shown == keys / 2) store_.insert(key_of('b', 0), "written meanwhile");
    }
    EXPECT_EQ(shown, keys);
  }

  scratch folder_{place::tmpfs};
  store store_;
  version before_ = 0;
  version after_ = 0;
  key_bounds group_ = key_bounds::of_prefix("a");
};

TEST_P(ScansOfPacked, differences_end_at_a_bound_that_is_written_meanwhile) {
  shows_the_group_alone(store_.diff(before_, after_, group_));
}

TEST_P(ScansOfPacked, changes_end_at_a_bound_that_is_written_meanwhile) {
  shows_the_group_alone(store_.changes(before_, after_, group_));
}

TEST_P(ScansOfPacked, ranges_end_at_a_bound_that_is_written_meanwhile) {
  shows_the_group_alone(store_.at(before_).range(group_));
}

/// Records of a batch have no stamp until it takes effect.
TEST_P(ScansOfPacked, differences_show_packed_keys_of_a_batch_that_is_under_way) {
  batch some;
  some.insert(key_of('a', 1), "1");
  some.insert(key_of('a', 2), "2");
  store_.apply(some);
  const detail::store_core& core = store_.core();
  const link first = core.entry_of(key_of('a', 1));
  const link second = core.entry_of(key_of('a', 2));
  std::vector<std::pair<std::atomic<std::uint64_t>*, std::uint64_t>> stamps;
  for (const link l : {first, second, core.records().at(first).batch()}) {
    std::atomic<std::uint64_t>& stamp = core.records().at(l).header().stamp;
    stamps.emplace_back(&stamp, stamp.exchange(0));
  }
  unsigned shown = 0;
  for (const difference& each : store_.diff(before_, after_, group_)) {
    EXPECT_EQ(each.key, key_of('a', shown));
    EXPECT_EQ(each.after, "new");
    ++shown;
  }
  for (const auto& [stamp, value] : stamps) stamp->store(value);
  EXPECT_EQ(shown, keys);
}

TEST_P(ScansOfPacked, matches_end_at_a_bound_that_is_written_meanwhile) {
  shows_the_group_alone(store_.at(before_).where(filter("starts_with(key, 'a') and value = 'old'")));
}

INSTANTIATE_TEST_SUITE_P(Each, ScansOfPacked,
                         ::testing::Values(index_kind::btree, index_kind::skip_list, index_kind::persistent,
                                           index_kind::hash));

}  // namespace
}  // namespace icecore::testing

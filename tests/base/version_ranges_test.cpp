// Sets of versions: they contain what was added, in any order, and never have more ranges than there is room for.
#include "icecore/version_ranges.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>
#include <vector>

namespace icecore {
namespace {

using ::testing::ElementsAre;

std::vector<version_range> ranges_of(const version_ranges& all) { return {all.ranges().begin(), all.ranges().end()}; }

TEST(version_ranges, a_range_holds_its_first_version_and_not_its_end) {
  version_ranges all;
  EXPECT_TRUE(all.empty());
  EXPECT_FALSE(all.contains(0));
  all.add({5, 8});
  EXPECT_FALSE(all.contains(4));
  EXPECT_TRUE(all.contains(5));
  EXPECT_TRUE(all.contains(7));
  EXPECT_FALSE(all.contains(8));
}

TEST(version_ranges, an_empty_range_is_nothing) {
  version_ranges all;
  all.add({5, 5});
  all.add({6, 5});
  EXPECT_TRUE(all.empty());
}

TEST(version_ranges, those_that_touch_or_overlap_are_one) {
  version_ranges all;
  all.add({10, 20});
  all.add({30, 40});
  all.add({20, 22});
  EXPECT_THAT(ranges_of(all), ElementsAre(version_range{10, 22}, version_range{30, 40}));
  all.add({5, 31});
  EXPECT_THAT(ranges_of(all), ElementsAre(version_range{5, 40}));
  all.add({7, 9});
  EXPECT_THAT(ranges_of(all), ElementsAre(version_range{5, 40}));
}

TEST(version_ranges, one_more_than_there_is_room_for_joins_the_two_with_the_fewest_versions_between) {
  version_ranges all;
  for (version i = 0; i < version_ranges::count_max; ++i) all.add({100 * i + 1, 100 * i + 11});
  ASSERT_EQ(all.ranges().size(), version_ranges::count_max);
  all.add({720, 730});  // between 711 and 801: 9 behind the first, 71 before the second
  EXPECT_EQ(all.ranges().size(), version_ranges::count_max);
  EXPECT_TRUE(all.contains(715));
  EXPECT_FALSE(all.contains(730));
  EXPECT_FALSE(all.contains(699));
}

TEST(version_ranges, of_many_none_is_forgotten_and_all_are_ascending_and_apart) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    version_ranges all;
    std::set<version> added;
    for (int i = 0; i < 200; ++i) {
      const version first = random() % 5'000;
      const version end = first + random() % 12;
      all.add({first, end});
      for (version v = first; v < end; ++v) added.insert(v);
    }
    ASSERT_LE(all.ranges().size(), version_ranges::count_max);
    for (const version v : added) ASSERT_TRUE(all.contains(v)) << v << " of seed " << seed;
    version end_before = 0;
    for (const auto& [first, end] : all.ranges()) {
      ASSERT_TRUE(end_before == 0 || first > end_before);
      ASSERT_GT(end, first);
      end_before = end;
    }
  }
}

}  // namespace
}  // namespace icecore

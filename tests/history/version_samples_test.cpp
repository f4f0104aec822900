#include "history/version_samples.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace icecore {
namespace {

constexpr link entry = 4096;
constexpr link record_of(std::uint32_t depth) { return 65536 + 64 * link{depth}; }

/// start() must return a record at or above the deepest one that is newer than v, whatever samples are missing.
RC_GTEST_PROP(version_samples, start_is_never_below_the_answer, ()) {
  const auto depth = *rc::gen::inRange<std::uint32_t>(version_samples::depth_min, 3000);
  std::vector<version> stamps(depth + 1, 0);  // by depth
  for (std::uint32_t d = 1; d <= depth; ++d) stamps[d] = stamps[d - 1] + *rc::gen::inRange<version>(0, 3) + (d == 1);
  version_samples samples;
  const bool complete = *rc::gen::arbitrary<bool>();
  for (std::uint32_t d = 1; d <= depth; ++d) {
    if (version_samples::wanted(d) && (complete || *rc::gen::arbitrary<bool>())) {
      samples.add(entry, d, stamps[d], record_of(d));
    }
  }
  const auto v = *rc::gen::inRange<version>(0, stamps[depth] + 2);
  std::uint32_t answer = depth;  // the deepest record that v shows
  while (answer > 0 && stamps[answer] > v) --answer;
  const link from = samples.start(entry, depth, v, record_of(depth), stamps[depth]);
  RC_ASSERT(from >= record_of(answer));
  if (complete && answer >= version_samples::depth_min && answer < depth) {
    RC_ASSERT(from <= record_of(answer + version_samples::spacing));  // and close to it, if no sample is missing
  }
}

TEST(version_samples, start_at_the_newest_when_its_version_is_not_known_yet_or_is_that_of_all) {
  version_samples samples;
  samples.add(entry, 64, 5, record_of(64));
  samples.add(entry, 72, 5, record_of(72));
  EXPECT_EQ(samples.start(entry, 75, 6, record_of(75), 5), record_of(75));
  EXPECT_EQ(samples.start(entry, 75, 6, record_of(75), 0), record_of(75));
}

TEST(version_samples, of_an_entry_without_any_start_at_the_newest) {
  version_samples samples;
  samples.add(entry, 64, 5, record_of(64));
  EXPECT_EQ(samples.start(entry + 64, 100, 3, record_of(100), 9), record_of(100));
  EXPECT_EQ(samples.start(entry, 100, 3, record_of(100), 9), record_of(64));
}

}  // namespace
}  // namespace icecore

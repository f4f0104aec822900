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
  const link from = samples.start(entry, depth, v, record_of(depth), stamps[depth]).record;
  RC_ASSERT(from >= record_of(answer));
  if (complete && answer >= version_samples::depth_min && answer < depth) {
    RC_ASSERT(from <= record_of(answer + version_samples::spacing));  // and close to it, if no sample is missing
  }
}

TEST(version_samples, start_at_the_newest_when_its_version_is_not_known_yet_or_is_that_of_all) {
  version_samples samples;
  samples.add(entry, 64, 5, record_of(64));
  samples.add(entry, 72, 5, record_of(72));
  EXPECT_EQ(samples.start(entry, 75, 6, record_of(75), 5).record, record_of(75));
  EXPECT_EQ(samples.start(entry, 75, 6, record_of(75), 0).record, record_of(75));
}

TEST(version_samples, of_an_entry_without_any_start_at_the_newest) {
  version_samples samples;
  samples.add(entry, 64, 5, record_of(64));
  EXPECT_EQ(samples.start(entry + 64, 100, 3, record_of(100), 9).record, record_of(100));
  EXPECT_EQ(samples.start(entry, 100, 3, record_of(100), 9).record, record_of(64));
}

/// Takes turns like finds, until none samples anything more.
struct sampled_by_turns {
  version_samples& samples;
  std::uint32_t depth;
  const std::vector<version>& stamps;

  /// The records that the turn read.
  unsigned take_turn(std::uint32_t records_max) const {
    version_samples::turn mine(samples, entry, depth, record_of(depth));
    unsigned read = 0;
    for (link l = mine.next(); l != null_link && read < records_max; ++read) {
      const auto d = static_cast<std::uint32_t>((l - record_of(0)) / 64);
      if (d < version_samples::depth_min) break;
      mine.add(d, stamps[d], l, record_of(d - 1));
      l = record_of(d - 1);
    }
    return read;
  }
};

RC_GTEST_PROP(version_samples, turns_sample_a_history_from_the_newest_record_down, ()) {
  const auto depth = *rc::gen::inRange<std::uint32_t>(version_samples::turn::history_depth_min, 2000);
  std::vector<version> stamps(depth + 1, 0);  // by depth
  for (std::uint32_t d = 1; d <= depth; ++d) stamps[d] = stamps[d - 1] + *rc::gen::inRange<version>(0, 3) + (d == 1);
  version_samples samples;
  const sampled_by_turns all{samples, depth, stamps};
  unsigned read = 0;
  const auto any_start_is_right = [&] {
    const auto v = *rc::gen::inRange<version>(0, stamps[depth] + 2);
    std::uint32_t answer = depth;  // the deepest record that v shows
    while (answer > 0 && stamps[answer] > v) --answer;
    const auto [from, is_near, all_sampled] = samples.start(entry, depth, v, record_of(depth), stamps[depth]);
    RC_ASSERT(from >= record_of(answer));
    RC_ASSERT(all_sampled == (read > depth - version_samples::depth_min));
    if (is_near && answer >= version_samples::depth_min && answer < depth)
      RC_ASSERT(from <= record_of(answer + version_samples::spacing));
    return is_near;
  };
  for (unsigned i = 0; i < version_samples::turn::misses_min; ++i) RC_ASSERT(all.take_turn(64) == 0);
  for (unsigned more = 1; more != 0; read += more) {
    static_cast<void>(any_start_is_right());
    more = all.take_turn(*rc::gen::inRange(1U, 200U));
  }
  RC_ASSERT(read == depth - version_samples::depth_min + 1);
  for (int i = 0; i < 10; ++i) RC_ASSERT(any_start_is_right());
}

TEST(version_samples, one_thread_at_a_time_has_the_turn_and_a_history_given_up_has_none) {
  version_samples samples;
  samples.add(entry, 1000, 1000, record_of(1000));
  {
    const version_samples::turn first(samples, entry, 1000, record_of(1000));
    EXPECT_EQ(first.next(), record_of(1000));
    EXPECT_EQ(version_samples::turn(samples, entry, 1000, record_of(1000)).next(), null_link);
  }
  {
    version_samples::turn second(samples, entry, 1000, record_of(1000));
    EXPECT_EQ(second.next(), record_of(1000));
    second.add(1000, 1000, record_of(1000), record_of(999));
    second.give_up();
  }
  EXPECT_EQ(version_samples::turn(samples, entry, 1000, record_of(1000)).next(), null_link);
}

}  // namespace
}  // namespace icecore

// The checker trusts sound histories and no others: histories of real stores that were killed, each spoiled in every
// way that corruptions.hpp knows.
#include "checker.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "corruptions.hpp"
#include "killed_store.hpp"
#include "support/seed.hpp"

namespace icecore::testing {
namespace {

/// The history of one more store, killed a few times after short lives.
[[nodiscard]] history record_one_more() {
  static std::uint64_t number = 0;
  const auto& settings = tmpfs_settings();
  const scratch folder;
  killed_store s(folder / "killed.ice", settings[number % settings.size()], test_seed() + number,
                 std::chrono::milliseconds(4));
  ++number;
  for (int life = 0; life < 6; ++life) s.live();
  return s.recorded();
}

/// Recorded once for all tests: of each setting one, and as many as it takes until there is something in them.
std::vector<history>& recorded() {
  static std::vector<history> all = [] {
    constexpr std::uint64_t operations_wanted = 5'000;
    std::vector<history> some;
    std::uint64_t operations = 0;
    while (some.size() < tmpfs_settings().size() || (operations < operations_wanted && some.size() < 100)) {
      some.push_back(record_one_more());
      operations += check(some.back()).operations;
    }
    return some;
  }();
  return all;
}

/// Spoils the history up to `times` times, each time differently, and expects each to be rejected. How often it could.
[[nodiscard]] unsigned expect_rejected(const corruption& c, const history& sound, unsigned times,
                                       std::mt19937_64& random) {
  unsigned spoiled_times = 0;
  for (unsigned attempt = 0; attempt < 4 * times && spoiled_times < times; ++attempt) {
    history spoiled = sound;
    if (!c.spoil(spoiled, random)) continue;
    ++spoiled_times;
    const std::string found = check(spoiled).violation.value_or("nothing");
    const auto broken = [&](int rule) { return found.starts_with("rule " + std::to_string(rule) + ":"); };
    EXPECT_TRUE(std::ranges::any_of(c.rules, broken)) << c.name << " in " << sound.origin << ": found was " << found;
  }
  return spoiled_times;
}

TEST(CheckerOfHistories, believes_what_stores_answered) {
  std::uint64_t operations = 0;
  for (const history& h : recorded()) {
    const verdict v = check(h);
    EXPECT_FALSE(v.violation) << h.origin << ": " << *v.violation;
    operations += v.operations;
  }
  EXPECT_GT(operations, 1000U) << "the histories hold next to nothing";
}

TEST(CheckerOfHistories, rejects_every_corruption_for_what_it_is) {
  std::mt19937_64 random(test_seed());
  unsigned rejected = 0;
  std::vector<corruption> all = spoiled_records();
  all.insert(all.end(), spoiled_answers().begin(), spoiled_answers().end());
  for (const corruption& c : all) {
    unsigned times = 0;
    for (const history& h : recorded()) times += expect_rejected(c, h, 2, random);
    // some need a write that was in flight and left no trace: not every history has one
    for (int more = 0; times == 0 && more < 50; ++more) {
      recorded().push_back(record_one_more());
      times = expect_rejected(c, recorded().back(), 2, random);
    }
    EXPECT_GT(times, 0U) << "no history offers a place for " << c.name;
    rejected += times;
  }
  RecordProperty("kinds", static_cast<int>(all.size()));
  RecordProperty("histories_rejected", static_cast<int>(rejected));
}

}  // namespace
}  // namespace icecore::testing

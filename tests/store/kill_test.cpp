// G5 and trap 5, 6: nothing acknowledged, seen or tagged is lost when the process is killed at any moment, again and
// again.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/killed_writer.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Killed : public ::testing::TestWithParam<setting> {
 protected:
  /// `stores` stores, each killed `kills_each` times.
  void run(unsigned stores, unsigned kills_each) {
    std::uint64_t acknowledged = 0;
    std::uint64_t recoveries = 0;
    for (unsigned i = 0; i < stores; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed() + i));
      const scratch folder(GetParam().where);
      kill_loop loop(folder / "killed.ice", GetParam(), seed() + i);
      for (unsigned kill = 0; kill < kills_each; ++kill) loop.cycle(40ms);
      acknowledged += loop.acknowledged_writes();
      recoveries += loop.recoveries();
    }
    RecordProperty("acknowledged_writes", std::to_string(acknowledged));
    RecordProperty("recoveries", std::to_string(recoveries));
    EXPECT_GT(acknowledged, 0U);
    EXPECT_GT(recoveries, stores) << "the kills hit nothing";
  }

  static unsigned seed() {
    const char* chosen = std::getenv("ICECORE_TEST_SEED");
    return chosen == nullptr ? 1 : static_cast<unsigned>(std::strtoul(chosen, nullptr, 10));
  }
};

TEST_P(Killed, nothing_acknowledged_is_lost) { run(8, 9); }

class KilledOften : public Killed {};

TEST_P(KilledOften, nothing_acknowledged_is_lost) { run(120, 10); }

const auto name_of = [](const auto& tested) { return tested.param.name(); };
#ifdef ICECORE_LONG_TESTS
INSTANTIATE_TEST_SUITE_P(EveryDurability, KilledOften, ::testing::ValuesIn(all_settings()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Killed);
#else
INSTANTIATE_TEST_SUITE_P(EveryDurability, Killed, ::testing::ValuesIn(tmpfs_settings()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KilledOften);
#endif

}  // namespace
}  // namespace icecore::testing

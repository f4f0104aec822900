// Reopening sorts keys of all shapes, on several threads: what is read back is what was written, in order.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t key_count = 80'000;  // more than 4 MiB of pool, which several threads read

using key_set = std::set<std::string>;

struct shape {
  const char* name;
  key_set (*make)();
};

key_set random_keys() {
  std::mt19937_64 random(1);
  key_set keys;
  while (keys.size() < key_count) {
    const std::uint64_t number = random();
    keys.emplace(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return keys;
}

key_set paths() {
  key_set keys;
  for (std::size_t i = 0; i < key_count; ++i) {
    keys.insert("/models/" + std::to_string(i % 7) + "/layers/" + std::to_string(i / 100) + "/w" + std::to_string(i));
  }
  return keys;
}

/// Heads that tie by the thousand, keys that are the beginning or the end of another, zeros at the end.
key_set ties() {
  key_set keys{"", std::string(1, '\0')};
  for (std::size_t i = 0; keys.size() < key_count; ++i) {
    const std::string base = "prefix--" + std::string(i % 40, 'x') + std::to_string(i / 40);
    keys.insert(base);
    keys.insert(base + '\0');
    keys.insert(base + std::string(2, '\0'));
    keys.insert(base.substr(0, i % 12));
  }
  return keys;
}

/// All but one are in a narrow range: even buckets suit them badly.
key_set crowded() {
  key_set keys{std::string(8, '\xff')};
  for (std::uint64_t i = 0; keys.size() < key_count; ++i) {
    const std::uint64_t big_endian = __builtin_bswap64(i);
    keys.emplace(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
  }
  return keys;
}

/// Nearly all are in one bucket, and behind what those share, in one bucket again.
key_set odd_ones() {
  key_set keys = paths();
  keys.insert({"meta", "/models/1", "/models/x", ""});
  return keys;
}

class reopening_order : public ::testing::TestWithParam<shape> {};

TEST_P(reopening_order, keys_of_every_shape_come_back_in_order_whatever_the_threads) {
  const scratch folder;
  const key_set keys = GetParam().make();
  {
    store s(folder / "keys.ice");
    std::vector<std::string> shuffled(keys.begin(), keys.end());
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(2));
    for (const auto& key : shuffled) s.insert(key, "value of 16 byte");
  }
  for (const unsigned threads : {1U, 2U, 3U, 8U}) {
    options how;
    how.recovery_threads = threads;
    const store s(folder / "keys.ice", how);
    const auto found = s.keys();
    ASSERT_EQ(found.size(), keys.size()) << threads;
    ASSERT_TRUE(std::ranges::equal(found, keys)) << threads;
    for (const auto& key : {*keys.begin(), *std::next(keys.begin(), 1000), *keys.rbegin()}) {
      ASSERT_TRUE(s.contains(key)) << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, reopening_order,
                         ::testing::Values(shape{"random", random_keys}, shape{"paths", paths},
                                           shape{"odd_ones", odd_ones}, shape{"ties", ties}, shape{"crowded", crowded}),
                         [](const auto& about) { return std::string(about.param.name); });

}  // namespace
}  // namespace icecore::testing

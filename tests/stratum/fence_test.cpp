// A fence leads to the last block whose separator is not behind what is sought.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "stratum/fence.hpp"

namespace icecore::stratum {
namespace {

struct separator_of {
  std::string key;
  version newest;
};

/// The definition, one after the other.
std::uint32_t expected(const std::vector<separator_of>& all, std::string_view key, version v) {
  std::uint32_t last = fence::none;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].key < key || (all[i].key == key && all[i].newest >= v)) last = i;
  }
  return last;
}

void compare(const std::vector<separator_of>& all, std::size_t prefix, const std::vector<std::string>& sought) {
  fence_builder b;
  for (std::uint32_t i = 0; i < all.size(); ++i) b.add(all[i].key, all[i].newest, {2 + i * 3, 1, 2}, {5 + i, 9 + i});
  std::vector<std::byte> bytes(b.size());
  b.write(bytes.data(), static_cast<std::uint32_t>(2 + all.size() * 3), prefix);
  const fence f(bytes.data(), b.blocks(), b.separators_size(), prefix, {5, 8 + all.size()});
  ASSERT_EQ(f.fail(), nullptr);
  for (const std::string& key : sought) {
    for (const version v : {version{1}, version{7}, version{8}, version{9}, version_max}) {
      ASSERT_EQ(f.find(sought_key(key), v).block, expected(all, key, v)) << key << " at " << v << " of " << all.size();
    }
  }
  ASSERT_EQ(f.place(b.blocks()), (2 + all.size() * 3) * format::block_alignment);
}

TEST(Fences, of_each_size_lead_to_the_right_block) {
  std::mt19937_64 random(2);
  constexpr std::array<std::size_t, 15> counts{1, 2, 15, 16, 17, 31, 255, 256, 257, 272, 273, 4095, 4096, 4097, 5000};
  for (const std::size_t count : counts) {
    std::vector<separator_of> all;
    for (std::size_t i = 0; i < count; ++i) {
      std::string key = "p";
      for (int b = 0; b < 3; ++b) key += static_cast<char>(random());
      all.push_back({key, version_max});
    }
    std::ranges::sort(all, {}, &separator_of::key);
    const auto [first, last] = std::ranges::unique(all, {}, &separator_of::key);
    all.erase(first, last);
    std::vector<std::string> sought{"", "o", "p", "q", std::string("p\0", 2), std::string(9, '\xff')};
    for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / 100) {
      sought.insert(sought.end(), {all[i].key, all[i].key + "x", all[i].key.substr(0, 3)});
    }
    compare(all, 1, sought);
    compare(all, 0, sought);
  }
}

TEST(Fences, whose_heads_tie_compare_whole_separators_and_versions) {
  std::vector<separator_of> all;
  const std::string common(20, 'c');
  all.push_back({common, version_max});
  for (int i = 0; i < 40; ++i)
    all.push_back({common + "k" + std::string(12, 'd') + static_cast<char>('A' + i), version_max});
  all.push_back({common + "kz", version_max});
  for (version v = 60; v > 4; v -= 2) all.push_back({common + "kz", v});
  all.push_back({common + "kzz", version_max});
  std::vector<std::string> sought{"", "d", common, common + "k", common + "kz", common + "kza", common + "kzz"};
  for (const separator_of& s : all) sought.push_back(s.key);
  compare(all, 20, sought);
  compare(all, 0, sought);
}

// ---- The versions of blocks ----

/// What a fence says of blocks that have these versions.
class versions_of_blocks {
 public:
  explicit versions_of_blocks(const std::vector<version_interval>& blocks)
      : bytes_([&] {
          fence_builder b;
          std::uint32_t place = 2;
          for (const version_interval& each : blocks) {
            b.add(std::to_string(1000 + place), version_max, {place, 1, 1}, each);
            ++place;
          }
          std::vector<std::byte> to(b.size());
          b.write(to.data(), place, 0);
          separators_ = b.separators_size();
          return to;
        }()) {
    for (const version_interval& each : blocks) {
      all_.least = std::min(all_.least, each.least);
      all_.greatest = std::max(all_.greatest, each.greatest);
    }
    count_ = static_cast<std::uint32_t>(blocks.size());
  }
  [[nodiscard]] fence get() const { return {bytes_.data(), count_, separators_, 0, all_}; }

 private:
  std::uint64_t separators_ = 0;
  std::vector<std::byte> bytes_;
  version_interval all_{version_max, 1};
  std::uint32_t count_ = 0;
};

TEST(Fences, tell_exactly_which_blocks_have_versions_of_a_range) {
  const std::vector<version_interval> blocks{{5, 5}, {5, 9}, {8, 20}, {21, 21}, {100, 4'000'000'000}, {1, 1}};
  const versions_of_blocks made(blocks);
  const fence f = made.get();
  ASSERT_EQ(f.fail(), nullptr);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    EXPECT_TRUE(f.says(i, blocks[i]));
    EXPECT_FALSE(f.says(i, {blocks[i].least + 1, blocks[i].greatest + 1}));
    for (const version v : {0UL, 1UL, 4UL, 5UL, 8UL, 9UL, 10UL, 20UL, 21UL, 22UL, 99UL, 4'000'000'000UL}) {
      EXPECT_EQ(f.may_have(i, v), blocks[i].least <= v) << i << " " << v;
      for (const version after : {0UL, 1UL, 4UL, 5UL, 7UL, 9UL, 19UL, 20UL, 21UL, 3'999'999'999UL}) {
        if (after >= v) continue;
        EXPECT_EQ(f.may_have(i, after, v), blocks[i].least <= v && blocks[i].greatest > after) << i << after << v;
      }
    }
  }
}

/// Where an extent's versions need more than 32 bits, its fence may count in units of many, and must not miss one.
TEST(Fences, never_miss_versions_that_are_far_apart) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 50; ++round) {
    const version span = version{1} << (20 + random() % 28);
    const version least = 1 + random() % (version_max - span);
    std::vector<version_interval> blocks{{least, least}, {least + span - 1, least + span - 1}};
    for (int i = 0; i < 40; ++i) {
      const version from = least + random() % span;
      blocks.push_back({from, from + random() % (least + span - from)});
    }
    const versions_of_blocks made(blocks);
    const fence f = made.get();
    ASSERT_EQ(f.fail(), nullptr);
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      const auto [first, last] = blocks[i];
      EXPECT_TRUE(f.says(i, blocks[i]));
      EXPECT_TRUE(f.may_have(i, first));
      EXPECT_TRUE(f.may_have(i, first - 1, first));
      EXPECT_TRUE(f.may_have(i, last - 1, last));
      EXPECT_TRUE(f.may_have(i, 0, version_max));
      const version unit = std::max<version>(1, (span - 1) >> 31);  // at least as many as one
      EXPECT_TRUE(first <= least + unit || !f.may_have(i, first - unit));
      EXPECT_TRUE(last + unit >= least + span || !f.may_have(i, last + unit, version_max));
    }
  }
}

}  // namespace
}  // namespace icecore::stratum

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
  for (std::uint32_t i = 0; i < all.size(); ++i) b.add(all[i].key, all[i].newest, {2 + i * 3, 1, 2});
  std::vector<std::byte> bytes(b.size());
  b.write(bytes.data(), static_cast<std::uint32_t>(2 + all.size() * 3), prefix);
  const fence f(bytes.data(), b.blocks(), b.separators_size(), prefix);
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

}  // namespace
}  // namespace icecore::stratum

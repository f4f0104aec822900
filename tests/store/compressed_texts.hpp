// A store of texts that change a little with each version, for the tests of packed versions that are compressed.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

inline compaction_options compressing() {
  compaction_options how;
  how.compression = compression::zstd;
  return how;
}

inline std::string key_of(unsigned i) { return "file-" + std::to_string(1000 + i); }

/// What `key` holds in `v`: texts of some kilobytes, each a little different from the one before.
inline std::string text_of(unsigned key, version v) {
  std::mt19937 random(key);
  std::string text;
  while (text.size() < 4'000) text += "line " + std::to_string(random() % 1'000) + "\n";
  for (version each = 1; each <= v; ++each) text[(each * 37 + key) % text.size()] = static_cast<char>('A' + each % 26);
  return text;
}

class Compression : public ::testing::Test {
 protected:
  static constexpr unsigned keys = 40;
  static constexpr version versions = 60;
  static constexpr std::uint64_t little = 400'000;  // a hundredth of what the versions take

  void fill() {
    store s(path_, how_);
    for (version v = 1; v <= versions; ++v) {
      for (unsigned k = 0; k < keys; ++k) s.insert(key_of(k), text_of(k, v));
      s.tag();
    }
  }
  static void expect_text(std::string_view found, unsigned key, version v) {
    EXPECT_TRUE(found == text_of(key, v)) << key_of(key) << " at " << v;
  }

  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "store.ice";
  options how_ = [] {
    options o;
    o.durability = durability::none;
    o.block_cache_bytes = little;
    return o;
  }();
};

}  // namespace icecore::testing

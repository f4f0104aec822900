// A store whose packed versions are compressed shows what it did, in bounded memory, and views stay valid while frames
// come and go. Random scripts are in model_test.cpp, damage in compaction_test.cpp, crashes in the crash simulator.
#include <gtest/gtest.h>

#include <random>

#include "compressed_texts.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

TEST_F(Compression, takes_a_fraction_of_the_space_and_shows_every_version) {
  fill();
  const compaction_report done = compact(path_, how_, compressing());
  EXPECT_LT(done.bytes_written * 10, keys * versions * 4'000);
  EXPECT_TRUE(verify_file(path_).ok());
  const store s(path_, how_);
  for (version v = 1; v <= versions; v += 7) {
    for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), v)->bytes(), k, v);
    const snapshot then = s.at(v);
    unsigned k = 0;
    for (const auto& [key, value] : then.items()) {
      EXPECT_EQ(key, key_of(k));
      expect_text(value, k, v);
      ++k;
    }
    EXPECT_EQ(k, keys);
  }
  const statistics now = s.stats();
  EXPECT_EQ(now.format_major, 8U);
  EXPECT_LT(now.packed_bytes, done.bytes_written + 1);
  EXPECT_GT(now.packed_inflated_bytes, keys * versions * 4'000);
  EXPECT_EQ(now.block_cache_bytes_max, little);
  EXPECT_GT(now.block_cache_misses, 100U);
  EXPECT_GT(now.block_cache_hits, 10U);
}

TEST_F(Compression, keeps_its_memory_within_the_bound_while_finds_come_and_go) {
  fill();
  static_cast<void>(compact(path_, how_, compressing()));
  const store s(path_, how_);
  constexpr std::uint64_t longest_chain = 7 * 40'000;  // a frame and its ancestors
  for (version v = 1; v <= versions; v += 3) {
    for (unsigned k = 0; k < keys; ++k) {
      expect_text(s.find(key_of(k), v)->bytes(), k, v);
      EXPECT_LE(s.stats().block_cache_bytes, little + longest_chain);
    }
  }
}

TEST_F(Compression, keeps_what_a_pin_has_seen_and_gives_it_back_afterwards) {
  fill();
  static_cast<void>(compact(path_, how_, compressing()));
  const store s(path_, how_);
  {
    const snapshot then = s.at(versions / 2);
    const auto listed = then.items();
    std::vector<std::string_view> seen;
    for (const auto& [key, value] : listed) seen.push_back(value);
    for (version v = 1; v <= versions; v += 5) {  // everything comes, and nothing of it may go
      for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), v)->bytes(), k, v);
    }
    EXPECT_GT(s.stats().block_cache_bytes, 2 * little);
    for (unsigned k = 0; k < keys; ++k) expect_text(seen[k], k, versions / 2);
  }
  for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), 3)->bytes(), k, 3);
  for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), versions)->bytes(), k, versions);
  EXPECT_LE(s.stats().block_cache_bytes, little + 7 * 40'000);
}

TEST_F(Compression, keeps_views_valid_when_the_store_is_closed) {
  fill();
  static_cast<void>(compact(path_, how_, compressing()));
  std::optional<value> kept;
  {
    const store s(path_, how_);
    kept = s.find(key_of(7), 9);
  }
  expect_text(kept->bytes(), 7, 9);
}

TEST_F(Compression, is_kept_by_strata_that_stay_and_goes_when_everything_is_packed_again_without) {
  fill();
  static_cast<void>(compact(path_, how_, compressing()));
  {
    store s(path_, how_);
    s.insert("young", "1");
  }
  const compaction_report next = compact(path_, how_);
  EXPECT_EQ(next.strata, 2U);
  {
    const store s(path_, how_);
    EXPECT_LT(s.stats().packed_bytes * 10, s.stats().packed_inflated_bytes);
    expect_text(s.find(key_of(3), 4)->bytes(), 3, 4);
  }
  compaction_options whole;
  whole.whole = true;
  static_cast<void>(compact(path_, how_, whole));
  const store s(path_, how_);
  EXPECT_EQ(s.stats().packed_bytes, s.stats().packed_inflated_bytes);
  EXPECT_EQ(s.stats().block_cache_bytes_max, 0U);
  for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), 31)->bytes(), k, 31);
}

TEST_F(Compression, comes_and_goes_without_a_write_if_everything_is_packed_again) {
  fill();
  static_cast<void>(compact(path_, how_));
  EXPECT_FALSE(compact(path_, how_, compressing()).packed);
  compaction_options whole = compressing();
  whole.whole = true;
  EXPECT_TRUE(compact(path_, how_, whole).packed);
  EXPECT_FALSE(compact(path_, how_, whole).packed);
  {
    const store s(path_, how_);
    EXPECT_LT(s.stats().packed_bytes * 10, s.stats().packed_inflated_bytes);
    for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), 31)->bytes(), k, 31);
  }
  whole.compression = compression::none;
  EXPECT_TRUE(compact(path_, how_, whole).packed);
  const store s(path_, how_);
  EXPECT_EQ(s.stats().packed_bytes, s.stats().packed_inflated_bytes);
  expect_text(s.find(key_of(5), 31)->bytes(), 5, 31);
}

TEST_F(Compression, has_levels_and_refuses_others) {
  fill();
  const std::string before = read_file(path_);
  for (const int level : {0, 20, -1}) {
    compaction_options how = compressing();
    how.compression_level = level;
    expect_error(errc::invalid_argument, "compression_level", [&] { static_cast<void>(compact(path_, how_, how)); });
  }
  compaction_options how;
  how.compression = static_cast<compression>(2);
  expect_error(errc::invalid_argument, "compression", [&] { static_cast<void>(compact(path_, how_, how)); });
  EXPECT_EQ(read_file(path_), before);
}

}  // namespace
}  // namespace icecore::testing

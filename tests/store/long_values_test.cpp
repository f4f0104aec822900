// Values of more than a gigabyte: compaction packs them, up to what a block can have. Takes 12 GiB of memory.
#include <gtest/gtest.h>

#include <string>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

TEST(CompactionOfLongValues, packs_them_and_shows_them_again) {
  const scratch folder(place::disk);
  const auto path = folder / "long.ice";
  std::string value((std::uint64_t{1} << 30) + 12'345, 'a');
  for (std::size_t i = 0; i < value.size(); i += 4096) value[i] = static_cast<char>(i / 4096 % 251);
  {
    store s(path);
    s.insert("before", "1");
    s.insert("long", value);
    s.insert("long afterwards", "2");
    s.tag();
  }
  for (const compression how : {compression::none, compression::zstd}) {
    compaction_options packing;
    packing.whole = true;
    packing.compression = how;
    ASSERT_EQ(compact(path, {}, packing).keys, 3U);
    store s(path);
    EXPECT_EQ(s.stats().packed_keys, 3U);
    EXPECT_TRUE(s.find("long") == value);
    EXPECT_EQ(s.find("long afterwards"), "2");
    EXPECT_EQ(s.find("before"), "1");
    EXPECT_TRUE(s.verify().ok());
  }
}

TEST(CompactionOfLongValues, leaves_the_longest_where_they_are_and_refuses_to_compress_what_is_longer) {
  const scratch folder(place::disk);
  const auto path = folder / "longest.ice";
  std::string value(packed_value_size_max + 1, 'a');
  value.back() = 'z';
  {
    store s(path);
    s.insert(std::string(key_size_max, 'k'), value);
    s.tag();
  }
  const compaction_report done = compact(path, {}, {});
  EXPECT_EQ(done.keys, 1U);
  EXPECT_LT(done.bytes_written, 1'000'000U);
  expect_error(errc::value_too_large, std::to_string(packed_value_size_max), [&] {
    static_cast<void>(compact(path, {}, {.whole = true, .compression = compression::zstd, .on_progress = {}}));
  });
  store s(path);
  const auto found = s.find(std::string(key_size_max, 'k'));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->bytes() == value);
}

}  // namespace
}  // namespace icecore::testing

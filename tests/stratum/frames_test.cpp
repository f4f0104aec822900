// Frames of a compressed extent come and go within a bound, and never under somebody who looks. Frames that were forged
// take no memory beyond their places.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "base/checksum.hpp"
#include "icecore/error.hpp"
#include "packed_model.hpp"
#include "stratum/frames/frame_cache.hpp"
#include "stratum/frames/frame_parts.hpp"
#include "stratum/frames/framed_blocks.hpp"

namespace icecore::stratum {
namespace {

/// Each key has a block and, as it has at least 64 KiB, a frame of its own.
constexpr std::size_t value_bytes = 100'000;
std::string key_of(int i) { return "key-" + std::to_string(100 + i); }
std::string value_of(int i) { return std::string(value_bytes, static_cast<char>('a' + i)); }

packed frames_of(int count) {
  histories_model model;
  for (int i = 0; i < count; ++i) model[key_of(i)] = {{7, value_of(i)}};
  return compressed(pack(model));
}

/// A test says when nobody looks any more.
class told_viewers final : public viewers {
 public:
  std::optional<std::uint64_t> renew() override {
    ++renewed;
    return offers_barrier ? std::optional(newest += 1) : std::nullopt;
  }
  bool none_before(std::uint64_t number) override { return number <= ended_before; }
  [[nodiscard]] bool any() const override { return true; }

  bool offers_barrier = true;
  std::uint64_t newest = 1;
  std::uint64_t ended_before = 0;
  int renewed = 0;
};

struct Frames : testing::Test {
  static constexpr std::uint64_t bound = 8 * value_bytes;
  packed p = frames_of(20);
  std::shared_ptr<frame_cache> cache = std::make_shared<frame_cache>(bound);
  extent e = p.open(cache);
  told_viewers all;

  std::string_view read(int i) {
    const auto found = e.find(key_of(i), 9);
    EXPECT_TRUE(found);
    EXPECT_TRUE(found->value == value_of(i)) << i;
    return found->value;
  }
  std::uint64_t misses_of(int i) {
    const std::uint64_t before = cache->now().misses;
    read(i);
    return cache->now().misses - before;
  }
};

TEST_F(Frames, opening_inflates_nothing_and_a_frame_is_inflated_once) {
  EXPECT_EQ(cache->now().bytes, 0U);
  EXPECT_EQ(misses_of(3), 1U);
  EXPECT_EQ(misses_of(3), 0U);
  EXPECT_GE(cache->now().bytes, value_bytes);
  EXPECT_LT(cache->now().bytes, 2 * value_bytes);
}

TEST_F(Frames, none_leaves_without_viewers) {
  for (int i = 0; i < 20; ++i) read(i);
  EXPECT_GE(cache->now().bytes, 20 * value_bytes);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(misses_of(i), 0U);
}

TEST_F(Frames, none_leaves_where_the_kernel_offers_no_barrier) {
  all.offers_barrier = false;
  all.ended_before = 1'000'000;
  cache->watch(&all);
  for (int i = 0; i < 20; ++i) read(i);
  EXPECT_EQ(all.renewed, 1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(misses_of(i), 0U);
}

TEST_F(Frames, the_oldest_leave_once_those_who_saw_them_have_ended) {
  all.ended_before = 1'000'000;
  cache->watch(&all);
  for (int i = 0; i < 20; ++i) {
    read(i);
    EXPECT_LE(cache->now().bytes, bound);
  }
  EXPECT_EQ(misses_of(19), 0U);
  EXPECT_EQ(misses_of(0), 1U);
}

TEST_F(Frames, what_somebody_may_look_at_stays_beyond_the_bound) {
  cache->watch(&all);
  std::vector<std::string_view> views;
  for (int i = 0; i < 20; ++i) views.push_back(read(i));
  EXPECT_GT(cache->now().bytes, 20 * value_bytes);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(views[static_cast<std::size_t>(i)] == value_of(i));
  all.ended_before = 1'000'000;
  read(0);  // whoever reads next makes room, though it takes back what is there
  EXPECT_LE(cache->now().bytes, bound);
  EXPECT_EQ(misses_of(0), 0U);
}

TEST_F(Frames, room_is_made_when_the_next_frame_arrives) {
  cache->watch(&all);
  for (int i = 0; i < 19; ++i) read(i);
  EXPECT_GT(cache->now().bytes, bound);
  all.ended_before = all.newest;
  read(19);
  EXPECT_LE(cache->now().bytes, bound);
}

TEST_F(Frames, one_that_is_read_again_before_it_leaves_stays) {
  cache->watch(&all);
  int i = 0;
  while (all.renewed == 0) read(i++);  // the oldest frames have lost their bits
  EXPECT_EQ(misses_of(0), 0U);         // taken back
  all.ended_before = all.newest;
  for (; cache->now().bytes <= bound - value_bytes / 2; ++i) read(i);
  const std::uint64_t hits = cache->now().hits;
  read(i);  // makes room
  EXPECT_EQ(misses_of(0), 0U);
  EXPECT_EQ(misses_of(1), 1U);
  EXPECT_EQ(cache->now().hits, hits);  // of frame 0 the block had its bit
}

TEST(FramesOfOneReader, that_are_to_leave_while_their_blocks_are_checked_stay) {
  const packed p = frames_of(4);
  const auto cache = std::make_shared<frame_cache>(value_bytes / 2);
  const extent e = p.open(cache);
  told_viewers all;
  cache->watch(&all);
  // It arrives, and is cleared at once, as there is too much; then its block is checked, and has its bit.
  ASSERT_TRUE(e.find(key_of(0), 9)->value == value_of(0));
  ASSERT_EQ(all.renewed, 1);
  all.ended_before = all.newest;
  ASSERT_TRUE(e.find(key_of(1), 9)->value == value_of(1));
  const std::uint64_t misses = cache->now().misses;
  EXPECT_TRUE(e.find(key_of(0), 9)->value == value_of(0));
  EXPECT_EQ(cache->now().misses, misses);
}

TEST_F(Frames, the_memory_of_those_that_left_is_given_back_but_for_shared_pages) {
  all.ended_before = 1'000'000;
  cache->watch(&all);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) read(i);
  }
  std::byte* const memory = static_cast<const reserved_range*>(e.inflated_memory().get())->begin();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t pages = (e.header().fence_at + page - 1) / page;
  std::vector<unsigned char> resident(pages);
  ASSERT_EQ(::mincore(memory, pages * page, resident.data()), 0);
  std::uint64_t there = 0;
  for (const unsigned char r : resident) there += r & 1U;
  EXPECT_LE(there * page, bound + 20 * page);
}

TEST(FramesOfHistories, are_inflated_with_their_ancestors_alone) {
  histories_model model;
  std::mt19937_64 random(3);
  std::string text = random_bytes(random, 40'000);
  for (version v = 130; v > 0; --v) {
    text[random() % text.size()] ^= 1;
    model["a"].emplace_back(v, text);
  }
  const packed plain = pack(model);
  const packed p = compressed(plain);
  EXPECT_LT(p.bytes.size() * 20, plain.bytes.size());  // 130 versions of random bytes: two are stored in full
  for (version v = 1; v <= 130; ++v) {
    const auto cache = std::make_shared<frame_cache>(0);
    const extent e = p.open(cache);
    const auto found = e.find("a", v);
    ASSERT_TRUE(found && find_in(model, "a", v) == as_seen(*found)) << v;
    EXPECT_LE(cache->now().bytes, 8 * 41'000U) << v;
    EXPECT_EQ(cache->now().misses, 1U);
  }
}

TEST(FramesOfHistories, are_inflated_by_a_scan_only_where_it_shows_something) {
  std::mt19937_64 random(6);
  histories_model model;
  for (int key = 0; key < 10; ++key) {
    std::string text = random_bytes(random, 9'000);
    for (version v = 100; v > 0; --v) {
      text[random() % text.size()] ^= 1;
      model[key_of(key)].emplace_back(v, text);
    }
  }
  const packed p = compressed(pack(model));
  for (const version v : {100U, 77U, 33U, 1U}) {
    const auto cache = std::make_shared<frame_cache>(0);
    const extent e = p.open(cache);
    int shown = 0;
    e.for_each_at(v, "", [&](std::string_view key, const packed_record& r) {
      EXPECT_TRUE(find_in(model, key, v) == as_seen(r)) << key;
      return ++shown != 0;
    });
    EXPECT_EQ(shown, 10);
    EXPECT_LE(cache->now().misses, 10U) << v;  // and as many ancestors
  }
}

/// Keys of few versions share blocks and frames, whose versions the fence tells.
TEST(FramesOfHistories, are_not_inflated_where_all_is_too_new_or_was_not_written) {
  std::mt19937_64 random(7);
  histories_model model;
  for (int key = 0; key < 400; ++key) {
    model[key_of(key)] = {{key == 200 ? 9'000U : static_cast<version>(1'000 + key), random_bytes(random, 3'000)}};
  }
  const packed p = compressed(pack(model));
  const auto count_frames = [&](const auto& read) {
    const auto cache = std::make_shared<frame_cache>(0);
    const extent e = p.open(cache);
    read(e);
    return cache->now().misses;
  };
  const std::uint64_t all = count_frames([](const extent& e) {
    e.for_each_at(version_max, "", [](std::string_view, const packed_record&) { return true; });
  });
  ASSERT_GT(all, 15U);
  int shown = 0;
  const std::uint64_t of_first_keys = count_frames([&](const extent& e) {
    e.for_each_at(1'009, "", [&](std::string_view, const packed_record&) { return ++shown != 0; });
  });
  EXPECT_EQ(shown, 10);
  EXPECT_LE(of_first_keys, 2U);  // the walk begins in the first one
  std::vector<version> told;
  const std::uint64_t of_one_key = count_frames([&](const extent& e) {
    e.for_each_written(8'999, 9'000, "", std::nullopt, [&](const extent::record_at& at) {
      told.push_back(e.block_at(at.block).row_at(at.row).record.stamped);
      return true;
    });
  });
  EXPECT_EQ(told, std::vector<version>{9'000});
  EXPECT_EQ(of_one_key, 1U);
}

TEST(FramesOfHistories, have_few_ancestors_whatever_histories_lie_before) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 6; ++round) {
    histories_model model;
    for (int key = 0; key < 12; ++key) {
      std::string text = random_bytes(random, 500 + random() % 6'000);
      for (version v = 40 + random() % 400; v > 0; --v) {
        text[random() % text.size()] ^= 1;
        model[key_of(key)].emplace_back(v, text);
      }
    }
    const packed p = compressed(pack(model));
    const extent e = p.open();  // which refuses more
    for (const auto& [key, history] : model) {
      for (const auto& one : history) ASSERT_TRUE(e.find(key, one.first)->value == *one.second);
    }
  }
}

// ---- Forged frames ----

struct ForgedFrames : testing::Test {
  packed plain = [] {
    histories_model model;
    for (int i = 0; i < 3; ++i) model[key_of(i)] = {{7, value_of(i)}};
    return pack(model);
  }();

  /// The extent with other bytes as its first frame, and all checksums right.
  packed with_first_frame(const std::string& frame) const {
    const packed p = compressed(plain);
    std::vector<std::byte> media(p.bytes.begin(), p.bytes.end());
    format::framed_header h;
    std::memcpy(&h, media.data(), sizeof h);
    format::frame_entry first;
    std::memcpy(&first, media.data() + h.table_at, sizeof first);
    const std::size_t begin = h.table_at + h.frames * sizeof first;
    const auto at = media.begin() + static_cast<std::ptrdiff_t>(begin);
    media.erase(at, at + first.size);
    const auto* const bytes = reinterpret_cast<const std::byte*>(frame.data());
    media.insert(media.begin() + static_cast<std::ptrdiff_t>(begin), bytes, bytes + frame.size());
    first.size = static_cast<std::uint32_t>(frame.size());
    first.crc = crc32c(frame_seed(p.seed, 0), frame.data(), frame.size());
    std::memcpy(media.data() + h.table_at, &first, sizeof first);
    h.size = media.size();
    h.table_crc = crc32c(p.seed, media.data() + h.table_at, h.frames * sizeof first);
    format::extent_header inner;
    std::memcpy(&inner, media.data() + sizeof h, sizeof inner);
    h.crc = framed_crc(h, inner, p.seed);
    std::memcpy(media.data(), &h, sizeof h);
    packed forged{aligned_bytes(media.size()), {}, p.seed};
    forged.bytes = forged.memory.get();
    std::ranges::copy(media, forged.bytes.begin());
    return forged;
  }
  static std::uint64_t bytes_of_block(const extent& e, std::uint32_t i) { return e.block_at(i).header().size; }
  static std::string zeros(std::size_t size, bool told) {
    const std::string content(size, '\0');
    std::string frame(ZSTD_compressBound(size), '\0');
    ZSTD_CCtx* const zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, told ? 1 : 0);
    frame.resize(ZSTD_compress2(zstd, frame.data(), frame.size(), content.data(), content.size()));
    ZSTD_freeCCtx(zstd);
    return frame;
  }
  static void expect_refused(const packed& forged, std::string_view why) {
    const extent e = forged.open();
    try {
      static_cast<void>(e.find(key_of(0), 9));
      ADD_FAILURE() << "no error";
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::damaged);
      EXPECT_THAT(refused.what(), testing::AllOf(testing::HasSubstr("packed.pool"), testing::HasSubstr("damaged at"),
                                                 testing::HasSubstr(std::string(why))));
    }
    EXPECT_TRUE(e.find(key_of(1), 9)->value == value_of(1));  // the others can be read
  }
};

TEST_F(ForgedFrames, one_that_claims_more_than_its_place_is_damaged) {
  expect_refused(with_first_frame(zeros(std::size_t{1} << 26, true)), "does not tell the size");
}

TEST_F(ForgedFrames, one_that_does_not_say_how_long_it_is_is_damaged) {
  expect_refused(with_first_frame(zeros(std::size_t{1} << 26, false)), "does not tell the size");
}

TEST_F(ForgedFrames, one_that_is_longer_than_it_says_is_damaged_and_writes_nothing_beyond_its_place) {
  const extent e = plain.open();
  const std::uint64_t place = bytes_of_block(e, 0);
  std::string frame = zeros(std::size_t{1} << 26, true);
  const std::uint64_t descriptor = static_cast<unsigned char>(frame[4]);
  ASSERT_EQ(descriptor >> 6, 2U) << "the size has four bytes";
  const auto told = static_cast<std::uint32_t>(place);
  const std::size_t at = 5 + ((descriptor >> 5 & 1) != 0 ? 0 : 1);  // behind the window's byte, if there is one
  std::memcpy(frame.data() + at, &told, sizeof told);
  expect_refused(with_first_frame(frame), "does not inflate");
}

TEST_F(ForgedFrames, one_of_other_content_is_damaged) {
  const extent e = plain.open();
  expect_refused(with_first_frame(zeros(bytes_of_block(e, 0), true)), "damaged");
}

}  // namespace
}  // namespace icecore::stratum

// An extent that was damaged says so, and never answers wrongly.
#include <gmock/gmock.h>

#include "base/checksum.hpp"
#include "base/memory/sanitizer.hpp"
#include "icecore/error.hpp"
#include "packed_model.hpp"
#include "stratum/extent_parts.hpp"
#include "stratum/frames/frame_parts.hpp"

namespace icecore::stratum {
namespace {

#if defined(ICECORE_UNDER_THREAD_SANITIZER) || defined(ICECORE_UNDER_ADDRESS_SANITIZER)
constexpr std::size_t effort = 1;  // everything takes thirty times as long
#else
constexpr std::size_t effort = 8;
#endif

/// What is compressed has to be inflated for each try.
std::size_t effort_for(form how) { return how == form::plain || effort == 1 ? effort : effort / 8; }

struct DamagedExtents : testing::TestWithParam<std::tuple<shape, form>> {
  histories_model model = std::get<0>(GetParam()).make();
  packed p = [this] {
    while (model.size() > 60) model.erase(std::prev(model.end()));
    return pack_as(std::get<1>(GetParam()), model, 300);
  }();

  [[nodiscard]] static bool is_compressed() { return std::get<1>(GetParam()) == form::compressed; }
  /// Where the fence begins, or the table of frames.
  [[nodiscard]] std::size_t deciding_at() const {
    if (is_compressed()) {
      format::framed_header f;
      std::memcpy(&f, whole.data(), sizeof f);
      return f.table_at;
    }
    format::extent_header h;
    std::memcpy(&h, whole.data(), sizeof h);
    return h.fence_at;
  }
  const std::vector<std::byte> whole{p.bytes.begin(), p.bytes.end()};

  /// Reads everything; what is answered must be true.
  void read_all(const extent& e) const {
    for (const auto& [key, history] : model) {
      try {
        const version v = history[history.size() / 2].first;
        const auto found = e.find(key, v);
        ASSERT_EQ(found ? std::optional(as_seen(*found)) : std::nullopt, find_in(model, key, v)) << key;
      } catch (const error& damaged) {
        ASSERT_EQ(damaged.code(), errc::damaged);
      }
    }
    try {
      auto it = model.begin();
      e.for_each_at(version_max, "", [&](std::string_view key, const packed_record& r) {
        EXPECT_EQ(key, it->first);
        EXPECT_EQ(as_seen(r), (seen{it->second.front().first, it->second.front().second}));
        ++it;
        return true;
      });
      EXPECT_EQ(it, model.end());
    } catch (const error& damaged) {
      ASSERT_EQ(damaged.code(), errc::damaged);
    }
  }
};

TEST_P(DamagedExtents, each_flipped_bit_is_named_and_no_answer_is_wrong) {
  std::mt19937_64 random(9);
  const std::size_t step = 1 + p.bytes.size() / (1'500 * effort_for(std::get<1>(GetParam())));
  for (std::size_t at = 0; at < p.bytes.size(); at += step) {
    const std::byte before = p.bytes[at];
    p.bytes[at] ^= std::byte{1} << (random() % 8);
    bool named = false;
    try {
      const extent e = p.open();
      e.verify([&](std::string_view what, std::uint64_t offset) {
        named = true;
        EXPECT_FALSE(what.empty());
        EXPECT_LE(offset, 4096 + at);  // the part that the byte belongs to
      });
      read_all(e);
    } catch (const error& damaged) {
      named = true;
      EXPECT_EQ(damaged.code(), errc::damaged);
      EXPECT_THAT(damaged.what(),
                  testing::AllOf(testing::HasSubstr("packed.pool"), testing::HasSubstr("damaged at byte")));
    }
    ASSERT_TRUE(named) << "byte " << at << " of " << p.bytes.size();
    p.bytes[at] = before;
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(DamagedExtents, an_extent_that_was_cut_off_is_damaged) {
  for (std::size_t size = 0; size < p.bytes.size(); size += 1 + size / 3) {
    EXPECT_THROW((void)extent::open(p.bytes.first(size), {.file = "x", .seed = p.seed}), error) << size;
  }
}

TEST_P(DamagedExtents, an_extent_of_another_place_is_damaged) {
  EXPECT_THROW((void)extent::open(p.bytes, {.file = "x", .seed = p.seed + 1}), error);
}

/// Makes all checksums right, as who forges an extent would. What follows must be an error or an answer, of whatever
/// kind: no read beyond the bytes (the address sanitizer sees them), no endless loop.
void seal_plain(std::span<std::byte> bytes, std::uint32_t seed) {
  format::extent_header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  std::uint64_t at = sizeof h;
  for (std::uint32_t i = 0; i < h.blocks && at + sizeof(format::block_header) <= bytes.size(); ++i) {
    format::block_header b;
    std::memcpy(&b, bytes.data() + at, sizeof b);
    if (b.size < sizeof b || b.size > bytes.size() - at) break;
    b.crc = crc32c(block_seed(seed, at), bytes.data() + at + 4, b.size - 4);
    std::memcpy(bytes.data() + at, &b.crc, sizeof b.crc);
    at += b.size;
  }
  if (h.fence_at <= bytes.size() && h.size <= bytes.size() && h.fence_at <= h.size) {
    h.fence_crc = crc32c(seed, bytes.data() + h.fence_at, h.size - h.fence_at);
  }
  h.crc = header_crc(h, seed);
  std::memcpy(bytes.data(), &h, sizeof h);
}

/// The same of a compressed extent.
void seal_framed(std::span<std::byte> bytes, std::uint32_t seed) {
  format::framed_header f;
  std::memcpy(&f, bytes.data(), sizeof f);
  format::extent_header h;
  std::memcpy(&h, bytes.data() + sizeof f, sizeof h);
  if (h.fence_at <= h.size && h.size - h.fence_at <= bytes.size() - framed_fence_at) {
    h.fence_crc = crc32c(seed, bytes.data() + framed_fence_at, h.size - h.fence_at);
  }
  h.crc = header_crc(h, seed);
  std::memcpy(bytes.data() + sizeof f, &h, sizeof h);
  const std::uint64_t table = std::uint64_t{f.frames} * sizeof(format::frame_entry);
  if (f.table_at <= bytes.size() && table <= bytes.size() - f.table_at) {
    std::uint64_t at = f.table_at + table;
    for (std::uint32_t i = 0; i < f.frames; ++i) {
      std::byte* const entry = bytes.data() + f.table_at + i * sizeof(format::frame_entry);
      format::frame_entry e;
      std::memcpy(&e, entry, sizeof e);
      if (e.size > bytes.size() - at) break;
      e.crc = crc32c(frame_seed(seed, i), bytes.data() + at, e.size);
      std::memcpy(entry, &e, sizeof e);
      at += e.size;
    }
    f.table_crc = crc32c(seed, bytes.data() + f.table_at, table);
  }
  f.crc = framed_crc(f, h, seed);
  std::memcpy(bytes.data(), &f, sizeof f);
}

TEST_P(DamagedExtents, a_forged_extent_is_refused_or_read_within_its_bytes) {
  std::mt19937_64 random(4);
  for (std::size_t round = 0; round < 400 * effort_for(std::get<1>(GetParam())); ++round) {
    std::copy(whole.begin(), whole.end(), p.bytes.begin());
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      // Headers, the fence and the table of frames decide where is read: mostly these.
      const std::size_t parts[] = {random() % whole.size(), random() % 192,
                                   deciding_at() + random() % (whole.size() - deciding_at())};
      p.bytes[parts[random() % 3]] = random() % 2 != 0 ? static_cast<std::byte>(random()) : std::byte{0xff};
    }
    is_compressed() ? seal_framed(p.bytes, p.seed) : seal_plain(p.bytes, p.seed);
    try {
      const extent e = p.open();
      e.verify([](std::string_view, std::uint64_t) {});
      for (const auto& [key, history] : model) {
        try {
          (void)e.find(key, history[0].first);
          std::size_t told = 0;
          e.for_each_of(key, version_max, [&](const packed_record& r) { return told += r.value.size() + 1, true; });
        } catch (const error&) {
        }
      }
      std::size_t shown = 0;
      e.for_each_at(version_max, "m", [&](std::string_view key, const packed_record& r) {
        shown += key.size() + r.value.size() + 1;
        return true;
      });
    } catch (const error& refused) {
      ASSERT_EQ(refused.code(), errc::damaged);
    }
  }
}

/// Where the fence's heads end in a plain extent.
std::size_t behind_heads(const extent& e) {
  std::uint64_t heads = e.blocks();
  for (std::uint64_t count = heads; count > format::fence_fanout; heads += count) {
    count = (count + format::fence_fanout - 1) / format::fence_fanout;
  }
  return e.header().fence_at + heads * sizeof(version);
}

/// Where the newest version of a block that goes on with a key stands in a plain extent; 0: none goes on.
std::size_t newest_of_one_that_goes_on(std::span<const std::byte> bytes, const extent& e) {
  for (std::uint32_t i = 1; i < e.blocks(); ++i) {
    if (e.goes_on(i)) return behind_heads(e) + i * sizeof(version);
  }
  EXPECT_FALSE(bytes.empty());
  return 0;
}

TEST(ForgedFences, a_block_that_would_begin_with_other_versions_is_named) {
  histories_model model;
  for (version v = 200; v > 0; v -= 4) model["deep"].emplace_back(v, "value " + std::to_string(v));
  for (const bool higher : {true, false}) {
    packed p = pack_as(form::plain, model, 300);
    std::size_t at = 0;
    {
      const extent sound = p.open();
      at = newest_of_one_that_goes_on(p.bytes, sound);
      ASSERT_NE(at, 0U);
      sound.verify([](std::string_view what, std::uint64_t) { ADD_FAILURE() << what; });
    }
    version newest;
    std::memcpy(&newest, p.bytes.data() + at, sizeof newest);
    const version forged = higher ? newest + 2 : newest - 2;  // still in order with those of other blocks
    std::memcpy(p.bytes.data() + at, &forged, sizeof forged);
    seal_plain(p.bytes, p.seed);
    const extent e = p.open();
    std::vector<std::string> named;
    e.verify([&](std::string_view what, std::uint64_t) { named.emplace_back(what); });
    EXPECT_THAT(named, testing::Contains("the block's last version is not where the fence says")) << higher;
    // Who walks over the history comes to the block that does not fit, and is told.
    EXPECT_THROW(e.for_each_of("deep", version_max, [](const packed_record&) { return true; }), error) << higher;
  }
}

/// Else who looks for versions would pass over a block that has them.
TEST(ForgedFences, a_block_of_other_versions_than_the_fence_says_is_named) {
  histories_model model;
  for (int key = 0; key < 60; ++key)
    model["key " + std::to_string(100 + key)] = {{10U + static_cast<version>(key), "v"}};
  for (const bool greatest : {true, false}) {
    packed p = pack_as(form::plain, model, 300);
    std::size_t at = 0;
    {
      const extent sound = p.open();
      ASSERT_GT(sound.blocks(), 1U);
      const std::size_t places_end = behind_heads(sound) + (2 * sound.blocks() + 1) * sizeof(format::block_place);
      at = places_end + sizeof(format::block_versions) + (greatest ? offsetof(format::block_versions, greatest) : 0);
    }
    std::uint32_t there;
    std::memcpy(&there, p.bytes.data() + at, sizeof there);
    ++there;
    std::memcpy(p.bytes.data() + at, &there, sizeof there);
    seal_plain(p.bytes, p.seed);
    const extent e = p.open();
    std::vector<std::string> named;
    e.verify([&](std::string_view what, std::uint64_t) { named.emplace_back(what); });
    EXPECT_THAT(named, testing::Contains("the block's versions are not what the fence says")) << greatest;
    EXPECT_THROW((void)e.block_at(1), error) << greatest;
    EXPECT_NO_THROW((void)e.block_at(0)) << greatest;
  }
}

std::vector<shape> shapes_but(std::initializer_list<std::string_view> left_out) {
  std::vector<shape> some;
  for (const shape& s : shapes()) {
    if (std::ranges::find(left_out, s.name) == left_out.end()) some.push_back(s);
  }
  return some;
}

std::string name_of(const testing::TestParamInfo<std::tuple<shape, form>>& named) {
  return std::get<0>(named.param).name;
}

INSTANTIATE_TEST_SUITE_P(OfAllShapes, DamagedExtents,
                         testing::Combine(testing::ValuesIn(shapes_but({"the_longest_keys", "deep_histories"})),
                                          testing::Values(form::plain)),
                         name_of);
// To frames all small records are alike.
INSTANTIATE_TEST_SUITE_P(Compressed, DamagedExtents,
                         testing::Combine(testing::ValuesIn(shapes_but({"the_longest_keys", "deep_histories",
                                                                        "three_bytes", "words_with_one_version",
                                                                        "words_with_removals", "heads_that_tie",
                                                                        "zeros_in_keys", "kmers"})),
                                          testing::Values(form::compressed)),
                         name_of);

}  // namespace
}  // namespace icecore::stratum

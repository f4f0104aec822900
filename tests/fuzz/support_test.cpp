// The tools of the fuzzers: what they make of a pool file must be that file.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/file.hpp"
#include "support/image.hpp"
#include "support/reading.hpp"
#include "support/reseal.hpp"
#include "support/scratch.hpp"
#include "support/sound_store.hpp"

namespace icecore::testing {
namespace {

class FuzzSupport : public ::testing::Test {
 protected:
  [[nodiscard]] static std::vector<std::byte> bytes_of(const std::string& content) {
    std::vector<std::byte> bytes(content.size());
    std::memcpy(bytes.data(), content.data(), content.size());
    return bytes;
  }
  void write(const std::vector<std::byte>& bytes) const {
    write_file(path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  /// A store with something of every kind in it, as a clean close leaves it.
  [[nodiscard]] std::vector<std::byte> closed_store() {
    fill_small_store(path_, {}, holds_).close();
    return bytes_of(read_file(path_));
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "fuzz.ice";
  model holds_;
};

TEST_F(FuzzSupport, a_described_file_expands_to_itself_in_fewer_bytes) {
  const image before{image_flag::resealed | image_flag::this_boot, closed_store()};
  const auto description = describe(before);
  const image after = expand(description);
  EXPECT_EQ(after.flags, before.flags);
  EXPECT_TRUE(after.file == before.file);
  EXPECT_LT(description.size(), before.file.size() / 20);
}

TEST_F(FuzzSupport, every_sequence_of_bytes_is_an_image) {
  for (std::uint32_t seed = 1; seed < 2000; ++seed) {
    std::vector<std::uint8_t> bytes(seed % 100);
    std::uint32_t state = seed;
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>((state = state * 1'664'525U + 1'013'904'223U) >> 24);
    const image made = expand(bytes);
    ASSERT_LE(made.file.size(), image_bytes_max);
    ASSERT_TRUE(expand(describe(made)).file == made.file) << seed;
  }
}

TEST_F(FuzzSupport, resealing_a_sound_store_changes_nothing) {
  const auto sound = closed_store();
  auto resealed = sound;
  reseal(resealed, {});
  EXPECT_TRUE(resealed == sound);
}

TEST_F(FuzzSupport, a_store_with_a_changed_value_opens_once_it_is_resealed) {
  auto changed = closed_store();
  const auto content = read_file(path_);
  for (const char* value : {"of the empty key", "LLLLLLLL", "batched"}) {  // small, large, in a batch
    changed[content.find(value)] = std::byte{'X'};
  }
  write(changed);
  EXPECT_THROW(store s(path_), error);
  reseal(changed, {});
  write(changed);
  const store s(path_);
  EXPECT_EQ(s.find(""), "Xf the empty key");
  EXPECT_EQ(s.find("large")->bytes().front(), 'X');
  EXPECT_TRUE(s.verify().ok());
}

// Links, fills and sizes that no writer writes, under right checksums. Records begin at multiples of 8: the
// undefined-behaviour sanitizer tells of any that is read from elsewhere.
TEST_F(FuzzSupport, a_word_that_is_off_by_a_little_is_reported_or_harmless) {
  const auto sound = closed_store();
  unsigned reported = 0;
  options reading;
  reading.access = access::read_only;
  reading.accept_copy = reading.accept_damage = true;
  for (std::size_t at = 0; at + 8 <= sound.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, &sound[at], 8);
    if (word == 0) continue;
    for (const std::uint64_t off : {1 + at / 8 % 7, 8 + at % 64, std::uint64_t{0} - 8 - at % 64}) {
      const std::uint64_t other = word + off;
      auto changed = sound;
      std::memcpy(&changed[at], &other, 8);
      reseal(changed, {});
      write(changed);
      try {
        if (!verify_file(path_).ok()) ++reported;
        static_cast<void>(dump_of(store(path_, reading)));
      } catch (const error& failure) {
        ++reported;
        EXPECT_NE(failure.code(), errc::io) << "the word at byte " << at << ": " << failure.message();
      }
    }
  }
  EXPECT_GT(reported, 150U);
}

// Which of two records came next is not told by anything; what came after them, neither.
TEST_F(FuzzSupport, where_a_history_forks_nothing_is_shown_from_there_on) {
  {
    store s(path_);
    for (const char* value : {"the first one", "the second one", "the third one", "the fourth one"}) {
      s.insert("key", value);
      s.tag();
    }
  }
  const auto content = read_file(path_);
  auto forked = bytes_of(content);
  const auto update = [&](const char* value) -> format::update_header& {
    return *reinterpret_cast<format::update_header*>(&forked[content.find(value) - sizeof(format::update_header)]);
  };
  auto& third = update("the third one");
  third.older = third.jump = third.entry;
  third.record.depth = 2;  // as the second one
  update("the fourth one").record.depth = 3;
  reseal(forked, {});
  write(forked);
  EXPECT_FALSE(verify_file(path_).ok());
  EXPECT_THROW(store s(path_), error);
  options reading;
  reading.access = access::read_only;
  reading.accept_damage = true;
  const store s(path_, reading);
  EXPECT_EQ(s.find("key", 1), "the first one");
  for (const version v : {version{2}, version{3}, version{4}})
    EXPECT_THROW(static_cast<void>(s.find("key", v)), error) << "version " << v;
}

TEST_F(FuzzSupport, the_kept_images_of_sound_stores_open) {
  unsigned opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ICECORE_FUZZ_SEEDS "/pool_image")) {
    SCOPED_TRACE(entry.path());
    const std::string content = read_file(entry.path());
    image made = expand({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()});
    if ((made.flags & image_flag::resealed) != 0) reseal(made.file, {.this_boot = true, .inode = {}});
    write(made.file);
    options opening;
    opening.accept_copy = true;
    EXPECT_NO_THROW(store(path_, opening).close());
    ++opened;
  }
  EXPECT_GT(opened, 20U);
}

}  // namespace
}  // namespace icecore::testing

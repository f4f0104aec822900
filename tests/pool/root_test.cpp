#include "pool/root/root.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace icecore {
namespace {

class root_test : public testing::Test {
 protected:
  root_test() : pages_(2 * format::page_size), roots_(pages_.data(), first(), persist_) {}

  static format::root first() {
    format::root r{};
    r.magic = format::magic;
    r.byte_order = format::byte_order_mark;
    return r;
  }
  void set_clock(std::uint64_t clock) {
    roots_.update([clock](format::root& r) { r.clock = clock; });
  }

  std::vector<std::byte> pages_;
  persistence persist_;
  root_pages roots_;
};

TEST_F(root_test, the_newest_valid_page_counts) {
  EXPECT_FALSE(newest_root(pages_.data()));
  for (std::uint64_t clock = 1; clock < 6; ++clock) {
    set_clock(clock);
    ASSERT_TRUE(newest_root(pages_.data()));
    EXPECT_EQ(newest_root(pages_.data())->clock, clock);
    EXPECT_EQ(roots_.read().clock, clock);
  }
}

TEST_F(root_test, a_torn_update_leaves_the_root_before) {
  set_clock(1);
  const auto before = pages_;
  set_clock(2);
  const auto after = pages_;
  // each prefix of the update's bytes: only one that contains all of its changes is the new root
  for (std::size_t written = 0; written <= pages_.size(); written += 8) {
    std::memcpy(pages_.data(), after.data(), written);
    std::memcpy(pages_.data() + written, before.data() + written, pages_.size() - written);
    const auto newest = newest_root(pages_.data());
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->clock, pages_ == after ? 2U : 1U) << written << " bytes written";
  }
}

TEST_F(root_test, every_flipped_bit_is_seen) {
  set_clock(1);  // only in page B
  const std::size_t page = format::root_b_offset;
  for (std::size_t bit = 0; bit < 8 * sizeof(format::root); ++bit) {
    const auto mask = std::byte{static_cast<unsigned char>(1U << (bit % 8))};
    pages_[page + bit / 8] ^= mask;
    ASSERT_FALSE(newest_root(pages_.data())) << "bit " << bit;
    pages_[page + bit / 8] ^= mask;
  }
  EXPECT_TRUE(newest_root(pages_.data()));
}

TEST_F(root_test, of_two_pages_the_one_that_is_sound_counts) {
  set_clock(1);  // in page B
  set_clock(2);  // in page A
  const auto sound = pages_;
  pages_[format::root_a_offset + 100] ^= std::byte{1};
  ASSERT_TRUE(newest_root(pages_.data()));
  EXPECT_EQ(newest_root(pages_.data())->clock, 1U);
  pages_[format::root_b_offset + 100] ^= std::byte{1};
  EXPECT_FALSE(newest_root(pages_.data()));
  pages_ = sound;
  pages_[format::root_b_offset + 100] ^= std::byte{1};
  ASSERT_TRUE(newest_root(pages_.data()));
  EXPECT_EQ(newest_root(pages_.data())->clock, 2U);
}

TEST_F(root_test, a_lost_root_never_comes_back_while_the_next_one_is_written_over_its_rests) {
  set_clock(1);
  set_clock(2);
  const auto before = pages_;
  set_clock(3);  // to page B; all of it is lost except its checksum
  const auto lost = pages_;
  for (const bool settles : {false, true}) {
    pages_ = before;
    constexpr std::size_t crc_at = format::root_b_offset + offsetof(format::root, crc);
    std::memcpy(pages_.data() + crc_at, lost.data() + crc_at, sizeof(std::uint32_t));
    root_pages opened(pages_.data(), *newest_root(pages_.data()), persist_);
    ASSERT_EQ(opened.read().clock, 2U);
    if (settles) opened.make_durable();
    const auto left = pages_;
    opened.update([](format::root& r) { r.clock = 3, r.clock_limit = 99; });
    const auto after = pages_;
    bool came_back = false;
    for (std::size_t written = 0; written < format::page_size; written += 8) {
      pages_ = left;
      std::memcpy(pages_.data() + format::root_b_offset, after.data() + format::root_b_offset, written);
      const format::root newest = newest_root(pages_.data()).value();
      came_back = came_back || (newest.clock == 3 && newest.clock_limit != 99);
    }
    EXPECT_EQ(came_back, !settles);
  }
}

// ---- On persistent memory ----

/// Records lines of memory as they were flushed; they are durable after the next fence.
struct flushed_lines {
  using lines = std::map<std::uintptr_t, std::string>;
  static inline lines on_their_way;
  static inline lines durable;

  static void flush(const void* data, std::size_t size) {
    constexpr std::uintptr_t line = format::cache_line_size;
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    for (std::uintptr_t at = first / line * line; at < first + size; at += line)
      on_their_way[at] = std::string(reinterpret_cast<const char*>(at), line);
  }
  static void fence() {
    for (auto& [at, bytes] : on_their_way) durable[at] = std::move(bytes);
    on_their_way.clear();
  }
};

class root_in_persistent_memory : public testing::Test {
 protected:
  root_in_persistent_memory() {
    flushed_lines::on_their_way.clear();
    flushed_lines::durable.clear();
  }

  [[nodiscard]] std::byte* page(std::uint64_t offset) noexcept { return pages_ + offset; }

  /// Whether all bytes of a range are durable with their current values.
  static bool is_durable(const std::byte* begin, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      const auto at = reinterpret_cast<std::uintptr_t>(begin + i);
      const auto line = flushed_lines::durable.find(at / format::cache_line_size * format::cache_line_size);
      if (line == flushed_lines::durable.end()) return false;
      if (line->second[at % format::cache_line_size] != static_cast<char>(begin[i])) return false;
    }
    return true;
  }
  static format::root first() {
    format::root r{};
    r.magic = format::magic;
    r.byte_order = format::byte_order_mark;
    return r;
  }

  alignas(format::page_size) std::byte pages_[format::root_b_offset + format::page_size] = {};
  persistence persist_{
      -1,   "memory", medium::persistent_memory, durability::operation, flushed_lines::flush, flushed_lines::fence,
      false};
};

TEST_F(root_in_persistent_memory, what_a_killed_process_left_of_a_root_is_durable_when_it_is_settled) {
  std::byte* const torn = page(format::root_b_offset);
  {
    root_pages roots(pages_, first(), persist_);
    roots.update([](format::root& r) { r.clock = 1; });
    roots.update([](format::root& r) { r.clock = 2; });
  }
  torn[offsetof(format::root, clock)] ^= std::byte{1};
  flushed_lines::durable.clear();
  root_pages opened(pages_, newest_root(pages_).value(), persist_);
  ASSERT_EQ(opened.read().clock, 2U);
  opened.make_durable();
  EXPECT_TRUE(is_durable(page(format::root_a_offset), sizeof(format::root)));
  const std::byte* const crc = torn + offsetof(format::root, crc);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(crc), 4), std::string(4, '\0'));
  EXPECT_TRUE(is_durable(crc, 4));
}

TEST_F(root_in_persistent_memory, a_root_of_a_copy_is_published_durably) {
  root_pages roots(pages_, first(), persist_);
  flushed_lines::durable.clear();
  roots.publish([](format::root& r) { r.clock = 3; });
  const auto shown = newest_root(pages_);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->clock, 3U);
  EXPECT_TRUE(is_durable(page(root_offset(*shown)), sizeof(format::root)));
}

}  // namespace
}  // namespace icecore

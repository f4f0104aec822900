#include "pool/root.hpp"

#include <gtest/gtest.h>

#include <cstring>
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
  // any prefix of the update's bytes that is not all of what it changed
  for (std::size_t written = 0; written <= pages_.size(); written += 8) {
    std::memcpy(pages_.data(), after.data(), written);
    std::memcpy(pages_.data() + written, before.data() + written, pages_.size() - written);
    const auto newest = newest_root(pages_.data());
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->clock, pages_ == after ? 2U : 1U) << written << " bytes written";
  }
}

TEST_F(root_test, every_flipped_bit_is_seen) {
  set_clock(1);  // in page B alone
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
  set_clock(3);  // to page B, and lost but for its checksum
  const auto lost = pages_;
  for (const bool settles : {false, true}) {
    pages_ = before;
    constexpr std::size_t crc_at = format::root_b_offset + offsetof(format::root, crc);
    std::memcpy(pages_.data() + crc_at, lost.data() + crc_at, sizeof(std::uint32_t));
    root_pages opened(pages_.data(), *newest_root(pages_.data()), persist_);
    ASSERT_EQ(opened.read().clock, 2U);
    if (settles) opened.settle();
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

}  // namespace
}  // namespace icecore

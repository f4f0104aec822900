// Heads that a crash left leading to no record (H7, H8), and the places they lead to, which are used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "history/history.hpp"
#include "recorded_lines.hpp"

namespace icecore {
namespace {

/// Histories in plain memory, as a store has them whose heads last, with one entry: its newest record is settled, and
/// its head leads to where a crash cut off a write, which opening has zeroed.
class lasting_heads_test : public testing::Test, private record_checks {
 protected:
  lasting_heads_test()
      : memory_(1 << 16),
        base_(reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) / 64 * 64)),
        persist_(-1, "memory", medium::persistent_memory, durability::operation, recorded_lines::flush,
                 recorded_lines::fence, false),
        clock_(clock_word_, nullptr, std::uint64_t{1} << 40),
        past_(history_parts{address_space(base_), &clock_, codec_, &persist_, true, {}}, *this, memory_.size() - 64) {
    recorded_lines::begin();
    make(entry);
    write(settled, "two");
    past_.note_settled(past_.written_of(settled));
    past_.at(entry).as_entry().head = cut_off;
  }

  /// An entry with its first value.
  void make(link place) {
    past_.at(place).fill(record_layout::of_entry(3, 3, false), null_link, "key", "one");
    past_.at(place).seal(seed_of(place));
    static_cast<void>(past_.stamp_of(place));
  }
  /// The first half of a write at `place`.
  void link_at(link place, const std::string& value, link to) {
    past_.at(place).fill(record_layout::of_insert(value.size(), false), null_link, {}, value);
    ASSERT_TRUE(past_.link_on_top(to, place, seed_of(place), false));
  }
  /// An acknowledged write at `place`.
  void write(link place, const std::string& value, link to = entry) {
    const record_layout layout = record_layout::of_insert(value.size(), false);
    ASSERT_NO_FATAL_FAILURE(link_at(place, value, to));
    static_cast<void>(past_.stamp_of(place));
    const written_record done = past_.written_of(place);
    past_.flush_fresh(place, layout.size());
    past_.await_flushed(done);
  }
  /// Linked, in a batch whose writer was killed before it was ready.
  void link_batched(link place, link batch) {
    past_.at(place).fill(record_layout::of_insert(4, true), batch, {}, "lost");
    ASSERT_TRUE(past_.link_on_top(entry, place, seed_of(place), false));
  }
  [[nodiscard]] std::string newest_value() const { return std::string(past_.at(past_.find_latest(entry)).value()); }
  [[nodiscard]] std::vector<std::string> values() const {
    std::vector<std::string> all;
    for (link l = past_.find_latest(entry); l != null_link; l = past_.older(l)) all.emplace_back(past_.at(l).value());
    return all;
  }

  static constexpr link entry = 64;
  static constexpr link settled = 256;
  static constexpr link cut_off = 512;  ///< where the head leads
  static constexpr link elsewhere = 768;
  /// Called when the head was found to lead to no record, before anything comes of that.
  std::function<void()> when_judged_;
  mutable std::atomic<unsigned> asked_for_lock_{0};

 private:
  [[nodiscard]] std::uint32_t seed_of(link l) const noexcept { return codec_.record_seed(1, l); }
  [[nodiscard]] bool leads_into_pool(link l, std::uint64_t bytes) const noexcept override {
    if (l == settled && when_judged_) {  // asked once the record on top was judged
      const auto call = when_judged_;    // which may take it away
      call();
    }
    return l % 8 == 0 && l + bytes <= memory_.size() - 64;
  }
  [[nodiscard]] bool is_whole(link l) const noexcept override {
    return past_.at(l).layout().plausible() && past_.at(l).intact(seed_of(l));
  }
  [[noreturn]] void raise_damaged(link, const char* what) const override { throw std::runtime_error(what); }
  [[nodiscard]] mended_lock hold_heads() const override {
    ++asked_for_lock_;
    return {lock_, [] {}};
  }

  std::vector<std::byte> memory_;
  std::byte* base_;
  std::atomic<std::uint64_t> clock_word_{1};
  word_codec codec_{99};
  persistence persist_;
  version_clock clock_;
  mutable process_lock lock_;

 protected:
  durable_histories past_;
};

TEST_F(lasting_heads_test, a_head_that_leads_to_no_record_shows_the_settled_one) {
  EXPECT_EQ(values(), (std::vector<std::string>{"two", "one"}));
  write(elsewhere, "three");
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

TEST_F(lasting_heads_test, a_reader_does_not_undo_a_write_that_uses_the_place_again_where_the_head_leads) {
  when_judged_ = [&] {
    when_judged_ = {};
    write(cut_off, "three");
  };
  EXPECT_EQ(newest_value(), "two") << "the newest when the call began";
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

TEST_F(lasting_heads_test, a_writer_does_not_undo_a_write_that_uses_the_place_again_where_the_head_leads) {
  when_judged_ = [&] {
    when_judged_ = {};
    write(cut_off, "three");
  };
  write(elsewhere, "four");
  EXPECT_EQ(values(), (std::vector<std::string>{"four", "three", "two", "one"}));
}

TEST_F(lasting_heads_test, a_writer_that_sets_the_head_back_holds_back_the_one_who_uses_the_place_again) {
  std::thread other;
  std::atomic<bool> done = false;
  unsigned judged = 0;
  when_judged_ = [&] {
    if (++judged != 2) return;  // by the one who sets it back
    when_judged_ = {};
    other = std::thread([&] {
      write(cut_off, "three");
      done = true;
    });
    while (asked_for_lock_ < 2 && !done) std::this_thread::yield();
  };
  write(elsewhere, "four");
  other.join();
  auto all = values();
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::string>{"four", "one", "three", "two"}));
}

TEST_F(lasting_heads_test, links_out_of_the_store_are_damage_although_head_and_settled_word_agree) {
  for (const link wrong : {link{1} << 40, settled + 4}) {
    past_.at(entry).as_entry().head = wrong;
    past_.at(entry).as_entry().second_version = wrong;
    EXPECT_THROW(static_cast<void>(past_.newest(entry)), std::runtime_error) << wrong;
  }
}

TEST_F(lasting_heads_test, a_head_that_was_lost_beside_a_settled_record_is_damage) {
  past_.at(entry).as_entry().head = null_link;
  EXPECT_THROW(static_cast<void>(past_.newest(entry)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(past_.start_of(entry, version_max)), std::runtime_error);
}

TEST_F(lasting_heads_test, a_settled_word_that_was_lost_beside_a_later_record_is_damage) {
  write(elsewhere, "three");
  past_.at(entry).as_entry().second_version = null_link;
  EXPECT_THROW(static_cast<void>(past_.newest(entry)), std::runtime_error);
}

TEST_F(lasting_heads_test, a_spoilt_entry_whose_head_leads_to_no_record_has_no_newest_one) {
  past_.at(entry).as_entry().second_version = null_link;
  EXPECT_EQ(past_.newest(entry), entry) << "before it was spoilt";
  *reinterpret_cast<char*>(past_.at(entry).address() + past_.at(entry).layout().key_offset()) ^= 1;
  EXPECT_THROW(static_cast<void>(past_.newest(entry)), std::runtime_error);
}

TEST_F(lasting_heads_test, links_to_a_record_of_another_key_are_damage_although_they_agree) {
  constexpr link other = 1024;
  past_.at(other).fill(record_layout::of_entry(5, 3, false), null_link, "other", "its");
  for (const std::uint64_t word : {std::uint64_t{settled}, std::uint64_t{other}}) {
    past_.at(other).as_entry().head = word;
    past_.at(other).as_entry().second_version = word;
    EXPECT_THROW(static_cast<void>(past_.newest(other)), std::runtime_error) << word;
  }
}

TEST_F(lasting_heads_test, a_stamp_that_was_lost_below_another_record_is_damage) {
  past_.at(entry).header().stamp = 0;
  EXPECT_THROW(static_cast<void>(past_.stamp_of(entry)), std::runtime_error);
  EXPECT_EQ(past_.at(entry).header().stamp, 0U) << "a version of today";
  past_.at(settled).header().stamp = 0;
  EXPECT_NE(past_.stamp_of(settled), 0U) << "the newest one may be of a writer that was killed before it stamped it";
}

// Who had read the head before still comes to it, though another record has its depth now.
TEST_F(lasting_heads_test, a_record_of_a_batch_that_never_happened_is_passed_over_and_is_no_damage) {
  constexpr link batch = 1024;
  constexpr link later = 1280;
  past_.at(batch).fill(record_layout::of_batch(), null_link, {}, {});
  ASSERT_NO_FATAL_FAILURE(link_batched(elsewhere, batch));
  past_.unlink(elsewhere);
  EXPECT_EQ(past_.stamp_of(elsewhere), 0U);
  write(later, "three");
  ASSERT_EQ(past_.at(later).header().depth, past_.at(elsewhere).header().depth);
  EXPECT_EQ(past_.stamp_of(elsewhere), 0U);
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

// The media may have the head of after a write, and the settled word of two writes before: then both are lost.
TEST_F(lasting_heads_test, what_is_settled_is_durable_before_the_head_goes_on_where_they_lie_in_two_lines) {
  constexpr link apart = 1056;
  static_assert((apart + offsetof(format::entry_header, second_version)) % format::cache_line_size == 0);
  constexpr link two = 1280;
  constexpr link three = 1536;
  make(apart);
  write(two, "two", apart);
  const auto& word = past_.at(apart).as_entry().second_version;
  ASSERT_EQ(recorded_lines::durable(word), null_link);
  link_at(three, "three", apart);
  EXPECT_EQ(word, two);
  EXPECT_EQ(recorded_lines::durable(word), two);
}

TEST_F(lasting_heads_test, nothing_is_written_on_top_of_a_damaged_record) {
  past_.at(settled).as_update().jump = elsewhere;
  EXPECT_THROW(write(elsewhere, "three"), std::runtime_error);
  EXPECT_NE(past_.at(entry).as_entry().head, elsewhere);
}

}  // namespace
}  // namespace icecore

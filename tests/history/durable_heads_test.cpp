// Heads that a crash left leading to no record (H7, H8), and the reuse of the space they lead to.
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

/// Histories in plain memory, as in a store with durable heads. There is one entry: its newest record is committed, and
/// its head leads to where a crash cut off a write, which opening has zeroed.
class durable_heads_test : public testing::Test, private record_checks {
 protected:
  /// Links below `sound_below` are followed without asking whether they lead into the pool.
  explicit durable_heads_test(link sound_below = memory_bytes - 64)
      : memory_(memory_bytes),
        base_(reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) / 64 * 64)),
        persist_(-1, "memory", medium::persistent_memory, durability::operation, recorded_lines::flush,
                 recorded_lines::fence, false),
        clock_(clock_word_, nullptr, std::uint64_t{1} << 40),
        histories_(history_parts{address_space(base_), &clock_, codec_, &persist_, true, {}}, *this, sound_below) {
    recorded_lines::begin();
    make(entry);
    write(committed, "two");
    histories_.advance_committed(histories_.written_of(committed));
    histories_.at(entry).as_entry().head = cut_off;
  }

  /// An entry with its first value.
  void make(link place) {
    histories_.at(place).fill(record_layout::of_entry(3, 3, false), null_link, "key", "one");
    histories_.at(place).seal(seed_of(place));
    static_cast<void>(histories_.stamp_of(place));
  }
  /// The first half of a write at `place`.
  void link_at(link place, const std::string& value, link to) {
    histories_.at(place).fill(record_layout::of_insert(value.size(), false), null_link, {}, value);
    ASSERT_TRUE(histories_.link_on_top(to, place, seed_of(place), {}));
  }
  /// An acknowledged write at `place`.
  void write(link place, const std::string& value, link to = entry) {
    const record_layout layout = record_layout::of_insert(value.size(), false);
    ASSERT_NO_FATAL_FAILURE(link_at(place, value, to));
    static_cast<void>(histories_.stamp_of(place));
    const written_record done = histories_.written_of(place);
    histories_.flush_fresh(place, layout.size());
    histories_.await_flushed(done);
  }
  /// Links a record of a batch whose writer was killed before the batch was ready.
  void link_batched(link place, link batch) {
    histories_.at(place).fill(record_layout::of_insert(4, true), batch, {}, "lost");
    ASSERT_TRUE(histories_.link_on_top(entry, place, seed_of(place), {}));
  }
  [[nodiscard]] std::string newest_value() const {
    return std::string(histories_.at(histories_.find_latest(entry)).value());
  }
  [[nodiscard]] std::vector<std::string> values() const {
    std::vector<std::string> all;
    for (link l = histories_.find_latest(entry); l != null_link; l = histories_.older(l))
      all.emplace_back(histories_.at(l).value());
    return all;
  }

  static constexpr std::size_t memory_bytes = 1 << 16;
  static constexpr link entry = 64;
  static constexpr link committed = 256;
  static constexpr link cut_off = 512;  ///< where the head leads
  static constexpr link elsewhere = 768;
  /// Called after the head was found to lead to no record, before that result is used.
  std::function<void()> when_judged_;
  mutable std::atomic<unsigned> asked_for_lock_{0};
  mutable std::atomic<unsigned> links_checked_{0};

  // A second entry, with one record a version that no sample was taken of, as after opening.
  static constexpr link deep = 4096;
  static constexpr std::uint32_t depth = 600;
  [[nodiscard]] static link record_at_depth(std::uint32_t d) { return d == 1 ? deep : deep + 64 * link{d}; }
  void write_deep() {
    make(deep);
    for (std::uint32_t d = 2; d <= depth; ++d) {
      clock_.tick();
      write(record_at_depth(d), "deep", deep);
      histories_.advance_committed(histories_.written_of(record_at_depth(d)));
    }
  }
  [[nodiscard]] version version_at_depth(std::uint32_t d) const { return histories_.stamp_of(record_at_depth(d)); }
  /// Links that a find of the record at this depth checks: it follows at least as many.
  [[nodiscard]] unsigned links_of_find(std::uint32_t d) const {
    const unsigned before = links_checked_;
    EXPECT_EQ(histories_.find_at(deep, version_at_depth(d)), record_at_depth(d));
    return links_checked_ - before;
  }

 private:
  [[nodiscard]] std::uint32_t seed_of(link l) const noexcept { return codec_.record_seed(1, l); }
  [[nodiscard]] bool leads_into_pool(link l, std::uint64_t bytes) const noexcept override {
    ++links_checked_;
    if (l == committed && when_judged_) {  // called after the record on top was judged
      const auto call = when_judged_;      // the call may reset when_judged_
      call();
    }
    return l % 8 == 0 && l + bytes <= memory_.size() - 64;
  }
  [[nodiscard]] bool is_intact(link l) const noexcept override {
    return histories_.at(l).layout().plausible() && histories_.at(l).intact(seed_of(l));
  }
  [[noreturn]] void raise_damaged(link, const char* what) const override { throw error(errc::damaged, what); }
  [[nodiscard]] recovering_lock hold_heads() const override {
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
  durable_histories histories_;
};

/// Each link that a find follows is counted.
struct counted_links_test : durable_heads_test {
  counted_links_test() : durable_heads_test(null_link) {}
};

TEST_F(counted_links_test, finds_sample_a_deep_history_that_was_not_sampled_when_it_was_written) {
  write_deep();
  constexpr std::uint32_t far = 70;
  constexpr unsigned few = version_samples::spacing + 4;
  EXPECT_GT(links_of_find(far), few);
  for (unsigned i = 0; i < version_samples::turn::misses_min + depth / version_samples::turn::records_max; ++i)
    static_cast<void>(links_of_find(far));
  for (std::uint32_t d = version_samples::depth_min; d <= depth; ++d) ASSERT_LE(links_of_find(d), few) << d;
}

TEST_F(durable_heads_test, damage_below_what_a_find_looks_for_is_not_its_business_when_it_samples) {
  write_deep();
  constexpr std::uint32_t damaged = 300;
  histories_.at(record_at_depth(damaged)).as_update().entry = entry;
  constexpr std::uint32_t above = 450;
  for (unsigned i = 0; i < 100; ++i) static_cast<void>(links_of_find(above));
  EXPECT_THROW(static_cast<void>(histories_.find_at(deep, version_at_depth(damaged))), error);
}

TEST_F(durable_heads_test, a_head_that_leads_to_no_record_shows_the_settled_one) {
  EXPECT_EQ(values(), (std::vector<std::string>{"two", "one"}));
  write(elsewhere, "three");
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

TEST_F(durable_heads_test, a_reader_does_not_undo_a_write_that_uses_the_place_again_where_the_head_leads) {
  when_judged_ = [&] {
    when_judged_ = {};
    write(cut_off, "three");
  };
  EXPECT_EQ(newest_value(), "two") << "the newest when the call began";
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

TEST_F(durable_heads_test, a_writer_does_not_undo_a_write_that_uses_the_place_again_where_the_head_leads) {
  when_judged_ = [&] {
    when_judged_ = {};
    write(cut_off, "three");
  };
  write(elsewhere, "four");
  EXPECT_EQ(values(), (std::vector<std::string>{"four", "three", "two", "one"}));
}

TEST_F(durable_heads_test, a_writer_that_sets_the_head_back_holds_back_the_one_who_uses_the_place_again) {
  std::thread other;
  std::atomic<bool> done = false;
  unsigned judged = 0;
  when_judged_ = [&] {
    if (++judged != 2) return;  // this is the writer that sets the head back
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

TEST_F(durable_heads_test, links_out_of_the_store_are_damage_although_head_and_settled_word_agree) {
  for (const link wrong : {link{1} << 40, committed + 4}) {
    histories_.at(entry).as_entry().head = wrong;
    histories_.at(entry).as_entry().committed_head() = wrong;
    EXPECT_THROW(static_cast<void>(histories_.newest(entry)), std::runtime_error) << wrong;
  }
}

TEST_F(durable_heads_test, a_head_that_was_lost_beside_a_settled_record_is_damage) {
  histories_.at(entry).as_entry().head = null_link;
  EXPECT_THROW(static_cast<void>(histories_.newest(entry)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(histories_.start_of(entry, version_max)), std::runtime_error);
}

TEST_F(durable_heads_test, a_settled_word_that_was_lost_beside_a_later_record_is_damage) {
  write(elsewhere, "three");
  histories_.at(entry).as_entry().committed_head() = null_link;
  EXPECT_THROW(static_cast<void>(histories_.newest(entry)), std::runtime_error);
}

TEST_F(durable_heads_test, a_spoilt_entry_whose_head_leads_to_no_record_has_no_newest_one) {
  histories_.at(entry).as_entry().committed_head() = null_link;
  EXPECT_EQ(histories_.newest(entry), entry) << "before it was spoilt";
  *reinterpret_cast<char*>(histories_.at(entry).address() + histories_.at(entry).layout().key_offset()) ^= 1;
  EXPECT_THROW(static_cast<void>(histories_.newest(entry)), std::runtime_error);
}

TEST_F(durable_heads_test, links_to_a_record_of_another_key_are_damage_although_they_agree) {
  constexpr link other = 1024;
  histories_.at(other).fill(record_layout::of_entry(5, 3, false), null_link, "other", "its");
  for (const std::uint64_t word : {std::uint64_t{committed}, std::uint64_t{other}}) {
    histories_.at(other).as_entry().head = word;
    histories_.at(other).as_entry().committed_head() = word;
    EXPECT_THROW(static_cast<void>(histories_.newest(other)), std::runtime_error) << word;
  }
}

TEST_F(durable_heads_test, a_stamp_that_was_lost_below_another_record_is_damage) {
  histories_.at(entry).header().stamp = 0;
  EXPECT_THROW(static_cast<void>(histories_.stamp_of(entry)), std::runtime_error);
  EXPECT_EQ(histories_.at(entry).header().stamp, 0U) << "a version of today";
  histories_.at(committed).header().stamp = 0;
  EXPECT_NE(histories_.stamp_of(committed), 0U)
      << "the newest one may be of a writer that was killed before it stamped it";
}

// A thread that read the head earlier still meets the record, although another record has its depth now.
TEST_F(durable_heads_test, a_record_of_a_batch_that_never_happened_is_passed_over_and_is_no_damage) {
  constexpr link batch = 1024;
  constexpr link later = 1280;
  histories_.at(batch).fill(record_layout::of_batch(), null_link, {}, {});
  ASSERT_NO_FATAL_FAILURE(link_batched(elsewhere, batch));
  histories_.unlink(elsewhere);
  EXPECT_EQ(histories_.stamp_of(elsewhere), 0U);
  write(later, "three");
  ASSERT_EQ(histories_.at(later).header().depth, histories_.at(elsewhere).header().depth);
  EXPECT_EQ(histories_.stamp_of(elsewhere), 0U);
  EXPECT_EQ(values(), (std::vector<std::string>{"three", "two", "one"}));
}

// The media may have the head after a write, and the committed head from two writes before: then both writes are lost.
TEST_F(durable_heads_test, what_is_settled_is_durable_before_the_head_goes_on_where_they_lie_in_two_lines) {
  constexpr link apart = 1056;
  static_assert((apart + offsetof(format::entry_header, beside_head)) % format::cache_line_size == 0);
  constexpr link two = 1280;
  constexpr link three = 1536;
  make(apart);
  write(two, "two", apart);
  const auto& word = histories_.at(apart).as_entry().committed_head();
  ASSERT_EQ(recorded_lines::durable(word), null_link);
  link_at(three, "three", apart);
  EXPECT_EQ(word, two);
  EXPECT_EQ(recorded_lines::durable(word), two);
}

TEST_F(durable_heads_test, nothing_is_written_on_top_of_a_damaged_record) {
  histories_.at(committed).as_update().jump = elsewhere;
  EXPECT_THROW(write(elsewhere, "three"), std::runtime_error);
  EXPECT_NE(histories_.at(entry).as_entry().head, elsewhere);
}

}  // namespace
}  // namespace icecore

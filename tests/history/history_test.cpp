#include "history/history.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace icecore {
namespace {

// The tests count what an operation costs on persistent memory; they do not time it.
thread_local std::uint64_t lines_flushed = 0;
thread_local std::uint64_t fences = 0;
void count_flush(const void* data, std::size_t size) {
  const auto from = reinterpret_cast<std::uintptr_t>(data) / format::cache_line_size;
  const auto to = (reinterpret_cast<std::uintptr_t>(data) + size - 1) / format::cache_line_size;
  lines_flushed += to - from + 1;
}
void count_fence() { ++fences; }

/// Histories in plain memory, with a bump allocator instead of the store's segments.
class history_test : public testing::Test {
 protected:
  history_test()
      : memory_(1 << 22),
        base_(reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) / 64 * 64)),
        persist_(-1, "memory", medium::persistent_memory, durability::operation, count_flush, count_fence, false),
        clock_(clock_word_, nullptr, std::uint64_t{1} << 40),
        histories_(history_parts{address_space(base_), &clock_, codec_, &persist_, true, {}}) {}

  link place(const record_layout& layout, std::string_view key, std::string_view value) {
    const std::uint64_t at = layout.place(position_);
    position_ = at + layout.size();
    histories_.at(at).fill(layout, null_link, key, value);
    return at;
  }
  link make_entry(std::string_view key, std::string_view value) {
    const link e = place(record_layout::of_entry(key.size(), value.size(), false), key, value);
    histories_.at(e).seal(codec_.record_seed(1, e));
    complete(e);
    return e;
  }
  link append(link entry, std::string_view value) {
    return append(entry, record_layout::of_insert(value.size(), false), value);
  }
  link append_removal(link entry) { return append(entry, record_layout::of_remove(false), {}); }
  link append(link entry, const record_layout& layout, std::string_view value) {
    const link r = place(layout, {}, value);
    EXPECT_TRUE(histories_.link_on_top(entry, r, codec_.record_seed(1, r), {}));
    complete(r);
    return r;
  }

  /// The same steps as finds and scans take, for a history without removals.
  [[nodiscard]] link find_as_readers_do(link entry, version v) const {
    const link start = histories_.start_of(entry, v);
    return start == null_link ? null_link : histories_.find_from(start, v);
  }

  /// The same steps as the store takes to complete a write.
  void complete(link fresh) {
    const version stamped = histories_.stamp_of(fresh);
    histories_.sample(fresh);
    const written_record done = histories_.written_of(fresh);
    histories_.flush_fresh(fresh, histories_.at(fresh).layout().size());
    histories_.await_flushed(done);
    histories_.commit(done, stamped, pending_);
  }

  std::vector<std::byte> memory_;
  std::byte* base_;
  std::uint64_t position_ = 64;
  std::atomic<std::uint64_t> clock_word_{1};
  word_codec codec_{99};
  persistence persist_;
  version_clock clock_;
  rebuilt_histories histories_;
  written_record pending_{};
};

TEST_F(history_test, reading_what_is_durable_flushes_nothing) {
  const link e = make_entry("key", "value");
  lines_flushed = fences = 0;
  histories_.persist_before_return(histories_.find_latest(e));
  EXPECT_EQ(lines_flushed, 0U);
  EXPECT_EQ(fences, 0U);
}

TEST_F(history_test, whoever_reads_an_unfinished_write_stamps_and_persists_it) {
  const link e = make_entry("key", "old");
  const link r = place(record_layout::of_insert(3, false), {}, "new");
  ASSERT_TRUE(histories_.link_on_top(e, r, codec_.record_seed(1, r), {}));
  // the writer stops here: linked, but neither stamped nor flushed
  lines_flushed = fences = 0;
  const version before = clock_.tick();
  EXPECT_EQ(histories_.find_at(e, before), e) << "a write that no one stamped by the tag is not in it";
  EXPECT_EQ(histories_.stamp_of(r), before + 1) << "stamp-on-read";
  const link latest = histories_.find_latest(e);
  EXPECT_EQ(latest, r);
  histories_.persist_before_return(latest);
  EXPECT_GE(lines_flushed, 1U) << "persist-on-read";
  EXPECT_EQ(fences, 1U);
}

TEST_F(history_test, every_version_is_found_at_every_depth) {
  const link e = make_entry("key", "1");
  std::vector<link> by_version{null_link, e};
  for (int i = 2; i <= 3000; ++i) {
    clock_.tick();
    by_version.push_back(append(e, "x"));
  }
  clock_.tick();
  for (version v = 0; v < by_version.size(); ++v) {
    ASSERT_EQ(histories_.find_at(e, v), by_version[v]) << "version " << v;
    ASSERT_EQ(find_as_readers_do(e, v), by_version[v]) << "version " << v;
  }
}

TEST_F(history_test, the_entry_alone_tells_what_it_shows_of_two_versions) {
  const link updated = make_entry("updated", "1");
  const link removed = make_entry("removed", "1");
  const version first = clock_.tick();
  EXPECT_EQ(histories_.start_of(updated, first), updated);
  const link update = append(updated, "2");
  append_removal(removed);
  const version second = clock_.tick();
  EXPECT_EQ(histories_.start_of(updated, first - 1), null_link);
  EXPECT_EQ(histories_.start_of(updated, first), updated);
  EXPECT_EQ(histories_.start_of(updated, second), update);
  EXPECT_EQ(histories_.start_of(removed, first - 1), null_link);
  EXPECT_EQ(histories_.start_of(removed, first), removed);
  EXPECT_EQ(histories_.start_of(removed, second), null_link);
  // once there are more than two records, only versions before the second are known from the entry
  const link third = append(removed, "3");
  const version last = clock_.tick();
  EXPECT_EQ(histories_.start_of(removed, first), removed);
  EXPECT_EQ(histories_.start_of(removed, second), third);
  EXPECT_EQ(histories_.start_of(removed, last), third);
  append_removal(updated);
  EXPECT_NE(histories_.start_of(updated, clock_.tick()), null_link) << "the third: its record must be asked";
}

TEST_F(history_test, a_second_record_that_its_writer_did_not_finish_is_asked_itself) {
  const link e = make_entry("key", "old");
  const version before = clock_.tick();
  const link r = place(record_layout::of_remove(false), {}, {});
  ASSERT_TRUE(histories_.link_on_top(e, r, codec_.record_seed(1, r), {}));
  const version after = clock_.tick();  // the writer stops: linked, but neither stamped nor durable
  EXPECT_EQ(histories_.start_of(e, before), r);
  EXPECT_EQ(histories_.start_of(e, after), r);
  EXPECT_EQ(histories_.find_from(r, after), e) << "stamped by the reader, behind the tag";
}

TEST_F(history_test, depth_and_stamps_follow_the_chain) {
  const link e = make_entry("key", "1");
  link top = e;
  for (int i = 2; i <= 500; ++i) {
    if (i % 3 == 0) clock_.tick();
    top = append(e, "x");
  }
  std::uint32_t depth = 500;
  for (link l = top; l != null_link; l = histories_.at(l).older(), --depth) {
    ASSERT_EQ(histories_.at(l).header().depth, depth);
    const link older = histories_.at(l).older();
    if (older == null_link) continue;
    ASSERT_GE(histories_.stamp_of(l), histories_.stamp_of(older));
    ASSERT_LT(histories_.at(histories_.at(l).jump()).header().depth, depth);
  }
  EXPECT_EQ(depth, 0U);
}

TEST_F(history_test, jumps_are_those_of_myers_though_no_record_is_read_for_them) {
  const link e = make_entry("key", "1");
  std::vector<link> at_depth{null_link, e};
  std::vector<std::uint32_t> jump_depth{0, 1};
  for (std::uint32_t depth = 2; depth <= 1100; ++depth) {
    at_depth.push_back(append(e, "x"));
    const std::uint32_t a = jump_depth[depth - 1];
    const std::uint32_t b = jump_depth[a];
    jump_depth.push_back(depth - 1 - a == a - b ? b : depth - 1);
    ASSERT_EQ(histories_.at(at_depth[depth]).jump(), at_depth[jump_depth[depth]]) << depth;
  }
}

TEST_F(history_test, a_record_above_the_deepest_is_refused_and_the_history_stays_as_it_is) {
  const link e = make_entry("a key", "first");
  histories_.at(e).header().depth = format::depth_max - 1;
  histories_.at(e).seal(codec_.record_seed(1, e));
  const link deepest = append(e, "last");
  EXPECT_EQ(histories_.at(deepest).header().depth, format::depth_max);
  const link refused = place(record_layout::of_insert(3, false), {}, "new");
  const auto link_it = [&] { return histories_.link_on_top(e, refused, codec_.record_seed(1, refused), {}); };
  try {
    static_cast<void>(link_it());
    ADD_FAILURE() << "a record of depth " << histories_.at(refused).header().depth << " was linked";
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::invalid_argument);
    EXPECT_NE(failure.message().find("'a key' has 4294967295 records"), std::string::npos) << failure.message();
  }
  EXPECT_EQ(histories_.find_latest(e), deepest);
}

TEST_F(history_test, a_batch_that_has_not_happened_is_passed_over) {
  const link e = make_entry("key", "old");
  const link b = place(record_layout::of_batch(), {}, {});
  const auto layout = record_layout::of_insert(3, true);
  const std::uint64_t at = layout.place(position_);
  position_ = at + layout.size();
  histories_.at(at).fill(layout, b, {}, "new");
  ASSERT_TRUE(histories_.link_on_top(e, at, codec_.record_seed(1, at), {}));
  EXPECT_EQ(histories_.stamp_of(at), 0U);
  EXPECT_EQ(histories_.find_latest(e), e);
  const version closed = clock_.tick();
  EXPECT_EQ(histories_.find_at(e, closed), e);
  EXPECT_EQ(find_as_readers_do(e, closed), e);
  const version happened = histories_.complete_batch(b);
  EXPECT_GT(happened, closed);
  EXPECT_EQ(histories_.find_latest(e), at);
  EXPECT_EQ(histories_.find_at(e, closed), e) << "a snapshot never changes";
  EXPECT_EQ(find_as_readers_do(e, closed), e) << "nor before the second is noted";
  histories_.commit(histories_.written_of(at), histories_.stamp_of(at), pending_);
  EXPECT_EQ(find_as_readers_do(e, closed), e) << "nor after";
  EXPECT_EQ(find_as_readers_do(e, clock_.tick()), at);
}

}  // namespace
}  // namespace icecore

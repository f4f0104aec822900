// Who fills which segment, and where there is room: durable, so that opening a store with the persistent index need not
// look for it. What open_segments is to the other stores.
//
// Each writer has a log (format::writer_log): the segment that it fills, and the totals of all that it filled before.
// Segments that were left with room are in lists by its size, the first in the anchor, each linked from the header of
// the one before. A segment changes hands in steps of which each is durable before the next:
//   1. the one left is put on a list;   2. the log names the one taken;   3. that is taken off its list, or the file's
//   end is moved behind it (pool::allocate).
// A crash between them leaves a segment that is both in a list and somebody's (or behind the end): it is the log's, and
// settle() makes that so. No segment is lost.
//
// Invariants: K (below), and
//   L. Outside write_log() both copies of a log say the same. So where one fails its checksum, by damage or since a
//      crash came while it was written, the other one is not of before anything that was done since.
//   E. Behind where a segment is filled to there are zeros: who takes one sees by them whether it is in use.
//
// Threads: change(), take_for_nodes(), recovered_log(), recover_dead() and abandon() from any thread of any process
// that shares the store. All else while nobody writes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/locks/process_lock.hpp"
#include "pool/pool_set.hpp"
#include "store/write/open_segments.hpp"
#include "store/write/record_totals.hpp"
#include "store/write/segment_source.hpp"

namespace icecore {

class logged_segments final : public segment_source {
 public:
  /// What is in the arena.
  struct state {
    process_lock lock;
    std::array<record_totals, format::writers_max> before{};  ///< of each writer, when the store was opened
    version newest_before = 0;                                ///< no record was newer then
  };
  /// What a log says.
  struct log {
    segment open;
    link from = null_link;  ///< where what is not counted begins
    version newest = 0;
    record_totals totals;
  };

  logged_segments(pool_set& in, format::index_anchor& anchor, state& shared) noexcept
      : pool_(&in), anchor_(&anchor), shared_(&shared) {}

  [[nodiscard]] place change(unsigned writer, const place& room, const record_totals& since_opening, version newest,
                             std::uint64_t bytes, std::uint16_t in) override;

  /// A segment for nodes of the index, in this file if there is room.
  segment take_for_nodes(std::uint16_t in, const std::function<void(const segment&)>& claim) {
    const recovering_lock lock = hold();
    return pool_->allocate(format::node_segment_size - sizeof(format::segment_header), in, format::index_segment_magic,
                           claim);
  }

  /// Empty if the writer never wrote. errc::damaged if the log is.
  [[nodiscard]] std::optional<log> read_log(unsigned writer) const;
  /// The same, when what a process that was killed in here left half done is done, or undone.
  [[nodiscard]] std::optional<log> recovered_log(unsigned writer) const;
  /// Gives log.open its generation. errc::damaged if there is no such segment.
  void require_open(log& l) const;
  /// errc::damaged if something lies behind what a log of a closed store has counted: it, and the root, are of an
  /// earlier time.
  void require_unused(const log& l) const {
    if (l.open.size != 0) require_unused(place{l.open, l.from}, "a writer's log");
  }
  /// What was flushed before is durable before the log is, and the log when it returns: its second copy after a fence.
  void write_log(unsigned writer, const log& l);
  /// What was there when the store was opened.
  void note_before(unsigned writer, const log& l) noexcept {
    shared_->before[writer] = l.totals;
    shared_->newest_before = std::max(shared_->newest_before, l.newest);
  }
  [[nodiscard]] const record_totals& before(unsigned writer) const noexcept { return shared_->before[writer]; }

  /// The writer leaves its segment, filled up to `rest`, for good: nothing is put behind that before a full recovery.
  /// `totals`: of all that it ever filled. Durable when it returns.
  void abandon(unsigned writer, const place& room, const record_totals& totals, version newest);

  /// A free segment that is nobody's, to be taken by whoever needs room. Durable after a fence.
  void add_free_space(const place& room);
  /// After a crash, or when a process was killed that held the lock: what logs and node sources name is theirs. Gives
  /// claimed segments their headers.
  void recover() const;
  /// Whoever was killed while it took a segment: it has it, or never took it, when this returns.
  void recover_dead() const { static_cast<void>(hold()); }

  /// Segments that two would fill, one that two logs or lists lead to; and those that nobody will, though they have
  /// room (none is left so by a crash, nor by a killed process while no batch of it was under way). While nobody
  /// writes. Cost: O(segments).
  [[nodiscard]] std::vector<std::string> check() const;

  void for_each_left(const std::function<void(const place&)>& visit) const override;

 private:
  static constexpr std::uint64_t room_min = 1024;  ///< less is left unused

  [[nodiscard]] place exchange(unsigned writer, const place& room, const record_totals& since_opening, version newest,
                               std::uint64_t bytes, std::uint16_t in);

  /// K: under this lock alone segments change hands while the store is open, so when it is taken after a kill all but
  /// one change are whole, and settle() does for that one what opening does after a crash.
  [[nodiscard]] recovering_lock hold() const {
    return {shared_->lock, [this] { recover(); }};
  }
  [[nodiscard]] format::writer_log& copy_of(unsigned writer, unsigned copy) const noexcept {
    return anchor_->writers[writer][copy];
  }
  [[nodiscard]] std::uint32_t crc_of(const format::writer_log& l) const noexcept;
  /// The place of something in the anchor.
  [[nodiscard]] link place_of(const void* p) const noexcept {
    return make_link(0, static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool_->at(null_link)));
  }
  [[nodiscard]] link decode(std::uint64_t word, link at) const;
  [[nodiscard]] link load(const std::atomic<std::uint64_t>& of_anchor) const {
    // relaxed: under the lock, or while nobody writes
    return decode(of_anchor.load(std::memory_order_relaxed), place_of(&of_anchor));
  }
  /// On its way to the media, too.
  void store(std::atomic<std::uint64_t>& of_anchor, link l) const noexcept {
    of_anchor.store(pool_->codec().encode_link(l, place_of(&of_anchor)),
                    std::memory_order_relaxed);  // relaxed: as load()
    pool_->persist().flush(&of_anchor, sizeof of_anchor);
  }
  [[nodiscard]] link next_of(const segment& s) const;
  void set_next(const segment& s, link next) const noexcept;
  /// Those with records, and those of the index.
  void for_each_segment(const std::function<void(link at, bool records)>& visit) const;
  [[nodiscard]] place place_left(link at) const;
  void require_unused(const place& taken, const char* told_by) const;
  void give_header(link at, std::uint64_t size, std::uint32_t magic) const;
  void record_end(std::uint16_t number, std::uint64_t end) const;
  void take_off_lists(const std::vector<link>& owned) const;

  pool_set* pool_;
  format::index_anchor* anchor_;
  state* shared_;
};

}  // namespace icecore

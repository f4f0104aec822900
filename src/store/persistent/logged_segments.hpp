// Notes durably who fills which segment and where there is room, so that opening a store with the persistent index need
// not search for it. In other stores open_segments has this task.
//
// Each writer has a log (format::writer_log): the segment that it fills, and the totals of everything it filled before.
// Segments that were left with room are in lists by the size of that room. The anchor leads to the first of each list,
// and each segment's header to the next. A segment changes hands in steps, each of which is durable before the next:
//   1. the one left is put on a list;   2. the log names the one taken;   3. that is taken off its list, or the file's
//   end is moved behind it (pool::allocate).
// A crash between the steps leaves a segment that is in a log and also in a list (or behind the end): it belongs to the
// log, and recover() removes it from the list. No segment is lost.
//
// Invariants: K (below), and
//   L. Outside write_log() both copies of a log say the same. So if one fails its checksum, because of damage or of a
//      crash while it was written, the other one is up to date.
//   E. Behind a segment's fill end there are zeros: so the thread that takes a segment can see whether it is in use.
//
// Threads: change(), take_for_nodes(), recovered_log(), recover_dead() and abandon() from any thread of any process
// that shares the store. All other functions only while no thread writes.
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
  /// The part in the arena.
  struct state {
    process_lock lock;
    std::array<record_totals, format::writers_max> before{};  ///< of each writer, when the store was opened
    version newest_before = 0;                                ///< no record was newer then
  };
  /// The content of a log.
  struct log {
    segment open;
    link from = null_link;  ///< where the records that it has not counted begin
    version newest = 0;
    record_totals totals;
  };

  logged_segments(pool_set& in, format::index_anchor& anchor, state& shared) noexcept
      : pool_(&in), anchor_(&anchor), shared_(&shared) {}

  [[nodiscard]] segment_tail change(unsigned writer, const segment_tail& tail, const record_totals& since_opening,
                                    version newest, std::uint64_t bytes, std::uint16_t in) override;

  /// A segment for nodes of the index, in this file if there is room.
  segment take_for_nodes(std::uint16_t in, const std::function<void(const segment&)>& claim) {
    const recovering_lock lock = hold();
    return pool_->allocate(format::node_segment_size - sizeof(format::segment_header), in, format::index_segment_magic,
                           claim);
  }

  /// Empty if the writer never wrote. errc::damaged if the log is damaged.
  [[nodiscard]] std::optional<log> read_log(unsigned writer) const;
  /// The same, after recovering what a process that was killed under the lock left unfinished.
  [[nodiscard]] std::optional<log> recovered_log(unsigned writer) const;
  /// Gives log.open its generation. errc::damaged if there is no such segment.
  void require_open(log& l) const;
  /// errc::damaged if something lies behind what a log of a closed store has counted: then the log, and the root, are
  /// of an earlier time.
  void require_unused(const log& l) const {
    if (l.open.size != 0) require_unused(segment_tail{l.open, l.from}, "a writer's log");
  }
  /// Everything flushed before is durable before the log is. The log is durable when this returns; its second copy is
  /// durable after a fence.
  void write_log(unsigned writer, const log& l);
  /// Notes what was there when the store was opened.
  void note_before(unsigned writer, const log& l) noexcept {
    shared_->before[writer] = l.totals;
    shared_->newest_before = std::max(shared_->newest_before, l.newest);
  }
  [[nodiscard]] const record_totals& before(unsigned writer) const noexcept { return shared_->before[writer]; }

  /// The writer leaves its segment, filled up to `tail`, for good: nothing is put behind that before a full recovery.
  /// `totals`: everything it ever filled. Durable when it returns.
  void abandon(unsigned writer, const segment_tail& tail, const record_totals& totals, version newest);

  /// Adds a free segment that has no writer, for the next one that needs room. Durable after a fence.
  void add_free_space(const segment_tail& tail);
  /// Call after a crash, or when a process was killed that held the lock: gives the segments that logs and node sources
  /// name to these, and gives claimed segments their headers.
  void recover() const;
  /// When this returns, any process that was killed while taking a segment has it, or never took it.
  void recover_dead() const { static_cast<void>(hold()); }

  /// Reports segments that two writers would fill, because two logs or lists lead to them, and segments with room that
  /// no writer will fill. (A crash leaves none of the latter, nor does a killed process unless a batch of it was under
  /// way.) Call while no thread writes. Cost: O(segments).
  [[nodiscard]] std::vector<std::string> check() const;

  void for_each_left(const std::function<void(const segment_tail&)>& visit) const override;

 private:
  static constexpr std::uint64_t space_min = 1024;  ///< less room is left unused

  [[nodiscard]] segment_tail exchange(unsigned writer, const segment_tail& tail, const record_totals& since_opening,
                                      version newest, std::uint64_t bytes, std::uint16_t in);

  /// K: while the store is open, segments change hands only under this lock. So when it is taken after a kill, all
  /// changes but one are complete, and recover() does for that one what opening does after a crash.
  [[nodiscard]] recovering_lock hold() const {
    return {shared_->lock, [this] { recover(); }};
  }
  [[nodiscard]] format::writer_log& copy_of(unsigned writer, unsigned copy) const noexcept {
    return anchor_->writers[writer][copy];
  }
  [[nodiscard]] std::uint32_t crc_of(const format::writer_log& l) const noexcept;
  /// The position of something in the anchor.
  [[nodiscard]] link place_of(const void* p) const noexcept {
    return make_link(0, static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool_->at(null_link)));
  }
  [[nodiscard]] link decode(std::uint64_t word, link at) const;
  [[nodiscard]] link load(const std::atomic<std::uint64_t>& of_anchor) const {
    // relaxed: under the lock, or while no thread writes
    return decode(of_anchor.load(std::memory_order_relaxed), place_of(&of_anchor));
  }
  /// Also starts its flush.
  void store(std::atomic<std::uint64_t>& of_anchor, link l) const noexcept {
    of_anchor.store(pool_->codec().encode_link(l, place_of(&of_anchor)),
                    std::memory_order_relaxed);  // relaxed: as in load()
    pool_->persist().flush(&of_anchor, sizeof of_anchor);
  }
  [[nodiscard]] link next_of(const segment& s) const;
  void set_next(const segment& s, link next) const noexcept;
  /// Visits those with records, and those of the index.
  void for_each_segment(const std::function<void(link at, bool records)>& visit) const;
  [[nodiscard]] segment_tail tail_left(link at) const;
  void require_unused(const segment_tail& taken, const char* reported_by) const;
  void give_header(link at, std::uint64_t size, std::uint32_t magic) const;
  void take_off_lists(const std::vector<link>& owned) const;

  pool_set* pool_;
  format::index_anchor* anchor_;
  state* shared_;
};

}  // namespace icecore

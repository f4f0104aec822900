// Who fills which segment, and where there is room: durable, so that opening a store with the persistent index need not
// look for it. What partial_segments is to the other stores.
//
// Each writer has a log (format::writer_log): the segment that it fills, and the totals of all that it filled before.
// Segments that were left with room are in lists by its size, the first in the anchor, each linked from the header of
// the one before. A segment changes hands in steps of which each is durable before the next:
//   1. the one left is put on a list;   2. the log names the one taken;   3. that is taken off its list, or the file's
//   end is moved behind it (pool::allocate).
// A crash between them leaves a segment that is both in a list and somebody's (or behind the end): it is the log's, and
// settle() makes that so. No segment is lost.
//
// Threads: change() from any thread of any process that shares the store. All else while nobody writes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/process_lock.hpp"
#include "pool/pool.hpp"
#include "store/partial_segments.hpp"
#include "store/record_totals.hpp"

namespace icecore {

class lasting_segments {
 public:
  using place = partial_segments::place;

  /// What is in the arena.
  struct state {
    process_lock lock;
    std::array<record_totals, format::writers_max> before{};  ///< of each writer, when the store was opened
    version newest_before = 0;                                ///< no record was newer then
  };
  /// What a log says.
  struct log {
    segment open;
    std::uint64_t from = 0;  ///< where what is not counted begins
    version newest = 0;
    record_totals totals;
  };

  lasting_segments(pool& in, format::index_anchor& anchor, state& shared) noexcept
      : pool_(&in), anchor_(&anchor), shared_(&shared) {}

  /// A segment with room for `bytes` in the place of `rest`, in which the writer has no room, when it has filled
  /// `since_opening`. errc::no_space, and nothing has changed.
  [[nodiscard]] place change(unsigned writer, const place& rest, const record_totals& since_opening, version newest,
                             std::uint64_t bytes);

  /// A segment for nodes of the index.
  segment take_for_nodes(const std::function<void(const segment&)>& claim) {
    const std::scoped_lock lock(shared_->lock);
    return pool_->allocate(format::granule_size - sizeof(format::segment_header), format::index_segment_magic, claim);
  }

  /// Empty if the writer never wrote. errc::damaged if the log is.
  [[nodiscard]] std::optional<log> read_log(unsigned writer) const;
  /// Durable after a fence.
  void write_log(unsigned writer, const log& l);
  /// What was there when the store was opened.
  void note_before(unsigned writer, const log& l) noexcept {
    shared_->before[writer] = l.totals;
    shared_->newest_before = std::max(shared_->newest_before, l.newest);
  }
  [[nodiscard]] const record_totals& before(unsigned writer) const noexcept { return shared_->before[writer]; }

  /// A free segment that is nobody's, to be taken by whoever needs room. Durable after a fence.
  void add_rest(const place& rest);
  /// After a crash: what logs and node sources name is theirs. Gives claimed segments their headers.
  void settle();

  /// Visits each segment with records, and where it is filled to if no writer has it. O(segments).
  void for_each_left(const std::function<void(const place&)>& visit) const;

 private:
  static constexpr std::uint64_t room_min = 1024;  ///< less is left unused

  [[nodiscard]] format::writer_log& copy_of(unsigned writer, unsigned copy) const noexcept {
    return anchor_->writers[writer][copy];
  }
  [[nodiscard]] std::uint32_t crc_of(const format::writer_log& l) const noexcept;
  [[nodiscard]] std::uint64_t offset_of(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool_->base());
  }
  [[nodiscard]] std::uint64_t encode(std::uint64_t number, const void* at) const noexcept {
    return number == 0 ? 0 : pool_->codec().encode(number, offset_of(at));
  }
  [[nodiscard]] std::uint64_t decode(std::uint64_t word, const void* at) const;
  [[nodiscard]] place place_left(std::uint64_t offset) const;
  void give_header(std::uint64_t offset, std::uint64_t size, std::uint32_t magic);

  pool* pool_;
  format::index_anchor* anchor_;
  state* shared_;
};

}  // namespace icecore

// Where writers get the segments that they fill, and where they leave those that they no longer fill.
//
// Threads: change() from any thread; for_each_left() while no thread writes (W3).
#pragma once

#include <functional>

#include "pool/pool_set.hpp"
#include "store/write/open_segments.hpp"
#include "store/write/record_totals.hpp"

namespace icecore {

class segment_source {
 public:
  /// Gives the writer a segment with room for `bytes`, of file `in` if that has room, in exchange for `remaining`,
  /// where too little room is left. `since_opening` is what the writer has written so far. errc::no_space changes
  /// nothing.
  [[nodiscard]] virtual segment_tail change(unsigned writer, const segment_tail& remaining,
                                            const record_totals& since_opening, version newest, std::uint64_t bytes,
                                            std::uint16_t in) = 0;
  /// Visits the segments that have records and no writer, with their fill ends. A segment that a writer has taken
  /// meanwhile may be among them, with its earlier fill end. O(segments).
  virtual void for_each_left(const std::function<void(const segment_tail&)>& visit) const = 0;

 protected:
  ~segment_source() = default;
};

/// Opening scans the pool for segments with room; from then on a list in memory holds them.
class scanned_segments final : public segment_source {
 public:
  scanned_segments(pool_set& in, index::arena& memory, open_segments::state& shared) noexcept
      : pool_(&in), left_(memory, shared) {}

  [[nodiscard]] segment_tail change(unsigned /*writer*/, const segment_tail& remaining,
                                    const record_totals& /*since_opening*/, version /*newest*/, std::uint64_t bytes,
                                    std::uint16_t in) override {
    if (const auto other = left_.exchange(remaining, bytes, in)) return *other;
    const segment fresh = pool_->allocate(bytes, in);
    left_.put(remaining);  // if this throws, the fresh segment stays empty until the store is opened again
    pool_->grow_ahead(fresh.offset);
    return {fresh, fresh.first_record()};
  }
  void for_each_left(const std::function<void(const segment_tail&)>& visit) const override { left_.for_each(visit); }
  void clear() noexcept { left_.clear(); }
  /// Adds a segment that opening has found.
  void put(const segment_tail& remaining) { left_.put(remaining); }

 private:
  pool_set* pool_;
  open_segments left_;
};

}  // namespace icecore

// Where writers get the segments that they fill, and leave those that they fill no more.
//
// Threads: change() from any thread; for_each_left() while nobody writes (W3).
#pragma once

#include <functional>

#include "pool/pool_set.hpp"
#include "store/write/open_segments.hpp"
#include "store/write/record_totals.hpp"

namespace icecore {

class segment_source {
 public:
  using place = open_segments::place;

  /// A segment, of file `in` if there is room, with room for `bytes` in the place of `rest`, in which the writer has no
  /// room, when it has filled `since_opening`. errc::no_space, and nothing has changed.
  [[nodiscard]] virtual place change(unsigned writer, const place& rest, const record_totals& since_opening,
                                     version newest, std::uint64_t bytes, std::uint16_t in) = 0;
  /// Visits the segments with records that no writer has, and where each is filled to. Among them may be one that a
  /// writer has taken since, with the place where it was left before. O(segments).
  virtual void for_each_left(const std::function<void(const place&)>& visit) const = 0;

 protected:
  ~segment_source() = default;
};

/// Opening scans the pool for segments with room; from then on memory knows them.
class scanned_segments final : public segment_source {
 public:
  scanned_segments(pool_set& in, index::arena& memory, open_segments::state& shared) noexcept
      : pool_(&in), left_(memory, shared) {}

  [[nodiscard]] place change(unsigned /*writer*/, const place& rest, const record_totals& /*since_opening*/,
                             version /*newest*/, std::uint64_t bytes, std::uint16_t in) override {
    if (const auto other = left_.exchange(rest, bytes, in)) return *other;
    const segment fresh = pool_->allocate(bytes, in);
    left_.put(rest);  // without memory for that the fresh one stays empty until the store is opened again
    pool_->grow_ahead(fresh.offset);
    return {fresh, fresh.first_record()};
  }
  void for_each_left(const std::function<void(const place&)>& visit) const override { left_.for_each(visit); }
  /// A segment that opening has found.
  void put(const place& rest) { left_.put(rest); }

 private:
  pool_set* pool_;
  open_segments left_;
};

}  // namespace icecore

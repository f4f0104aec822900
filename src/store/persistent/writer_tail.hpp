// What a writer has put into its segment since its log was written, according to the records themselves. Opening reads
// it for every writer, survivors read it for a dead one (dead_writers.hpp).
//
//   writer_tail t(pool);
//   auto seen = t.read(segment, log.from);        // up to the first bytes that are no record that took effect
//   t.clear_behind(segment, seen.position);       // zeroes what never took effect
//
// Threads: no thread may write in the segment meanwhile; readers may stamp its records.
#pragma once

#include <optional>
#include <vector>

#include "pool/pool_set.hpp"
#include "store/write/record_totals.hpp"

namespace icecore::detail {

class writer_tail {
 public:
  explicit writer_tail(const pool_set& in) noexcept : pool_(&in) {}

  struct content {
    link position = null_link;  ///< behind the last record that counts
    record_totals totals;
    version newest = 0;
    version newest_tag = 0;
    std::vector<link> last;  ///< records of the last operation
  };
  [[nodiscard]] content read(const segment& s, link from) const;

  /// The first record with a correct checksum at or behind `from`, whether it took effect or not; empty if there is
  /// none.
  [[nodiscard]] std::optional<link> first_intact(const segment& s, link from) const noexcept;
  /// Zeroes what never took effect, from `position` to the segment's end. errc::damaged if something there took effect.
  void clear_behind(const segment& s, link position) const;

 private:
  [[nodiscard]] bool intact_record(const segment& s, link at) const noexcept;
  [[nodiscard]] version version_of(const segment& s, link at) const noexcept;

  const pool_set* pool_;
};

}  // namespace icecore::detail

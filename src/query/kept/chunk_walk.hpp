// Walks over the chunks of a query that have rows, in the order of the rows.
//
//   chunk_walk walk(q);
//   for (bool more = walk.seek(from); more; more = walk.next()) use(walk.now(), walk.first_row());
//
// It shows rows whose numbers are final: all rows before them are known (R4). Behind the last one next() is false, and
// may be true later.
// Threads: one object, one thread; the query may run meanwhile.
// Errors: errc::damaged if a chunk on the way is not intact.
#pragma once

#include <optional>

#include "query/kept/kept_query.hpp"

namespace icecore::detail {

class chunk_walk {
 public:
  explicit chunk_walk(const kept_query& of) noexcept : of_(&of) {}

  /// To the chunk that has the row of this number; false if that row is not final. O(parts + log chunks).
  bool seek(std::uint64_t row);
  /// To the next chunk with rows.
  bool next();
  /// To the first chunk with rows of one part, all of whose parts before are complete; false if it has none.
  bool seek_part(std::size_t part);
  /// To the next one of the same part.
  bool next_in_part();

  [[nodiscard]] const chunk& now() const noexcept { return *now_; }
  /// The number of the chunk's first row.
  [[nodiscard]] std::uint64_t first_row() const noexcept { return before_part_ + now_->header().rows_before; }
  /// How many of its rows may be shown, from the first on: all, since a chunk is shown as a whole.
  [[nodiscard]] std::uint32_t rows() const noexcept { return now_->header().rows; }

 private:
  void load();
  [[nodiscard]] chunk chunk_with(std::uint64_t row) const;

  const kept_query* of_;
  std::size_t part_ = 0;
  std::uint64_t before_part_ = 0;  // rows of the parts before
  std::uint64_t shown_of_part_ = 0;
  bool part_complete_ = false;
  std::uint64_t next_row_ = 0;
  std::optional<chunk> now_;
};

}  // namespace icecore::detail

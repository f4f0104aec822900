// A chunk in the making: what a thread keeps of the keys that it has examined since its last chunk.
//
//   gathered now({.keeps = query_keeps::rows, .select = &select, .totals = &totals});
//   now.begin(log);                                   // goes on where the part stands
//   now.add(block, 0, block.size, matches, memory);   // ... for each block; then
//   log.append(now.content(false), room);
//   now.clear();
//
// Invariants:
//   R5. Totals are folded in key order from the part's first key on: they go on from the state that the chunk before
//       has, so they depend on no chunk's size, and on no crash.
// Threads: one object, one thread.
// Errors: add() that throws leaves what cannot be written any more: is_whole() is false, and the keys since the chunk
//   before are examined again.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "filter/results/aggregation.hpp"
#include "filter/results/projection.hpp"
#include "icecore/query.hpp"
#include "query/media/bit_rows.hpp"
#include "query/media/key_rows.hpp"
#include "query/media/part_log.hpp"

namespace icecore::detail {

/// What of each match is kept. The expressions live as long as whoever refers to them.
struct kept_of_matches {
  query_keeps keeps = query_keeps::keys;
  const projection* select = nullptr;
  const aggregation* totals = nullptr;
  bool bits = false;  ///< keys may be kept as bits: the index has them in order, so that they are found again
};

class gathered {
 public:
  explicit gathered(const kept_of_matches& what);

  /// A part is begun, or goes on. errc::damaged if its newest chunk has other totals.
  void begin(const part_log& log);

  /// Bytes that add() needs at most for the matches of a block.
  [[nodiscard]] std::size_t bytes_for(const rows& block, row_mask matches) const noexcept;
  /// Examines rows [first, first + count) of a block; `matches` has a bit for each that matches.
  void add(const rows& block, std::size_t first, std::size_t count, row_mask matches, scratch& memory);
  /// Keys up to this one are done with: the version shows none of those behind the last that was examined.
  void move_to(std::string_view key) noexcept { last_key_ = key; }
  /// Keys from another range of the filter follow.
  void begin_range() noexcept { bits_.begin_range(); }

  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  [[nodiscard]] std::uint32_t examined() const noexcept { return examined_; }
  [[nodiscard]] std::string_view last_key() const noexcept { return last_key_; }
  /// Of the rows.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// Valid until something else is called.
  [[nodiscard]] chunk_content content(bool is_last);
  /// A chunk that passes one key and says why. Nothing may be gathered.
  [[nodiscard]] chunk_content skipping(std::string_view key, std::span<const std::byte> note) noexcept;
  /// errc::invalid_argument if what is selected of row i takes more than a chunk can have.
  void require_fit(const rows& block, std::size_t i, scratch& memory);
  /// The next chunk begins.
  void clear() noexcept;

 private:
  [[nodiscard]] std::size_t bytes_of_row(const rows& block, std::size_t i) const noexcept;

  kept_of_matches what_;
  std::vector<std::string_view> matches_;  ///< keys, if they are kept: views into the pool, where keys stay
  std::size_t match_bytes_ = 0;            ///< that they take at most
  bit_rows_writer bits_;
  key_rows_writer keys_;
  std::vector<result_column> columns_;
  std::vector<result_column> one_row_;
  std::vector<fold_state> totals_;
  std::vector<std::byte> encoded_;
  std::size_t texts_ = 0;  ///< selected columns of bytes
  std::uint32_t rows_ = 0;
  std::uint32_t examined_ = 0;
  std::string_view last_key_;
  bool whole_ = true;
};

/// The totals that a chunk has. errc::damaged if it has others.
[[nodiscard]] std::vector<fold_state> totals_in(const chunk_source& chunks, const chunk& of, const aggregation& totals);

}  // namespace icecore::detail

// The rows of a chunk that keeps columns: one column behind the other.
//
//   from the first multiple of 8 bytes on, for each column:
//   0  1  type: detail::column_type
//   1  1  1 if a bitmap of what is not null follows; 0: no value is null
//   2  2  zero
//   4  4  how many are null
//   8  8  bytes of what follows, a multiple of 8
//   then the bitmap, 64 rows a word, the first one lowest; then the values: of i64, u64 and f64 a word each, of
//   booleans a bit each; of bytes their ends and, before them, a zero, 4 bytes each, padded to 8, then the bytes,
//   padded to 8
//
// A null is zero or empty. What is behind the last row in a word of bits is zero.
//
// Threads: pure functions; views of a chunk are as good as the chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "filter/results/column.hpp"
#include "icecore/filtered.hpp"

namespace icecore::detail {

/// Bytes that a row takes besides its texts, at most.
inline constexpr std::size_t column_bytes_of_row = 9;

/// Puts columns of `rows` values each behind what `to` has; the chunk's rows begin `misplaced` bytes behind a multiple
/// of 8.
void append_columns(std::span<const result_column> columns, std::size_t misplaced, std::vector<std::byte>& to);

/// Views of the columns of a chunk's rows; empty if the bytes are none of these types. They were checked, so that
/// happens only if they were written wrongly.
[[nodiscard]] std::optional<std::vector<kept_column>> columns_in(std::span<const std::byte> bytes, std::size_t rows,
                                                                 std::span<const column_type> types);

/// Copies rows [from, from + count) of `of` behind what `to` has.
void append_rows(const kept_column& of, std::size_t from, std::size_t count, result_values& to);

/// The empty column that append_rows() fills.
[[nodiscard]] result_values empty_values(std::string name, column_type type);

}  // namespace icecore::detail

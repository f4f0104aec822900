// What an expression is evaluated on: a block of 1 to 64 rows, column by column, as a scan or a walk of changes has
// them.
//
// Threads: a block belongs to one thread. Its arrays and what they view are the caller's, for the time of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "icecore/options.hpp"

namespace icecore::detail {

inline constexpr std::size_t rows_max = 64;

enum class column_type : std::uint8_t { boolean = 1, i64 = 2, u64 = 3, f64 = 4, bytes = 5 };

/// A column of rows that a query has kept, where it lies: as result_column has it, but with shorter ends.
struct kept_column {
  column_type type = column_type::bytes;
  std::uint32_t nulls = 0;
  const std::uint64_t* validity = nullptr;  ///< null: no value is null
  const std::uint64_t* words = nullptr;
  const std::uint32_t* ends = nullptr;  ///< of bytes: value i is bytes[ends[i] .. ends[i + 1])
  const char* bytes = nullptr;
};

struct rows {
  std::size_t size = 0;
  const std::string_view* keys = nullptr;
  const std::string_view* values = nullptr;  ///< of a removal: an empty view, and its bit in `removed`
  const version* versions = nullptr;         ///< null unless the expression reads versions
  // Of changes only:
  const std::string_view* before = nullptr;  ///< the value before; its bit in `has_before` says whether there was one
  std::uint64_t has_before = 0;
  std::uint64_t removed = 0;  ///< bit i: row i is a removal
  std::uint64_t first = 0;    ///< bit i: row i is the first record of its key
  // Of kept rows only, which have nothing else:
  const kept_column* kept = nullptr;  ///< all columns
  std::size_t kept_from = 0;          ///< which value of each is row 0; a multiple of 64

  /// One bit for each row.
  [[nodiscard]] std::uint64_t mask() const noexcept { return size >= rows_max ? ~0ULL : (1ULL << size) - 1; }
};

/// What an expression reads. A scan may leave out the rest.
struct needs_of {
  bool value = false;
  bool version = false;
  bool changes = false;  ///< before.…, removed or first
  bool kept = false;     ///< columns of kept rows

  friend bool operator==(const needs_of&, const needs_of&) = default;
};

}  // namespace icecore::detail

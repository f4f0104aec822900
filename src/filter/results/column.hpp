// A column of results, in memory as Apache Arrow lays it out: values, offsets of bytes, a bitmap of what is not null.
//
// Threads: a column belongs to one thread at a time. Cost: appending is amortised O(bytes).
// Source: Arrow Columnar Format, "Physical memory layout"; bytes are a large binary, booleans are bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "filter/run/slot.hpp"

namespace icecore::detail {

/// The type of the column that an expression fills. One that is null everywhere counts as bytes.
[[nodiscard]] column_type column_type_of(const node& tree) noexcept;

class result_column {
 public:
  explicit result_column(column_type type) : type_(type) {}

  /// Appends the rows of `mask`; a whole number that the type cannot hold is null.
  void append(const slot& of, row_mask mask);
  void clear() noexcept;

  [[nodiscard]] column_type type() const noexcept { return type_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t nulls() const noexcept { return nulls_; }

  /// One bit a value, the lowest first: whether it is not null. What is behind the last value is zero.
  [[nodiscard]] std::span<const std::uint64_t> validity() const noexcept { return validity_; }
  /// Of i64, u64 and f64 a word each; of booleans a bit. A null is zero.
  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept { return words_; }
  /// Of bytes: value i is bytes()[offsets()[i] .. offsets()[i + 1]).
  [[nodiscard]] std::span<const std::uint64_t> offsets() const noexcept { return offsets_; }
  [[nodiscard]] std::span<const char> bytes() const noexcept { return bytes_; }

  /// Value i: null, or of the kind that the type says.
  [[nodiscard]] datum at(std::size_t i) const noexcept;

 private:
  [[nodiscard]] row_mask fitting(const slot& of) const noexcept;
  static void append_bits(std::vector<std::uint64_t>& to, std::size_t size, std::uint64_t bits, std::size_t count);
  [[nodiscard]] static bool bit_of(const std::vector<std::uint64_t>& bits, std::size_t i) noexcept {
    return (bits[i / 64] >> i % 64 & 1U) != 0;
  }

  column_type type_;
  std::size_t size_ = 0;
  std::size_t nulls_ = 0;
  std::vector<std::uint64_t> validity_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> offsets_{0};
  std::vector<char> bytes_;
};

}  // namespace icecore::detail

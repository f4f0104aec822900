// The neighbours of a k-mer in the reads: counts of the bases before and after it, and the two-letter code they give.
//
// A letter of the code is the base that was seen there often enough, F (a fork) if there is more than one such base, X
// if there is none. A k-mer with a base on both sides, "UU" in Meraculous, has at most one neighbour on each side.
// Source: Chapman et al., Meraculous: de novo genome assembly with short paired-end reads, PLoS ONE 2011.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "kmer.hpp"

namespace kmers {

inline constexpr char fork = 'F';
inline constexpr char none = 'X';

struct extension_counts {
  std::uint32_t depth = 0;                        ///< how often the k-mer was seen
  std::array<std::uint32_t, base_count> left{};   ///< the base before it, if its quality was high
  std::array<std::uint32_t, base_count> right{};  ///< the base after it, likewise

  extension_counts& operator+=(const extension_counts& more) noexcept {
    depth += more.depth;
    for (std::size_t b = 0; b < base_count; ++b) {
      left[b] += more.left[b];
      right[b] += more.right[b];
    }
    return *this;
  }
  friend bool operator==(const extension_counts&, const extension_counts&) = default;

  /// The value of a key; all ranks of a cluster have the same byte order.
  [[nodiscard]] std::string_view bytes() const noexcept { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  /// Precondition: `value` came from bytes().
  [[nodiscard]] static extension_counts of(std::string_view value) noexcept {
    extension_counts counts;
    std::memcpy(&counts, value.data(), sizeof counts);
    return counts;
  }
};
static_assert(sizeof(extension_counts) == 36 && std::is_trivially_copyable_v<extension_counts>);

/// The letter for one side.
[[nodiscard]] constexpr char code_of(const std::array<std::uint32_t, base_count>& counts,
                                     std::uint32_t enough) noexcept {
  char letter = none;
  for (base b = 0; b < base_count; ++b) {
    if (counts[b] < enough) continue;
    if (letter != none) return fork;
    letter = letter_of(b);
  }
  return letter;
}

/// Both letters, left and right.
[[nodiscard]] inline std::string code_of(const extension_counts& counts, std::uint32_t enough) {
  return {code_of(counts.left, enough), code_of(counts.right, enough)};
}

/// Whether both letters are bases.
[[nodiscard]] constexpr bool is_unique(std::string_view code) noexcept { return base_of(code[0]) && base_of(code[1]); }

}  // namespace kmers

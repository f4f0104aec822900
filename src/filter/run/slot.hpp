// The results of one operation for a block of rows, and the memory of a thread in which expressions are evaluated.
//
// Threads: a scratch belongs to one thread at a time. Any number of programs may use it in turn.
// Cost: 1.7 KB for each slot; a program has as many as its tree is deep, and one for each constant. Once a program has
//   been run a few times, nothing is allocated for a block.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "filter/rows.hpp"
#include "filter/tree/node.hpp"
#include "icecore/snapshot.hpp"

namespace icecore::detail {

/// Bit i is about row i.
using row_mask = std::uint64_t;

/// Calls f(i) for each bit of `mask`.
template <typename F>
void for_each_row(row_mask mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<std::size_t>(std::countr_zero(mask)));
}

/// One value. A whole number is `word` as a signed number, or unsigned if it is `big`, that is 2^63 or more.
struct datum {
  kind type = kind::null;
  bool big = false;
  std::uint64_t word = 0;  ///< of a double its bits, of a boolean 0 or 1
  std::string_view text = {};
};

/// What an operation gives for a block of rows. What it holds for rows that were not asked for means nothing.
struct alignas(64) slot {
  union {
    std::uint64_t word[rows_max];  // of whole numbers and of any
    double real[rows_max];
  };
  const std::string_view* views = nullptr;  // of bytes: own_views, or the caller's
  row_mask valid = 0;                       // not null
  row_mask truth = 0;                       // of booleans
  row_mask big = 0;                         // of whole numbers: 2^63 or more
  kind kinds[rows_max];                     // of any
  std::string_view own_views[rows_max];

  slot() noexcept : word{}, kinds{} {}

  /// Row i, of results that have the type `type`.
  [[nodiscard]] datum at(kind type, std::size_t i) const noexcept {
    if ((valid >> i & 1U) == 0) return {};
    if (type == kind::any) type = kinds[i];
    switch (type) {
      case kind::boolean:
        return {.type = type, .word = truth >> i & 1U};
      case kind::bytes:
        return {.type = type, .text = views[i]};
      case kind::real:
        return {.type = type, .word = std::bit_cast<std::uint64_t>(real[i])};
      default:
        return {.type = type, .big = (big >> i & 1U) != 0, .word = word[i]};
    }
  }

  /// The same value for every row.
  void fill(const datum& one) noexcept;
};

class json_reader;

/// Copies of texts that must outlive a call, until the next block.
class text_arena {
 public:
  void clear() noexcept {
    used_ = 0;
    chunk_ = 0;
  }
  [[nodiscard]] std::string_view copy(std::string_view text);

 private:
  struct chunk {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
  };
  std::vector<chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

class compiled;

/// Reusable memory of one thread.
class scratch {
 public:
  scratch();
  scratch(scratch&&) noexcept;
  scratch& operator=(scratch&&) noexcept;
  ~scratch();

  /// After an evaluation that threw: whether a function of the caller did.
  [[nodiscard]] bool was_calling() const noexcept { return calling_; }

 private:
  friend class evaluation;

  struct frame {
    std::uint64_t program = 0;  // its number
    std::vector<slot> slots;
  };
  [[nodiscard]] std::vector<slot>& slots_of(const compiled& program);

  static constexpr std::size_t frames_max = 8;
  std::vector<std::unique_ptr<frame>> frames_;  // the one used last is in front
  std::unique_ptr<json_reader> json_;
  text_arena texts_;
  std::array<item, rows_max> items_;
  std::array<bool, rows_max> flags_{};
  bool calling_ = false;
};

}  // namespace icecore::detail

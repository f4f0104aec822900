// Folding expressions over matching rows: counts, sums, least and greatest values.
//
//   const aggregation total({{fold::count, "true"}, {fold::sum, "price * qty"}}, trade);
//   auto states = total.begin();
//   total.add(block, mask, memory, states);
//   total.result(1, states[1]).value;
//
// Rows are folded in their order, parts in theirs (merge()), by plain additions: the result depends on no thread,
// machine or compiler, to the last bit. Nulls are left out, and so is NaN by min and max. Threads: constant once it is
// made; each thread has its own scratch and states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "filter/results/projection.hpp"

namespace icecore::detail {

enum class fold : std::uint8_t { count, sum, min, max };

struct fold_of {
  fold how = fold::count;
  std::string text;  ///< a number, but for count, which takes anything
};

/// How far a fold came. It may be copied and stored as its bytes; one of zeros has folded nothing.
///
///   offset  size  meaning
///   0       8     values folded
///   8       8     of a sum of whole numbers: its low half, as two's complement of 128 bits; of a sum of doubles: its
///                 bits; of min and max: the bits of the value; of count: zero
///   16      8     of a sum of whole numbers: its high half; of min and max: 1 if the value is 2^63 or more
struct fold_state {
  std::uint64_t values = 0;
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const fold_state&, const fold_state&) = default;
};
static_assert(sizeof(fold_state) == 24);

struct fold_result {
  datum value = {};       ///< null if nothing was folded, or on overflow
  bool overflow = false;  ///< the sum of whole numbers is none from -2^63 to 2^64 - 1
};

class aggregation {
 public:
  /// errc::bad_input as for a filter, and if what is added or compared is no number.
  aggregation(const std::vector<fold_of>& folds, const layout& columns);
  [[nodiscard]] static aggregation from_stored(std::span<const std::byte> bytes);

  [[nodiscard]] std::size_t size() const noexcept { return folds_.size(); }
  [[nodiscard]] fold how(std::size_t i) const noexcept { return folds_[i]; }
  [[nodiscard]] const node& tree(std::size_t i) const noexcept { return list_[i].tree; }
  /// What is folded, in normal form.
  [[nodiscard]] std::string text(std::size_t i) const;
  /// Of the result.
  [[nodiscard]] column_type type(std::size_t i) const noexcept;
  [[nodiscard]] needs_of needs() const noexcept { return compiled_.needs(); }

  [[nodiscard]] std::vector<fold_state> begin() const { return std::vector<fold_state>(size()); }
  /// Folds the rows of `mask`, in their order.
  void add(const rows& block, row_mask mask, scratch& memory, std::span<fold_state> states) const;
  /// Folds what a later part came to.
  void merge(std::span<fold_state> states, std::span<const fold_state> later) const;
  [[nodiscard]] fold_result result(std::size_t i, const fold_state& state) const noexcept;

  [[nodiscard]] const std::vector<std::byte>& stored() const noexcept { return stored_; }

 private:
  aggregation(std::vector<named_tree> list, const origin& from);

  std::vector<fold> folds_;
  std::vector<named_tree> list_;
  std::vector<std::byte> stored_;
  compiled compiled_;
};

}  // namespace icecore::detail

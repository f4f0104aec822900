// Columns that other libraries hand over through the Arrow C data interface, read where they are.
//
// Invariant: the arrays that were taken live as long as this object, and so do the bytes of its items.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/arrow.h"

namespace icecore::python {

/// The bytes of each item of a column: those of binary and utf8 of all layouts, and items of one size (numbers, times,
/// fixed_size_binary, lists of so many numbers) as they lie in memory.
class arrow_items {
 public:
  arrow_items() = default;
  arrow_items(const arrow_items&) = delete;
  arrow_items& operator=(const arrow_items&) = delete;
  ~arrow_items();

  /// Takes the array and appends its items. `what` names the column in errors. errc::invalid_argument for a type
  /// without bytes, for nulls, and for offsets that decrease.
  void append(const ArrowSchema& schema, ArrowArray& array, const std::string& what);

  [[nodiscard]] const std::vector<std::string_view>& items() const noexcept { return items_; }

 private:
  std::vector<ArrowArray> arrays_;
  std::vector<std::string_view> items_;
};

}  // namespace icecore::python

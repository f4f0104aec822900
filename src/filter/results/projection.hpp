// A list of expressions whose values are asked for: each fills a column for the rows that match.
//
//   const projection select({"key", "price * qty as total"}, trade);
//   auto columns = select.columns();
//   select.evaluate(block, filter.test(block, memory), memory, columns);
//
// Threads: constant once it is made; each thread has its own scratch and columns.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "filter/results/column.hpp"
#include "filter/run/compiled.hpp"
#include "filter/text/parser.hpp"
#include "icecore/filter.hpp"

namespace icecore::detail {

class projection {
 public:
  /// errc::bad_input as for a filter; an error names the expression by its number, too.
  projection(const std::vector<std::string>& expressions, const layout& columns);
  /// errc::bad_token if the bytes are damaged or no projection.
  [[nodiscard]] static projection from_stored(std::span<const std::byte> bytes);

  [[nodiscard]] std::size_t size() const noexcept { return selected_.size(); }
  [[nodiscard]] const std::string& name(std::size_t i) const noexcept { return selected_[i].name; }
  [[nodiscard]] const node& tree(std::size_t i) const noexcept { return selected_[i].tree; }
  [[nodiscard]] column_type type(std::size_t i) const noexcept { return column_type_of(selected_[i].tree); }
  [[nodiscard]] needs_of needs() const noexcept { return compiled_.needs(); }
  /// Empty columns of the right types.
  [[nodiscard]] std::vector<result_column> columns() const;

  /// Appends the rows of `mask` to `out`, which has size() columns.
  void evaluate(const rows& block, row_mask mask, scratch& memory, std::span<result_column> out) const;

  [[nodiscard]] const std::vector<std::byte>& stored() const noexcept { return stored_; }

 private:
  projection(std::vector<named_tree> selected, const origin& from);

  std::vector<named_tree> selected_;
  std::vector<std::byte> stored_;
  compiled compiled_;
};

/// Parses and checks each of a list of expressions.
[[nodiscard]] std::vector<named_tree> parse_list(const std::vector<std::string>& expressions, const layout& columns);
[[nodiscard]] compiled compiled_list(std::vector<named_tree>& list, const origin& from);

}  // namespace icecore::detail

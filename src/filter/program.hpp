// A filter's expression, checked and compiled: what filter.hpp hands to the layers that scan.
//
// Threads: constant once it is made; any number of threads test rows, each with its own scratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "filter/rows.hpp"
#include "filter/run/compiled.hpp"
#include "filter/text/parser.hpp"
#include "filter/tree/key_ranges.hpp"
#include "icecore/filter.hpp"

namespace icecore::detail {

struct [[gnu::visibility("hidden")]] columns_of_layout {
  std::vector<named_field> columns;

  [[nodiscard]] static const std::vector<named_field>& of(const layout& one);
  [[nodiscard]] static layout made(std::vector<named_field> columns);
};

class [[gnu::visibility("hidden")]] filter_program {
 public:
  /// Checks and compiles a tree. Its functions are in `functions`.
  filter_program(node tree, std::vector<caller_function> functions, const origin& from);
  [[nodiscard]] static filter_program from_text(std::string_view text, const layout& columns);
  /// As filter::from_stored().
  [[nodiscard]] static filter_program from_stored(std::span<const std::byte> bytes, const function_resolver& resolve);

  /// Bit i set: row i is true; null is not true. What needs() leaves out may be missing from the block.
  [[nodiscard]] row_mask test(const rows& block, scratch& memory) const {
    return evaluation(compiled_, block, memory).truth(0, block.mask());
  }
  [[nodiscard]] needs_of needs() const noexcept { return compiled_.needs(); }
  /// Ascending, disjoint; a row with a key outside of all of them is not true.
  [[nodiscard]] std::vector<key_range> key_ranges() const { return key_ranges_of(tree_); }
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] const std::vector<std::byte>& stored() const noexcept { return stored_; }
  [[nodiscard]] std::array<std::uint8_t, 16> fingerprint() const noexcept;

  [[nodiscard]] const node& tree() const noexcept { return tree_; }
  [[nodiscard]] const std::vector<caller_function>& functions() const noexcept { return functions_; }

 private:
  node tree_;
  std::vector<caller_function> functions_;
  std::vector<std::byte> stored_;
  compiled compiled_;
};

}  // namespace icecore::detail

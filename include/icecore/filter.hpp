// Filters: conditions on keys and values, as text or as functions of the caller.
//
//   const icecore::layout trade("price f64, qty u32, name bytes");   // columns of a value, packed, little-endian
//   const icecore::filter dear("price > 100.0 and starts_with(key, 'eu/') and name ~ 'GmbH$'", trade);
//   dear.matches("eu/7", value);
//   const auto spam = icecore::filter::of("spam", 3, [&](const icecore::item& one) { return model(one.value); });
//
// The language: docs/filters.md. What a row lacks is null, and null is not true; no row makes an expression fail.
// Threads: a filter is a pointer to what never changes: copy it freely, and use it in any number of threads. Where
//   several threads evaluate a filter, they call its functions at the same time.
// Cost: making one takes microseconds for each word of text, more for patterns. A row costs about 1 ns for each
//   operator on numbers, some hundred for a pattern or a JSON document.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] icecore {

struct item;  // snapshot.hpp
namespace detail {
class filter_program;
struct columns_of_layout;
}  // namespace detail

/// The columns of a value: names, types and places. A value type.
class layout {
 public:
  /// No columns.
  layout() = default;
  /// Columns one after another: a name and a type (u8 to u64, i8 to i64, f32, f64, bytes(n), or bytes for all that is
  /// left), separated by commas; `be` behind a number for big-endian. errc::bad_input: position and what was expected.
  explicit layout(std::string_view text);

 private:
  friend class filter;
  friend struct detail::columns_of_layout;
  std::shared_ptr<const detail::columns_of_layout> columns_;
};

/// A function of the caller that filters by it. It sets flags[i] for items[i]; all are false before.
using block_function = std::function<void(std::span<const item> items, std::span<bool> flags)>;
/// The same, for one item at a time.
using item_function = std::function<bool(const item&)>;

/// A function by the name and revision under which filters that are stored refer to it.
struct caller_function {
  std::string name;
  std::uint64_t revision = 0;
  block_function evaluate = {};
};

/// Finds the function of a stored filter; one whose `evaluate` is empty if there is none.
using function_resolver = std::function<caller_function(std::string_view name, std::uint64_t revision)>;

class filter {
 public:
  /// Matches every row.
  filter();
  /// The expression of `text`, which may name columns of `columns`. errc::bad_input: position, what was expected and
  /// the nearest name. At most 64 KiB of text and 256 levels.
  explicit filter(std::string_view text, const layout& columns = {});

  /// A function of the caller. Raise `revision` whenever its answers change: stored filters refer to both.
  [[nodiscard]] static filter of(std::string_view name, std::uint64_t revision, block_function function);
  [[nodiscard]] static filter of(std::string_view name, std::uint64_t revision, item_function function);

  /// Rows that all (any) of these match; functions are called for rows alone that cheaper filters leave undecided.
  [[nodiscard]] static filter all_of(const std::vector<filter>& filters);
  [[nodiscard]] static filter any_of(const std::vector<filter>& filters);

  /// Whether one key and value match. For single rows: scans evaluate blocks, which is many times as fast.
  [[nodiscard]] bool matches(std::string_view key, std::string_view value) const;

  /// The expression in normal form, the ranges of keys outside of which nothing matches, and the order of evaluation.
  [[nodiscard]] std::string explain() const;

  /// Bytes from which from_stored() makes the same filter, here or in any later release.
  [[nodiscard]] std::vector<std::byte> stored() const;
  /// errc::bad_token if the bytes are damaged or no filter; errc::unknown_function, with name and revision, if it calls
  /// a function that the resolver does not know.
  [[nodiscard]] static filter from_stored(std::span<const std::byte> bytes, const function_resolver& resolve = {});

  /// XXH3 (128 bits) of stored(): equal filters have equal fingerprints.
  [[nodiscard]] std::array<std::uint8_t, 16> fingerprint() const;

  /// The columns that its text could name; none of a filter that was stored, joined, or is a function.
  [[nodiscard]] const layout& columns() const noexcept { return columns_; }
  /// The same filter, with these columns for the expressions of totals and selections.
  [[nodiscard]] filter with_columns(const layout& columns) const {
    filter same(*this);
    same.columns_ = columns;
    return same;
  }

  /// For the library: what evaluates it.
  [[nodiscard]] const detail::filter_program& program() const noexcept { return *program_; }

 private:
  explicit filter(std::shared_ptr<const detail::filter_program> program) noexcept : program_(std::move(program)) {}
  std::shared_ptr<const detail::filter_program> program_;
  layout columns_;
};

}  // namespace icecore

// Rows that fuzz targets of filters evaluate whatever they made.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "filter/program.hpp"

namespace icecore::testing {

/// A block with short and long values, removals, JSON.
struct filter_rows {
  static constexpr std::size_t count = 6;
  std::array<std::string_view, count> keys = {"", "a", "eu/1", "eu/2", std::string_view("\0\xff", 2), "z"};
  std::array<std::string_view, count> values = {
      "", "short", R"({"a": {"b": [1, "x", 2.5]}})", "0123456789012345678901234567890123456789", "", "text"};
  std::array<version, count> versions = {0, 1, 2, 3, ~version{0}, 5};
  detail::rows block{.size = count,
                     .keys = keys.data(),
                     .values = values.data(),
                     .versions = versions.data(),
                     .before = values.data(),
                     .has_before = 0b101101,
                     .removed = 0b010000,
                     .first = 0b010010};

  [[nodiscard]] std::uint64_t matches(const filter& one) const {
    detail::scratch memory;
    return one.program().test(block, memory);
  }
};

/// What holds of every filter: it comes back from its stored form, and its ranges of keys leave out no match.
inline void require_promises(const filter& made) {
  const filter_rows rows;
  const std::uint64_t matches = rows.matches(made);
  const filter again = filter::from_stored(made.stored(), [](std::string_view name, std::uint64_t revision) {
    return caller_function{.name = std::string(name), .revision = revision, .evaluate = [](auto, auto) {}};
  });
  if (again.stored() != made.stored()) throw std::logic_error("the stored form differs after reading it");
  if (rows.matches(again) != matches) throw std::logic_error("the answer differs after reading the stored form");
  static_cast<void>(made.explain());
  const auto ranges = made.program().key_ranges();
  detail::for_each_row(matches, [&](std::size_t i) {
    for (const auto& range : ranges) {
      if (range.from <= rows.keys[i] && (!range.to || rows.keys[i] < *range.to)) return;
    }
    throw std::logic_error("a key matches outside of the ranges");
  });
}

}  // namespace icecore::testing

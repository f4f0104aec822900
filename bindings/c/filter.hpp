// Filters in the C interface.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "icecore/filter.hpp"
#include "icecore/filtered.hpp"
#include "support.hpp"

struct icecore_filter {
  icecore::filter filter;
  std::optional<icecore::caller_function> function{};  // if it is of one: what stored filters refer to
};

namespace icecore::c {

/// A text that ends with a zero.
[[nodiscard]] inline std::string_view text_of(const char* text, const char* function, const char* argument) {
  require(text, function, argument);
  return text;
}

[[nodiscard]] inline icecore_item item_of(const item& from) noexcept { return {bytes(from.key), bytes(from.value)}; }

[[nodiscard]] inline icecore_number number_of(const std::optional<icecore::result_number>& found) noexcept {
  icecore_number number{};
  if (!found) return number;
  std::visit(
      [&](auto value) {
        using type = decltype(value);
        number.f64 = static_cast<double>(value);
        if constexpr (std::is_same_v<type, double>) {
          number.type = ICECORE_NUMBER_F64;
        } else {
          number.type = std::is_signed_v<type> ? ICECORE_NUMBER_I64 : ICECORE_NUMBER_U64;
          if (std::in_range<std::int64_t>(value)) number.i64 = static_cast<std::int64_t>(value);
          if (std::in_range<std::uint64_t>(value)) number.u64 = static_cast<std::uint64_t>(value);
        }
      },
      *found);
  return number;
}

}  // namespace icecore::c

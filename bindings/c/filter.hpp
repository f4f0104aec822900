// Filters in the C interface.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "icecore/filter.hpp"
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

}  // namespace icecore::c

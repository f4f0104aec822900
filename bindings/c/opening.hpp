// Converts the options of the C interface, for stores and for clusters.
#pragma once

#include <string>
#include <vector>

#include "support.hpp"

namespace icecore::c {

[[nodiscard]] icecore_options default_options() noexcept;

/// The options in the structure; the defaults if it is NULL. errc::invalid_argument names `function` and the field.
[[nodiscard, gnu::visibility("default")]] options options_of(const icecore_options* given, const char* function);

/// The `count` placements. errc::invalid_argument, naming `function`, if they or one of their paths is NULL.
[[nodiscard]] std::vector<placement> placements_of(const icecore_placement* given, std::size_t count,
                                                   const char* function);

/// Converts an int to an enumerator after a range check.
template <class Enum>
[[nodiscard]] Enum enumerator(int value, Enum least, Enum greatest, const char* function, const char* field) {
  if (value < static_cast<int>(least) || value > static_cast<int>(greatest)) {
    throw error(errc::invalid_argument, std::string(function) + ": " + field + " is " + std::to_string(value) +
                                            "; it must be " + std::to_string(static_cast<int>(least)) + " to " +
                                            std::to_string(static_cast<int>(greatest)));
  }
  return static_cast<Enum>(value);
}

}  // namespace icecore::c

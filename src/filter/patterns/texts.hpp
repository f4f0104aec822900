// Patterns of `like`, parts of byte strings, and sets of constants.
//
// Threads: a pattern and a set are constant once they are made.
// Cost: O(bytes) a row. `like` with several `%` backtracks to the last one only: O(bytes · pattern) at worst.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "filter/run/slot.hpp"

namespace icecore::detail {

/// A pattern of bytes: `%` stands for any bytes, `_` for any one, and what follows the escape character for itself.
class like_pattern {
 public:
  /// `escape`: the character + 1, or 0. False if the pattern ends with the escape character.
  [[nodiscard]] bool read(std::string_view pattern, std::uint64_t escape);
  [[nodiscard]] bool matches(std::string_view text) const noexcept;
  /// The bytes that every match begins with, and whether nothing but these matches.
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] bool is_exact() const noexcept { return prefix_.size() == elements_.size(); }

 private:
  enum class shape : std::uint8_t { exact, begins, ends, contains, general };
  [[nodiscard]] bool matches_elements(std::string_view text) const noexcept;

  static constexpr std::uint16_t any_byte = 256;
  static constexpr std::uint16_t any_bytes = 257;
  std::vector<std::uint16_t> elements_;  // a byte, or one of the two
  std::string prefix_;
  std::string part_;  // of the simpler shapes
  shape shape_ = shape::general;
};

/// Constants that a column is looked up among: whole numbers below 2^63, or byte strings.
struct constant_set {
  std::vector<std::int64_t> numbers;  // ascending
  std::vector<std::string> texts;     // ascending
  bool has_null = false;

  [[nodiscard]] bool contains(std::int64_t number) const noexcept;
  [[nodiscard]] bool contains(std::string_view text) const noexcept;
};

/// The `count` bytes from position `start` on, the first being 1, the last -1. What lies outside of the text is not
/// there.
[[nodiscard]] std::string_view part_of(std::string_view text, std::int64_t start, std::uint64_t count) noexcept;

}  // namespace icecore::detail

// Comparing and converting single values, exactly.
//
// Threads: all functions are pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "filter/run/slot.hpp"

namespace icecore::detail {

__extension__ using int128 = __int128;
__extension__ using unsigned128 = unsigned __int128;

enum class relation : std::uint8_t { equal, unequal, less, less_equal, greater, greater_equal };

/// How two values lie to each other; `unordered` beside NaN, `unlike` where their types cannot be compared.
enum class order : std::int8_t { less, equal, greater, unordered, unlike };

[[nodiscard]] inline int128 exact(std::uint64_t word, bool big) noexcept {
  return big ? static_cast<int128>(word) : static_cast<int128>(static_cast<std::int64_t>(word));
}

/// Whether an exact result is in the range of whole numbers; if so it is split into `word` and `big`.
[[nodiscard]] inline bool split(int128 number, std::uint64_t& word, bool& big) noexcept {
  constexpr int128 least = INT64_MIN;
  constexpr int128 greatest = UINT64_MAX;
  if (number < least || number > greatest) return false;
  word = static_cast<std::uint64_t>(number);
  big = number > INT64_MAX;
  return true;
}

/// The double nearest to a whole number.
[[nodiscard]] inline double nearest_double(std::uint64_t word, bool big) noexcept {
  return big ? static_cast<double>(word) : static_cast<double>(static_cast<std::int64_t>(word));
}

constexpr double two_to_63 = 9223372036854775808.0;
constexpr double two_to_64 = 18446744073709551616.0;

/// Compares exactly: the whole number is not rounded to a double.
[[nodiscard]] inline order order_of(std::uint64_t word, bool big, double real) noexcept {
  if (std::isnan(real)) return order::unordered;
  if (real >= two_to_64) return order::less;
  if (real < -two_to_63) return order::greater;
  const double whole = std::trunc(real);
  const int128 left = exact(word, big);
  const auto right = static_cast<int128>(whole);
  if (left != right) return left < right ? order::less : order::greater;
  if (real == whole) return order::equal;
  return real > whole ? order::less : order::greater;
}

[[nodiscard]] inline order order_of(double a, double b) noexcept {
  if (a < b) return order::less;
  if (a > b) return order::greater;
  return a == b ? order::equal : order::unordered;
}

[[nodiscard]] inline order reversed(order one) noexcept {
  if (one == order::less) return order::greater;
  return one == order::greater ? order::less : one;
}

template <typename T>
[[nodiscard]] order order_of_equals(const T& a, const T& b) noexcept {
  if (a == b) return order::equal;
  return a < b ? order::less : order::greater;
}

/// Two values that are not null. Bytes compare unsigned.
[[nodiscard]] inline order order_of(const datum& a, const datum& b) noexcept {
  if (a.type == kind::integer && b.type == kind::integer) {
    return order_of_equals(exact(a.word, a.big), exact(b.word, b.big));
  }
  if (a.type == kind::real && b.type == kind::real) {
    return order_of(std::bit_cast<double>(a.word), std::bit_cast<double>(b.word));
  }
  if (a.type == kind::integer && b.type == kind::real) return order_of(a.word, a.big, std::bit_cast<double>(b.word));
  if (a.type == kind::real && b.type == kind::integer) {
    return reversed(order_of(b.word, b.big, std::bit_cast<double>(a.word)));
  }
  if (a.type != b.type) return order::unlike;
  if (a.type == kind::bytes) return order_of_equals(a.text, b.text);  // char_traits<char> compares unsigned
  return order_of_equals(a.word, b.word);
}

/// Whether the relation holds where values lie so. Beside NaN only `unequal` holds.
[[nodiscard]] inline bool holds(relation one, order at) noexcept {
  switch (one) {
    case relation::equal:
      return at == order::equal;
    case relation::unequal:
      return at != order::equal;
    case relation::less:
      return at == order::less;
    case relation::less_equal:
      return at == order::less || at == order::equal;
    case relation::greater:
      return at == order::greater;
    case relation::greater_equal:
      return at == order::greater || at == order::equal;
  }
  return false;
}

/// Towards zero; false if the result is no whole number from -2^63 to 2^64 - 1, or NaN.
[[nodiscard]] inline bool whole_number(double real, std::uint64_t& word, bool& big) noexcept {
  const double whole = std::trunc(real);
  if (!(whole >= -two_to_63 && whole < two_to_64)) return false;
  return split(static_cast<int128>(whole), word, big);
}

/// Decimal text, all of it; false if it is none.
[[nodiscard]] bool number_of_text(std::string_view text, std::uint64_t& word, bool& big) noexcept;
[[nodiscard]] bool number_of_text(std::string_view text, double& real) noexcept;

}  // namespace icecore::detail

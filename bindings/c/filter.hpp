// Filters in the C interface.
#pragma once

#include <exception>
#include <iterator>
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

/// A lazy range, element by element.
template <class Range>
class range_walk {
 public:
  explicit range_walk(Range found) : range_(std::move(found)) {}

  /// The next element; null at the end. What once failed fails again.
  [[nodiscard]] const typename Range::iterator::value_type* next() {
    if (failure_) std::rethrow_exception(failure_);
    try {
      if (!place_) {
        place_.emplace(range_.begin());
      } else if (*place_ != std::default_sentinel) {
        ++*place_;
      }
    } catch (...) {
      failure_ = std::current_exception();  // the range does not know it: it would seem to be at its end
      throw;
    }
    return *place_ == std::default_sentinel ? nullptr : &**place_;
  }

 private:
  Range range_;
  std::optional<typename Range::iterator> place_{};  // empty before the first call
  std::exception_ptr failure_{};
};

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

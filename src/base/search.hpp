// A binary search whose course no branch depends on: processors guess such branches wrongly half of the time.
//
//   const std::uint32_t less = count_while(n, [&](std::uint32_t i) { return numbers[i] < sought; });
//   const std::uint32_t of_16 = count_while_of_16(...);
//
// Cost: O(log count). `holds` is asked as often as `count` alone says.
#pragma once

#include <cstdint>

namespace icecore {

/// `step` if `holds`, else 0, without a branch: of ?: GCC may make one.
[[nodiscard, gnu::always_inline]] constexpr std::uint32_t step_if(bool holds, std::uint32_t step) noexcept {
  return step & (0U - static_cast<std::uint32_t>(holds));
}

/// How many of the first `count` places `holds` is true for. Precondition: it is true for none behind one that it is
/// false for.
template <class Holds>
[[nodiscard, gnu::always_inline]] inline std::uint32_t count_while(std::uint32_t count, Holds holds) {
  if (count == 0) return 0;
  std::uint32_t from = 0;
  for (; count > 1; count -= count / 2) from += step_if(holds(from + count / 2 - 1), count / 2);
  return from + step_if(holds(from), 1);
}

/// The same of 16 places, in two steps: few enough for who waits for the answer, and for who has many to find.
template <class Holds>
[[nodiscard, gnu::always_inline]] inline std::uint32_t count_while_of_16(Holds holds) {
  const auto one = [&](std::uint32_t i) { return static_cast<std::uint32_t>(holds(i)); };
  const std::uint32_t from = 4 * (one(3) + one(7) + one(11));
  return from + one(from) + one(from + 1) + one(from + 2) + one(from + 3);
}

}  // namespace icecore

// The failure of a rank, in the form in which ranks send it to each other. It has a fixed size and allocates no memory,
// because the failure is often that memory has run out.
//
//   const failure mine = failure::of(std::current_exception());
//   all.bcast(&mine_or_theirs, sizeof(failure), first);
//   theirs.raise(first);                               // throws it with "rank 3: " in front
//
// Errors: std::bad_alloc stays std::bad_alloc; an icecore::error keeps its code; any other exception becomes errc::io
//   with its text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>

#include "icecore/error.hpp"

namespace icecore::ranks {

class failure {
 public:
  /// No failure.
  failure() noexcept = default;
  /// Text that does not fit is cut.
  failure(std::int32_t code, std::string_view text) noexcept;
  failure(errc code, std::string_view text) noexcept : failure(static_cast<std::int32_t>(code), text) {}
  /// The failure for a caught exception; none if `caught` is null.
  [[nodiscard]] static failure of(const std::exception_ptr& caught) noexcept;

  [[nodiscard]] bool happened() const noexcept { return code_ != 0; }
  [[nodiscard]] std::int32_t code() const noexcept { return code_; }
  [[nodiscard]] std::string_view text() const noexcept;
  /// The same failure, with the rank in front of its text.
  [[nodiscard]] failure of_rank(int rank) const noexcept;

  /// Throws it. Precondition: happened().
  [[noreturn]] void raise() const;
  [[noreturn]] void raise(int rank) const { of_rank(rank).raise(); }

 private:
  static constexpr std::int32_t out_of_memory = -1;  // no errc has this number
  static constexpr std::size_t text_size_max = 2040;

  std::int32_t code_ = 0;
  std::uint32_t size_ = 0;
  std::array<char, text_size_max> text_;  // the first size_ bytes are used
};
static_assert(sizeof(failure) == 2048 && std::is_trivially_copyable_v<failure>, "a failure travels as its bytes");

}  // namespace icecore::ranks

#include "filter/kernels/values.hpp"

#include <charconv>
#include <system_error>

namespace icecore::detail {
namespace {

template <typename T>
bool read_all(std::string_view text, T& number) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end && !text.empty();
}

}  // namespace

bool number_of_text(std::string_view text, std::uint64_t& word, bool& big) noexcept {
  if (read_all(text, word)) {
    big = word > static_cast<std::uint64_t>(INT64_MAX);
    return true;
  }
  std::int64_t number = 0;
  if (!read_all(text, number)) return false;
  word = static_cast<std::uint64_t>(number);
  big = false;
  return true;
}

bool number_of_text(std::string_view text, double& real) noexcept {
  double number = 0;
  if (!read_all(text, number)) return false;
  real = number;
  return true;
}

}  // namespace icecore::detail

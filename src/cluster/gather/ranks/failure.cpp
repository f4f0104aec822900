#include "cluster/gather/ranks/failure.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <string>

namespace icecore::ranks {

failure::failure(std::int32_t code, std::string_view text) noexcept : code_(code) {
  size_ = static_cast<std::uint32_t>(text.copy(text_.data(), text_.size()));
}

failure failure::of(const std::exception_ptr& caught) noexcept {
  if (!caught) return {};
  try {
    std::rethrow_exception(caught);
  } catch (const error& e) {
    return {e.code().value(), e.message()};
  } catch (const std::bad_alloc&) {
    return {out_of_memory, "out of memory"};
  } catch (const std::exception& e) {
    return {errc::io, e.what()};
  } catch (...) {  // thrown by a function of the caller
    return {errc::io, "an exception was thrown that is not a std::exception"};
  }
}

// The size may come from another rank, so it is bounded.
std::string_view failure::text() const noexcept { return {text_.data(), std::min<std::size_t>(size_, text_.size())}; }

failure failure::of_rank(int rank) const noexcept {
  constexpr std::string_view word = "rank ";
  constexpr std::string_view colon = ": ";
  failure prefixed;
  prefixed.code_ = code_;
  char* at = std::copy(word.begin(), word.end(), prefixed.text_.data());
  at = std::to_chars(at, prefixed.text_.data() + prefixed.text_.size(), rank).ptr;
  at = std::copy(colon.begin(), colon.end(), at);
  const auto front = static_cast<std::size_t>(at - prefixed.text_.data());
  prefixed.size_ = static_cast<std::uint32_t>(front + text().copy(at, prefixed.text_.size() - front));
  return prefixed;
}

void failure::raise() const {
  if (code_ == out_of_memory) throw std::bad_alloc();
  throw error(static_cast<errc>(code_), std::string(text()));
}

}  // namespace icecore::ranks

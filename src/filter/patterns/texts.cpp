#include "filter/patterns/texts.hpp"

#include <algorithm>

#include "filter/kernels/values.hpp"

namespace icecore::detail {

bool like_pattern::read(std::string_view pattern, std::uint64_t escape) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    auto c = static_cast<unsigned char>(pattern[i]);
    if (escape != 0 && c == escape - 1) {
      if (++i == pattern.size()) return false;
      elements_.push_back(static_cast<unsigned char>(pattern[i]));
    } else if (c == '%') {
      if (elements_.empty() || elements_.back() != any_bytes) elements_.push_back(any_bytes);
    } else {
      elements_.push_back(c == '_' ? any_byte : c);
    }
  }
  const auto is_byte = [](std::uint16_t element) { return element < any_byte; };
  const auto special = std::find_if_not(elements_.begin(), elements_.end(), is_byte);
  for (auto at = elements_.begin(); at != special; ++at) prefix_ += static_cast<char>(*at);

  const std::size_t size = elements_.size();
  const bool open_left = size > 0 && elements_.front() == any_bytes;
  const bool open_right = size > (open_left ? 1 : 0) && elements_.back() == any_bytes;
  const auto from = elements_.begin() + (open_left ? 1 : 0);
  const auto to = elements_.end() - (open_right ? 1 : 0);
  if (!std::all_of(from, to, is_byte)) return true;
  for (auto at = from; at != to; ++at) part_ += static_cast<char>(*at);
  if (open_left) {
    shape_ = open_right ? shape::contains : shape::ends;
  } else {
    shape_ = open_right ? shape::begins : shape::exact;
  }
  return true;
}

bool like_pattern::matches(std::string_view text) const noexcept {
  switch (shape_) {
    case shape::exact:
      return text == part_;
    case shape::begins:
      return text.starts_with(part_);
    case shape::ends:
      return text.ends_with(part_);
    case shape::contains:
      return text.find(part_) != std::string_view::npos;
    case shape::general:
      return matches_elements(text);
  }
  return false;
}

bool like_pattern::matches_elements(std::string_view text) const noexcept {
  std::size_t element = 0;
  std::size_t at = 0;
  std::size_t last_open = elements_.size();  // behind the last `%`; none yet
  std::size_t retry = 0;
  bool open = false;
  while (at < text.size()) {
    if (element < elements_.size() && elements_[element] == any_bytes) {
      last_open = ++element;
      retry = at;
      open = true;
    } else if (element < elements_.size() &&
               (elements_[element] == any_byte || elements_[element] == static_cast<unsigned char>(text[at]))) {
      ++element;
      ++at;
    } else if (open) {
      element = last_open;
      at = ++retry;
    } else {
      return false;
    }
  }
  while (element < elements_.size() && elements_[element] == any_bytes) ++element;
  return element == elements_.size();
}

bool constant_set::contains(std::int64_t number) const noexcept {
  return std::binary_search(numbers.begin(), numbers.end(), number);
}

bool constant_set::contains(std::string_view text) const noexcept {
  return std::binary_search(texts.begin(), texts.end(), text, std::less<>());
}

std::string_view part_of(std::string_view text, std::int64_t start, std::uint64_t count) noexcept {
  const auto size = static_cast<int128>(text.size());
  const int128 from = start < 0 ? size + start + 1 : start;
  const int128 to = std::min<int128>(from + count, size + 1);
  const int128 first = std::max<int128>(from, 1);
  if (to <= first) return text.substr(0, 0);
  return text.substr(static_cast<std::size_t>(first - 1), static_cast<std::size_t>(to - first));
}

}  // namespace icecore::detail

#include "text/sparkline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace icecore::cli {
namespace {

/// Whether the user's locale is UTF-8: the first of the three variables that is set says so.
bool locale_is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos || text.find("UTF8") != text.npos;
  }
  return false;
}

std::vector<std::string_view> levels() {
  if (locale_is_utf8()) return {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return {" ", "_", ".", "-", "=", "#"};
}

}  // namespace

std::string sparkline(std::span<const std::uint64_t> numbers, std::size_t columns) {
  if (numbers.empty() || columns == 0) return {};
  const std::vector<std::string_view> blocks = levels();
  const std::uint64_t greatest = std::ranges::max(numbers);
  const std::size_t width = std::min(columns, numbers.size());
  std::string line;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t first = i * numbers.size() / width;
    const std::size_t last = std::max(first + 1, (i + 1) * numbers.size() / width);
    const std::uint64_t number = std::ranges::max(numbers.subspan(first, last - first));
    const double share = greatest == 0 ? 0 : static_cast<double>(number) / static_cast<double>(greatest);
    line += blocks[static_cast<std::size_t>(std::ceil(share * static_cast<double>(blocks.size() - 1)))];
  }
  return line;
}

}  // namespace icecore::cli

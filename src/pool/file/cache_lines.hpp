// Iterates over the cache lines of a range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pool/format.hpp"

namespace icecore {

/// Calls `visit(char* line)` for each line that contains a byte of the range, in ascending order.
template <typename Visit>
void for_each_cache_line(const void* data, std::size_t size, Visit visit) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(data) & ~(format::cache_line_size - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(data) + size;
  for (auto line = first; line < end; line += format::cache_line_size) visit(reinterpret_cast<char*>(line));
}

}  // namespace icecore

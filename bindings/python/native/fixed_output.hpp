// Found values of one size, written to a caller's array.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "icecore/error.hpp"

namespace icecore::python {

using answer = std::optional<std::string_view>;

/// Where finds of one size write: one value of `size` bytes and one found flag per key.
struct fixed_output {
  char* values;
  char* found;
  std::size_t size;
  bool pad;

  void put(std::size_t i, const answer& value) const {
    found[i] = value ? 1 : 0;
    const std::string_view bytes = value.value_or(std::string_view{});
    if (value && bytes.size() != size && (!pad || bytes.size() > size)) {
      throw error(errc::invalid_argument, "the value of key " + std::to_string(i) + " has " +
                                              std::to_string(bytes.size()) + " bytes, but the dtype has " +
                                              std::to_string(size) +
                                              ": choose another dtype, or None for a list of bytes");
    }
    if (!bytes.empty()) std::memcpy(values + i * size, bytes.data(), bytes.size());
    std::memset(values + i * size + bytes.size(), 0, size - bytes.size());
  }
};

}  // namespace icecore::python

// Items of bytes as items of a NumPy dtype, which all have one size.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "icecore/error.hpp"

namespace icecore::python {

struct fixed_size {
  std::size_t size;
  bool pad;  ///< of dtype 'S': shorter items are filled up with NUL bytes, and so end with none of their own

  /// errc::invalid_argument, with what `name()` calls the item, if it does not fit.
  template <typename Name>
  void require(std::string_view item, const Name& name) const {
    if (item.size() > size || (item.size() < size && !pad)) {
      throw error(errc::invalid_argument, name() + " has " + std::to_string(item.size()) +
                                              " bytes where the dtype has " + std::to_string(size) +
                                              ": choose another dtype, or None for an array of bytes objects");
    }
    if (pad && !item.empty() && item.back() == '\0') {
      throw error(errc::invalid_argument,
                  name() + " ends with a NUL byte, which NumPy's 'S' would drop: use 'V" + std::to_string(size) + "'");
    }
  }

  /// Precondition: it fits.
  void write(std::string_view item, char* to) const noexcept {
    if (!item.empty()) std::memcpy(to, item.data(), item.size());
    std::memset(to + item.size(), 0, size - item.size());
  }
};

}  // namespace icecore::python

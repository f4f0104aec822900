// Byte strings as items of a NumPy dtype; these items all have one size.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "icecore/error.hpp"

namespace icecore::python {

struct fixed_size {
  std::size_t size;
  bool pad;  ///< dtype 'S': shorter items are filled with NUL bytes, so no item may end with a NUL byte of its own

  /// errc::invalid_argument if the item does not fit; the message calls it `name()`.
  template <typename Name>
  void require(std::string_view item, const Name& name) const {
    if (item.size() > size || (item.size() < size && !pad)) {
      throw error(errc::invalid_argument, name() + " has " + std::to_string(item.size()) +
                                              " bytes, but the dtype has " + std::to_string(size) +
                                              ": choose another dtype, or None for an array of bytes objects");
    }
    if (pad && !item.empty() && item.back() == '\0') {
      throw error(errc::invalid_argument,
                  name() + " ends with a NUL byte, which NumPy's 'S' would drop: use 'V" + std::to_string(size) + "'");
    }
  }

  /// Precondition: the item fits.
  void write(std::string_view item, char* to) const noexcept {
    if (!item.empty()) std::memcpy(to, item.data(), item.size());
    std::memset(to + item.size(), 0, size - item.size());
  }
};

}  // namespace icecore::python

// A record as strata hold it.
#pragma once

#include <cstring>
#include <string_view>

#include "icecore/options.hpp"
#include "stratum/extent_format.hpp"

namespace icecore::stratum {

struct packed_record {
  version stamped = 0;
  format::packed_kind kind = format::packed_kind::value;
  std::string_view value;  ///< empty for a removal; the bytes of a value_reference if the value lies elsewhere

  [[nodiscard]] bool is_removal() const noexcept { return kind == format::packed_kind::removal; }
  [[nodiscard]] bool is_elsewhere() const noexcept { return kind == format::packed_kind::elsewhere; }
  /// Precondition: is_elsewhere().
  [[nodiscard]] format::value_reference reference() const noexcept {
    format::value_reference of;
    std::memcpy(&of, value.data(), sizeof of);
    return of;
  }
  /// Of the value, wherever it lies.
  [[nodiscard]] std::uint64_t value_size() const noexcept { return is_elsewhere() ? reference().size : value.size(); }
};

}  // namespace icecore::stratum

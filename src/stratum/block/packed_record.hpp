// A record as strata hold it.
#pragma once

#include <string_view>

#include "icecore/options.hpp"
#include "stratum/extent_format.hpp"

namespace icecore::stratum {

struct packed_record {
  version stamped = 0;
  format::packed_kind kind = format::packed_kind::value;
  std::string_view value;  ///< empty for a removal

  [[nodiscard]] bool is_removal() const noexcept { return kind == format::packed_kind::removal; }
};

}  // namespace icecore::stratum

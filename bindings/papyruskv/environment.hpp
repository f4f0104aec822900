// Settings of databases from the environment: the variables PAPYRUSKV_... that docs/papyruskv.md lists.
#pragma once

#include <cstddef>
#include <optional>

#include "icecore/cluster.hpp"

namespace papyruskv {

struct environment {
  int group_size = 0;  ///< 0: icecore::cluster chooses
  icecore::consistency consistency = icecore::consistency::relaxed;
  std::optional<std::size_t> staging_bytes;
  std::size_t cache_bytes = 0;
  bool force_redistribute = false;
  bool destroy_repository = true;
};

/// errc::invalid_argument if a variable has a value that is not allowed.
[[nodiscard]] environment read_environment();

}  // namespace papyruskv

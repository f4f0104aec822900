// Where an extent lies, and what its checksums begin with.
#pragma once

#include <cstdint>
#include <string>

namespace icecore::stratum {

struct extent_place {
  std::string file;          ///< for messages
  std::uint64_t offset = 0;  ///< in that file
  std::uint32_t seed = 0;
  bool on_device = false;  ///< its pages may have to be read from a device: hints help
};

}  // namespace icecore::stratum

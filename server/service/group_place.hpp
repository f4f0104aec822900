// Which server of which group this is (docs/server.md, "Groups").
#pragma once

#include <cstdint>
#include <string>

namespace icecore::service {

/// Independent servers share nothing but the group's name and its size: clients find a key's server by a hash.
struct group_place {
  std::string name;  ///< empty: this server is alone
  std::uint32_t index = 0;
  std::uint32_t size = 1;
  friend bool operator==(const group_place&, const group_place&) = default;
};

}  // namespace icecore::service

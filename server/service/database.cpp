#include "service/database.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"

namespace icecore::service {

std::unique_ptr<held_still> database::hold() {
  throw icecore::error(
      errc::unavailable,
      fmt::format("the database '{}' lies on several servers: its snapshots are made by the group", settings().name));
}

}  // namespace icecore::service

// A store's retention as people and programs read it.
#pragma once

#include <string>

#include "icecore/retention.hpp"
#include "text/json.hpp"

namespace icecore::cli {

/// "all versions", or "tagged versions; the newest 10".
[[nodiscard]] std::string in_words(const retention& kept);
[[nodiscard]] json_object retention_json(const retention& kept);
[[nodiscard]] json_object hold_json(const held_version& held);

}  // namespace icecore::cli

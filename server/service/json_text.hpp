// JSON as text, for the catalog and the orders of a group. What clients send may be no UTF-8, which JSON cannot say.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "icecore/error.hpp"

namespace icecore::service {

/// errc::invalid_argument if a text in it is not UTF-8.
[[nodiscard]] inline std::string json_text(const nlohmann::json& what) {
  try {
    return what.dump();
  } catch (const nlohmann::json::type_error&) {
    throw icecore::error(errc::invalid_argument,
                         "a name, a note or a path is not UTF-8; the server cannot keep it, or send it to its group");
  }
}

}  // namespace icecore::service

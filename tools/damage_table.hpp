// Damaged places as verify and repair show them.
#pragma once

#include <vector>

#include "icecore/options.hpp"
#include "json.hpp"
#include "output.hpp"

namespace icecore::cli {

[[nodiscard]] json_object damage_to_json(const damage& d);

/// A table with a line for each; nothing if there are none. It names files only where there are several.
void print_damages(const std::vector<damage>& damages, const std::string& store, output& to);

}  // namespace icecore::cli

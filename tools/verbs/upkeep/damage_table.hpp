// The table of damaged places that verify and repair print.
#pragma once

#include <vector>

#include "icecore/options.hpp"
#include "text/json.hpp"
#include "text/output.hpp"

namespace icecore::cli {

[[nodiscard]] json_object damage_to_json(const damage& d);

/// Prints a table with one line per damage, or nothing if there are none. Names files only if the store has several.
void print_damages(const std::vector<damage>& damages, const std::string& store, output& to);

}  // namespace icecore::cli

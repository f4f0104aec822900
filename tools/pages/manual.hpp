// Manual pages, made from the description of the command line.
#pragma once

#include <map>
#include <string>

#include "line/description.hpp"

namespace icecore::cli {

/// Each page in troff (man(7)) by its file's name: "icecore.1" of the whole command, "icecore-put.1" of each verb, and
/// "icecore-query-start.1" of each verb of a group.
[[nodiscard]] std::map<std::string, std::string> manual_pages(const verb_description& command);

}  // namespace icecore::cli

// What bash, zsh and fish complete, made from the description of the command line: verbs, options, the values that an
// option takes, files and folders, and of the store on the line the tags, for versions, and the names of holds.
#pragma once

#include <string>

#include "line/description.hpp"

namespace icecore::cli {

[[nodiscard]] std::string bash_completion(const verb_description& command);
[[nodiscard]] std::string zsh_completion(const verb_description& command);
[[nodiscard]] std::string fish_completion(const verb_description& command);

}  // namespace icecore::cli

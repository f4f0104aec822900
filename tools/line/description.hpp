// What the command line is, as plain data: completions and manual pages are made from it (completion.hpp, manual.hpp).
// command_line::describe() makes it from the same calls that make --help.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace icecore::cli {

/// What may stand in the place of an option's value or of an argument.
enum class value_kind : std::uint8_t { text, file, folder, version, hold, choice };

/// An option, or an argument in a fixed place.
struct option_description {
  std::vector<std::string> names;  ///< "-o", "--output-format"; of an argument only its name, "STORE"
  std::string value;               ///< the name of its value, "FILE"; empty: a flag, or an argument
  std::string help;
  value_kind kind = value_kind::text;
  std::vector<std::string> choices;  ///< the values that it takes, if there are few
  bool argument = false;
  bool required = false;
  bool repeated = false;
};

struct verb_description {
  std::string name;
  std::string summary;
  std::string footer;  ///< "Examples:" and what else --help says last
  std::vector<option_description> options;
  std::vector<verb_description> verbs;
};

}  // namespace icecore::cli

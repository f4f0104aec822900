// Reads TOML into a list of settings with their lines, within bounds of memory and time.
//
//   for (const toml_setting& s : read_toml(text, "icecore.toml")) use(s.section, s.name, s.text, s.line);
//
// Errors: errc::bad_input, with the file and, where there is one, the line. Bounds: a file of at most 64 KiB, brackets
// and dotted names nested at most 16 deep (the parser is recursive), checked before it is parsed. Threads: pure
// functions. Cost: O(length × lines) at worst, since the parser counts lines from the beginning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::server {

inline constexpr std::size_t toml_bytes_max = std::size_t{64} << 10;
inline constexpr int toml_depth_max = 16;

struct toml_setting {
  enum class kind : std::uint8_t { section, text, integer, boolean, other };
  std::string section;  ///< "server.log"; empty for what is above the first section
  std::string name;     ///< empty for a section itself
  kind type;
  std::string text;  ///< of an integer its digits, of a boolean true or false, of another kind its name
  unsigned line;
};

/// Sections and settings in the order of their lines.
[[nodiscard]] std::vector<toml_setting> read_toml(const std::string& text, const std::string& file);

}  // namespace icecore::server

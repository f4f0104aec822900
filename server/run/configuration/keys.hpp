// The keys of a configuration: each one's section, name, type, allowed values, default and meaning, in one table.
//
//   for (const key& k : keys()) std::cout << k.path() << " = " << k.toml(configuration()) << '\n';
//
// The file, the flags, --print-configuration, the sample file, the manual page and the table of docs/server.md all
// follow this table, so none of them can know a key that the others do not.
//
// Threads: the table is constant once made. Cost: O(1) each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run/configuration/configuration.hpp"

namespace icecore::server {

/// What a value is in TOML.
enum class toml_type : std::uint8_t { text, integer, boolean };

struct key {
  std::string_view section;  ///< "server.log"
  std::string_view name;     ///< "level"
  toml_type type;
  bool integer_too;     ///< a text that may be given as an integer (bytes)
  std::string allowed;  ///< "debug, info, warning or error"
  std::string_view help;
  /// Sets the value from its text. False, and nothing is changed, if the text is not allowed.
  std::function<bool(configuration&, std::string_view)> set;
  /// The value's text, which `set` takes.
  std::function<std::string(const configuration&)> text;

  [[nodiscard]] std::string path() const { return std::string(section) + '.' + std::string(name); }
  /// The flag: --SECTION-NAME with hyphens; the section `server` is left out, of `server.log` too.
  [[nodiscard]] std::string flag() const;
  /// The value as TOML.
  [[nodiscard]] std::string toml(const configuration& of) const;
};

/// All keys, section by section.
[[nodiscard]] const std::vector<key>& keys();

/// The key with this path, or nullptr.
[[nodiscard]] const key* find_key(std::string_view path);

/// What a section is for, in one line.
[[nodiscard]] std::string_view section_purpose(std::string_view section);

/// The name among `names` that differs least from `wrong`, if it differs little; else nothing. O(lengths multiplied).
[[nodiscard]] std::string nearest_name(std::string_view wrong, const std::vector<std::string>& names);

/// A text as a TOML string.
[[nodiscard]] std::string quoted_toml(std::string_view text);

}  // namespace icecore::server

// Reads a configuration: defaults, then a file, then flags; and checks that all of it fits together.
//
//   configuration_reader reader;
//   reader.read_file("/etc/icecore/icecore.toml");
//   reader.set("limits.connections", "100", "--limits-connections");
//   reader.require_no_problems();                       // throws with every problem, one a line
//   start(reader.result());
//
// Errors: errc::bad_input. Each line of the message names the file and line (or the flag), the key, what is there, what
// is allowed, and for an unknown key the nearest known one. At most 20 problems are told. Threads: for one thread.
// Cost: O(size of the file), which is bounded (toml_text.hpp).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "run/configuration/configuration.hpp"
#include "run/configuration/toml_text.hpp"

namespace icecore::server {

class configuration_reader {
 public:
  /// Sets what the file says. Throws at once if it cannot be read or is not TOML.
  void read_file(const std::filesystem::path& file);
  /// The same of a text; `file` names it in messages.
  void read_text(const std::string& text, const std::string& file);

  /// Sets one key from the text of a flag; `source` names it in messages.
  void set(std::string_view path, std::string_view text, const std::string& source);

  /// Adds a problem where values contradict each other. Call it once, after everything was read;
  /// it does nothing where there are problems already.
  void check_contradictions();
  /// Adds a problem where the server cannot be started: without a folder, or with files that cannot be read.
  void check_files();
  /// Throws if there is any problem.
  void require_no_problems() const;

  [[nodiscard]] const configuration& result() const noexcept { return result_; }

 private:
  void apply(const toml_setting& setting, const std::string& file);
  void unknown(const toml_setting& setting, const std::string& place);
  void problem(std::string text);
  /// Where a key got its value: "icecore.toml:12: limits.connections = 5", for messages about several keys.
  [[nodiscard]] std::string told(std::string_view path) const;
  void require_readable(std::string_view path, const file_reference& file);
  void check_doors();
  void check_tls();
  void check_group();
  void check_limits();

  configuration result_;
  std::map<std::string, std::string, std::less<>> sources_;  ///< key → "icecore.toml:12" or the flag
  std::vector<std::string> problems_;
  std::size_t problem_count_ = 0;
};

/// The configuration as TOML, with every key. Reading it gives the same configuration. `commented`: each key with its
/// meaning and what is allowed, and those that have their default as comments, for a sample.
enum class toml_style : std::uint8_t { plain, commented };
[[nodiscard]] std::string configuration_toml(const configuration& of, toml_style style);

}  // namespace icecore::server

// The arguments of icecore-server: a file, flags that override it, and what to do.
//
//   const command_line told = read_command_line(argc, argv);       // prints nothing
//   if (told.action == command_line::kind::run) serve(told.configuration);
//   else std::cout << told.output;
//
// Errors: errc::bad_input with every problem, one a line (reading.hpp); a flag that nobody knows, with the nearest one.
// Threads: for one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/configuration/configuration.hpp"

namespace icecore::server {

struct command_line {
  enum class kind : std::uint8_t {
    run,                  ///< serve
    check,                ///< the configuration is right; do no more
    print_configuration,  ///< print `output`
    restore,              ///< make the data folder from the snapshots `restore_from`
    help,                 ///< print `output`: --help or --version
  };
  kind action = kind::run;
  icecore::server::configuration configuration;
  std::string output;
  std::vector<std::filesystem::path> restore_from{};
};

[[nodiscard]] command_line read_command_line(int count, const char* const* arguments);

/// The manual page icecore-server(8), for man: the flags of --help, with all that is known about each key.
[[nodiscard]] std::string manual_page();

/// The file that packages install as /etc/icecore/icecore.toml.
[[nodiscard]] std::string sample_configuration();

/// The table of keys for docs/server.md.
[[nodiscard]] std::string reference_table();

}  // namespace icecore::server

// Where an SKV program finds its servers: SKV's configuration file and machine file.
//
//   const configuration found = read_configuration(given);     // NULL: ~/.skv_server.conf, /etc/skv_server.conf
//
// A machine file has a line "HOST PORT" (or "HOST:PORT") for each server. One line more may say how they work together:
//
//   icecore MODE [GROUP]            MODE: dependent or independent; one server needs no such line
//
// Lines that are empty or begin with '#' mean nothing. The job's token is what the environment's ICECORE_TOKEN says, or
// what is in the file that ICECORE_TOKEN_FILE, or a line ICECORE_TOKEN_FILE = ... of the configuration file, names.
// Threads: no state. Errors: icecore::error, which names the file and the line. Cost: reads three small files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace icecore::skv {

struct configuration {
  struct server {
    std::string host;
    std::string port;
  };
  std::vector<server> servers;
  bool independent = false;
  std::string group;
  std::string token;

  /// "ucx://HOST:PORT,HOST:PORT"
  [[nodiscard]] std::string address() const;
};

[[nodiscard]] configuration read_configuration(const char* given);
/// Fills the servers of `into`.
void read_machine_file(const std::string& path, configuration& into);

}  // namespace icecore::skv

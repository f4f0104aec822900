#include "configuration.hpp"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "icecore/error.hpp"

namespace icecore::skv {

namespace {

constexpr const char* default_configuration = "/etc/skv_server.conf";
constexpr const char* default_machine_file = "/etc/skv_machinefile";
constexpr std::string_view spaces = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

bool says_something(std::string_view line) { return !line.empty() && line.front() != '#'; }

[[noreturn]] void refuse(const std::string& path, unsigned line, const std::string& why) {
  throw icecore::error(errc::bad_input, path + ", line " + std::to_string(line) + ": " + why);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw icecore::error(errc::io, "the file " + path + " cannot be read");
  std::ostringstream all;
  all << in.rdbuf();
  return std::string(trimmed(all.str()));
}

bool is_there(const std::string& path) { return std::ifstream(path).good(); }

/// What was given, if it is there; else the user's; else the system's; empty: none.
std::string find_configuration(const char* given) {
  if (given != nullptr && *given != '\0') {
    if (!is_there(given))
      throw icecore::error(errc::io, "the configuration file " + std::string(given) + " is not there");
    return given;
  }
  if (const char* home = std::getenv("HOME")) {
    std::string own = std::string(home) + "/.skv_server.conf";
    if (is_there(own)) return own;
  }
  return is_there(default_configuration) ? default_configuration : "";
}

struct paths {
  std::string machine_file = default_machine_file;
  std::string token_file;
};

/// Settings of SKV's servers mean nothing here and are passed over, as in SKV.
paths read_paths(const std::string& file) {
  paths found;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    const std::string_view line = trimmed(text);
    const std::size_t equal = line.find('=');
    if (!says_something(line) || equal == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equal));
    const std::string_view value = trimmed(line.substr(equal + 1));
    if (name == "SKV_SERVER_MACHINE_FILE") found.machine_file = value;
    if (name == "ICECORE_TOKEN_FILE") found.token_file = value;
  }
  return found;
}

void read_mode(std::istringstream& words, const std::string& path, unsigned number, configuration& into) {
  std::string mode;
  words >> mode >> into.group;
  if (mode != "dependent" && mode != "independent") {
    refuse(path, number,
           "\"icecore " + mode + "\": write icecore dependent, or icecore independent, and the group's name");
  }
  into.independent = mode == "independent";
}

}  // namespace

std::string configuration::address() const {
  std::string text = "ucx://";
  for (const server& each : servers) {
    if (text.back() != '/') text += ',';
    const bool six = each.host.find(':') != std::string::npos;
    text.append(six ? "[" : "").append(each.host).append(six ? "]" : "").append(":").append(each.port);
  }
  return text;
}

void read_machine_file(const std::string& path, configuration& into) {
  std::ifstream in(path);
  if (!in) {
    throw icecore::error(errc::io,
                         "the machine file " + path +
                             " cannot be read: write a line HOST PORT for each server into it, or name another "
                             "one with SKV_SERVER_MACHINE_FILE in the configuration file");
  }
  unsigned number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (!says_something(trimmed(text))) continue;
    std::istringstream words(text);
    std::string first, port, more;
    words >> first;
    if (first == "icecore") {
      read_mode(words, path, number, into);
      continue;
    }
    if (!(words >> port)) {
      const std::size_t colon = first.rfind(':');
      if (colon == std::string::npos) refuse(path, number, "a server without its port: write HOST PORT");
      port = first.substr(colon + 1);
      first.resize(colon);
    }
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) {
      refuse(path, number, "\"" + port + "\" is no port");
    }
    into.servers.push_back({first, port});
  }
  if (into.servers.empty()) refuse(path, number, "no server is in it: write a line HOST PORT for each");
}

configuration read_configuration(const char* given) {
  const std::string file = find_configuration(given);
  const paths named = file.empty() ? paths{} : read_paths(file);
  configuration found;
  read_machine_file(named.machine_file, found);
  const char* token = std::getenv("ICECORE_TOKEN");
  const char* token_file = std::getenv("ICECORE_TOKEN_FILE");
  if (token != nullptr) {
    found.token = token;
  } else if (token_file != nullptr) {
    found.token = content_of(token_file);
  } else if (!named.token_file.empty()) {
    found.token = content_of(named.token_file);
  }
  return found;
}

}  // namespace icecore::skv

#include "run/configuration/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "icecore/error.hpp"
#include "run/configuration/keys.hpp"

namespace icecore::server {

namespace {

constexpr std::size_t problems_told_max = 20;

std::vector<std::string> section_names() {
  std::set<std::string> names;
  for (const key& k : keys()) names.emplace(k.section);
  return {names.begin(), names.end()};
}

bool is_section(std::string_view name) {
  return std::ranges::any_of(keys(), [&](const key& k) { return k.section == name; });
}

bool type_fits(const key& k, toml_setting::kind type) {
  switch (k.type) {
    case toml_type::text:
      return type == toml_setting::kind::text || (k.integer_too && type == toml_setting::kind::integer);
    case toml_type::integer:
      return type == toml_setting::kind::integer;
    case toml_type::boolean:
      return type == toml_setting::kind::boolean;
  }
  return false;
}

std::string shown(const toml_setting& setting) {
  constexpr std::size_t bytes_max = 80;
  if (setting.type != toml_setting::kind::text) return setting.text;
  if (setting.text.size() <= bytes_max) return quoted_toml(setting.text);
  return fmt::format("{}... ({} bytes)", quoted_toml(std::string_view(setting.text).substr(0, bytes_max)),
                     setting.text.size());
}

/// A name from the file, as it may appear in a message.
std::string shown_name(std::string_view name) {
  constexpr std::size_t bytes_max = 100;
  std::string quoted = quoted_toml(name.substr(0, bytes_max));
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

void configuration_reader::read_file(const std::filesystem::path& file) {
  std::error_code failed;
  if (std::filesystem::is_directory(file, failed)) {
    throw error(errc::bad_input, fmt::format("{}: a folder, not a configuration file", file.string()));
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw error(errc::bad_input, fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno)));
  }
  // One byte more than allowed is enough to see that it is too long, also where a file has no end.
  std::string text(toml_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw error(errc::bad_input, fmt::format("{}: cannot be read", file.string()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > toml_bytes_max) {
    throw error(errc::bad_input, fmt::format("{}: more than {} bytes, which a configuration has at most", file.string(),
                                             toml_bytes_max));
  }
  read_text(text, file.string());
}

void configuration_reader::read_text(const std::string& text, const std::string& file) {
  for (const toml_setting& setting : read_toml(text, file)) apply(setting, file);
}

void configuration_reader::apply(const toml_setting& setting, const std::string& file) {
  const std::string place = fmt::format("{}:{}", file, setting.line);
  if (setting.type == toml_setting::kind::section) {
    if (!is_section(setting.section)) unknown(setting, place);
    return;
  }
  const std::string path = setting.section.empty() ? setting.name : setting.section + '.' + setting.name;
  const key* const found = find_key(path);
  if (found == nullptr) {
    // the keys of an unknown section are told with it
    if (setting.section.empty() || is_section(setting.section)) unknown(setting, place);
    return;
  }
  if (!type_fits(*found, setting.type) || !found->set(result_, setting.text)) {
    problem(fmt::format("{}: {} = {}: it must be {}", place, path, shown(setting), found->allowed));
  }
  sources_[path] = place;
}

void configuration_reader::unknown(const toml_setting& setting, const std::string& place) {
  if (setting.type == toml_setting::kind::section) {
    const std::string nearest = nearest_name(setting.section, section_names());
    problem(fmt::format("{}: there is no section [{}]{}", place, shown_name(setting.section),
                        nearest.empty() ? "" : fmt::format("; is [{}] meant?", nearest)));
    return;
  }
  const std::string path = setting.section.empty() ? setting.name : setting.section + '.' + setting.name;
  if (is_section(path)) {
    problem(fmt::format("{}: there is no key {}; is the section [{}] meant?", place, path, path));
    return;
  }
  std::vector<std::string> candidates;
  for (const key& k : keys()) {
    if (k.name == setting.name) candidates = {k.path()};  // right name, wrong section
    if (k.name == setting.name) break;
  }
  std::string nearest;
  if (!candidates.empty()) {
    nearest = candidates.front();
  } else {
    for (const key& k : keys()) candidates.push_back(k.path());
    nearest = nearest_name(path, candidates);
  }
  problem(fmt::format("{}: there is no key {}{}", place, shown_name(path),
                      nearest.empty() ? "" : fmt::format("; is {} meant?", nearest)));
}

void configuration_reader::set(std::string_view path, std::string_view text, const std::string& source) {
  const key* const found = find_key(path);
  if (found == nullptr) throw error(errc::invalid_argument, fmt::format("there is no key {}", path));
  if (!found->set(result_, text)) {
    problem(fmt::format("{}: {} = {}: it must be {}", source, path,
                        shown({{}, {}, toml_setting::kind::text, std::string(text), 0}), found->allowed));
  }
  sources_[std::string(path)] = source;
}

void configuration_reader::problem(std::string text) {
  if (++problem_count_ <= problems_told_max) problems_.push_back(std::move(text));
}

void configuration_reader::require_no_problems() const {
  if (problem_count_ == 0) return;
  std::string all = problems_.front();
  for (std::size_t i = 1; i < problems_.size(); ++i) all += '\n' + problems_[i];
  if (problem_count_ > problems_.size()) all += fmt::format("\nand {} more", problem_count_ - problems_.size());
  throw error(errc::bad_input, all);
}

std::string configuration_reader::told(std::string_view path) const {
  const key* const found = find_key(path);
  const auto source = sources_.find(path);
  return fmt::format("{}: {} = {}", source == sources_.end() ? "default" : source->second, path, found->toml(result_));
}

void configuration_reader::check_contradictions() {
  if (problem_count_ > 0) return;  // values that were refused are not there to contradict others
  check_doors();
  check_tls();
  check_group();
  check_limits();
}

void configuration_reader::check_doors() {
  const auto& listen = result_.listen;
  if (listen.grpc.empty() && listen.ucx.empty()) {
    problem(told("listen.grpc") + ": no door is open for requests; give listen.grpc or listen.ucx an address");
  }
  const bool closed_to_others = !result_.tls.certificate.empty() && result_.access.users;
  for (const auto& [path, address] : {std::pair{"listen.grpc", listen.grpc}, std::pair{"listen.http", listen.http}}) {
    if (address.empty() || address.is_loopback() || closed_to_others) continue;
    problem(told(path) +
            ": other machines reach this address, so tls.certificate, tls.key and access.users = true are needed; "
            "or listen on 127.0.0.1, [::1] or localhost");
  }
  const std::array<std::pair<const char*, network_address>, 3> doors{
      {{"listen.grpc", listen.grpc}, {"listen.http", listen.http}, {"listen.ucx", listen.ucx}}};
  for (std::size_t i = 0; i < doors.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [path, address] = doors[i];
      if (address.empty() || address.port == 0 || address != doors[j].second) continue;
      problem(fmt::format("{}: {} has the same address; each door needs its own", told(path), doors[j].first));
    }
  }
  if (!listen.ucx.empty() && result_.ucx.token_file.empty()) {
    problem(told("listen.ucx") + ": UCX asks for a token, so ucx.token_file is needed");
  }
#ifndef ICECORE_SERVER_HAS_UCX
  if (!listen.ucx.empty()) problem(told("listen.ucx") + ": this icecore-server was built without UCX");
#endif
}

void configuration_reader::check_tls() {
  const auto& tls = result_.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    problem(told(tls.key.empty() ? "tls.certificate" : "tls.key") +
            (tls.key.empty() ? ": its private key is needed, too: tls.key"
                             : ": its certificate is needed, too: tls.certificate"));
  }
  if (tls.require_client_certificate && tls.client_ca.empty()) {
    problem(told("tls.require_client_certificate") + ": tls.client_ca must say who signs clients' certificates");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    problem(told("tls.client_ca") +
            ": clients' certificates are seen by TLS alone: tls.certificate and tls.key are needed");
  }
  const auto only_with_users = [&](const char* path, const file_reference& file) {
    if (result_.access.users || file.empty()) return;
    problem(told(path) + ": without access.users = true nobody is asked for it");
  };
  only_with_users("access.initial_administrator_password_file", result_.access.initial_administrator_password_file);
  only_with_users("access.metrics_token_file", result_.access.metrics_token_file);
}

void configuration_reader::check_group() {
  const auto& group = result_.group;
  if (group.mode != group_mode::single && group.name.empty()) {
    problem(told("group.mode") + ": group.name is needed, the same at all servers of the group");
  }
  if (group.mode == group_mode::independent) {
    if (group.index >= group.size) {
      problem(fmt::format("{}: it must be less than group.size, {}", told("group.index"), group.size));
    }
    return;
  }
  for (const char* const path : {"group.index", "group.size"}) {
    if (sources_.contains(path)) {
      problem(fmt::format("{}: it has a meaning in the mode \"independent\" alone, and group.mode is {}{}", told(path),
                          find_key("group.mode")->toml(result_),
                          group.mode == group_mode::dependent ? ", where MPI says it" : ""));
    }
  }
}

void configuration_reader::check_limits() {
  const auto& limits = result_.limits;
  const auto at_most = [&](const char* path, std::uint64_t value, const char* bound_path, std::uint64_t bound) {
    if (value <= bound) return;
    problem(fmt::format("{}: it must be at most {} = {}", told(path), bound_path, find_key(bound_path)->toml(result_)));
  };
  at_most("limits.request_bytes", limits.request_bytes, "limits.in_flight_bytes", limits.in_flight_bytes);
  at_most("limits.before_login_bytes", limits.before_login_bytes, "limits.request_bytes", limits.request_bytes);
  if (constexpr std::uint64_t most = 65'535; !result_.listen.ucx.empty() && limits.connections > most) {
    problem(
        fmt::format("{}: with the door for UCX (listen.ucx) it must be at most {}", told("limits.connections"), most));
  }
  at_most("limits.connections_per_user", limits.connections_per_user, "limits.connections", limits.connections);
}

void configuration_reader::check_files() {
  if (result_.server.data.empty()) {
    problem("server.data: no folder for the databases; give --data FOLDER, or data in the section [server]");
  } else if (std::error_code failed; std::filesystem::exists(result_.server.data, failed) &&
                                     !std::filesystem::is_directory(result_.server.data, failed)) {
    problem(told("server.data") + ": not a folder");
  }
  require_readable("tls.certificate", result_.tls.certificate);
  require_readable("tls.key", result_.tls.key);
  require_readable("tls.client_ca", result_.tls.client_ca);
  require_readable("access.initial_administrator_password_file", result_.access.initial_administrator_password_file);
  require_readable("access.metrics_token_file", result_.access.metrics_token_file);
  require_readable("ucx.token_file", result_.ucx.token_file);
}

void configuration_reader::require_readable(std::string_view path, const file_reference& file) {
  if (file.empty()) return;
  try {
    const std::filesystem::path place = file.path();
    std::error_code failed;
    if (std::filesystem::is_directory(place, failed)) {
      problem(told(path) + ": a folder, not a file");
    } else if (!std::ifstream(place)) {
      problem(fmt::format("{}: {} cannot be opened: {}", told(path), place.string(), std::strerror(errno)));
    }
  } catch (const error& wrong) {
    problem(fmt::format("{}: {}", told(path), wrong.message()));
  }
}

std::filesystem::path file_reference::path() const {
  constexpr std::string_view of_systemd = "credential:";
  if (!given.starts_with(of_systemd)) return given;
  const char* const folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (folder == nullptr || *folder == '\0') {
    throw error(errc::bad_input, given +
                                     ": there is no $CREDENTIALS_DIRECTORY, which systemd sets for a unit with "
                                     "LoadCredential=; give a path instead");
  }
  return std::filesystem::path(folder) / given.substr(of_systemd.size());
}

std::string configuration_toml(const configuration& of, toml_style style) {
  std::string out;
  std::string_view section;
  for (const key& k : keys()) {
    if (k.section != section) {
      section = k.section;
      out += fmt::format("{}# {}\n[{}]\n", out.empty() ? "" : "\n", section_purpose(section), section);
    }
    if (style == toml_style::commented) {
      const bool is_default = k.toml(of) == k.toml({});
      out += fmt::format("# {}\n# Allowed: {}.\n{}{} = {}\n", k.help, k.allowed, is_default ? "#" : "", k.name,
                         k.toml(of));
    } else {
      out += fmt::format("{} = {}\n", k.name, k.toml(of));
    }
  }
  return out;
}

}  // namespace icecore::server

// Everything that a server can be told, as plain values with their defaults.
//
//   icecore::server::configuration c;            // the defaults
//   c.server.data = "/var/lib/icecore";
//   c.limits.connections = 100;
//
// docs/server.md describes every key. keys.hpp gives each value its name in the file and on the command line,
// reading.hpp reads a file, and command_line.hpp reads the arguments of a program.
//
// Threads: a plain value. Sizes are in bytes. No value is a secret: secrets are in files of their own, which are named
// here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "icecore/options.hpp"
#include "run/configuration/units.hpp"

namespace icecore::server {

enum class log_format : std::uint8_t { json, text };
enum class log_level : std::uint8_t { debug, info, warning, error };
enum class ucx_transport : std::uint8_t { automatic, shared_memory, tcp };
enum class group_mode : std::uint8_t { single, independent, dependent };
enum class value_compression : std::uint8_t { none, zstd };

/// A file that holds a secret or a certificate: a path, or `credential:NAME`, which is the file NAME in the folder that
/// systemd's LoadCredential= has filled ($CREDENTIALS_DIRECTORY).
struct file_reference {
  std::string given;  ///< as it was told; empty: no file

  [[nodiscard]] bool empty() const noexcept { return given.empty(); }
  /// The path, empty if no file is given. Throws errc::bad_input if it is a credential and there is no such folder.
  [[nodiscard]] std::filesystem::path path() const;
  friend bool operator==(const file_reference&, const file_reference&) = default;
};

/// When versions of a database are closed.
struct version_rule_setting {
  enum class kind : std::uint8_t { write, every, tag };
  kind when = kind::every;
  std::chrono::microseconds interval{0};  ///< of `every` alone

  friend bool operator==(const version_rule_setting&, const version_rule_setting&) = default;
};

struct configuration {
  struct server_section {
    std::filesystem::path data;  ///< the folder of the databases; must be given to run
    std::string name = "icecore";
    unsigned threads = 0;  ///< threads for requests; 0: as many as there are cores
    std::chrono::microseconds shutdown_limit = std::chrono::seconds(30);
    friend bool operator==(const server_section&, const server_section&) = default;
  };
  struct log_section {
    log_format format = log_format::json;
    log_level level = log_level::info;
    std::filesystem::path file;  ///< empty: standard error
    friend bool operator==(const log_section&, const log_section&) = default;
  };
  struct listen_section {
    network_address grpc{"127.0.0.1", 7480};
    network_address http{"127.0.0.1", 7481};
    network_address ucx;  ///< off
    friend bool operator==(const listen_section&, const listen_section&) = default;
  };
  struct tls_section {
    file_reference certificate;
    file_reference key;
    file_reference client_ca;
    bool require_client_certificate = false;
    friend bool operator==(const tls_section&, const tls_section&) = default;
  };
  struct access_section {
    bool users = false;
    file_reference initial_administrator_password_file;
    file_reference metrics_token_file;
    friend bool operator==(const access_section&, const access_section&) = default;
  };
  struct ucx_section {
    ucx_transport transport = ucx_transport::automatic;
    file_reference token_file;
    friend bool operator==(const ucx_section&, const ucx_section&) = default;
  };
  struct group_section {
    group_mode mode = group_mode::single;
    std::string name;
    unsigned index = 0;  ///< of this server, from 0
    unsigned size = 1;   ///< servers of the group
    friend bool operator==(const group_section&, const group_section&) = default;
  };
  struct limits_section {
    std::uint64_t connections = 10'000;
    std::uint64_t connections_per_user = 0;  ///< 0: no limit of its own
    std::uint64_t request_bytes = std::uint64_t{64} << 20;
    std::uint64_t in_flight_bytes = std::uint64_t{1} << 30;
    std::uint64_t output_bytes = std::uint64_t{32} << 20;
    std::uint64_t before_login_bytes = std::uint64_t{4} << 10;
    std::uint64_t strangers_bytes = std::uint64_t{64} << 20;
    std::uint64_t watchers = 100'000;
    std::uint64_t health_watches = 1'000;
    std::uint64_t transaction_operations = 128;
    std::uint64_t open_scans = 10'000;
    std::uint64_t databases = 1'024;
    std::uint64_t leases = 1'000'000;
    std::uint64_t free_disk_bytes = std::uint64_t{1} << 30;
    std::chrono::microseconds read_limit = std::chrono::seconds(30);
    friend bool operator==(const limits_section&, const limits_section&) = default;
  };
  /// What a database gets that is made without saying it.
  struct defaults_section {
    version_rule_setting rule{version_rule_setting::kind::every, std::chrono::seconds(1)};
    icecore::durability durability = icecore::durability::best_available;
    icecore::index_kind index = icecore::index_kind::persistent;
    value_compression compression = value_compression::none;
    std::uint64_t quota_bytes = 0;  ///< 0: no quota
    friend bool operator==(const defaults_section&, const defaults_section&) = default;
  };
  struct slow_log_section {
    std::chrono::microseconds over = std::chrono::milliseconds(100);  ///< 0: no slow log
    friend bool operator==(const slow_log_section&, const slow_log_section&) = default;
  };

  server_section server;
  log_section log;
  listen_section listen;
  tls_section tls;
  access_section access;
  ucx_section ucx;
  group_section group;
  limits_section limits;
  defaults_section defaults;
  slow_log_section slow_log;

  friend bool operator==(const configuration&, const configuration&) = default;
};

}  // namespace icecore::server

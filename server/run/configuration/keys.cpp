#include "run/configuration/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "run/configuration/kinds.hpp"

namespace icecore::server {

namespace {

using namespace kinds;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kib = std::uint64_t{1} << 10;
constexpr std::uint64_t mib = kib << 10;
constexpr std::uint64_t gib = mib << 10;
constexpr std::uint64_t tib = gib << 10;

/// `member` gives a reference to the value in a configuration.
template <class Kind, class Member>
key make(std::string_view section, std::string_view name, const Kind& kind, std::string_view help, Member member) {
  return {section,
          name,
          kind.type,
          kind.integer_too,
          kind.allowed(),
          help,
          [kind, member](configuration& of, std::string_view text) {
            auto value = kind.parse(text);
            if (!value) return false;
            auto& place = member(of);
            place = static_cast<std::remove_reference_t<decltype(place)>>(std::move(*value));
            return true;
          },
          [kind, member](const configuration& of) { return kind.text(member(of)); }};
}

std::vector<key> server_keys() {
  return {
      make("server", "data", path{}, "The folder of the databases. It is made if it is not there.",
           [](auto& c) -> auto& { return c.server.data; }),
      make("server", "name", name{false}, "The server's name in logs and metrics.",
           [](auto& c) -> auto& { return c.server.name; }),
      make("server", "threads", number{0, 1'024}, "Threads for requests; 0: as many as there are cores.",
           [](auto& c) -> auto& { return c.server.threads; }),
      make("server", "shutdown_limit", duration{milliseconds(100), hours(1)},
           "The longest that stopping may take; then the process ends, and what was acknowledged stays.",
           [](auto& c) -> auto& { return c.server.shutdown_limit; }),
      make("server.log", "format", choice<log_format, 2>{{{{"json", log_format::json}, {"text", log_format::text}}}},
           "One JSON object an event, or text for people.", [](auto& c) -> auto& { return c.log.format; }),
      make("server.log", "level",
           choice<log_level, 4>{{{{"debug", log_level::debug},
                                  {"info", log_level::info},
                                  {"warning", log_level::warning},
                                  {"error", log_level::error}}}},
           "The least level that is written.", [](auto& c) -> auto& { return c.log.level; }),
      make("server.log", "file", path{}, "The file of the log, opened anew on SIGHUP; none: standard error.",
           [](auto& c) -> auto& { return c.log.file; }),
  };
}

std::vector<key> door_keys() {
  return {
      make("listen", "grpc", address{}, "The address of icecore.v1.", [](auto& c) -> auto& { return c.listen.grpc; }),
      make("listen", "http", address{}, "The address of /metrics, /healthz and /readyz.",
           [](auto& c) -> auto& { return c.listen.http; }),
      make("listen", "ucx", address{}, "The address for programs of the same job, by UCX, which encrypts nothing.",
           [](auto& c) -> auto& { return c.listen.ucx; }),
      make("tls", "certificate", file{}, "The server's certificate, followed by those between it and the root (PEM).",
           [](auto& c) -> auto& { return c.tls.certificate; }),
      make("tls", "key", file{}, "The certificate's private key (PEM).", [](auto& c) -> auto& { return c.tls.key; }),
      make("tls", "client_ca", file{}, "Certificates of those who sign clients' certificates (PEM).",
           [](auto& c) -> auto& { return c.tls.client_ca; }),
      make("tls", "require_client_certificate", flag{}, "Refuse clients without a certificate.",
           [](auto& c) -> auto& { return c.tls.require_client_certificate; }),
      make("access", "users", flag{}, "Ask for a user and a password or token, and obey the users' roles.",
           [](auto& c) -> auto& { return c.access.users; }),
      make("access", "initial_administrator_password_file", file{},
           "The password of the user `root`, whom the first start makes.",
           [](auto& c) -> auto& { return c.access.initial_administrator_password_file; }),
      make("access", "metrics_token_file", file{},
           "The secret whose bearer sees all databases in /metrics and /readyz; without it, users see theirs.",
           [](auto& c) -> auto& { return c.access.metrics_token_file; }),
      make("ucx", "transport",
           choice<ucx_transport, 3>{{{{"auto", ucx_transport::automatic},
                                      {"shared_memory", ucx_transport::shared_memory},
                                      {"tcp", ucx_transport::tcp}}}},
           "What UCX may use; auto: whatever is fastest.", [](auto& c) -> auto& { return c.ucx.transport; }),
      make("ucx", "token_file", file{}, "The secret that programs of the job show; needed where listen.ucx is given.",
           [](auto& c) -> auto& { return c.ucx.token_file; }),
      make("group", "mode",
           choice<group_mode, 3>{{{{"single", group_mode::single},
                                   {"independent", group_mode::independent},
                                   {"dependent", group_mode::dependent}}}},
           "single: one server; independent: clients spread the keys; dependent: the ranks of one MPI job.",
           [](auto& c) -> auto& { return c.group.mode; }),
      make("group", "name", name{true}, "The group's name, the same at all its servers.",
           [](auto& c) -> auto& { return c.group.name; }),
      make("group", "index", number{0, 65'535}, "The number of this server among independent ones, from 0.",
           [](auto& c) -> auto& { return c.group.index; }),
      make("group", "size", number{1, 65'536}, "How many independent servers the group has.",
           [](auto& c) -> auto& { return c.group.size; }),
  };
}

std::vector<key> limit_keys() {
  return {
      make("limits", "connections", number{1, 1'000'000}, "Connections of all doors together.",
           [](auto& c) -> auto& { return c.limits.connections; }),
      make("limits", "connections_per_user", number{0, 1'000'000}, "Connections of one user; 0: no limit of its own.",
           [](auto& c) -> auto& { return c.limits.connections_per_user; }),
      make("limits", "request_bytes", bytes{64 * kib, gib}, "One request.",
           [](auto& c) -> auto& { return c.limits.request_bytes; }),
      make("limits", "in_flight_bytes", bytes{mib, 64 * tib}, "All requests that are being received or answered.",
           [](auto& c) -> auto& { return c.limits.in_flight_bytes; }),
      make("limits", "output_bytes", bytes{64 * kib, tib},
           "What waits for one connection that does not read; then it is slowed, then cut.",
           [](auto& c) -> auto& { return c.limits.output_bytes; }),
      make("limits", "before_login_bytes", bytes{kib, mib}, "What one connection may send before it has logged in.",
           [](auto& c) -> auto& { return c.limits.before_login_bytes; }),
      make("limits", "strangers_bytes", bytes{mib, tib},
           "All calls together of callers who have not logged in: log-ins, health checks, reflection.",
           [](auto& c) -> auto& { return c.limits.strangers_bytes; }),
      make("limits", "watchers", number{0, 100'000'000}, "Watches of all connections together.",
           [](auto& c) -> auto& { return c.limits.watchers; }),
      make("limits", "health_watches", number{0, 1'000'000},
           "Watches of the server's health of all connections together; 0: no limit of its own.",
           [](auto& c) -> auto& { return c.limits.health_watches; }),
      make("limits", "transaction_operations", number{1, 1'000'000}, "Operations of one transaction.",
           [](auto& c) -> auto& { return c.limits.transaction_operations; }),
      make("limits", "open_scans", number{1, 10'000'000},
           "Scans of all connections together that are not at their end.",
           [](auto& c) -> auto& { return c.limits.open_scans; }),
      make("limits", "databases", number{1, 1'024}, "Databases.", [](auto& c) -> auto& { return c.limits.databases; }),
      make("limits", "leases", number{0, 10'000'000}, "Leases of one database.",
           [](auto& c) -> auto& { return c.limits.leases; }),
      make("limits", "free_disk_bytes", bytes{0, 1'024 * tib}, "Writes are refused while the device has less space.",
           [](auto& c) -> auto& { return c.limits.free_disk_bytes; }),
      make("limits", "read_limit", duration{milliseconds(100), hours(1)},
           "The longest that the rest of a request may take to arrive.",
           [](auto& c) -> auto& { return c.limits.read_limit; }),
  };
}

std::vector<key> database_keys() {
  return {
      make("defaults", "rule", rule{}, "When versions are closed: by each write, by a timer, or by clients alone.",
           [](auto& c) -> auto& { return c.defaults.rule; }),
      make("defaults", "durability",
           choice<icecore::durability, 4>{{{{"operation", icecore::durability::operation},
                                            {"tag", icecore::durability::tag},
                                            {"none", icecore::durability::none},
                                            {"best_available", icecore::durability::best_available}}}},
           "What survives a power cut: each write, each tag, or what a clean stop has left; best_available: each write "
           "where the device can.",
           [](auto& c) -> auto& { return c.defaults.durability; }),
      make("defaults", "index",
           choice<icecore::index_kind, 5>{{{{"btree", icecore::index_kind::btree},
                                            {"skip_list", icecore::index_kind::skip_list},
                                            {"persistent", icecore::index_kind::persistent},
                                            {"list", icecore::index_kind::list},
                                            {"hash", icecore::index_kind::hash}}}},
           "The index; persistent: opens at once, whatever the size.",
           [](auto& c) -> auto& { return c.defaults.index; }),
      make("defaults", "compression",
           choice<value_compression, 2>{{{{"none", value_compression::none}, {"zstd", value_compression::zstd}}}},
           "How values are compressed.", [](auto& c) -> auto& { return c.defaults.compression; }),
      make("defaults", "quota_bytes", bytes{0, 1'024 * tib}, "The most space that a database may take; 0: no quota.",
           [](auto& c) -> auto& { return c.defaults.quota_bytes; }),
      make("slow_log", "over", duration{seconds(0), hours(1)},
           "Requests that take longer are logged with the client's trace identifier; 0: none.",
           [](auto& c) -> auto& { return c.slow_log.over; }),
  };
}

/// Levenshtein's distance, two rows at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
    }
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

const std::vector<key>& keys() {
  static const std::vector<key> all = [] {
    std::vector<key> joined;
    for (auto part : {server_keys(), door_keys(), limit_keys(), database_keys()}) {
      std::ranges::move(part, std::back_inserter(joined));
    }
    return joined;
  }();
  return all;
}

const key* find_key(std::string_view path) {
  const auto found = std::ranges::find(keys(), path, &key::path);
  return found == keys().end() ? nullptr : &*found;
}

std::string_view section_purpose(std::string_view section) {
  static constexpr std::pair<std::string_view, std::string_view> purposes[] = {
      {"server", "the server itself"},
      {"server.log", "the log"},
      {"listen", "the doors, each an address; \"\" closes it"},
      {"tls", "encryption, by TLS 1.3, of gRPC and HTTP"},
      {"access", "who may do what"},
      {"ucx", "the door for jobs"},
      {"group", "servers that share the keys"},
      {"limits", "what clients can make the server use"},
      {"defaults", "databases that are made without saying otherwise"},
      {"slow_log", "requests that took long"}};
  for (const auto& [name, purpose] : purposes) {
    if (name == section) return purpose;
  }
  return {};
}

std::string nearest_name(std::string_view wrong, const std::vector<std::string>& names) {
  constexpr std::size_t length_max = 100;  // nothing longer is near
  if (wrong.size() > length_max) return {};
  std::string nearest;
  std::size_t least = std::min<std::size_t>(wrong.size() / 3 + 1, 6) + 1;  // the first distance that is too far
  for (const std::string& candidate : names) {
    if (const std::size_t differs = distance(wrong, candidate); differs < least) {
      least = differs;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string quoted_toml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string key::flag() const {
  std::string words = section == "server" ? std::string(name) : path();
  if (section == "server.log") words = "log." + std::string(name);
  std::ranges::replace_if(
      words, [](char c) { return c == '.' || c == '_'; }, '-');
  return "--" + words;
}

std::string key::toml(const configuration& of) const {
  return type == toml_type::text ? quoted_toml(text(of)) : text(of);
}

}  // namespace icecore::server

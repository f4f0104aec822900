// A client's way to the server: the same calls through each door, as users of that door make them.
//
//   const auto c = connect({door::ucx, server.address("ucx")});
//   c->create("things", {.rule = remote::version_rule::write});
//   const auto w = c->open("things");
//   const version v = w->apply({{"a", "1"}, {"b", "2"}, {"c", std::nullopt}});      // two puts and a removal
//   w->get("a", v);                                                                 // "1"
//
// gRPC by the generated stubs, with a channel of its own for each connection; UCX by icecore::remote.
// Threads: any number may call a connection and its ways; a watcher belongs to one.
// Errors: icecore::error, with the server's code. What the door's own library reports is unavailable (nothing was
//   answered; a write may have taken effect), outcome_unknown, deadline_exceeded or cancelled: lost() holds for these.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "icecore/remote.hpp"

namespace icecore::ways {

enum class door : std::uint8_t { grpc, ucx };
[[nodiscard]] const char* name_of(door which);

/// A put, or with no value a removal.
struct step {
  std::string key;
  std::optional<std::string> value;
};
using rows = std::vector<std::pair<std::string, std::string>>;
using newest = std::monostate;
using point = std::variant<newest, version, std::string>;
struct told_change {
  std::string key;
  icecore::version version;
  std::optional<std::string> value;
};

class watcher {
 public:
  watcher() = default;
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  virtual ~watcher() = default;
  /// What came since the call before; waits at most so long for something.
  virtual std::vector<told_change> next(std::chrono::milliseconds wait) = 0;
  /// All changes of the versions up to this one are told.
  [[nodiscard]] virtual version told() const = 0;
};

/// A database.
class way {
 public:
  way() = default;
  way(const way&) = delete;
  way& operator=(const way&) = delete;
  virtual ~way() = default;
  virtual version insert(const std::string& key, const std::string& value, std::uint64_t lease = 0) = 0;
  virtual bool insert_new(const std::string& key, const std::string& value) = 0;
  virtual version apply(const std::vector<step>& all) = 0;
  virtual std::int64_t increment(const std::string& key) = 0;
  /// The value's size afterwards.
  virtual std::uint64_t append(const std::string& key, const std::string& part) = 0;
  virtual std::uint64_t load(const rows& all) = 0;
  [[nodiscard]] virtual std::optional<std::string> get(const std::string& key, const point& at = {}) = 0;
  [[nodiscard]] virtual rows scan(const key_bounds& bounds, const point& at = {}) = 0;
  /// The key's values, the newest first; nothing: a removal.
  [[nodiscard]] virtual std::vector<std::optional<std::string>> history(const std::string& key) = 0;
  virtual version tag(const std::string& name = {}) = 0;
  virtual void compact(version oldest_kept) = 0;
  [[nodiscard]] virtual std::unique_ptr<watcher> watch(std::optional<version> after) = 0;
  virtual std::uint64_t grant_lease(std::chrono::milliseconds time) = 0;
  virtual void keep_lease(std::uint64_t lease) = 0;
  virtual std::uint64_t revoke_lease(std::uint64_t lease) = 0;
};

struct destination {
  door through;
  std::string address;                             ///< "HOST:PORT"
  std::chrono::milliseconds deadline{30'000};      ///< of each call of a way
  std::chrono::milliseconds connect_limit{5'000};  ///< of one attempt to connect, over UCX
  std::string network_devices{};                   ///< for UCX; empty: all
};

class connection {
 public:
  connection() = default;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection() = default;
  virtual void create(const std::string& name, const remote::settings& with) = 0;
  virtual void drop(const std::string& name) = 0;
  [[nodiscard]] virtual std::unique_ptr<way> open(const std::string& name) = 0;
  /// A checkpoint of all databases in a new folder of the server.
  virtual void write_snapshot(const std::string& folder) = 0;
};

[[nodiscard]] std::unique_ptr<connection> connect(const destination& to);
[[nodiscard]] std::unique_ptr<connection> connect_grpc(const destination& to);
[[nodiscard]] std::unique_ptr<connection> connect_ucx(const destination& to);

/// Whether this error says that the connection or the time has ended, not that the server refuses.
[[nodiscard]] bool lost(const error& e) noexcept;

}  // namespace icecore::ways

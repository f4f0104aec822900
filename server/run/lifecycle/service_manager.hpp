// What the server tells systemd, if systemd has started it and this build has libsystemd; otherwise nothing.
//
//   service_manager manager;
//   manager.ready("serving 3 databases");
//   if (const auto interval = manager.watchdog_interval()) ...  call manager.alive() twice in each
//
// Threads: any. Errors: none; a notice that cannot be sent is lost, and systemd acts as if the server had not sent it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace icecore::server {

class service_manager {
 public:
  /// Whether somebody listens.
  [[nodiscard]] static bool is_there();

  /// What the server is doing, for `systemctl status`. While it starts, systemd waits at least `more` from now on.
  void starting(const std::string& what, std::chrono::microseconds more);
  void ready(const std::string& what);
  /// It stops now, which may take so long.
  void stopping(std::chrono::microseconds limit);
  void alive();

  /// How long systemd waits for alive() before it ends the server; nothing if it does not watch this process.
  [[nodiscard]] static std::optional<std::chrono::microseconds> watchdog_interval();
};

}  // namespace icecore::server

// From ready to stopped: waits for signals, keeps systemd's watchdog quiet while the server is well, and stops the
// server within a limit.
//
//   process_signals signals;                              // before any thread
//   start everything
//   const ending how = run_until_stopped(signals, {.stop = ..., .reopen = ..., .unwell = ..., .report = ...}, 30s);
//   if (how is cut_short_...) std::_Exit(3);              // threads that do not end are still running
//
//   running ──SIGTERM, SIGINT──► stopping ──stop() has returned──► clean, or failed if it threw
//                                   ├──a second SIGTERM or SIGINT──► cut_short_by_signal
//                                   └──the limit has passed────────► cut_short_by_limit
//
// Ending at once is safe: it is what SIGKILL does, and what was acknowledged survives that.
//
// Threads: call it in main's thread. `stop` runs in a thread of its own; where it is cut short, that thread goes on, so
// what it uses must live until the process ends. All others run in the calling thread and must be quick. Errors: what
// `stop` throws is reported; the other actions must not throw.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "run/lifecycle/process_signals.hpp"

namespace icecore::server {

/// What the process ends with. docs/server.md and the manual page document the numbers: never renumber.
enum class server_exit : int {
  clean = 0,
  failed = 1,         ///< an error at run time
  configuration = 2,  ///< the arguments or the configuration are wrong
  cut_short = 3,      ///< stopping did not end in time, or was cut short by a second signal
  locked = 4,         ///< another server uses the folder
};

enum class ending : std::uint8_t { clean, failed, cut_short_by_signal, cut_short_by_limit };

[[nodiscard]] constexpr server_exit exit_of(ending how) noexcept {
  return how == ending::clean    ? server_exit::clean
         : how == ending::failed ? server_exit::failed
                                 : server_exit::cut_short;
}

struct lifecycle_actions {
  /// Ends it all cleanly: no new connections, running requests are answered, stores are closed. It knows the limit.
  std::function<void(std::chrono::steady_clock::time_point deadline)> stop;
  /// SIGHUP: open the log anew.
  std::function<void()> reopen;
  /// Why the server should be restarted; empty while it is well. Asked twice in each interval of the watchdog.
  std::function<std::string()> unwell;
  /// For the log: "server.stopping" and the like.
  std::function<void(std::string_view event, std::string_view detail)> report;
};

[[nodiscard]] ending run_until_stopped(process_signals& signals, const lifecycle_actions& actions,
                                       std::chrono::microseconds shutdown_limit);

}  // namespace icecore::server

// The signals that a server obeys, as something to wait for instead of handlers that may run anywhere.
//
//   process_signals signals;                    // in main, before any other thread
//   if (signals.next() == process_signals::kind::stop) ...
//
// SIGTERM and SIGINT ask to stop, SIGHUP to open the log anew. SIGPIPE and SIGXFSZ are ignored: the calls that they
// would interrupt report errors. Threads: construct it before all others, which inherit that the signals are blocked; a
// thread that was there before could receive one and end the process. Errors: errc::io. Lifetime: the destructor
// restores what was before.
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>

namespace icecore::server {

class process_signals {
 public:
  enum class kind : std::uint8_t {
    stop,
    reopen,
    stop_by_group,  ///< this process sent itself SIGTERM, because another server of its group stops
  };

  process_signals();
  process_signals(const process_signals&) = delete;
  process_signals& operator=(const process_signals&) = delete;
  ~process_signals();

  /// Readable while a signal waits.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Takes one that waits. Does not wait for one.
  [[nodiscard]] std::optional<kind> next();

 private:
  sigset_t blocked_before_;
  struct sigaction pipe_before_;
  struct sigaction size_before_;
  int descriptor_;
};

}  // namespace icecore::server

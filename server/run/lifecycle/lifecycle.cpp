#include "run/lifecycle/lifecycle.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "icecore/error.hpp"
#include "run/lifecycle/service_manager.hpp"

namespace icecore::server {

namespace {

using std::chrono::steady_clock;

/// Says that stop() has returned. The thread that runs it holds this, too, as it may outlive the wait.
class stop_outcome {
 public:
  stop_outcome() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_ < 0) throw error(errc::io, std::string("eventfd: ") + std::strerror(errno));
  }
  stop_outcome(const stop_outcome&) = delete;
  stop_outcome& operator=(const stop_outcome&) = delete;
  ~stop_outcome() { ::close(descriptor_); }

  /// The failure, if there was one, is read after the descriptor is readable: the kernel orders write before read.
  void set(std::optional<std::string> failure) {
    failure_ = std::move(failure);
    const std::uint64_t one = 1;
    static_cast<void>(::write(descriptor_, &one, sizeof one));
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept { return failure_; }

 private:
  int descriptor_;
  std::optional<std::string> failure_;
};

/// Tells systemd's watchdog twice in its interval that the server is well; while it is not, says nothing.
class watchdog {
 public:
  explicit watchdog(const lifecycle_actions& actions) : actions_(actions) {
    if (const auto interval = service_manager::watchdog_interval()) {
      half_ = *interval / 2;
      next_ = steady_clock::now();
    }
  }

  [[nodiscard]] std::optional<steady_clock::time_point> next() const { return next_; }

  void tick(steady_clock::time_point now) {
    if (!next_ || now < *next_) return;
    next_ = now + half_;
    const std::string why = actions_.unwell();
    if (why.empty()) {
      service_manager().alive();
    } else {
      actions_.report("server.unwell", why);
    }
  }

 private:
  const lifecycle_actions& actions_;
  std::chrono::microseconds half_{0};
  std::optional<steady_clock::time_point> next_;
};

/// Waits until a descriptor is readable or the time has come; without a time, for ever.
void wait(int first, int second, std::optional<steady_clock::time_point> until) {
  int wait_ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - steady_clock::now()).count();
    wait_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
  }
  pollfd waited[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};  // poll ignores a negative descriptor
  static_cast<void>(::poll(waited, 2, wait_ms));
}

bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return ::poll(&asked, 1, 0) > 0;
}

/// Returns what asked to stop.
process_signals::kind wait_for_stop(process_signals& signals, const lifecycle_actions& actions, watchdog& watched) {
  for (;;) {
    watched.tick(steady_clock::now());
    while (const auto got = signals.next()) {
      if (*got != process_signals::kind::reopen) return *got;
      actions.reopen();
    }
    wait(signals.descriptor(), -1, watched.next());
  }
}

/// `signals_left`: a signal that comes when none is left cuts the end short.
ending wait_for_end(process_signals& signals, const lifecycle_actions& actions, watchdog& watched,
                    const stop_outcome& outcome, steady_clock::time_point deadline, int signals_left) {
  for (;;) {
    if (is_readable(outcome.descriptor())) {
      if (!outcome.failure()) return ending::clean;
      actions.report("server.stop_failed", *outcome.failure());
      return ending::failed;
    }
    while (const auto got = signals.next()) {
      if (*got == process_signals::kind::stop_by_group) continue;
      if (*got == process_signals::kind::reopen) {
        actions.reopen();
        continue;
      }
      if (signals_left-- > 0) continue;
      actions.report("server.stop_cut_short", "a second signal came");
      return ending::cut_short_by_signal;
    }
    const auto now = steady_clock::now();
    if (now >= deadline) {
      actions.report("server.stop_cut_short", "the limit server.shutdown_limit has passed");
      return ending::cut_short_by_limit;
    }
    watched.tick(now);
    wait(signals.descriptor(), outcome.descriptor(), std::min(deadline, watched.next().value_or(deadline)));
  }
}

}  // namespace

ending run_until_stopped(process_signals& signals, const lifecycle_actions& actions,
                         std::chrono::microseconds shutdown_limit) {
  watchdog watched(actions);
  const auto outcome = std::make_shared<stop_outcome>();
  const process_signals::kind asked = wait_for_stop(signals, actions, watched);
  // The launcher sends its signal to all servers of a group: one may hear from another server first.
  const int signals_left = asked == process_signals::kind::stop_by_group ? 1 : 0;

  const auto deadline = steady_clock::now() + shutdown_limit;
  service_manager().stopping(shutdown_limit);
  actions.report("server.stopping", "a signal asked for it");
  std::thread stopping([outcome, stop = actions.stop, deadline] {
    std::optional<std::string> failure;
    try {
      stop(deadline);
    } catch (const std::exception& failed) {
      failure = failed.what();
    }
    outcome->set(std::move(failure));
  });
  const ending how = wait_for_end(signals, actions, watched, *outcome, deadline, signals_left);
  if (how == ending::clean || how == ending::failed) {
    stopping.join();
  } else {
    stopping.detach();
  }
  return how;
}

}  // namespace icecore::server

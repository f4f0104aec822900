#include "run/lifecycle/service_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#ifdef ICECORE_SERVER_HAS_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

namespace icecore::server {

namespace {

void notify([[maybe_unused]] const std::string& state) {
#ifdef ICECORE_SERVER_HAS_SYSTEMD
  static_cast<void>(sd_notify(0, state.c_str()));
#endif
}

/// A notice is a list of lines: what is told must be one.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

bool service_manager::is_there() {
#ifdef ICECORE_SERVER_HAS_SYSTEMD
  return std::getenv("NOTIFY_SOCKET") != nullptr;
#else
  return false;
#endif
}

void service_manager::starting(const std::string& what, std::chrono::microseconds more) {
  notify(fmt::format("STATUS={}\nEXTEND_TIMEOUT_USEC={}", one_line(what), more.count()));
}

void service_manager::ready(const std::string& what) { notify(fmt::format("READY=1\nSTATUS={}", one_line(what))); }

void service_manager::stopping(std::chrono::microseconds limit) {
  // a little more: the server itself ends when the limit has passed, and says why
  constexpr std::chrono::microseconds more = std::chrono::seconds(5);
  notify(fmt::format("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC={}", (limit + more).count()));
}

void service_manager::alive() { notify("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> service_manager::watchdog_interval() {
#ifdef ICECORE_SERVER_HAS_SYSTEMD
  std::uint64_t interval_us = 0;
  if (sd_watchdog_enabled(0, &interval_us) > 0) {
    return std::chrono::microseconds(static_cast<std::int64_t>(interval_us));
  }
#endif
  return std::nullopt;
}

}  // namespace icecore::server

// What the threads of a server endpoint share: settings, counters, the budget of bytes, the numbers of connections.
//
// Threads: everything here may be used by all. Counters are relaxed: they order nothing, they are only added up. The
// budget is relaxed, too: threads that add at the same time may together pass its limit by one frame each, never more,
// since each looks at the sum that its own addition made and takes it back if that is too much.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "wire/server/connection.hpp"
#include "wire/server/settings.hpp"

namespace icecore::wire {

/// What a request takes besides its frame while it waits or is worked on, about: it is charged with it, or so many
/// empty ones could be under way that they take many times what they are charged.
inline constexpr std::uint64_t request_cost = 232;

struct server_counters {
  std::atomic<std::uint64_t> connections_accepted{0};
  std::atomic<std::uint64_t> connections_open{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> requests_in_flight{0};
  std::atomic<std::uint64_t> connections_refused_full{0};  ///< admitted, but all places are taken
  std::atomic<std::uint64_t> requests_refused_busy{0};
  std::atomic<std::uint64_t> frames_unattributed{0};  ///< bad frames that belong to no connection
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_held{0};  ///< of requests and answers: what bytes_all_max limits
  std::array<std::atomic<std::uint64_t>, close_reasons> closed{};  ///< ended or refused, by reason
};

struct server_state {
  server_state(const server_settings& how, frame_handler& service) : settings(how), handler(service) {
    for (std::uint32_t i = how.limits.connections_max; i > 0; --i)
      free_places.push_back(static_cast<std::uint16_t>(i - 1));
  }

  /// Adds to the bytes that are held; false, and nothing added, if that were too many.
  [[nodiscard]] bool charge(std::uint64_t bytes) noexcept {
    if (counters.bytes_held.fetch_add(bytes, std::memory_order_relaxed) + bytes <= settings.limits.bytes_all_max)
      return true;
    release(bytes);
    return false;
  }
  void charge_anyhow(std::uint64_t bytes) noexcept { counters.bytes_held.fetch_add(bytes, std::memory_order_relaxed); }
  void release(std::uint64_t bytes) noexcept { counters.bytes_held.fetch_sub(bytes, std::memory_order_relaxed); }

  /// A handle for a new connection: a place in the tables, and 16 bits by chance, so that a stale one is noticed. False
  /// if all places are taken.
  [[nodiscard]] bool take_handle(std::uint32_t& handle) {
    const std::lock_guard lock(places_mutex);
    if (free_places.empty()) return false;
    handle = static_cast<std::uint32_t>(free_places.back()) | (static_cast<std::uint32_t>(chance()) << 16);
    free_places.pop_back();
    counters.connections_open.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void give_back_handle(std::uint32_t handle) {
    const std::lock_guard lock(places_mutex);
    free_places.push_back(static_cast<std::uint16_t>(handle));
    counters.connections_open.fetch_sub(1, std::memory_order_relaxed);
  }

  void count_closed(close_reason reason) noexcept {
    counters.closed[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }

  /// Passes a line on, unless one was passed on within the last second; what was left out is told with the next.
  void warn(const std::string& text) {
    std::string line = text;
    {
      const std::lock_guard lock(warning_mutex);
      const auto now = std::chrono::steady_clock::now();
      if (warned && now - last_warning < std::chrono::seconds(1)) {
        ++left_out;
        return;
      }
      if (left_out > 0) line += " (and " + std::to_string(left_out) + " more such lines before)";
      warned = true;
      last_warning = now;
      left_out = 0;
    }
    handler.on_warning(line);
  }

  const server_settings settings;
  frame_handler& handler;
  server_counters counters;

 private:
  std::mutex places_mutex;
  std::vector<std::uint16_t> free_places;
  std::random_device chance;
  std::mutex warning_mutex;
  bool warned = false;
  std::chrono::steady_clock::time_point last_warning;
  std::uint64_t left_out = 0;
};

}  // namespace icecore::wire

// The log of one life, in memory that the writing process shares with its supervisor: what is in it survives a kill at
// any instruction.
//
//   operation* const o = log.begin({.key = 7, .value = 99, .what = call::insert});
//   if (o == nullptr) return;                        // the log is full
//   o->version = store.insert(...);
//   client_log::end(*o);
//
// Threads: each log belongs to one client; the supervisor reads it when the process is gone.
// Invariants:
//   1. A slot counts once `begun` is past it; `begun` moves after the slot is filled and before the call begins.
//   2. A call returned if its return_ns is set, which happens after everything else in the slot is.
// The processor may not move the call's memory accesses out from between its two times: a full fence stands behind the
// first and before the second. Only so is one client's return before another's call what it says.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "history.hpp"
#include "support/process.hpp"

namespace icecore::testing {

class client_log {
 public:
  static constexpr std::uint32_t slots_max = 1 << 15;

  /// Notes a call, and the parts of a batch behind it. Null if there is no room.
  [[nodiscard]] operation* begin(const operation& what, std::span<const operation> parts = {}) noexcept {
    const std::uint32_t index = begun_.load(std::memory_order_relaxed);  // relaxed: this client alone moves it
    if (parts.size() + 1 > slots_max - index) return nullptr;
    std::ranges::copy(parts, &slots_[index + 1]);
    operation& slot = slots_[index];
    slot = what;
    slot.invoke_ns = ticks_ns();
    begun_.store(index + 1 + static_cast<std::uint32_t>(parts.size()), std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return &slot;
  }
  static void end(operation& slot) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // release: the answer was stored before
    std::atomic_ref(slot.return_ns).store(ticks_ns(), std::memory_order_release);
  }

  /// Slots begun so far: the number of the next one.
  [[nodiscard]] std::uint32_t begun() const noexcept {
    return begun_.load(std::memory_order_acquire);  // acquire: the slots were filled before
  }
  /// What a dead client left. Answers of calls that did not return are cleared: they were never given. Parts of a
  /// batch get its times and version.
  [[nodiscard]] std::vector<operation> operations() const;

 private:
  std::atomic<std::uint32_t> begun_;
  std::array<operation, slots_max> slots_;
};

}  // namespace icecore::testing

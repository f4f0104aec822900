// How many threads, of all processes, hold nodes' locks. This distinguishes a held lock from damage that looks like
// one.
//
//   holders.enter(); if (!lock()) holders.leave();  ...  unlock(); holders.leave();
//   word = seen; if (holders.none() && word == seen still) ...      // no thread holds it: no writer wrote that word
//
// Threads: all functions from any thread. Cost: enter() and leave() are one atomic addition each, on a line that
//   threads rarely share. A killed process's threads stay counted: then none() returns false, and threads that wait for
//   such a lock go on waiting.
// Why none() is reliable: a thread that reads a holder's locked word (acquire) also sees its enter(). The holder's part
// reads 0 only after its leave() (release), and its unlock comes before that, so the second look sees another word.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/threads.hpp"

namespace icecore::index {

class lock_holders {
 public:
  void enter() noexcept { own().fetch_add(1, std::memory_order_relaxed); }  // relaxed: locking releases it
  void leave() noexcept { own().fetch_sub(1, std::memory_order_release); }  // release: as above

  /// Whether no thread held any lock that the caller saw locked before the call and still sees locked after it.
  [[nodiscard]] bool none() const noexcept {
    // acquire: as above
    return std::ranges::all_of(parts_, [](const part& p) { return p.count.load(std::memory_order_acquire) == 0; });
  }

 private:
  struct alignas(64) part {
    std::atomic<std::uint64_t> count{0};
  };
  [[nodiscard]] std::atomic<std::uint64_t>& own() noexcept { return parts_[thread_number() % parts_.size()].count; }

  std::array<part, 16> parts_;
};

}  // namespace icecore::index

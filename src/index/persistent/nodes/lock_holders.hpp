// How many threads, of all processes, hold nodes' locks: what tells a lock that is held from damage that looks like
// one.
//
//   holders.enter(); if (!lock()) holders.leave();  ...  unlock(); holders.leave();
//   word = seen; if (holders.none() && word == seen still) ...               // nobody holds it: no writer wrote that
//
// Threads: all functions. Cost: enter() and leave() are one atomic addition each, on a line that threads rarely share.
// A killed process's threads stay counted: then none() says false, and who waits for such a lock goes on waiting.
// Why none() can be relied on: whoever reads a holder's locked word (acquire) has its enter() before that; its part
// reads 0 only after its leave() (release), which its unlock comes before: the second look sees another word.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/threads.hpp"

namespace icecore::index {

class lock_holders {
 public:
  void enter() noexcept { own().fetch_add(1, std::memory_order_relaxed); }  // relaxed: the locking releases it
  void leave() noexcept { own().fetch_sub(1, std::memory_order_release); }  // release: as above

  /// Whether nobody held any lock that was seen locked before the call and is so still.
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

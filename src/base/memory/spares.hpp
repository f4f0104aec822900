// Objects that threads use one at a time and that are dear to make: each takes one that nobody uses, or makes one.
//
//   constinit spares<inflater> inflaters;
//   const spares<inflater>::lease mine(inflaters);
//   (*mine)(from, to);
//
// Not thread_local: a thread that notes a destructor for its end needs memory for that, and glibc ends the process if
// there is none. What is in here at the process's end stays.
//
// Threads: any. Each place is a pointer that one thread takes by exchanging it (acquire), and that one puts there if it
// is empty (release): so whoever takes an object sees what its last user did. No lock: a child that was forked
// meanwhile lacks what other threads had taken, and nothing else. Errors: what making one throws.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace icecore {

template <class T>
class spares {
 public:
  class lease {
   public:
    explicit lease(spares& of) : of_(&of), mine_(of.take()) {}
    ~lease() { of_->put(std::move(mine_)); }
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;

    [[nodiscard]] T& operator*() const noexcept { return *mine_; }

   private:
    spares* of_;
    std::unique_ptr<T> mine_;
  };

 private:
  static constexpr std::size_t kept_max = 64;

  [[nodiscard]] std::unique_ptr<T> take() {
    for (std::atomic<T*>& each : kept_) {
      if (each.load(std::memory_order_relaxed) == nullptr) continue;  // relaxed: a hint
      if (T* const taken = each.exchange(nullptr, std::memory_order_acquire); taken != nullptr)
        return std::unique_ptr<T>(taken);
    }
    return std::make_unique<T>();
  }
  void put(std::unique_ptr<T> used) noexcept {
    for (std::atomic<T*>& each : kept_) {
      T* empty = nullptr;
      // relaxed: where something is there nothing is read of it
      if (!each.compare_exchange_strong(empty, used.get(), std::memory_order_release, std::memory_order_relaxed))
        continue;
      static_cast<void>(used.release());
      return;
    }
  }

  std::array<std::atomic<T*>, kept_max> kept_{};
};

}  // namespace icecore

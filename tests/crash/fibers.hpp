// Several writers in one thread, switched where a schedule says: each atomic operation, flush, fence, sync and lock of
// the store under test is a point where another writer may go on.
//
//   random_schedule schedule(seed);
//   fibers::run({[&] { s.insert(...); }, [&] { s.tag(); }}, schedule);
//
// Fibers share the thread's thread-local variables (but see on_change); locks are taken by trying, and giving way while
// that fails.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace icecore::crash {

/// What a fiber is about to do. At nullptr: nothing that touches memory; if it "writes", it gives its core away.
struct step {
  const volatile void* at = nullptr;
  bool writes = false;
};

/// Decides who goes on.
class schedule {
 public:
  virtual ~schedule() = default;
  /// `current` waits at `next[current]`; returns the fiber that goes on, one of those that are `ready`.
  virtual unsigned choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) = 0;
};

/// Changes writers with a probability drawn from the seed.
class random_schedule final : public schedule {
 public:
  explicit random_schedule(std::uint64_t seed);
  unsigned choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) override;

 private:
  std::mt19937_64 random_;
  unsigned one_in_;  // points at which it changes
};

class fibers {
 public:
  /// Runs the bodies to their ends; throws the first exception that one of them threw.
  static void run(const std::vector<std::function<void()>>& bodies, schedule& how);

  /// One more, beside those that run, with the number of one that has ended or a new one. Called by one of them.
  static void spawn(std::function<void()> body);

  /// The number of the fiber that runs; 0 outside.
  [[nodiscard]] static std::uint8_t current() noexcept { return current_; }

  /// A point at which another fiber may go on.
  static void point(const volatile void* at, bool writes) {
    if (active_) change(at, writes);
  }
  [[nodiscard]] static bool active() noexcept { return active_; }
  /// Whether it lies on the stack of the fiber that runs.
  [[nodiscard]] static bool is_own_stack(const volatile void* at) noexcept;
  /// Whether a wait that has a limit has lasted so long: every fourth one of a run. Of a run alone, so that a story
  /// that is replayed without those before it is the same.
  [[nodiscard]] static bool limit_is_over() noexcept { return ++waits_ % 4 == 0; }
  /// Lets the others go on until wake(at) is called.
  static void block(const volatile void* at);
  static void wake(const volatile void* at) noexcept;

  /// Called with the number of the fiber that goes on, at each change: to set what belongs to a thread.
  static void (*on_change)(unsigned fiber);

 private:
  static void change(const volatile void* at, bool writes);
  static unsigned chosen_after(unsigned last);

  static bool active_;
  static std::uint8_t current_;
  static unsigned waits_;
};

}  // namespace icecore::crash

// Packs an open store by itself, when enough was written (options::compaction).
//
//   automatic_compaction keeps_small(store, limits);      // until it is destroyed
//
// A thread looks ten times a second whether anything was written, how much that is since the last compaction, and
// whether what a compaction has replaced can be given back, because nobody looks at it any more. It compacts the store
// when that is `young_bytes` or more, and half of what is packed or more: so each byte is packed a few times at most,
// and what is not packed is a small part of a large store.
//
// Threads: pause() and resume() from any. Construction and destruction run alone; destruction returns when no
// compaction of its own is under way, which it cuts off. Errors: a compaction that fails leaves the store as it was; it
// is tried again a minute later, and told by failure().
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "icecore/options.hpp"

namespace icecore::detail {

class opened_store;

class automatic_compaction {
 public:
  automatic_compaction(opened_store& store, const compaction_limits& limits);
  ~automatic_compaction();
  automatic_compaction(const automatic_compaction&) = delete;
  automatic_compaction& operator=(const automatic_compaction&) = delete;

  /// One that is under way rests until resume().
  void pause() noexcept;
  void resume() noexcept;
  /// Compactions that packed something.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }  // a count
  /// How often it has looked what was written.
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_.load(std::memory_order_relaxed); }  // a count
  /// Why the last one failed; empty if it did not.
  [[nodiscard]] std::string failure() const;

 private:
  void run() noexcept;
  [[nodiscard]] bool is_of_parent() const noexcept;
  /// Stops writers for a moment, but only if something was written since it last said no.
  [[nodiscard]] bool is_enough();
  void give_back();
  void rest();
  void compact_once();

  /// What the thread waits with. A forked child can neither lock nor destroy it: there it is left alone.
  struct waiting {
    std::mutex mutex;
    std::condition_variable changed;
    bool ends = false;
    bool is_paused = false;
    std::string failure;
  };

  opened_store* store_;
  compaction_limits limits_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> looks_{0};
  std::uint64_t operations_seen_ = 0;  // of writers, when it was not enough; the thread's own
  std::uint64_t fork_generation_;
  std::unique_ptr<waiting> state_ = std::make_unique<waiting>();
  std::thread thread_;  // last: it uses the others
};

}  // namespace icecore::detail

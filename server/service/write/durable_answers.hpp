// Answers that wait until what they tell is durable: one sync serves all that wait when it begins.
//
//   durable_answers later(pool, {.sync = [&] { store.sync(); }, .durable = [&](version v) { ... }});
//   later.add({.answer = outcome, .done = completion});
//
// The sync runs on a strand of the pool. While it runs, further answers gather; the next sync serves them.
// Why an answer is right: it was added after its write was in the store, and the sync that it waits for begins after it
// was added. So the sync covers the write, and what the write's transaction had read.
// If a sync fails, it is not tried again: the kernel may count pages as clean that it did not write
// (docs/guarantees.md). All answers that wait, and all that come, are errc::poisoned. Threads: any number call add().
// `durable` and the completions are called on the strand, one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "service/executor.hpp"
#include "service/transaction.hpp"

namespace icecore::service {

class durable_answers {
 public:
  struct answer {
    outcome what;
    completion done;
  };
  struct hooks {
    /// Makes everything durable that was written before the call. Throws what the store throws.
    std::function<void()> sync;
    /// Everything up to this version is durable; called before the answers are given.
    std::function<void(icecore::version)> durable;
    /// A sync failed; called once.
    std::function<void(const failure&)> failed;
  };

  durable_answers(executor& pool, hooks calls) : calls_(std::move(calls)), strand_(pool) {}

  void add(answer what);
  /// The same for all of a group. `up_to`: the newest version among them.
  void add(std::vector<answer> group, icecore::version up_to);
  /// Returns when all that were added before are answered.
  void drain() { strand_.drain(); }
  [[nodiscard]] std::uint64_t waiting() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  void begin();
  void serve();

  hooks calls_;
  std::mutex mutex_;
  std::vector<answer> waiting_;
  icecore::version up_to_ = 0;
  std::optional<failure> poisoned_;
  std::atomic<std::uint64_t> count_{0};  // relaxed: only shown
  strand strand_;
};

}  // namespace icecore::service

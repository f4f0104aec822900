// Up to which version everything is durable, in a store whose writes do not wait for it (options::deferred_durability).
//
//   durable_point synced;
//   synced.begin(4, [&] { core.sync(); });      // when the store is complete
//   synced.require(7);                          // a reader is about to show version 7: syncs unless a sync covered it
//
// Threads: all functions from any thread. Errors: require() throws what the sync throws.
// Cost: covers() one load of a word that changes with each sync; require() a sync, if one is needed.
// Invariant: D1. A power cut takes no record that is stamped with up_to() or less, and none can get such a stamp any
//   more. A sync advances it only after it has waited for the writes under way and made everything durable.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "icecore/options.hpp"

namespace icecore {

class durable_point {
 public:
  /// Before another thread uses it. `sync` makes all versions that records have durable, and advances up_to() to them.
  void begin(version at, std::function<void()> sync) {
    sync_ = std::move(sync);
    advance(at);
  }

  [[nodiscard]] version up_to() const noexcept {
    return up_to_.load(std::memory_order_acquire);  // acquire: pairs with advance(): D1 holds for whoever sees it
  }
  [[nodiscard]] bool covers(version v) const noexcept { return v <= up_to(); }
  /// Syncs of one store end one after the other, so it never goes back.
  void advance(version to) noexcept {
    if (to > up_to()) up_to_.store(to, std::memory_order_release);  // release: D1
  }
  /// Returns when version `v`, which a record has, is durable. One sync suffices: it closes the open version.
  void require(version v) const {
    if (!covers(v)) sync_();
  }

 private:
  std::atomic<version> up_to_{0};
  std::function<void()> sync_;
};

}  // namespace icecore

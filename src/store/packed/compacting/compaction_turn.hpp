// The turn of a thread to replace an open store's engine, or its manifest: it holds opened_store::compacting.
//
//   const compaction_turn mine(store);   // waits for others
//
// A compaction calls functions of its caller. If one of them asked for a turn on the same store, it would wait for
// ever: errc::invalid_argument. So it would if the process that opened the store were asked for a turn, by the same
// process's attachment to it. The turns of a thread, each on another store, are a list: it ends them in reverse order.
#pragma once

#include <mutex>

#include "base/raise.hpp"
#include "pool/pool_set.hpp"
#include "store/opened.hpp"

namespace icecore::detail {

class compaction_turn {
 public:
  explicit compaction_turn(opened_store& store) : of_(&store), outer_(innermost_) {
    for (const compaction_turn* each = outer_; each != nullptr; each = each->outer_) {
      if (each->of_->pool->file().identity() != of_->pool->file().identity()) continue;
      raise(errc::invalid_argument,
            "{}: a function that is called by compact() cannot call compact(), expire() or lose() on the same store; "
            "call them when compact() has returned",
            store.pool->file().path().native());
    }
    store.compacting.lock();
    innermost_ = this;
  }
  ~compaction_turn() {
    innermost_ = outer_;
    of_->compacting.unlock();
  }
  compaction_turn(const compaction_turn&) = delete;
  compaction_turn& operator=(const compaction_turn&) = delete;

 private:
  opened_store* of_;
  const compaction_turn* outer_;
  static inline thread_local const compaction_turn* innermost_ = nullptr;
};

}  // namespace icecore::detail

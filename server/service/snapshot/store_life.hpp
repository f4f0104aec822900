// How long a store is open: until its database ends, or until the last snapshot with a part of it is written.
//
//   auto life = std::make_shared<store_life>(store);
//   auto kept = store_life::keep(life);    // by a snapshot
//   life->end();                           // the database is dropped: the store stays open for the snapshot
//   kept.reset();                          // and is closed here
//
// Threads: any number.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "icecore/store.hpp"

namespace icecore::service {

class store_life {
 public:
  explicit store_life(std::shared_ptr<icecore::store> of) : store_(std::move(of)) {}

  /// The store stays open as long as the result lives. Call it before end().
  [[nodiscard]] static std::shared_ptr<const void> keep(std::shared_ptr<store_life> of);
  /// Closes the store unless it is kept; else the last keeper closes it. Errors: those of store::close().
  void end();

 private:
  void let_go() noexcept;

  std::mutex mutex_;  // guards what follows
  std::shared_ptr<icecore::store> store_;
  std::uint64_t keepers_ = 0;
  bool over_ = false;
};

}  // namespace icecore::service

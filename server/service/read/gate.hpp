// Lets calls into a database until it is closed: also those that read on from streams and watches that it gave out.
//
//   auto g = std::make_shared<gate>("weights");
//   const gate::pass inside = g->enter();              // errc::unavailable once it is shut
//   g->shut(); const auto alone = g->exclude();        // no call is inside, and none comes in
//
// A store must not be closed while something reads from it, so streams and watches enter for each call of theirs.
// Calls may enter while they are inside already. Threads: any number.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "service/rows.hpp"

namespace icecore::service {

class gate {
 public:
  using pass = std::shared_lock<std::shared_mutex>;

  explicit gate(std::string name) : name_(std::move(name)) {}

  /// errc::unavailable if it is shut.
  [[nodiscard]] pass enter() const;
  /// The same, shut or not.
  [[nodiscard]] pass enter_anyway() const;
  /// From now on, enter() fails.
  void shut() noexcept { shut_.store(true, std::memory_order_relaxed); }
  /// Waits until no call is inside.
  [[nodiscard]] std::unique_lock<std::shared_mutex> exclude();

 private:
  void require_open() const;
  void make_way() const;

  const std::string name_;
  mutable std::shared_mutex mutex_;
  // Relaxed, both. `shut_` is read under the mutex, too, after whoever shut it had that alone; before, it only lets
  // calls fail earlier. `awaited_` decides nothing but who goes first.
  std::atomic<bool> shut_{false};
  std::atomic<bool> awaited_{false};
};

/// The same stream; each call of next() enters first.
[[nodiscard]] std::unique_ptr<row_stream> through(std::shared_ptr<const gate> way, std::unique_ptr<row_stream> stream);

}  // namespace icecore::service

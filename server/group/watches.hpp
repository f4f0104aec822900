// The watches of a group's database at one server: who waits for a version to be closed, and what each has told.
//
//   auto all = std::make_shared<watchers>(clock - 1);
//   auto watch = watch_of(database, all, {.after = 7}, 7);
//   all->wake(closed, std::nullopt);                       // an order has closed a version
//
// A watch keeps alive what it shares with others, and uses the database only until `wake` has told why it is over.
// Threads: any number; a watch as service::watch says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "service/database.hpp"

namespace icecore::server::group {

class watchers {
 public:
  explicit watchers(icecore::version closed) : told_(closed) {}

  /// Versions up to this one are closed on all servers, and watches may tell them; or why there will be no more.
  void wake(icecore::version closed, const std::optional<service::failure>& why);
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  friend class cluster_watch;
  std::mutex mutex_;
  icecore::version told_;
  std::optional<service::failure> over_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::function<void()>> armed_;
  std::atomic<std::uint64_t> count_{0};  // relaxed: it guards no other memory
};

/// Tells the changes after this version.
[[nodiscard]] std::unique_ptr<service::watch> watch_of(service::database& of, std::shared_ptr<watchers> all,
                                                       const service::watch_request& what, icecore::version after);

}  // namespace icecore::server::group

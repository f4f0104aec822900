// The ranges of this process over rows of kept queries, as other processes see them.
//
//   const auto mine = std::make_shared<own_readers>();      // with the catalog
//   mine->begin(counter);  ...  mine->end();
//   mine->close();                                          // the store closes; ranges may still end
//
// Threads: any.
#pragma once

#include <mutex>

#include "store/query_readers.hpp"

namespace icecore::detail {

class own_readers {
 public:
  /// `counter` is this process's, and the same each time.
  void begin(query_readers::counter& counter) {
    const std::scoped_lock mine(mutex_);
    counter_ = &counter;
    query_readers::begin(counter);
  }
  void end() noexcept {
    const std::scoped_lock mine(mutex_);
    if (counter_ != nullptr) query_readers::end(*counter_);
  }
  /// The counter is not this process's any more.
  void close() noexcept {
    const std::scoped_lock mine(mutex_);
    counter_ = nullptr;
  }

 private:
  std::mutex mutex_;
  query_readers::counter* counter_ = nullptr;  // null: no range has begun, or the store is closed
};

}  // namespace icecore::detail

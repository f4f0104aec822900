// Handles of commands that may have completed, in that order: what WaitAny and TestAny take.
//
//   done.put(handle);                                             // by the completion
//   done.tidy(commands);                                          // now and then, by who starts commands
//
// Commands that are waited for one by one leave the table and stay here until they are forgotten.
// Threads: any number; the mutex guards the handles. Cost: O(1), amortised in tidy().
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "handle_table.hpp"

namespace icecore::skv {

struct done_queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<void*> handles;

  void put(void* handle) {
    const std::lock_guard held(mutex);
    handles.push_back(handle);
    changed.notify_one();
  }
  /// Forgets the commands that are under way no more, where they are most of the queue.
  template <class Object>
  void tidy(const handle_table<Object>& under_way) {
    constexpr std::size_t few = 1024;
    const std::lock_guard held(mutex);
    if (handles.size() < few + 2 * under_way.size()) return;
    std::erase_if(handles, [&](void* handle) { return under_way.find(handle) == nullptr; });
  }
};

}  // namespace icecore::skv

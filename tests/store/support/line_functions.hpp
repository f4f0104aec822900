// Something to do at each flush and each fence of a store, for tests that kill a process between two of them. Nothing
// is written back: what a killed process stored is in memory, which others see.
//
//   call_at_line_functions<[] { if (++count == last) kill_this_process(); }>(s);
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "icecore/store.hpp"
#include "store/core.hpp"

namespace icecore::testing {

[[noreturn]] inline void kill_this_process() {
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

/// `Step` is called from any thread of this process.
template <auto Step>
void call_at_line_functions(const store& of) {
  of.core().the_pool().persist().replace_line_functions([](const void*, std::size_t) { Step(); },
                                                        [] {
                                                          Step();
                                                          std::atomic_thread_fence(std::memory_order_seq_cst);
                                                        });
}

}  // namespace icecore::testing

// Where the threads of a process are, told by that process itself on the standard error output: of one that waits for
// ever, what it waits for.
//
//   let_stacks_be_printed();              // before the children are forked
//   print_stacks_of(child.pid());       // returns when they had time to tell
//
// What stands there are the program's addresses and exported names. Threads: print_stacks_of(), any.
#pragma once

#include <sys/types.h>

namespace icecore::testing {

/// From now on this process and its children tell their stacks when they are asked to.
void let_stacks_be_printed();
void print_stacks_of(pid_t process);

/// The calling thread's stack, on the standard error output. May be called in a signal handler once
/// let_stacks_be_printed() has been called.
void print_stack() noexcept;

}  // namespace icecore::testing

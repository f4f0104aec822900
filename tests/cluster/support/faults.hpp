// Failures of memory and of MPI, one at a time, where a test wants them: this program's own operator new, and its own
// MPI_Isend and the like in front of MPI's (the profiling interface of the standard).
//
//   faults::arm(fault::send, 3);              // the fourth from now on fails, once, in whichever thread
//   ...
//   if (faults::disarm()) ...                 // it did
//
// Threads: any number while armed; arm and disarm by one.
#pragma once

#include <cstddef>

namespace icecore::testing {

enum class fault {
  allocation,
  send,     ///< of a message, or the beginning of a collective call
  receive,  ///< of a message
  look,     ///< for a message, or whether something is done
  request,  ///< not an error here: a request loses its end on its way
};
[[nodiscard]] const char* name_of(fault kind);

class faults {
 public:
  static void arm(fault kind, long number);
  /// Arms it when this rank begins its next reduction: what comes before, other ranks cannot be told of.
  static void arm_at_reduction(fault kind, long number);
  /// Returns whether it has happened, when the thread in which it did has seen to it. A thread of a cluster has then
  /// called MPI again, of which it must have other ranks.
  static bool disarm();

  /// Of the messages that this rank began to send since forget_sends(), the longest one's bytes.
  static std::size_t longest_send();
  static void forget_sends();
};

}  // namespace icecore::testing

// Messages of any size between ranks.
//
//   messages m(all, message_bytes_max);                   // `all` is a team
//   m.receive(to, bytes, other, tag);
//   m.send(from, bytes, other, tag);
//   m.wait();
//
// Threads: by one thread of a rank at a time.
// Errors: those of team.hpp.
// Interfaces: MPI's counts are int, so larger data is sent as several messages in order.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "cluster/gather/ranks/team.hpp"

namespace icecore::ranks {

/// Messages under way. Both sides must use the same `message_bytes_max`.
class messages {
 public:
  messages(const team& all, std::size_t message_bytes_max);
  ~messages();  ///< waits for what is under way, because its memory may be freed next
  messages(const messages&) = delete;
  messages& operator=(const messages&) = delete;

  /// Allocates the memory that a message of this size needs here.
  void reserve(std::size_t bytes);
  /// If `bytes` is 0, no message is sent or expected. The memory is in use until wait() has returned.
  void send(const void* from, std::size_t bytes, int to_rank, int tag);
  void receive(void* to, std::size_t bytes, int from_rank, int tag);
  void wait();

 private:
  const team* all_;
  std::size_t message_bytes_max_;
  std::vector<MPI_Request> requests_;
};

}  // namespace icecore::ranks

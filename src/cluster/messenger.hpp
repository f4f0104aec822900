// Messages between the ranks of a communicator: sends that never block, receives that are never another thread's.
//
//   messenger m(comm);                       // a duplicate of the caller's communicator
//   m.send(3, request_tag, bytes);
//   if (auto request = m.receive_request()) ...
//
// Invariants:
//   M1 No call waits for another rank. What is not sent or received yet is looked at again by later calls.
//   M2 A message that was probed is received by the thread that probed it (matched probes).
//   M3 Nothing relies on the order of two messages: each waits for its answer before the next that depends on it.
// Threads: any number where MPI was started with MPI_THREAD_MULTIPLE, else one.
// Errors: errc::mpi if an MPI call fails, errc::value_too_large for messages of more than 2 GiB - 1 bytes.
#pragma once

#include <mpi.h>

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::mpi {

/// Requests have this tag; answers the one that the request named, which is greater.
inline constexpr int request_tag = 1;

/// Throws errc::mpi unless `result` is MPI_SUCCESS.
void check(int result, const char* call);

/// Bytes received: memory that nobody wrote to before.
class received_bytes {
 public:
  explicit received_bytes(std::size_t size) : bytes_(std::make_unique_for_overwrite<char[]>(size)), size_(size) {}
  [[nodiscard]] char* data() noexcept { return bytes_.get(); }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

/// A message that was matched and whose bytes may still be on their way.
class arriving {
 public:
  arriving(MPI_Message& matched, const MPI_Status& status);

  /// Whether all of it is here.
  [[nodiscard]] bool arrived();
  [[nodiscard]] int source() const noexcept { return source_; }
  /// Precondition: arrived().
  [[nodiscard]] received_bytes take() noexcept { return std::move(bytes_); }

 private:
  int source_;
  received_bytes bytes_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

struct message {
  int source;
  received_bytes bytes;
};

class messenger {
 public:
  explicit messenger(MPI_Comm comm);

  /// Begins to send; the bytes live until they are sent.
  void send(int to, int tag, std::shared_ptr<const std::string> bytes);
  /// Looks after what is being sent. Returns whether nothing is any more.
  bool finish_sends();

  /// The next request that has arrived whole, from any rank.
  [[nodiscard]] std::optional<message> receive_request();
  /// The answer with this tag, once it begins to arrive.
  [[nodiscard]] std::optional<arriving> match(int from, int tag) const;

  /// A tag that no other answer to this rank has at the moment.
  [[nodiscard]] int lease_tag();
  void return_tag(int tag) noexcept;

 private:
  struct sending {
    MPI_Request request;
    std::shared_ptr<const std::string> bytes;
  };

  MPI_Comm comm_;
  std::mutex sends_mutex_;
  std::list<sending> sends_;
  std::mutex receives_mutex_;
  std::list<arriving> receives_;  // requests that are longer than what MPI sends at once
  std::mutex tags_mutex_;
  std::vector<int> free_tags_;
  int next_tag_ = request_tag + 1;
};

}  // namespace icecore::mpi

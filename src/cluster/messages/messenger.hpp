// Messages between the ranks of a communicator. Sends never block, and a thread never receives a message that another
// thread has probed.
//
//   messenger m(comm);                       // a duplicate of the caller's communicator
//   m.send(3, request_tag, bytes);
//   if (auto request = m.receive_request()) ...
//
// Invariants:
//   M1 No call waits for another rank. Later calls continue the sends and receives that are not complete yet.
//   M2 A message that was probed is received by the thread that probed it (matched probes).
//   M3 No code relies on the order of two messages: a sender waits for the answer to a message before it sends one that
//      depends on it.
//   M4 Memory that MPI sends from or receives into exists until the operation is done. If no thread waits for it any
//      more, the memory is kept until the process ends.
//   M5 A rank that fails notifies all others without allocating memory: the memory of the notices is allocated in
//      advance.
// Threads: any number where MPI was started with MPI_THREAD_MULTIPLE, else one.
// Errors: errc::mpi if an MPI call fails, errc::value_too_large for messages of more than 2 GiB - 1 bytes.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/gather/ranks/failure.hpp"
#include "cluster/gather/ranks/request_memory.hpp"
#include "cluster/gather/ranks/team.hpp"

namespace icecore::mpi {

/// Requests have the first of these tags, notices of failure the second. An answer has the tag that its request named,
/// which is greater.
inline constexpr int request_tag = 1;
inline constexpr int failure_tag = 2;
inline constexpr int reply_tag_min = 3;
inline constexpr int reply_tag_max = 32'767;  // every MPI allows tags up to this

/// Throws errc::mpi unless `result` is MPI_SUCCESS.
inline void check(int result, const char* call) { ranks::check_mpi(result, call); }

/// Bytes received.
class received_bytes {
 public:
  explicit received_bytes(std::size_t size) : memory_(size) {}
  [[nodiscard]] char* data() noexcept { return memory_.data(); }
  [[nodiscard]] std::string_view view() const noexcept { return {memory_.data(), memory_.size()}; }
  void abandon() noexcept { memory_.abandon(); }

 private:
  ranks::request_memory memory_;
};

/// A message that was matched and whose bytes may not have arrived yet.
class arriving {
 public:
  arriving(MPI_Message& matched, const MPI_Status& status);
  ~arriving();
  arriving(arriving&& from) noexcept;
  arriving& operator=(arriving&& from) noexcept;

  /// Whether all of it has arrived.
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

/// What a rank that fails sends to all others.
struct notice {
  std::int32_t rank = 0;
  ranks::failure why{};
};

class messenger {
 public:
  explicit messenger(MPI_Comm comm);
  ~messenger();
  messenger(const messenger&) = delete;
  messenger& operator=(const messenger&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Begins to send and keeps the bytes until they are sent. If it throws, nothing is sent.
  void send(int to, int tag, std::shared_ptr<const std::string> bytes);
  /// Continues pending sends. Returns whether all are complete.
  bool finish_sends();

  /// The next request, from any rank, that has arrived completely.
  [[nodiscard]] std::optional<message> receive_request();
  /// The answer with this tag, once it begins to arrive.
  [[nodiscard]] std::optional<arriving> match(int from, int tag) const;

  /// Notifies all other ranks, once (M5). resend_notices() retries the ranks that cannot be reached now.
  void report_failure(const ranks::failure& why) noexcept;
  /// Returns whether all notices are sent.
  bool resend_notices() noexcept;
  /// The failure that another rank reported, if there is one.
  [[nodiscard]] std::optional<notice> receive_notice();
  /// Stops receiving notices. Called before MPI ends.
  void stop() noexcept;

  /// A tag that no other pending answer to this rank has.
  [[nodiscard]] int lease_tag();
  void return_tag(int tag) noexcept;

 private:
  struct sending {
    MPI_Request request;
    std::shared_ptr<const std::string> bytes;
  };
  struct notifying {
    int to;
    bool begun = false;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void expect_notice();
  /// Keeps the memory of sends that may be under way until the process ends (M4).
  static void abandon(std::list<sending>& all) noexcept;

  MPI_Comm comm_;
  int rank_ = 0;
  std::mutex sends_mutex_;
  std::list<sending> sends_;
  std::mutex receives_mutex_;
  std::list<arriving> receives_;  // requests longer than what MPI sends at once
  ranks::request_memory notice_;
  MPI_Request noticing_ = MPI_REQUEST_NULL;
  std::mutex notices_mutex_;
  ranks::request_memory own_notice_;
  std::vector<notifying> notices_;  // to all other ranks
  bool failure_reported_ = false;
  std::mutex tags_mutex_;
  std::vector<int> free_tags_;
  int next_tag_ = reply_tag_min;
};

}  // namespace icecore::mpi

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
//   M4 What MPI sends from or receives into stays in memory until it is done. If nobody waits for that any more, it
//      stays until the process ends.
//   M5 A rank that fails tells all others without taking memory: the notices' memory was taken before.
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

/// Requests have the first of these tags, notices of failure the second; answers the one that the request named, which
/// is greater.
inline constexpr int request_tag = 1;
inline constexpr int failure_tag = 2;
inline constexpr int reply_tag_min = 3;
inline constexpr int reply_tag_max = 32'767;  // what every MPI allows

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

/// A message that was matched and whose bytes may still be on their way.
class arriving {
 public:
  arriving(MPI_Message& matched, const MPI_Status& status);
  ~arriving();
  arriving(arriving&& from) noexcept;
  arriving& operator=(arriving&& from) noexcept;

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

/// What a rank that fails tells all others.
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
  /// Begins to send; the bytes live until they are sent. If it throws, nothing is sent.
  void send(int to, int tag, std::shared_ptr<const std::string> bytes);
  /// Looks after what is being sent. Returns whether nothing is any more.
  bool finish_sends();

  /// The next request that has arrived whole, from any rank.
  [[nodiscard]] std::optional<message> receive_request();
  /// The answer with this tag, once it begins to arrive.
  [[nodiscard]] std::optional<arriving> match(int from, int tag) const;

  /// Tells all other ranks, once (M5). Those it does not reach now, resend_notices() tries again.
  void tell_failure(const ranks::failure& why) noexcept;
  /// Returns whether all are sent.
  bool resend_notices() noexcept;
  /// What another rank told of its failure, if any did.
  [[nodiscard]] std::optional<notice> receive_notice();
  /// Notices are received no more. Before MPI ends.
  void stop() noexcept;

  /// A tag that no other answer to this rank has at the moment.
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
  /// Keeps until the process ends what may still be on its way (M4).
  static void abandon(std::list<sending>& all) noexcept;

  MPI_Comm comm_;
  int rank_ = 0;
  std::mutex sends_mutex_;
  std::list<sending> sends_;
  std::mutex receives_mutex_;
  std::list<arriving> receives_;  // requests that are longer than what MPI sends at once
  ranks::request_memory notice_;
  MPI_Request noticing_ = MPI_REQUEST_NULL;
  std::mutex notices_mutex_;
  ranks::request_memory own_notice_;
  std::vector<notifying> notices_;  // to all other ranks
  bool told_ = false;
  std::mutex tags_mutex_;
  std::vector<int> free_tags_;
  int next_tag_ = reply_tag_min;
};

}  // namespace icecore::mpi

// One request to another rank and its answer.
//
//   remote_call call(progress, 3, request.take());
//   unpacker answer = call.answer();                 // waits; throws what the owner threw
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cluster/messages/progress.hpp"
#include "cluster/messages/wire.hpp"

namespace icecore::mpi {

class remote_call {
 public:
  /// Sends `request` (made by a packer for a kind). If that fails, only the request's reply tag has changed.
  remote_call(progress& running, int owner, const std::shared_ptr<std::string>& request);
  remote_call(progress& running, int owner, std::string request)
      : remote_call(running, owner, std::make_shared<std::string>(std::move(request))) {}
  /// Waits for the answer if no call did: otherwise a later call could take the late answer for its own.
  ~remote_call();
  remote_call(const remote_call&) = delete;
  remote_call& operator=(const remote_call&) = delete;

  /// Whether the answer is here; does not wait.
  [[nodiscard]] bool answered();
  /// Waits for the answer. Views into it live as long as this object. Throws the error that the owner answered with.
  [[nodiscard]] unpacker answer();

  /// The complete answer. Precondition: answer() has returned. This object has no answer afterwards.
  [[nodiscard]] received_bytes take() noexcept { return std::move(*answer_); }
  [[nodiscard]] const std::string& request() const noexcept { return *request_; }

 private:
  bool look();

  progress& running_;
  int owner_;
  int tag_;
  std::shared_ptr<const std::string> request_;
  std::optional<arriving> arriving_;
  std::optional<received_bytes> answer_;
};

/// The first byte of an answer, which says whether an error follows.
enum class outcome : std::uint8_t { done = 0, failed = 1 };

/// Packs the exception that is being handled as an answer.
[[nodiscard]] std::string pack_current_exception();

}  // namespace icecore::mpi

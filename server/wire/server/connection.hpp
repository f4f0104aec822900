// What a service sees of the wire: connections, requests, and the interface that it implements.
//
//   class echo : public frame_handler {
//     admission admit(const hello&, const std::string&) override { return {.accepted = true}; }
//     void on_request(request&& asked) override { asked.answer(status_ok, byte_buffer(asked.payload())); }
//   };
//
// Threads: on_open, on_request and on_close of one connection are called by its I/O thread, one at a time; those of
// different connections at the same time. None of them may block: others wait for it. A request may be moved to another
// thread and answered there. Answers and frames arrive in the order in which they were sent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "wire/format/byte_buffer.hpp"
#include "wire/format/frame.hpp"
#include "wire/format/frame_payload.hpp"
#include "wire/format/handshake.hpp"

namespace icecore::wire {

/// A client, from its welcome to its end. All functions may be called by any thread, also after the end.
class connection : public std::enable_shared_from_this<connection> {
 public:
  connection() = default;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection() = default;

  /// The handle in the headers of its frames: unique among open connections.
  [[nodiscard]] virtual std::uint32_t handle() const noexcept = 0;
  /// Its address, for logs.
  [[nodiscard]] virtual const std::string& peer() const noexcept = 0;
  /// What admission has made for it.
  [[nodiscard]] virtual const std::shared_ptr<void>& session() const noexcept = 0;
  [[nodiscard]] virtual bool open() const noexcept = 0;

  /// Sends a frame that nobody asked for (a watch's change). Nothing happens if the connection has ended.
  virtual void send(std::uint16_t operation, std::uint16_t status, byte_buffer payload) = 0;
  /// Ends the connection; the peer is told why.
  virtual void close(close_reason reason, std::string text) = 0;

 protected:
  friend class request;
  /// Sends one part of an answer. With the last one the request, which was `charged` so many bytes, is no longer under
  /// way.
  virtual void send_part(const frame_header& header, frame_payload payload, std::uint64_t charged) = 0;
};

/// A request that is to be answered once. Destroyed without an answer, it is answered with status_dropped, so a client
/// never waits for an answer that was forgotten. One thread at a time.
class request {
 public:
  /// A request whose payload is borrowed: it lives until the call of on_request returns.
  request(std::shared_ptr<connection> from, const frame_header& header, std::span<const std::byte> borrowed,
          std::uint64_t charged)
      : from_(std::move(from)), header_(header), payload_(borrowed), charged_(charged) {}
  request(std::shared_ptr<connection> from, const frame_header& header, byte_buffer owned, std::uint64_t charged)
      : from_(std::move(from)), header_(header), owned_(std::move(owned)), payload_(owned_.view()), charged_(charged) {}

  /// Whoever moves a request takes it out of on_request, so the new one owns its payload: a copy if it was borrowed.
  request(request&& other);
  request& operator=(request&& other) = delete;
  ~request();

  [[nodiscard]] std::uint16_t operation() const noexcept { return header_.operation; }
  [[nodiscard]] std::uint32_t database() const noexcept { return header_.database; }
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return payload_; }
  [[nodiscard]] connection& from() const noexcept { return *from_; }
  /// For whoever has read it: a request that is moved away afterwards copies nothing.
  void forget_payload() noexcept { payload_ = {}; }

  /// One part of a long answer, another one follows. Parts reach the client's code in the order of these calls.
  void answer_part(frame_payload payload);
  /// The answer, or its last part. The request is done with.
  void answer(std::uint16_t status, frame_payload payload = {});

 private:
  std::shared_ptr<connection> from_;  // null: answered, or moved away
  frame_header header_;
  byte_buffer owned_;
  std::span<const std::byte> payload_;
  std::uint64_t charged_;
  std::uint32_t parts_ = 0;
};

/// Whether a client may connect, decided by the service once the job's token was right.
struct admission {
  bool accepted = false;
  close_reason reason = close_reason::wrong_token;  ///< if not
  std::string text{};                               ///< what a refused client is told
  std::string group{};                              ///< what an accepted one is told about the group
  std::shared_ptr<void> session{};                  ///< the service's own, kept with the connection
};

/// What the service implements.
class frame_handler {
 public:
  virtual ~frame_handler() = default;

  /// Called by the thread that accepts connections: a slow check delays other newcomers and nobody else.
  [[nodiscard]] virtual admission admit(const hello& said, const std::string& peer) = 0;
  virtual void on_open(const std::shared_ptr<connection>& /*opened*/) {}
  virtual void on_request(request&& asked) = 0;
  virtual void on_close(connection& /*closed*/, close_reason /*reason*/) {}
  /// A line for the log, at most one a second. By any thread.
  virtual void on_warning(const std::string& /*text*/) {}
};

}  // namespace icecore::wire

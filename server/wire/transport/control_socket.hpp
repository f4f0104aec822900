// TCP sockets of the handshake: listening, connecting with a deadline, records in and out. None of the sockets blocks.
//
//   control_socket socket = connect_to({.host = "node7", .port = 4711}, deadline);
//   socket.write_all(encode(hello).view(), deadline);
//
// A socket that stands tells within some 20 seconds that the other machine is gone (TCP keepalive and user timeout),
// and at once that the other process is. Threads: one at a time. Errors: wire::failure from what makes sockets, a bool
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "wire/format/handshake.hpp"

namespace icecore::wire {

using steady_time = std::chrono::steady_clock::time_point;

/// An open file descriptor, closed with its owner.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();

  [[nodiscard]] int number() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct socket_address {
  std::string host{};
  std::uint16_t port = 0;
};

/// "host:port", "[v6 address]:port". Throws wire::failure if `text` is neither.
[[nodiscard]] socket_address parse_address(const std::string& text);

/// A descriptor that one thread writes to in order to wake another one that polls it.
class wake_up {
 public:
  wake_up();
  void ring() const noexcept;
  void silence() const noexcept;
  [[nodiscard]] int number() const noexcept { return event_.number(); }

 private:
  descriptor event_;
};

/// Listens at an address; port 0 takes a free one, which `address` then has.
[[nodiscard]] descriptor listen_at(socket_address& address);

enum class read_state : std::uint8_t { open, ended };

/// A socket with the bytes that were read from it and belong to no whole record yet.
class control_socket {
 public:
  control_socket() = default;
  /// Takes over a connected socket, which from here on does not block.
  explicit control_socket(descriptor socket);

  [[nodiscard]] int number() const noexcept { return socket_.number(); }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
  [[nodiscard]] std::string peer() const;

  /// Takes what has arrived, but never more than a record of `body_bytes_max` needs. `ended`: the peer is gone.
  [[nodiscard]] read_state read_some(std::size_t body_bytes_max);
  [[nodiscard]] std::span<const std::byte> unread() const noexcept { return bytes_.view(); }
  /// The record at the front is done with; what was read behind it moves up.
  void consume(std::size_t record_bytes);

  /// Writes all of `bytes` at once or, where the socket is full, not at all or in part: false, and the socket is
  /// useless.
  [[nodiscard]] bool write_now(std::span<const std::byte> bytes) noexcept;
  /// Writes, and waits for the socket as long as `deadline` allows.
  [[nodiscard]] bool write_all(std::span<const std::byte> bytes, steady_time deadline) noexcept;
  /// The next record, if all of it is there. Throws wire::failure when the peer says goodbye or is gone.
  [[nodiscard]] std::optional<record_kind> take_record(byte_buffer& body);
  /// Waits for the next record. Throws as take_record() does, and when the peer sends no record in time.
  [[nodiscard]] record_kind read_record(byte_buffer& body, steady_time deadline);
  /// Throws the wire::failure of a server that was waited for too long.
  [[noreturn]] void raise_too_slow() const;

  void close() noexcept { socket_ = descriptor(); }

 private:
  descriptor socket_;
  byte_buffer bytes_;
};

/// Connects. Throws wire::failure with the address and the system's reason.
[[nodiscard]] control_socket connect_to(const socket_address& address, steady_time deadline);

/// Milliseconds until `deadline`, rounded up, at most `at_most_ms`; 0 if it has passed.
[[nodiscard]] int milliseconds_until(steady_time deadline, int at_most_ms) noexcept;

}  // namespace icecore::wire

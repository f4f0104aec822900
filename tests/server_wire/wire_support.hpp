// What the tests of the wire share: a service that answers in known ways, its server, clients, and a peer that
// misbehaves.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "wire/client/client_endpoint.hpp"
#include "wire/format/fields.hpp"
#include "wire/server/server_endpoint.hpp"
#include "wire/transport/failure.hpp"

namespace icecore::wire::testing {

inline const std::string job_token = "the token of this test";

enum operation : std::uint16_t {
  echo = 1,   ///< the payload comes back
  fill = 2,   ///< as many bytes as the payload's number says, sent from two places
  parts = 3,  ///< as many parts as it says, the i-th of i bytes and every third one of 20,000, then an empty last one
  hold = 4,   ///< answered when let_go() is called
  drop = 5,   ///< let go without an answer
  elsewhere = 6,  ///< echoed by another thread
  push = 7,       ///< a frame is sent unasked, then the request is answered
};

inline steady_time in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
/// What comes later does not come: 64 MiB and back take ThreadSanitizer ten seconds on an idle machine.
inline steady_time soon() { return in(std::chrono::seconds(90)); }

inline byte_buffer number(std::uint32_t value) {
  byte_buffer made;
  field_writer(made).u32(value);
  return made;
}

/// The bytes from `begin` on of a pattern.
inline void write_pattern(std::span<std::byte> to, std::size_t begin, unsigned seed = 0) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(((begin + i) * 131 + seed) >> 3);
}

inline byte_buffer pattern(std::size_t bytes, unsigned seed = 0) {
  byte_buffer made(bytes);
  write_pattern({made.data(), bytes}, 0, seed);
  return made;
}

/// The same bytes, at most a third of them in one place and the others elsewhere.
inline frame_payload pattern_in_two_rows(std::size_t bytes) {
  byte_buffer fields = pattern(std::min<std::size_t>(bytes / 3, 10'000));
  std::string behind(bytes - fields.size(), '\0');
  write_pattern(std::as_writable_bytes(std::span(behind)), fields.size());
  return {std::move(fields), std::move(behind)};
}

inline bool same(const byte_buffer& a, const byte_buffer& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

class service final : public frame_handler {
 public:
  ~service() override {
    for (std::thread& each : threads_) each.join();
  }

  admission admit(const hello& said, const std::string&) override {
    if (said.user == "stranger") return {.text = "no such user"};
    if (!said.group.empty() && said.group != "group 1") {
      return {.reason = close_reason::other_group, .text = "this is group 1"};
    }
    return {.accepted = true, .group = "group 1", .session = std::make_shared<std::string>(said.user)};
  }

  void on_request(request&& asked) override {
    std::uint32_t told = 0;
    field_reader fields(asked.payload());
    switch (asked.operation()) {
      case echo:
        return asked.answer(status_ok, byte_buffer(asked.payload()));
      case fill:
        return fields.u32(told) ? asked.answer(status_ok, pattern_in_two_rows(told)) : asked.answer(1);
      case parts:
        if (!fields.u32(told)) return asked.answer(1);
        for (std::uint32_t i = 0; i < told; ++i) asked.answer_part(pattern(i % 3 == 0 ? 20'000 : i, i));
        return asked.answer(status_ok);
      case hold: {
        const std::lock_guard lock(mutex_);
        held_.push_back(std::move(asked));
        changed_.notify_all();
        return;
      }
      case drop:
        return;
      case elsewhere: {
        const std::lock_guard lock(mutex_);
        threads_.emplace_back([mine = std::make_shared<request>(std::move(asked))] {
          mine->answer(status_ok, byte_buffer(mine->payload()));
        });
        return;
      }
      case push:
        asked.from().send(push, 7, byte_buffer(asked.payload()));
        return asked.answer(status_ok);
      default:
        return asked.answer(1);
    }
  }

  void on_close(connection&, close_reason reason) override {
    const std::lock_guard lock(mutex_);
    closed_.push_back(reason);
    changed_.notify_all();
  }

  void on_warning(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    warnings.push_back(text);
  }

  bool wait_until_held(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return held_.size() >= count; });
  }

  void let_go() {
    std::vector<request> released;
    {
      const std::lock_guard lock(mutex_);
      released.swap(held_);
    }
    for (request& each : released) each.answer(status_ok, byte_buffer(each.payload()));
  }

  /// The reason for which the next connection ended, once one has.
  close_reason wait_for_close() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, soon(), [&] { return !closed_.empty(); })) return close_reason::none;
    const close_reason first = closed_.front();
    closed_.erase(closed_.begin());
    return first;
  }

  std::size_t warning_count() {
    const std::lock_guard lock(mutex_);
    return warnings.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<request> held_;
  std::vector<close_reason> closed_;
  std::vector<std::string> warnings;
  std::vector<std::thread> threads_;
};

inline server_settings settings_of_server(transport way = transport::shared_memory) {
  server_settings made;
  made.token = job_token;
  made.ucx.way = way;
  return made;
}

inline server_settings settings_with_little_memory(transport way) {
  server_settings made = settings_of_server(way);
  made.limits.bytes_all_max = 100'000'000;
  made.limits.connections_max = 100;
  made.limits.frame_ms = made.limits.not_reading_ms = 1200;
  return made;
}

inline client_settings settings_of_client(const server_endpoint& server, transport way = transport::shared_memory) {
  client_settings made;
  made.address = server.address();
  made.token = job_token;
  made.name = "a test";
  made.ucx.way = way;
  return made;
}

/// A TCP socket at the server's door that says whatever it likes.
class raw_peer {
 public:
  explicit raw_peer(const server_endpoint& server) : socket_(connect_to(server.address(), soon())) {}

  void say(std::span<const std::byte> bytes) { static_cast<void>(socket_.write_all(bytes, soon())); }
  void say(std::string_view text) { say(std::as_bytes(std::span(text))); }
  /// Reads until the server ends the connection; why it says it does. none: it said nothing.
  close_reason listen() {
    try {
      byte_buffer body;
      for (;;) static_cast<void>(socket_.read_record(body, soon()));
    } catch (const failure& told) {
      return told.reason();
    }
  }
  control_socket& socket() { return socket_; }
  /// Ends the socket without a word, as the kernel does for a killed process.
  void vanish() { socket_.close(); }

 private:
  control_socket socket_;
};

}  // namespace icecore::wire::testing

// Which users call on which connections: the limit `connections_per_user`. A connection counts for each user who has
// called on it, until it is closed.
//
//   connection_users users(limits.connections_per_user);
//   users.opened("127.0.0.1:40000", 7);                   // by the listener: the 7th connection
//   users.use("ipv4:127.0.0.1:40000", "ann");             // by a call; errc::limit_reached
//   users.closed("127.0.0.1:40000", 7);
//
// gRPC tells a call its connection's address and nothing else. An address can come again before the listener has seen
// that its connection is closed, hence the number. Threads: any. Without a limit nothing is remembered.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace icecore::doors {

class connection_users {
 public:
  /// `most` 0: no limit.
  explicit connection_users(std::uint64_t most) : most_(most) {}

  void opened(const std::string& address, std::uint64_t number);
  void closed(const std::string& address, std::uint64_t number);
  void use(std::string_view peer, const std::string& user);
  [[nodiscard]] bool is_limited() const noexcept { return most_ != 0; }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  /// The address in what gRPC calls a peer: "ipv6:%5B::1%5D:40000" is "::1:40000".
  [[nodiscard]] static std::string address_of(std::string_view peer);

 private:
  struct connection {
    std::uint64_t number;
    std::vector<std::string> users;
  };
  void forget(const connection& gone);

  const std::uint64_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, connection> connections_;
  std::unordered_map<std::string, std::uint64_t> used_;  ///< connections of each user; none is 0
  std::atomic<std::uint64_t> refused_{0};                // relaxed: only shown
};

}  // namespace icecore::doors

// Two network namespaces, joined by a program that forwards IP packets and treats them as a bad network does. Linux's
// own emulator (tc netem) is not in every kernel; this needs TUN devices alone.
//
//   emulated_network net;                               // the calling thread is the client's machine from now on
//   server_process server(folder, {.host = net.server_address, .in_child = [&] { net.join_as_server(); }});
//   net.become({.loss = 0.2, .jitter = 100ms});         // in both directions
//   net.become({.to_server = false, .to_client = false});   // a partition
//   net.reset_connections();                            // RST to both ends of every connection that sends something
//
//   client's namespace          this process' thread          server's namespace
//   10.77.0.1, 127.77.0.1  --  TUN  -- forwarder --  TUN  --  10.77.0.2, 127.77.0.2
//
// The second pair of addresses is for doors that listen on loopback addresses alone unless they have TLS and users.
// Both kernels compute all checksums, so a packet is forwarded as it is. A queue holds what is delayed: a packet with
// less delay overtakes one with more, so jitter reorders, as netem's does.
// Threads: the constructor moves the calling thread, and all that it starts later, into the client's namespaces
// (network
//   and mounts: UCX looks for devices in /sys); construct it before anything else starts threads, once a process. All
//   else: any thread.
// Errors: std::system_error where the kernel or the rights lack what it needs; possible() tells that before.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace icecore::network {

struct condition {
  double loss = 0;  // shares of all packets
  double duplicates = 0;
  double reordered = 0;  // these wait for `reordering`, which those behind them do not
  std::chrono::milliseconds delay{0};
  std::chrono::milliseconds jitter{0};  // more delay, up to this, for each packet by itself
  std::chrono::milliseconds reordering{20};
  bool to_server = true;  // whether anything arrives there
  bool to_client = true;
};

struct counts {
  std::uint64_t forwarded, lost, duplicated, reordered, resets;
};

class emulated_network {
 public:
  static constexpr const char* server_address = "10.77.0.2";
  static constexpr const char* server_loopback = "127.77.0.2";
  static constexpr const char* client_device = "ice1";
  static constexpr const char* server_device = "ice2";

  /// Why there can be none here; empty: there can.
  [[nodiscard]] static std::string why_not();

  emulated_network();
  ~emulated_network();
  emulated_network(const emulated_network&) = delete;
  emulated_network& operator=(const emulated_network&) = delete;

  void become(const condition& now);
  /// The next packet of each connection is lost, and both ends get an RST in its place.
  void reset_connections();
  /// The calling process becomes one of the server's machine.
  void join_as_server() const;
  [[nodiscard]] counts counted() const;

 private:
  using clock = std::chrono::steady_clock;
  using packet = std::vector<unsigned char>;
  enum class way : std::uint8_t { to_server, to_client };
  struct waiting {
    clock::time_point due;
    std::uint64_t number;  // of two that are due at once the earlier one goes first
    way to;
    packet bytes;
    bool operator<(const waiting& other) const noexcept {
      return due != other.due ? due > other.due : number > other.number;
    }
  };

  void forward();
  void read_all(int device, way to);
  void take(packet&& bytes, way to);
  bool reset(const packet& bytes, way to);
  void send_due();
  void send(const packet& bytes, way to) const;

  int client_device_ = -1;
  int server_device_ = -1;
  int server_namespace_ = -1;
  int wake_ = -1;
  mutable std::mutex mutex_;
  condition now_;
  std::uint64_t resetting_ = 0;  // how often reset_connections() was called
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>
      reset_up_to_;  // each connection, and by which of these calls
  counts counts_{};
  std::priority_queue<waiting> queue_;
  std::uint64_t numbers_ = 0;
  std::mt19937_64 random_{17};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace icecore::network

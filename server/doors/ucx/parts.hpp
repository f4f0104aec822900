// What all calls of one UCX door share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "doors/ucx/door.hpp"
#include "doors/ucx/session.hpp"
#include "service/executor.hpp"

namespace icecore::doors {

class user_connections : public std::enable_shared_from_this<user_connections> {
 public:
  /// `most` 0: no limit. errc::limit_reached, which `refused` counts.
  [[nodiscard]] user_share take(const std::string& user, std::uint64_t most, service::refusals& refused);
  void give_back(const std::string& user) noexcept;

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> used_;
};

/// The waits of watches that end by time: their clock looks 20 times a second.
class watch_clock {
 public:
  void add(std::chrono::steady_clock::time_point when, std::weak_ptr<open_watch> which);
  void look();

 private:
  std::mutex mutex_;
  std::multimap<std::chrono::steady_clock::time_point, std::weak_ptr<open_watch>> due_;
};

struct ucx_parts {
  ucx_parts(service::service& served, const ucx_door_options& opening);

  service::service& all;
  const ucx_door_options options;
  /// The group is of independent servers, so that a key may be another one's.
  const bool independent;
  /// Relaxed: whoever asks knows the port that was told, or has been told the one that was free.
  std::atomic<std::uint16_t> port{options.port};
  /// Where clients reach it, "host:port": a server that listens everywhere has the machine's name.
  [[nodiscard]] std::string address() const;
  service::executor lengthy;  ///< what takes time with the size of a database: few threads, so that the rest goes on
  std::shared_ptr<user_connections> by_user = std::make_shared<user_connections>();
  watch_clock clock;
  std::atomic<bool> stopping{false};  // relaxed: guards no other memory
  [[nodiscard]] bool is_stopping() const noexcept { return stopping.load(std::memory_order_relaxed); }

  // Calls that live longer than the function which received them.
  void opened() noexcept { kept_.fetch_add(1, std::memory_order_relaxed); }
  void closed() noexcept;
  void wait_until_all_closed();

  void add(const std::shared_ptr<ucx_session>& session);
  void remove(const std::shared_ptr<ucx_session>& session);
  void end_sessions(const service::failure& why);

 private:
  // Relaxed to count up, since whoever counts holds a request of a connection that is served, so that stop() has not
  // begun to wait. Release to count down and acquire to wait: what a call did is seen by whoever destroys the door.
  std::atomic<std::uint64_t> kept_{0};
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::set<std::shared_ptr<ucx_session>> sessions_;
};

}  // namespace icecore::doors

// One client that writes as fast as it is answered, and writes down what was acknowledged: afterwards the database must
// show all of that, and of what was not answered each thing once at most.
//
//   journal one({door::grpc, address}, "database", 0);
//   one.start();  ... trouble ...  one.stop();
//   one.compare(*fresh_way);                             // expectations of the test
//
// A value is written once, by one call: a key of its own, a part that is appended, a number that is counted up, and two
// keys in one transaction. So a call that takes effect twice shows.
// Threads: start() makes one; all else belongs to the caller's. compare() after stop().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ways/way.hpp"

namespace icecore::network {

class journal {
 public:
  using clock = std::chrono::steady_clock;

  journal(ways::destination to, std::string database, int number);
  ~journal() { stop(); }
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  void start();
  void stop();
  /// Answers so far.
  [[nodiscard]] std::uint64_t answered() const noexcept { return answered_; }
  /// When the last call that was answered was begun.
  [[nodiscard]] clock::time_point last_begun() const noexcept {
    return clock::time_point(clock::duration(last_begun_));
  }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
  [[nodiscard]] clock::duration longest_call() const noexcept { return longest_; }
  void compare(ways::way& shown) const;

 private:
  // What was asked, by number.
  struct asked {
    std::set<std::uint64_t> acknowledged;
    std::set<std::uint64_t> unknown;
  };

  void work();
  void step(std::uint64_t n);
  template <typename Call>
  bool call(asked& of, std::uint64_t n, const Call& what);
  [[nodiscard]] std::string key(const std::string& what) const { return what + "/" + name_; }
  [[nodiscard]] std::string key_of(std::uint64_t n) const { return key("only") + "/" + std::to_string(n); }
  void compare_log(const std::string& log) const;

  const ways::destination to_;
  const std::string name_;
  std::unique_ptr<ways::connection> connection_;
  std::unique_ptr<ways::way> database_;
  asked only_, appended_, counted_, pairs_;
  std::int64_t last_count_ = 0;
  std::vector<std::string> wrong_;
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<clock::rep> last_begun_{0};
  std::uint64_t lost_ = 0;
  clock::duration longest_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace icecore::network

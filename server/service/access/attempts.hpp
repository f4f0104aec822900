// Slows down who guesses passwords: each name has a bucket of attempts, which fills again with time.
//
//   attempts tried;                                  // 10 at once, then one in 3 s
//   tried.require("ann", now);                       // limit_reached if her bucket is empty: says how long to wait
//   tried.take("ann", now);  ...  tried.give_back("ann");    // a right password costs nothing
//
// The table has a fixed size: a name's bucket is chosen by a hash with a random key, so two names may share one, and
// nobody can make the table grow or choose whose bucket to share. Names of users and others are treated alike.
// Threads: any number. Cost: O(length of the name).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace icecore::service {

class attempts {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit attempts(unsigned burst = 10, std::chrono::milliseconds refill = std::chrono::seconds(3));

  /// errc::limit_reached if the name has no attempt left.
  void require(std::string_view name, time now);
  /// The same, and takes one.
  void take(std::string_view name, time now);
  void give_back(std::string_view name);

 private:
  // Full when `full_at` is past: then all attempts are there. Each one taken moves it by one refill.
  struct bucket {
    time full_at{};
  };
  bucket& of(std::string_view name);
  void require(const bucket& b, time now) const;

  const unsigned burst_;
  const std::chrono::milliseconds refill_;
  std::array<unsigned char, 16> key_{};
  std::mutex mutex_;
  std::vector<bucket> buckets_;
};

}  // namespace icecore::service

// The tokens that log-ins gave out: whose they are, and until when.
//
//   token_table t(12h);
//   const access_token given = t.issue("ann", now);
//   if (const std::string* name = t.find(given.text, now)) ...
//   t.end_all_of("ann");                              // her password was changed
//
// Only the SHA-256 hashes of tokens are kept, in memory alone. One user has at most 1,000 tokens: a further one ends
// the oldest of them. All users together have at most 100,000: then errc::limit_reached, after those that are over were
// thrown away.
// Threads: the caller's lock (several threads may call find() at once). Cost: find O(1), issue O(log tokens).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "service/access.hpp"

namespace icecore::service {

class token_table {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit token_table(std::chrono::seconds lives, std::size_t of_one_user_max = 1000, std::size_t all_max = 100'000)
      : lives_(lives), of_one_user_max_(of_one_user_max), all_max_(all_max) {}

  [[nodiscard]] access_token issue(const std::string& name, time now);
  /// A new token that no table knows yet.
  [[nodiscard]] access_token make() const;
  /// What is kept of a token: 32 bytes. Tables of several servers know one token if each adds it.
  [[nodiscard]] static std::string kept_of(std::string_view token);
  /// errc::invalid_argument unless `kept` has 32 bytes.
  void add(const std::string& name, std::string_view kept, time now);
  /// Does nothing unless there is such a token.
  void end_kept(std::string_view kept);
  /// The name of the token's user, valid until the table changes; null if there is no such token, or it is over.
  [[nodiscard]] const std::string* find(std::string_view token, time now) const;
  void end(std::string_view token);
  void end_all_of(const std::string& name);
  [[nodiscard]] std::size_t size() const noexcept { return tokens_.size(); }

 private:
  using digest = std::array<unsigned char, 32>;
  struct digest_hash {
    // A digest is uniform already. Whoever knows tokens that collide has 2^32 of them.
    std::size_t operator()(const digest& d) const noexcept {
      std::size_t first = 0;
      std::memcpy(&first, d.data(), sizeof first);
      return first;
    }
  };
  struct entry {
    std::string name;
    time ends;
  };
  [[nodiscard]] static digest digest_of(std::string_view token);
  [[nodiscard]] static bool read(std::string_view kept, digest& into) noexcept;
  void end(const digest& which);
  void end_those_over(time now);

  const std::chrono::seconds lives_;
  const std::size_t of_one_user_max_;
  const std::size_t all_max_;
  std::unordered_map<digest, entry, digest_hash> tokens_;
  // Of each user who has tokens: all of them, the oldest first.
  std::unordered_map<std::string, std::deque<digest>> of_user_;
};

}  // namespace icecore::service

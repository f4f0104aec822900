// Passwords as scrypt hashes (RFC 7914), and the gate that bounds how many of them are computed at once.
//
//   password_gate gate(2, 64, 10s);
//   std::string kept = hash_password("secret");              // "scrypt$15$8$1$SALT$HASH"
//   { const password_gate::pass one = gate.enter(); right = matches("secret", kept); }
//
// A hash takes about 100 ms of one core and 32 MiB, so the gate is what bounds the memory of log-ins.
// Threads: any number. Errors: limit_reached of the gate; damaged if a kept hash is malformed; io if OpenSSL fails.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>

namespace icecore::service {

/// The longest password, in bytes.
inline constexpr std::size_t password_size_max = 1024;

/// A new salt each time. N = 2^15, r = 8, p = 1; salt 16 bytes, hash 32 bytes, both in base64url.
[[nodiscard]] std::string hash_password(std::string_view password);
/// The hash of no password that anybody knows, in O(1): what is compared where there is no user.
[[nodiscard]] std::string hash_of_nobody();
/// Whether this is the password. It takes the same time whatever the difference is.
[[nodiscard]] bool matches(std::string_view password, const std::string& kept);
/// errc::damaged unless `kept` is what hash_password() returns.
void check_hash(const std::string& kept);

/// A part of the random numbers of OpenSSL's generator. errc::io if it has none.
void fill_random(unsigned char* into, std::size_t size);
/// Base64 with the letters of URLs, without padding (RFC 4648, section 5).
[[nodiscard]] std::string to_base64url(std::string_view bytes);
/// False, and an unspecified `bytes`, if the text is none.
[[nodiscard]] bool from_base64url(std::string_view text, std::string& bytes);

/// At most `running` passes exist at once; at most `waiting` threads wait for one, each at most so long.
class password_gate {
 public:
  class pass {
   public:
    explicit pass(password_gate& gate) noexcept : gate_(gate) {}
    ~pass() { gate_.leave(); }
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;

   private:
    password_gate& gate_;
  };

  password_gate(unsigned running, unsigned waiting, std::chrono::milliseconds patience)
      : running_max_(running), waiting_max_(waiting), patience_(patience) {}

  /// errc::limit_reached if too many wait already, or the wait took too long.
  [[nodiscard]] pass enter();
  [[nodiscard]] unsigned waiting();

 private:
  void leave() noexcept;

  const unsigned running_max_;
  const unsigned waiting_max_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable left_;
  unsigned running_ = 0;
  unsigned waiting_ = 0;
};

}  // namespace icecore::service

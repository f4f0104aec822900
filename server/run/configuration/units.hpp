// Sizes, durations and addresses as people write them: "64 MiB", "250 ms", "127.0.0.1:7480".
//
//   parse_bytes("64 MiB")      -> 67108864             bytes_text(67108864)   -> "64 MiB"
//   parse_duration("250 ms")   -> 250000 µs            duration_text(250ms)   -> "250 ms"
//   parse_address("[::1]:80")  -> {"::1", 80}          address.text()         -> "[::1]:80"
//
// A text that means nothing, or more than 64 bits hold, is an empty optional. What is written is read as the same
// value. Threads: pure functions. Cost: O(length).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace icecore::server {

/// Where a door listens: a literal address or a name, and a port (0: any free one). Without a host the door is closed.
struct network_address {
  std::string host;  ///< without the brackets of IPv6
  std::uint16_t port = 0;

  [[nodiscard]] bool empty() const noexcept { return host.empty(); }
  /// Whether only this machine reaches it: 127.0.0.0/8, ::1 or localhost. Other names are not asked about.
  [[nodiscard]] bool is_loopback() const;
  /// HOST:PORT, [HOST]:PORT for IPv6, and nothing if it is empty.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const network_address&, const network_address&) = default;
};

/// A whole number, then nothing or B, KiB, MiB, GiB or TiB.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// A whole number, then us, ms, s, min or h.
[[nodiscard]] std::optional<std::chrono::microseconds> parse_duration(std::string_view text);
[[nodiscard]] std::string duration_text(std::chrono::microseconds duration);

/// HOST:PORT or [IPV6]:PORT. A host has letters, digits, '.', '-' and '_'.
[[nodiscard]] std::optional<network_address> parse_address(std::string_view text);

/// A whole number without a sign.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

}  // namespace icecore::server

// What a client and a server say on their control socket, a TCP connection of their own beside UCX.
//
//   client                                    server
//   hello: version, token, user, group   ──►  checks all of it
//                                        ◄──  welcome: handle, limits, group, address of a UCX worker;  or goodbye
//   address of the client's UCX worker   ──►  makes an endpoint, and waits until UCX has connected it
//                                        ◄──  ready
//   makes an endpoint, and waits likewise
//             … frames over UCX …
//                                        ◄──► goodbye: why the connection ends; or the end of the socket
//
// UCX trusts the bytes that it is given, so no byte of a peer reaches it before the token was compared. The socket then
// stays open: its end is how each side learns at once that the other process has died, which UCX does not tell over
// shared memory.
//
//   OFFSET  SIZE  MEANING, of a record
//        0     4  magic: the letters "ICWC"
//        4     2  kind: 1 hello, 2 welcome, 3 address, 4 ready, 5 goodbye
//        6     2  bytes of the body
//        8        the body, fields (fields.hpp) in the order of the structs below
//
// Reading is made for hostile bytes: false in place of an exception, sizes checked before use. Cost: O(bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/format/byte_buffer.hpp"

namespace icecore::wire {

inline constexpr std::uint32_t record_magic = 0x43574349;  // "ICWC"
inline constexpr std::size_t record_header_bytes = 8;
inline constexpr std::size_t hello_bytes_max = 4096;  ///< body and all: what a stranger may make the server hold
inline constexpr std::size_t record_bytes_max = 0xFFFF;
inline constexpr std::uint32_t protocol_version = 1;

enum class record_kind : std::uint16_t { hello = 1, welcome = 2, address = 3, ready = 4, goodbye = 5 };

/// Why a connection ended, or did not begin. The numbers are part of the protocol: never renumber, only append.
enum class close_reason : std::uint16_t {
  none = 0,
  by_peer = 1,         ///< the other side closed it in peace
  lost = 2,            ///< the other process or the network is gone
  wrong_token = 3,     ///< the token is another job's, or the user may not connect: which one is not told
  other_group = 4,     ///< the client believes in another group of servers; the text tells this one's
  other_protocol = 5,  ///< the peer speaks another version of this protocol
  malformed = 6,       ///< bytes that no well-behaved peer sends: a short frame, a wrong magic, an unknown handle
  over_limit = 7,      ///< more requests or bytes under way than the welcome allows, or a frame too long
  not_reading = 8,     ///< it did not take its answers
  idle = 9,            ///< nothing came for as long as the server waits
  too_slow = 10,       ///< the handshake was not complete in time
  too_many_connections = 11,
  stopping = 12,  ///< the server stops
};
inline constexpr std::size_t close_reasons = 13;

[[nodiscard]] std::string_view describe(close_reason reason) noexcept;

struct hello {
  std::uint32_t version = protocol_version;
  std::string token{};  ///< of the job; both sides read it from the same place
  std::string user{};   ///< and its secret: whatever the service makes of them
  std::string secret{};
  std::string group{};  ///< the identity of the group that the client believes in; empty: it knows none yet
  std::string name{};   ///< of the program, for logs
};

struct welcome {
  std::uint32_t connection = 0;
  std::uint32_t frame_bytes_max = 0;
  std::uint32_t requests_in_flight_max = 0;
  std::uint64_t bytes_in_flight_max = 0;
  std::string group{};  ///< what the service tells about itself; the wire gives it no meaning
  std::vector<std::byte> worker_address{};
};

struct goodbye {
  close_reason reason = close_reason::by_peer;
  std::string text{};
};

/// One record, ready to be written.
[[nodiscard]] byte_buffer encode(const hello& said);
[[nodiscard]] byte_buffer encode(const welcome& said);
[[nodiscard]] byte_buffer encode(const goodbye& said);
[[nodiscard]] byte_buffer encode_address(std::span<const std::byte> worker_address);
[[nodiscard]] byte_buffer encode_ready();

/// Reads the body of a record.
[[nodiscard]] bool decode(std::span<const std::byte> body, hello& read);
[[nodiscard]] bool decode(std::span<const std::byte> body, welcome& read);
[[nodiscard]] bool decode(std::span<const std::byte> body, goodbye& read);
[[nodiscard]] bool decode_address(std::span<const std::byte> body, std::vector<std::byte>& worker_address);

struct record {
  record_kind kind{};
  std::span<const std::byte> body;
};

/// The record that begins `bytes`. `malformed` is set when no more bytes could make it one: a wrong magic or kind, or a
/// body above `body_bytes_max`. An empty answer without it: more bytes are needed.
[[nodiscard]] std::optional<record> next_record(std::span<const std::byte> bytes, std::size_t body_bytes_max,
                                                bool& malformed) noexcept;

/// Whether the secrets are equal. The time that takes depends on the length of `given` alone.
[[nodiscard]] bool same_secret(std::string_view expected, std::string_view given) noexcept;

}  // namespace icecore::wire

// A frame: 24 bytes of header, then a payload of fields. Requests and answers are frames; so is all that a server sends
// unasked. A long one comes in pieces: messages with the same header, each with the next part of the payload.
//
//   OFFSET  SIZE  MEANING
//        0     2  magic: the letters "IC"
//        2     1  format: 1
//        3     1  flags: 1 answer, 2 more parts of this answer follow, 4 sent unasked, 8 this message is a piece of its
//                 frame; the others are zero
//        4     2  operation: what is asked; an answer repeats it. The wire gives it no meaning.
//        6     2  status: of an answer, 0 or why it failed; of a request, 0
//        8     4  database: of a request, which one; of an answer, the number of this part, from 0
//       12     4  connection: the handle that the server gave in its welcome
//       16     4  request: a number that the client chose, unique among its requests under way
//       20     4  payload bytes: how long the payload is, in pieces the whole of it
//
// All numbers are little-endian. The header travels as the header of a UCX active message, the payload as its data.
//
// read_header() is made for hostile bytes: it checks everything that can be checked without knowing the connection, and
// never throws. Threads: functions here have no state. Cost: O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace icecore::wire {

inline constexpr std::uint16_t frame_magic = 0x4349;  // "IC"
inline constexpr std::uint8_t frame_format = 1;

inline constexpr std::uint8_t flag_answer = 1;
inline constexpr std::uint8_t flag_more_parts = 2;
inline constexpr std::uint8_t flag_unasked = 4;
inline constexpr std::uint8_t flag_piece = 8;

/// Longer payloads come in pieces of so many bytes, the last of what is left. A piece and its header fit one message of
/// UCX over shared memory and TCP (8 KiB), so nothing has to be put together inside UCX.
inline constexpr std::size_t piece_bytes = 8'000;

struct frame_header {
  std::uint16_t magic = frame_magic;
  std::uint8_t format = frame_format;
  std::uint8_t flags = 0;
  std::uint16_t operation = 0;
  std::uint16_t status = 0;
  std::uint32_t database = 0;
  std::uint32_t connection = 0;
  std::uint32_t request = 0;
  std::uint32_t payload_bytes = 0;
};
static_assert(sizeof(frame_header) == 24);
static_assert(offsetof(frame_header, magic) == 0 && offsetof(frame_header, format) == 2);
static_assert(offsetof(frame_header, flags) == 3 && offsetof(frame_header, operation) == 4);
static_assert(offsetof(frame_header, status) == 6 && offsetof(frame_header, database) == 8);
static_assert(offsetof(frame_header, connection) == 12 && offsetof(frame_header, request) == 16);
static_assert(offsetof(frame_header, payload_bytes) == 20);

/// Statuses that the wire itself answers with. What is above belongs to the services.
inline constexpr std::uint16_t status_ok = 0;
inline constexpr std::uint16_t status_busy = 0xFF01;      ///< the server holds as many bytes as it may: repeat later
inline constexpr std::uint16_t status_dropped = 0xFF02;   ///< the service let go of the request without an answer
inline constexpr std::uint16_t status_stopping = 0xFF03;  ///< the server stops and takes no new requests

enum class frame_defect : std::uint8_t {
  none,
  short_header,  ///< fewer bytes, or more, than a header has
  wrong_magic,
  unknown_format,
  unknown_flags,         ///< a bit without meaning, or two that exclude each other
  contradictory_length,  ///< the header tells another length than the message has; a piece is shorter, and not empty
  long_message,          ///< more bytes than a piece has
};

/// What is wrong with a frame, in words for a log.
[[nodiscard]] std::string_view describe(frame_defect defect) noexcept;

/// Reads the header of a message with `payload_bytes` bytes of data into `header`. Unless the answer is `none`,
/// `header` is not to be used.
[[nodiscard]] frame_defect read_header(std::span<const std::byte> bytes, std::size_t payload_bytes,
                                       frame_header& header) noexcept;

}  // namespace icecore::wire

// Frames on their way into an endpoint: puts the pieces of a long one together.
//
//   if (!input.under_way()) input.begin(header);  // or leave_out(header): a frame that is not wanted
//   if (input.add(header, piece) == frame_input::state::whole) deliver(header, input.take());
//
// Invariant: the pieces of a frame come one after the other, nothing in between, since UCX keeps the order of a
// connection's messages and frame_output sends them so.
//
// Memory: that of the whole payload is reserved with the first piece, so whoever limits it asks before begin().
// Threads: one at a time. Errors: std::bad_alloc from begin(). Cost: each byte is copied once.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "wire/format/byte_buffer.hpp"
#include "wire/format/frame.hpp"

namespace icecore::wire {

class frame_input {
 public:
  enum class state : std::uint8_t {
    more,      ///< pieces are missing
    whole,     ///< take() has the payload
    left_out,  ///< the last piece of a frame that is not wanted
    broken,    ///< a message that is not the next piece
  };

  /// Pieces are missing.
  [[nodiscard]] bool under_way() const noexcept { return left_ > 0; }
  /// Of the frame that is under way, and wanted.
  [[nodiscard]] bool wanted() const noexcept { return wanted_; }
  [[nodiscard]] const frame_header& header() const noexcept { return header_; }

  /// A frame begins whose pieces are kept.
  void begin(const frame_header& header) {
    payload_ = byte_buffer();
    payload_.reserve(header.payload_bytes);
    expect(header, true);
  }
  /// A frame begins whose pieces are passed over.
  void leave_out(const frame_header& header) noexcept { expect(header, false); }

  /// The next message, the first piece of a frame among them.
  [[nodiscard]] state add(const frame_header& header, std::span<const std::byte> piece) {
    if (piece.size() > left_ || std::memcmp(&header, &header_, sizeof header) != 0) return state::broken;
    left_ -= piece.size();
    if (wanted_) payload_.append(piece);
    if (left_ > 0) return state::more;
    return std::exchange(wanted_, false) ? state::whole : state::left_out;
  }

  /// The payload of a whole frame.
  [[nodiscard]] byte_buffer take() noexcept { return std::move(payload_); }

  /// Forgets what is under way.
  void clear() noexcept {
    payload_ = byte_buffer();
    left_ = 0;
    wanted_ = false;
  }

 private:
  void expect(const frame_header& header, bool wanted) noexcept {
    header_ = header;
    left_ = header.payload_bytes;
    wanted_ = wanted;
  }

  frame_header header_;
  byte_buffer payload_;
  std::size_t left_ = 0;  // bytes that are missing
  bool wanted_ = false;
};

}  // namespace icecore::wire

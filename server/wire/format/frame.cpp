#include "wire/format/frame.hpp"

#include <cstring>

namespace icecore::wire {

std::string_view describe(frame_defect defect) noexcept {
  switch (defect) {
    case frame_defect::none:
      return "nothing";
    case frame_defect::short_header:
      return "its header does not have 24 bytes";
    case frame_defect::wrong_magic:
      return "it does not begin with the magic of a frame";
    case frame_defect::unknown_format:
      return "its format is unknown";
    case frame_defect::unknown_flags:
      return "its flags are unknown";
    case frame_defect::contradictory_length:
      return "its header tells another length than it has";
    case frame_defect::long_message:
      return "it is longer than a piece";
  }
  return "unknown";
}

frame_defect read_header(std::span<const std::byte> bytes, std::size_t payload_bytes, frame_header& header) noexcept {
  if (bytes.size() != sizeof header) return frame_defect::short_header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != frame_magic) return frame_defect::wrong_magic;
  if (header.format != frame_format) return frame_defect::unknown_format;
  const bool answers = (header.flags & flag_answer) != 0;
  const bool unasked = (header.flags & flag_unasked) != 0;
  const bool parts = (header.flags & flag_more_parts) != 0;
  const bool piece = (header.flags & flag_piece) != 0;
  if (header.flags > (flag_answer | flag_more_parts | flag_unasked | flag_piece) || (answers && unasked) ||
      (parts && !answers)) {
    return frame_defect::unknown_flags;
  }
  const bool fits =
      piece ? payload_bytes > 0 && payload_bytes < header.payload_bytes : payload_bytes == header.payload_bytes;
  if (!fits) return frame_defect::contradictory_length;
  if (payload_bytes > piece_bytes) return frame_defect::long_message;
  return frame_defect::none;
}

}  // namespace icecore::wire

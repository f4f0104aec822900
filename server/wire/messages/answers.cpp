#include "wire/messages/answers.hpp"

namespace icecore::wire {

byte_buffer encoded_get_answer(icecore::version version, std::uint64_t size, std::string_view part) {
  byte_buffer to;
  to.reserve(sizeof(std::uint8_t) + 2 * sizeof(std::uint64_t) + sizeof(std::uint32_t) + part.size());
  field_writer(to).u8(1).u64(version).u64(size).text(part);
  return to;
}

bool decoded(std::span<const std::byte> bytes, get_answer_view& read) noexcept {
  field_reader from(bytes);
  std::uint8_t found = 0;
  const bool good = from.u8(found) && from.u64(read.version) && from.u64(read.size) && from.text(read.value);
  read.found = found == 1;
  return good && found <= 1 && from.finished();
}

}  // namespace icecore::wire

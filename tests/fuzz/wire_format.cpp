// Bytes of peers: records of the handshake, headers of frames, payloads. Refused, or read as what would be written
// again as exactly these bytes.
#include <algorithm>
#include <stdexcept>

#include "support/fuzz_target.hpp"
#include "wire/format/fields.hpp"
#include "wire/format/frame.hpp"
#include "wire/format/handshake.hpp"

namespace {

using namespace icecore::wire;

void require(bool holds, const char* promise) {
  if (!holds) throw std::logic_error(promise);
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

template <class Said>
void read_and_write(std::span<const std::byte> body) {
  Said said;
  if (!decode(body, said)) return;
  if constexpr (std::is_same_v<Said, hello>) {
    if (said.version != protocol_version) return;
  }
  if constexpr (std::is_same_v<Said, goodbye>) {
    return;  // unknown reasons and long texts are read, and not repeated
  } else {
    require(same(encode(said).view().subspan(record_header_bytes), body), "a record has two forms");
  }
}

void read_record(std::span<const std::byte> bytes) {
  bool malformed = false;
  const auto read = next_record(bytes, hello_bytes_max, malformed);
  require(!(read && malformed), "a record that was read is malformed");
  if (!read) return;
  require(read->body.size() <= hello_bytes_max && read->body.size() + record_header_bytes <= bytes.size(),
          "a body too long");
  read_and_write<hello>(read->body);
  read_and_write<welcome>(read->body);
  read_and_write<goodbye>(read->body);
  std::vector<std::byte> address;
  if (decode_address(read->body, address)) {
    require(same(encode_address(address).view().subspan(record_header_bytes), read->body), "an address has two forms");
  }
}

void read_frame(std::span<const std::byte> bytes) {
  frame_header header;
  const std::size_t most = std::min(bytes.size(), sizeof header);
  const auto payload = bytes.subspan(most);
  if (read_header(bytes.first(most), payload.size(), header) == frame_defect::none) {
    require(header.payload_bytes == payload.size() && header.magic == frame_magic,
            "a header that contradicts its frame");
  }
}

/// The first byte of each step says which field is read next, and the field comes from the rest.
void read_fields(std::span<const std::byte> bytes) {
  const std::size_t half = bytes.size() / 2;
  field_reader fields(bytes.subspan(half));
  byte_buffer again;
  field_writer writer(again);
  bool well = true;
  for (const std::byte step : bytes.first(half)) {
    std::uint8_t a = 0;
    std::uint16_t b = 0;
    std::uint32_t c = 0;
    std::uint64_t d = 0;
    std::span<const std::byte> e;
    bool read = false;
    switch (std::to_integer<unsigned>(step) % 5) {
      case 0:
        read = fields.u8(a);
        break;
      case 1:
        read = fields.u16(b);
        break;
      case 2:
        read = fields.u32(c);
        break;
      case 3:
        read = fields.u64(d);
        break;
      default:
        read = fields.bytes(e);
        break;
    }
    require(well || !read, "a field was read after one that could not be");
    well = well && read;
    if (!well) continue;
    switch (std::to_integer<unsigned>(step) % 5) {
      case 0:
        writer.u8(a);
        break;
      case 1:
        writer.u16(b);
        break;
      case 2:
        writer.u32(c);
        break;
      case 3:
        writer.u64(d);
        break;
      default:
        writer.bytes(e);
        break;
    }
  }
  require(same(again.view(), bytes.subspan(half).first(again.size())), "fields that were read are other bytes");
  require(fields.finished() == (well && again.size() == bytes.size() - half), "finished() is wrong");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  icecore::testing::must_hold([&] {
    const auto bytes = std::as_bytes(std::span(data, size));
    read_record(bytes);
    read_frame(bytes);
    read_fields(bytes);
    read_and_write<hello>(bytes);
    read_and_write<welcome>(bytes);
    read_and_write<goodbye>(bytes);
  });
  return 0;
}

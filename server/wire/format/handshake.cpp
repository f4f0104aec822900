#include "wire/format/handshake.hpp"

#include <array>
#include <cstring>
#include <stdexcept>

#include "wire/format/fields.hpp"

namespace icecore::wire {

namespace {

template <class Body>
byte_buffer record_of(record_kind kind, const Body& write_body) {
  byte_buffer bytes;
  field_writer fields(bytes);
  fields.u32(record_magic).u16(static_cast<std::uint16_t>(kind)).u16(0);
  write_body(fields);
  const std::size_t size = bytes.size() - record_header_bytes;
  if (size > record_bytes_max) throw std::length_error("a record of a handshake has more than 65,535 bytes");
  const auto told = static_cast<std::uint16_t>(size);
  std::memcpy(bytes.data() + 6, &told, sizeof told);
  return bytes;
}

bool string_field(field_reader& fields, std::string& value) {
  std::string_view read;
  if (!fields.text(read)) return false;
  value.assign(read);
  return true;
}

bool bytes_field(field_reader& fields, std::vector<std::byte>& value) {
  std::span<const std::byte> read;
  if (!fields.bytes(read)) return false;
  value.assign(read.begin(), read.end());
  return true;
}

}  // namespace

std::string_view describe(close_reason reason) noexcept {
  static constexpr std::array<std::string_view, close_reasons> words = {
      "open",
      "closed by the peer",
      "the peer's process or the network is gone",
      "no access",
      "the peer believes in another group of servers",
      "the peer speaks another version of the protocol",
      "malformed bytes",
      "more under way than the limits allow",
      "the peer does not read its answers",
      "idle for too long",
      "the handshake was not complete in time",
      "too many connections",
      "the server stops"};
  const auto number = static_cast<std::size_t>(reason);
  return number < words.size() ? words[number] : "an unknown reason";
}

byte_buffer encode(const hello& said) {
  return record_of(record_kind::hello, [&](field_writer& fields) {
    fields.u32(said.version).text(said.token).text(said.user).text(said.secret).text(said.group).text(said.name);
  });
}

byte_buffer encode(const welcome& said) {
  return record_of(record_kind::welcome, [&](field_writer& fields) {
    fields.u32(said.connection)
        .u32(said.frame_bytes_max)
        .u32(said.requests_in_flight_max)
        .u64(said.bytes_in_flight_max);
    fields.text(said.group).bytes(said.worker_address);
  });
}

byte_buffer encode(const goodbye& said) {
  return record_of(record_kind::goodbye, [&](field_writer& fields) {
    fields.u16(static_cast<std::uint16_t>(said.reason)).text(std::string_view(said.text).substr(0, 1024));
  });
}

byte_buffer encode_address(std::span<const std::byte> worker_address) {
  return record_of(record_kind::address, [&](field_writer& fields) { fields.bytes(worker_address); });
}

byte_buffer encode_ready() {
  return record_of(record_kind::ready, [](field_writer&) {});
}

bool decode(std::span<const std::byte> body, hello& read) {
  field_reader fields(body);
  if (!fields.u32(read.version)) return false;
  if (read.version != protocol_version) return true;  // what follows is of a version that is not known here
  return string_field(fields, read.token) && string_field(fields, read.user) && string_field(fields, read.secret) &&
         string_field(fields, read.group) && string_field(fields, read.name) && fields.finished();
}

bool decode(std::span<const std::byte> body, welcome& read) {
  field_reader fields(body);
  return fields.u32(read.connection) && fields.u32(read.frame_bytes_max) && fields.u32(read.requests_in_flight_max) &&
         fields.u64(read.bytes_in_flight_max) && string_field(fields, read.group) &&
         bytes_field(fields, read.worker_address) && fields.finished();
}

bool decode(std::span<const std::byte> body, goodbye& read) {
  field_reader fields(body);
  std::uint16_t reason = 0;
  if (!fields.u16(reason) || !string_field(fields, read.text) || !fields.finished()) return false;
  read.reason = reason > 0 && reason < close_reasons ? static_cast<close_reason>(reason) : close_reason::by_peer;
  return true;
}

bool decode_address(std::span<const std::byte> body, std::vector<std::byte>& worker_address) {
  field_reader fields(body);
  return bytes_field(fields, worker_address) && fields.finished() && !worker_address.empty();
}

std::optional<record> next_record(std::span<const std::byte> bytes, std::size_t body_bytes_max,
                                  bool& malformed) noexcept {
  malformed = false;
  if (bytes.size() < record_header_bytes) {
    // What has come of the magic is compared at once: a stranger is not waited for.
    const std::size_t common = std::min(bytes.size(), sizeof record_magic);
    malformed = common > 0 && std::memcmp(bytes.data(), &record_magic, common) != 0;
    return std::nullopt;
  }
  field_reader fields(bytes);
  std::uint32_t magic = 0;
  std::uint16_t kind = 0, size = 0;
  malformed = !fields.u32(magic) || !fields.u16(kind) || !fields.u16(size) || magic != record_magic ||
              kind < static_cast<std::uint16_t>(record_kind::hello) ||
              kind > static_cast<std::uint16_t>(record_kind::goodbye) || size > body_bytes_max;
  if (malformed || fields.rest().size() < size) return std::nullopt;
  return record{static_cast<record_kind>(kind), fields.rest().first(size)};
}

bool same_secret(std::string_view expected, std::string_view given) noexcept {
  // Every byte of what was given is looked at, against a byte of the secret or, behind its end, against itself.
  unsigned char different = expected.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string_view& other = i < expected.size() ? expected : given;
    const auto bits =
        static_cast<unsigned char>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other[i]));
    different = static_cast<unsigned char>(different | bits);
  }
  volatile unsigned char result = different;  // the compiler may not end the loop early
  return result == 0;
}

}  // namespace icecore::wire

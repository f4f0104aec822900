// The fields of a payload: numbers of fixed size, little-endian, and byte strings behind their length.
//
//   byte_buffer payload;
//   field_writer(payload).u64(version).bytes(key).bytes(value);
//
//   field_reader fields(request.payload());
//   std::uint64_t version = 0;
//   std::span<const std::byte> key, value;
//   if (!(fields.u64(version) && fields.bytes(key) && fields.bytes(value) && fields.finished())) return refuse();
//
// The reader is made for hostile bytes: it checks each size before its first use, returns false in place of throwing,
// and allocates nothing. After the first false it returns false for ever, so one check behind a row of reads is enough.
// Views that it gives live as long as the bytes it reads. Threads: one at a time. Cost: O(1) a field, O(bytes) to write
// one.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>

#include "wire/format/byte_buffer.hpp"

namespace icecore::wire {

static_assert(std::endian::native == std::endian::little, "frames are little-endian, and so must the machine be");

class field_writer {
 public:
  explicit field_writer(byte_buffer& to) noexcept : to_(to) {}

  field_writer& u8(std::uint8_t value) { return number(value); }
  field_writer& u16(std::uint16_t value) { return number(value); }
  field_writer& u32(std::uint32_t value) { return number(value); }
  field_writer& u64(std::uint64_t value) { return number(value); }

  /// A byte string: four bytes of length, then the bytes. Throws std::length_error for more than 4 GiB - 1.
  field_writer& bytes(std::span<const std::byte> value) {
    if (value.size() > std::numeric_limits<std::uint32_t>::max()) throw std::length_error("a field of 4 GiB or more");
    number(static_cast<std::uint32_t>(value.size()));
    to_.append(value);
    return *this;
  }
  field_writer& text(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }

 private:
  template <std::unsigned_integral Number>
  field_writer& number(Number value) {
    std::memcpy(to_.grow(sizeof value), &value, sizeof value);
    return *this;
  }

  byte_buffer& to_;
};

class field_reader {
 public:
  explicit field_reader(std::span<const std::byte> from) noexcept : rest_(from) {}

  [[nodiscard]] bool u8(std::uint8_t& value) noexcept { return number(value); }
  [[nodiscard]] bool u16(std::uint16_t& value) noexcept { return number(value); }
  [[nodiscard]] bool u32(std::uint32_t& value) noexcept { return number(value); }
  [[nodiscard]] bool u64(std::uint64_t& value) noexcept { return number(value); }

  [[nodiscard]] bool bytes(std::span<const std::byte>& value) noexcept {
    std::uint32_t size = 0;
    return number(size) && raw(size, value);
  }
  /// So many bytes, without a length before them.
  [[nodiscard]] bool raw(std::size_t size, std::span<const std::byte>& value) noexcept {
    if (size > rest_.size()) return fail();
    value = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }
  [[nodiscard]] bool text(std::string_view& value) noexcept {
    std::span<const std::byte> read;
    if (!bytes(read)) return false;
    value = {reinterpret_cast<const char*>(read.data()), read.size()};
    return true;
  }

  /// All fields were read well, and nothing follows them.
  [[nodiscard]] bool finished() const noexcept { return !failed_ && rest_.empty(); }
  /// What has not been read yet; nothing once a read failed.
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }

 private:
  template <std::unsigned_integral Number>
  bool number(Number& value) noexcept {
    if (failed_ || rest_.size() < sizeof value) return fail();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }

  bool fail() noexcept {
    failed_ = true;
    rest_ = {};
    return false;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace icecore::wire

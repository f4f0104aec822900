// Structs to bytes and back, field by field: what all messages are written and read with.
//
//   struct put_request { std::string key; ...;  static bool each(auto& self, auto&& f) { return f(self.key) && ...; }
//   }; byte_buffer payload = encoded(put_request{.key = "a"}); put_request asked;  if (!decoded(payload.view(), asked))
//   refuse();
//
// A type tells its fields by a static function `each`, or, if it is not ours, by a free function `each_field`; the
// order of the fields is that of the bytes. Numbers have their size, little-endian; a truth value and an enumeration
// are one byte, checked; a string has 4 bytes of length; a list 4 bytes of count; an optional a truth value before it.
//
// Reading is made for hostile bytes: false in place of an exception (but std::bad_alloc), sizes checked before use. A
// list reserves at most as many elements as the bytes that are there could hold, so a message takes at most some ten
// times its own length of memory. Threads: functions have no state. Cost: O(bytes).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"
#include "service/point.hpp"
#include "service/rows.hpp"
#include "service/transaction.hpp"
#include "wire/format/fields.hpp"
#include "wire/messages/rows_view.hpp"

namespace icecore::wire {

/// The last value that an enumeration has on the wire; each begins at 0.
template <class Enumeration>
inline constexpr Enumeration last_of{};
template <>
inline constexpr auto last_of<service::operation::kind> = service::operation::kind::get_range;
template <>
inline constexpr auto last_of<service::update_rule> = service::update_rule::append;
template <>
inline constexpr auto last_of<service::condition::kind> = service::condition::kind::value_above;
template <>
inline constexpr auto last_of<service::operation_result::state> = service::operation_result::state::no_number;

template <class Type, class Plain>
concept is_a = std::is_same_v<std::remove_const_t<Type>, Plain>;

bool each_field(is_a<icecore::key_bounds> auto& self, auto&& f) { return f(self.from) && f(self.to); }
bool each_field(is_a<service::operation> auto& self, auto&& f) {
  return f(self.what) && f(self.key) && f(self.end) && f(self.value) && f(self.rule) && f(self.offset) &&
         f(self.number) && f(self.limit) && f(self.lease) && f(self.previous);
}
bool each_field(is_a<service::condition> auto& self, auto&& f) {
  return f(self.key) && f(self.is) && f(self.version) && f(self.value);
}
bool each_field(is_a<service::transaction> auto& self, auto&& f) {
  return f(self.conditions) && f(self.then) && f(self.otherwise);
}
bool each_field(is_a<service::row> auto& self, auto&& f) { return f(self.key) && f(self.value) && f(self.version); }
bool each_field(is_a<service::operation_result> auto& self, auto&& f) {
  return f(self.is) && f(self.previous) && f(self.rows) && f(self.more) && f(self.count) && f(self.size) &&
         f(self.number);
}
bool each_field(is_a<service::outcome> auto& self, auto&& f) {
  return f(self.succeeded) && f(self.version) && f(self.results);
}
bool each_field(is_a<icecore::tag_info> auto& self, auto&& f) {
  return f(self.version) && f(self.time_ns) && f(self.name) && f(self.note);
}

/// A block of rows: rows.cpp tells its bytes.
void write_rows(byte_buffer& to, const service::row_block& rows);
[[nodiscard]] bool read_rows(field_reader& from, service::row_block& rows);
/// The same, and the rows stay where they lie.
[[nodiscard]] bool read_rows(field_reader& from, rows_view& rows);
void write_byte_array(byte_buffer& to, const service::byte_array& values);
[[nodiscard]] bool read_byte_array(field_reader& from, service::byte_array& values);

template <class Type>
concept tells_its_fields = requires(const Type& value) { Type::each(value, [](const auto&) { return true; }); };

/// Writes one field after the other.
class encoder {
 public:
  explicit encoder(byte_buffer& to) noexcept : to_(to) {}

  template <class Type>
  bool operator()(const Type& value) const {
    field_writer out(to_);
    if constexpr (std::is_same_v<Type, bool>) {
      out.u8(value ? 1 : 0);
    } else if constexpr (std::is_enum_v<Type>) {
      out.u8(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_integral_v<Type>) {
      const auto bits = static_cast<std::make_unsigned_t<Type>>(value);
      if constexpr (sizeof bits == 1) out.u8(bits);
      if constexpr (sizeof bits == 2) out.u16(bits);
      if constexpr (sizeof bits == 4) out.u32(bits);
      if constexpr (sizeof bits == 8) out.u64(bits);
    } else if constexpr (std::is_same_v<Type, std::string> || std::is_same_v<Type, std::string_view>) {
      out.text(value);
    } else if constexpr (std::is_same_v<Type, service::row_block>) {
      write_rows(to_, value);
    } else if constexpr (std::is_same_v<Type, service::byte_array>) {
      write_byte_array(to_, value);
    } else if constexpr (std::is_same_v<Type, service::point>) {
      write_point(out, value);
    } else if constexpr (tells_its_fields<Type>) {
      Type::each(value, *this);
    } else {
      each_field(value, *this);
    }
    return true;
  }
  template <class Type>
  bool operator()(const std::optional<Type>& value) const {
    (*this)(value.has_value());
    return !value || (*this)(*value);
  }
  template <class Type>
  bool operator()(const std::vector<Type>& values) const {
    if (values.size() > UINT32_MAX) throw std::length_error("a list of 2^32 elements or more");
    (*this)(static_cast<std::uint32_t>(values.size()));
    for (const Type& value : values) (*this)(value);
    return true;
  }

 private:
  static void write_point(field_writer& out, const service::point& at) {
    out.u8(static_cast<std::uint8_t>(at.index()));
    if (const auto* version = std::get_if<icecore::version>(&at)) out.u64(*version);
    if (const auto* tag = std::get_if<service::tag_name>(&at)) out.text(tag->name);
    if (const auto* time = std::get_if<service::wall_time>(&at)) {
      const std::chrono::nanoseconds since = time->time.time_since_epoch();
      out.u64(static_cast<std::uint64_t>(since.count()));
    }
  }

  byte_buffer& to_;
};

template <class Type>
[[nodiscard]] byte_buffer encoded(const Type& value) {
  byte_buffer to;
  encoder{to}(value);
  return to;
}

/// How many bytes a value takes at least: as many as one without strings and lists.
template <class Type>
[[nodiscard]] std::size_t least_bytes() {
  static const std::size_t least = encoded(Type{}).size();
  return least;
}

/// Reads one field after the other; false from the first on that is malformed.
class decoder {
 public:
  explicit decoder(field_reader& from) noexcept : from_(from) {}

  template <class Type>
  [[nodiscard]] bool operator()(Type& value) const {
    if constexpr (std::is_same_v<Type, bool>) {
      std::uint8_t byte = 0;
      if (!from_.u8(byte) || byte > 1) return false;
      value = byte == 1;
      return true;
    } else if constexpr (std::is_enum_v<Type>) {
      std::uint8_t byte = 0;
      if (!from_.u8(byte) || byte > static_cast<std::uint8_t>(last_of<Type>)) return false;
      value = static_cast<Type>(byte);
      return true;
    } else if constexpr (std::is_integral_v<Type>) {
      std::make_unsigned_t<Type> bits = 0;
      if (!number(bits)) return false;
      value = static_cast<Type>(bits);
      return true;
    } else if constexpr (std::is_same_v<Type, std::string>) {
      std::string_view text;
      if (!from_.text(text)) return false;
      value.assign(text);
      return true;
    } else if constexpr (std::is_same_v<Type, service::row_block> || std::is_same_v<Type, rows_view>) {
      return read_rows(from_, value);
    } else if constexpr (std::is_same_v<Type, service::byte_array>) {
      return read_byte_array(from_, value);
    } else if constexpr (std::is_same_v<Type, service::point>) {
      return read_point(value);
    } else if constexpr (tells_its_fields<Type>) {
      return Type::each(value, *this);
    } else {
      return each_field(value, *this);
    }
  }
  template <class Type>
  [[nodiscard]] bool operator()(std::optional<Type>& value) const {
    bool present = false;
    if (!(*this)(present)) return false;
    value.reset();
    return !present || (*this)(value.emplace());
  }
  template <class Type>
  [[nodiscard]] bool operator()(std::vector<Type>& values) const {
    std::uint32_t count = 0;
    if (!from_.u32(count) || count > from_.rest().size() / least_bytes<Type>()) return false;
    values.clear();
    values.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!(*this)(values.emplace_back())) return false;
    }
    return true;
  }

 private:
  template <class Number>
  [[nodiscard]] bool number(Number& value) const noexcept {
    if constexpr (sizeof value == 1) return from_.u8(value);
    if constexpr (sizeof value == 2) return from_.u16(value);
    if constexpr (sizeof value == 4) return from_.u32(value);
    if constexpr (sizeof value == 8) return from_.u64(value);
  }

  [[nodiscard]] bool read_point(service::point& at) const {
    std::uint8_t kind = 0;
    if (!from_.u8(kind)) return false;
    switch (kind) {
      case 0:
        at = service::newest{};
        return true;
      case 1:
        return number(at.emplace<icecore::version>());
      case 2:
        return (*this)(at.emplace<service::tag_name>().name);
      case 3: {
        std::uint64_t bits = 0;
        if (!from_.u64(bits)) return false;
        const std::chrono::nanoseconds since(static_cast<std::int64_t>(bits));
        at = service::wall_time{std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(since))};
        return true;
      }
      default:
        return false;
    }
  }

  field_reader& from_;
};

/// Whether the bytes are exactly one value. `value` is not to be used otherwise.
template <class Type>
[[nodiscard]] bool decoded(std::span<const std::byte> bytes, Type& value) {
  field_reader from(bytes);
  return decoder{from}(value) && from.finished();
}

}  // namespace icecore::wire

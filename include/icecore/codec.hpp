// How typed keys and values become bytes: key_codec<T> keeps the order of T, value_codec<T> keeps its content.
//
//   template <>
//   struct icecore::key_codec<my::date> {                       // a user-defined fixed-size key
//     static constexpr std::size_t size = 4;
//     static void encode(my::date day, char* out) noexcept { key_codec<std::int32_t>::encode(day.number, out); }
//     static my::date decode(const char* in) noexcept { return {key_codec<std::int32_t>::decode(in)}; }
//   };
//
// Invariants:
//   T1. encode keeps order: a < b exactly when bytes(a) < bytes(b), bytes compared unsigned and lexicographically.
//   T2. A fixed-size codec always makes `size` bytes. So no encoding is a prefix of another, and T1 also holds for
//       arrays, pairs and tuples, whose encodings are the encodings of their parts in order.
// Encodings (a stable format): integers are big-endian, and signed ones have their sign bit flipped. Floating-point
//   numbers are their IEEE bits, big-endian; if the sign bit is clear, it is flipped, else all bits are flipped. Since
//   -0.0 == 0.0, both become the key 0.0; all NaNs become one key, greater than +infinity.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace [[gnu::visibility("default")]] icecore {

/// The customisation point for keys. A specialisation has either the members `size`, `encode` and `decode` of the
/// fixed-size example above, or, for keys of any size, `argument` (the type that finds take), `view` (the type they
/// return), `bytes(argument) -> std::string_view` and `decode(std::string_view) -> view`.
template <class T>
struct key_codec;

template <class T>
concept fixed_size_key = requires(const T& key, char* out, const char* in) {
  { key_codec<T>::size } -> std::convertible_to<std::size_t>;
  { key_codec<T>::encode(key, out) } noexcept;
  { key_codec<T>::decode(in) } noexcept -> std::same_as<T>;
};

template <class T>
concept any_size_key = requires(const typename key_codec<T>::argument& key, std::string_view in) {
  typename key_codec<T>::view;
  { key_codec<T>::bytes(key) } noexcept -> std::same_as<std::string_view>;
  { key_codec<T>::decode(in) } -> std::same_as<typename key_codec<T>::view>;
};

template <class T>
concept typed_key = fixed_size_key<T> || any_size_key<T>;

/// The customisation point for values: `argument`, `view`, `bytes(argument) -> std::string_view` and
/// `decode(std::string_view) -> view`. If a specialisation has `size`, every value's size is checked against it before
/// decode is called.
template <class T>
struct value_codec;

template <class T>
concept typed_value = requires(const typename value_codec<T>::argument& value, std::string_view in) {
  typename value_codec<T>::view;
  { value_codec<T>::bytes(value) } noexcept -> std::same_as<std::string_view>;
  { value_codec<T>::decode(in) } -> std::same_as<typename value_codec<T>::view>;
};

/// Values whose bytes in the store are their bytes in memory.
template <class T>
concept plain_value = std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_pointer_v<T> &&
                      !std::is_member_pointer_v<T> && !std::same_as<T, std::string_view>;

namespace detail {

/// Reverses the bytes on a little-endian machine, returns the number as it is on a big-endian one. Its own inverse.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T big_endian(T number) noexcept {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return number;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(number);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(number);
  } else {
    static_assert(sizeof(T) == 8);
    return __builtin_bswap64(number);
  }
}

template <std::unsigned_integral T>
void write_big_endian(T number, char* out) noexcept {
  const T ordered = big_endian(number);
  std::memcpy(out, &ordered, sizeof(T));
}

template <std::unsigned_integral T>
[[nodiscard]] T read_big_endian(const char* in) noexcept {
  T ordered;
  std::memcpy(&ordered, in, sizeof(T));
  return big_endian(ordered);
}

/// The highest bit of T, which is the sign bit.
template <std::unsigned_integral T>
inline constexpr T sign_bit = static_cast<T>(T{1} << (sizeof(T) * 8 - 1));

/// Encodes fixed-size parts one after another.
template <class Whole, class... Parts>
struct sequence_codec {
  static constexpr std::size_t size = (key_codec<Parts>::size + ... + 0);

  static void encode(const Whole& key, char* out) noexcept {
    std::apply(
        [&out](const Parts&... parts) { ((key_codec<Parts>::encode(parts, out), out += key_codec<Parts>::size), ...); },
        key);
  }
  static Whole decode(const char* in) noexcept {
    // Braces evaluate from left to right, so the parts are decoded in order.
    return Whole{[&in] {
      const char* part = in;
      in += key_codec<Parts>::size;
      return key_codec<Parts>::decode(part);
    }()...};
  }
};

}  // namespace detail

// ---- Keys --------------------------------------------------------------------------------------------------------

template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>)
struct key_codec<T> {
  using bits = std::make_unsigned_t<T>;
  static constexpr std::size_t size = sizeof(T);
  static constexpr bits flipped = std::is_signed_v<T> ? detail::sign_bit<bits> : bits{0};

  static void encode(T key, char* out) noexcept {
    detail::write_big_endian(static_cast<bits>(static_cast<bits>(key) ^ flipped), out);
  }
  static T decode(const char* in) noexcept {
    return static_cast<T>(static_cast<bits>(detail::read_big_endian<bits>(in) ^ flipped));
  }
};

template <class T>
  requires std::is_enum_v<T>
struct key_codec<T> {
  using number = std::underlying_type_t<T>;
  static constexpr std::size_t size = sizeof(T);
  static void encode(T key, char* out) noexcept { key_codec<number>::encode(static_cast<number>(key), out); }
  static T decode(const char* in) noexcept { return static_cast<T>(key_codec<number>::decode(in)); }
};

template <class T>
  requires(std::same_as<T, float> || std::same_as<T, double>)
struct key_codec<T> {
  static_assert(std::numeric_limits<T>::is_iec559, "the encoding is made for IEEE numbers");
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::size_t size = sizeof(T);

  static void encode(T key, char* out) noexcept {
    if (key == 0) key = 0;                                      // -0.0 is 0.0
    if (key != key) key = std::numeric_limits<T>::quiet_NaN();  // one NaN for all, with a clear sign bit
    const bits number = std::bit_cast<bits>(key);
    const bits flipped = (number & detail::sign_bit<bits>) != 0 ? ~bits{0} : detail::sign_bit<bits>;
    detail::write_big_endian(static_cast<bits>(number ^ flipped), out);
  }
  static T decode(const char* in) noexcept {
    const bits number = detail::read_big_endian<bits>(in);
    const bits flipped = (number & detail::sign_bit<bits>) != 0 ? detail::sign_bit<bits> : ~bits{0};
    return std::bit_cast<T>(static_cast<bits>(number ^ flipped));
  }
};

template <fixed_size_key T, std::size_t Count>
struct key_codec<std::array<T, Count>> {
  static constexpr std::size_t size = Count * key_codec<T>::size;

  static void encode(const std::array<T, Count>& key, char* out) noexcept {
    for (std::size_t i = 0; i < Count; ++i) key_codec<T>::encode(key[i], out + i * key_codec<T>::size);
  }
  static std::array<T, Count> decode(const char* in) noexcept {
    std::array<T, Count> key;
    for (std::size_t i = 0; i < Count; ++i) key[i] = key_codec<T>::decode(in + i * key_codec<T>::size);
    return key;
  }
};

template <fixed_size_key First, fixed_size_key Second>
struct key_codec<std::pair<First, Second>> : detail::sequence_codec<std::pair<First, Second>, First, Second> {};

template <fixed_size_key... Parts>
struct key_codec<std::tuple<Parts...>> : detail::sequence_codec<std::tuple<Parts...>, Parts...> {};

template <>
struct key_codec<std::string> {
  using argument = std::string_view;
  using view = std::string_view;
  static std::string_view bytes(std::string_view key) noexcept { return key; }
  static std::string_view decode(std::string_view in) noexcept { return in; }
};

// ---- Values ------------------------------------------------------------------------------------------------------

template <plain_value T>
struct value_codec<T> {
  using argument = T;
  using view = T;
  static constexpr std::size_t size = sizeof(T);

  static std::string_view bytes(const T& value) noexcept {
    return {reinterpret_cast<const char*>(std::addressof(value)), sizeof(T)};
  }
  /// Precondition: in.size() == size. Works at any alignment.
  static T decode(std::string_view in) noexcept {
    if constexpr (std::same_as<T, bool>) {
      return in[0] != 0;  // bit_cast to bool is undefined for a byte other than 0 and 1
    } else {
      std::array<char, sizeof(T)> copy;
      std::memcpy(copy.data(), in.data(), sizeof(T));
      return std::bit_cast<T>(copy);
    }
  }
};

template <>
struct value_codec<std::string> {
  using argument = std::string_view;
  using view = std::string_view;
  static std::string_view bytes(std::string_view value) noexcept { return value; }
  static std::string_view decode(std::string_view in) noexcept { return in; }
};

}  // namespace icecore

#include "filter/kernels/load.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

static_assert(std::endian::native == std::endian::little, "columns are read as they lie in memory");

namespace icecore::detail {
namespace {

template <typename T>
[[nodiscard]] T turned(T number) noexcept {
  if constexpr (sizeof(T) == 1) {
    return number;
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(__builtin_bswap16(std::bit_cast<std::uint16_t>(number)));
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(__builtin_bswap32(std::bit_cast<std::uint32_t>(number)));
  } else {
    return std::bit_cast<T>(__builtin_bswap64(std::bit_cast<std::uint64_t>(number)));
  }
}

template <typename T, bool Turn>
row_mask load_numbers(std::size_t offset, const std::string_view* values, std::size_t size, slot& out) noexcept {
  const std::size_t end = offset + sizeof(T);
  row_mask valid = 0;
  row_mask big = 0;
  for (std::size_t i = 0; i < size; ++i) {
    T number{};
    if (values[i].size() >= end) [[likely]] {
      std::memcpy(&number, values[i].data() + offset, sizeof number);
      if constexpr (Turn) number = turned(number);
      valid |= row_mask{1} << i;
    }
    if constexpr (std::is_floating_point_v<T>) {
      out.real[i] = static_cast<double>(number);
    } else {
      out.word[i] =
          static_cast<std::uint64_t>(static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, T>>(number));
    }
    if constexpr (std::is_same_v<T, std::uint64_t>) big |= (number >> 63) << i;
  }
  out.big = big;
  return valid;
}

template <typename T>
row_mask load_any(const field& place, const std::string_view* values, std::size_t size, slot& out) noexcept {
  return place.big_endian ? load_numbers<T, true>(place.offset, values, size, out)
                          : load_numbers<T, false>(place.offset, values, size, out);
}

row_mask load_bytes(const field& place, const std::string_view* values, std::size_t size, slot& out) noexcept {
  out.views = out.own_views;
  const std::size_t end = std::size_t{place.offset} + place.size;
  row_mask valid = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (values[i].size() < end) continue;
    out.own_views[i] = {values[i].data() + place.offset,
                        place.to_the_end ? values[i].size() - place.offset : std::size_t{place.size}};
    valid |= row_mask{1} << i;
  }
  return valid;
}

}  // namespace

void load(const field& place, const std::string_view* values, std::size_t size, row_mask present, slot& out) noexcept {
  const auto valid_rows = [&] {
    switch (place.type) {
      case field_type::u8:
        return load_any<std::uint8_t>(place, values, size, out);
      case field_type::u16:
        return load_any<std::uint16_t>(place, values, size, out);
      case field_type::u32:
        return load_any<std::uint32_t>(place, values, size, out);
      case field_type::u64:
        return load_any<std::uint64_t>(place, values, size, out);
      case field_type::i8:
        return load_any<std::int8_t>(place, values, size, out);
      case field_type::i16:
        return load_any<std::int16_t>(place, values, size, out);
      case field_type::i32:
        return load_any<std::int32_t>(place, values, size, out);
      case field_type::i64:
        return load_any<std::int64_t>(place, values, size, out);
      case field_type::f32:
        return load_any<float>(place, values, size, out);
      case field_type::f64:
        return load_any<double>(place, values, size, out);
      case field_type::bytes:
        return load_bytes(place, values, size, out);
      case field_type::boolean:  // of kept columns alone: see load_kept()
        break;
    }
    return row_mask{0};
  };
  out.valid = valid_rows() & present;
}

void load_kept(const field& place, const rows& block, slot& out) noexcept {
  out.valid = 0;
  out.truth = 0;
  out.big = 0;
  if (block.kept == nullptr) return;
  const kept_column& of = block.kept[place.offset];
  out.valid = of.validity != nullptr ? of.validity[block.kept_from / rows_max] : ~0ULL;
  switch (of.type) {
    case column_type::boolean:
      out.truth = of.words[block.kept_from / rows_max];
      return;
    case column_type::bytes:
      out.views = out.own_views;
      for (std::size_t i = 0; i < block.size; ++i) {
        const std::uint32_t begin = of.ends[block.kept_from + i];
        out.own_views[i] = {of.bytes + begin, of.ends[block.kept_from + i + 1] - begin};
      }
      return;
    default:
      std::memcpy(out.word, of.words + block.kept_from, block.size * sizeof(std::uint64_t));
  }
  if (of.type != column_type::u64) return;
  for (std::size_t i = 0; i < block.size; ++i) out.big |= (out.word[i] >> 63) << i;
}

}  // namespace icecore::detail

#include "query/media/column_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace icecore::detail {
namespace {

struct column_header {
  std::uint8_t type;
  std::uint8_t has_validity;
  std::uint16_t zero;
  std::uint32_t nulls;
  std::uint64_t size;
};
static_assert(sizeof(column_header) == 16);

constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }
constexpr std::size_t bit_words(std::size_t rows) noexcept { return (rows + 63) / 64; }

void put(std::vector<std::byte>& to, const void* from, std::size_t size) {
  const auto* at = static_cast<const std::byte*>(from);
  to.insert(to.end(), at, at + size);
}

void pad(std::vector<std::byte>& to, std::size_t size) { to.resize(to.size() + padded(size) - size); }

void append_column(const result_column& of, std::vector<std::byte>& to) {
  const std::size_t header_at = to.size();
  column_header h{};
  h.type = static_cast<std::uint8_t>(of.type());
  h.has_validity = of.nulls() != 0 ? 1 : 0;
  h.nulls = static_cast<std::uint32_t>(of.nulls());
  put(to, &h, sizeof h);
  if (h.has_validity != 0) put(to, of.validity().data(), of.validity().size_bytes());
  if (of.type() == column_type::bytes) {
    for (const std::uint64_t end : of.offsets()) {
      const auto short_end = static_cast<std::uint32_t>(end);
      put(to, &short_end, sizeof short_end);
    }
    pad(to, of.offsets().size() * sizeof(std::uint32_t));
    put(to, of.bytes().data(), of.bytes().size());
    pad(to, of.bytes().size());
  } else {
    put(to, of.words().data(), of.words().size_bytes());
  }
  h.size = to.size() - header_at - sizeof h;
  std::memcpy(to.data() + header_at, &h, sizeof h);
}

/// The bytes of a column, taken piece by piece.
struct pieces {
  std::span<const std::byte> left;

  [[nodiscard]] const std::byte* take(std::size_t size) noexcept {
    if (size > left.size()) return nullptr;
    const std::byte* const at = left.data();
    left = left.subspan(size);
    return at;
  }
};

std::optional<kept_column> column_in(pieces& in, std::size_t rows, column_type type) {
  column_header h;
  const std::byte* const header = in.take(sizeof h);
  if (header == nullptr) return std::nullopt;
  std::memcpy(&h, header, sizeof h);
  if (h.type != static_cast<std::uint8_t>(type) || h.size > in.left.size() || h.size % 8 != 0 || h.nulls > rows) {
    return std::nullopt;
  }
  kept_column made{.type = type, .nulls = h.nulls};
  pieces body{{in.take(h.size), h.size}};
  const auto words = [&](std::size_t count) {
    return reinterpret_cast<const std::uint64_t*>(body.take(count * sizeof(std::uint64_t)));
  };
  if (h.has_validity != 0 && (made.validity = words(bit_words(rows))) == nullptr) return std::nullopt;
  if (type != column_type::bytes) {
    made.words = words(type == column_type::boolean ? bit_words(rows) : rows);
    return made.words != nullptr && body.left.empty() ? std::optional(made) : std::nullopt;
  }
  const std::byte* const ends = body.take(padded((rows + 1) * sizeof(std::uint32_t)));
  if (ends == nullptr) return std::nullopt;
  made.ends = reinterpret_cast<const std::uint32_t*>(ends);
  made.bytes = reinterpret_cast<const char*>(body.left.data());
  const bool sized = made.ends[0] == 0 && made.ends[rows] <= body.left.size();
  return sized && std::is_sorted(made.ends, made.ends + rows + 1) ? std::optional(made) : std::nullopt;
}

/// Appends `count` bits from the place `from` on to a bitmap that has `size` of them.
void append_bits(std::vector<std::uint64_t>& to, std::size_t size, const std::uint64_t* bits, std::size_t from,
                 std::size_t count) {
  to.resize(bit_words(size + count));
  while (count > 0) {
    const std::size_t n = std::min<std::size_t>(count, 64 - std::max(from % 64, size % 64));
    const std::uint64_t mask = n == 64 ? ~0ULL : (1ULL << n) - 1;
    const std::uint64_t some = bits != nullptr ? bits[from / 64] >> from % 64 & mask : mask;
    to[size / 64] |= some << size % 64;
    from += n;
    size += n;
    count -= n;
  }
}

std::size_t nulls_in(const kept_column& of, std::size_t from, std::size_t count) noexcept {
  if (of.validity == nullptr) return 0;
  std::size_t nulls = 0;
  for (std::size_t i = from; i < from + count; ++i) nulls += (of.validity[i / 64] >> i % 64 & 1U) == 0 ? 1 : 0;
  return nulls;
}

}  // namespace

void append_columns(std::span<const result_column> columns, std::size_t misplaced, std::vector<std::byte>& to) {
  to.resize(to.size() + padded(misplaced) - misplaced);
  for (const result_column& one : columns) append_column(one, to);
}

std::optional<std::vector<kept_column>> columns_in(std::span<const std::byte> bytes, std::size_t rows,
                                                   std::span<const column_type> types) {
  pieces in{bytes};
  const auto misplaced = reinterpret_cast<std::uintptr_t>(bytes.data()) % 8;
  if (in.take(padded(misplaced) - misplaced) == nullptr) return std::nullopt;
  std::vector<kept_column> all;
  for (const column_type type : types) {
    const auto one = column_in(in, rows, type);
    if (!one) return std::nullopt;
    all.push_back(*one);
  }
  if (!in.left.empty()) return std::nullopt;
  return all;
}

void append_rows(const kept_column& of, std::size_t from, std::size_t count, result_values& to) {
  append_bits(to.validity, to.size, of.validity, from, count);
  if (of.type == column_type::boolean) {
    append_bits(to.words, to.size, of.words, from, count);
  } else if (of.type == column_type::bytes) {
    const std::uint64_t base = to.bytes.size();
    to.bytes.insert(to.bytes.end(), of.bytes + of.ends[from], of.bytes + of.ends[from + count]);
    for (std::size_t i = from + 1; i <= from + count; ++i) to.offsets.push_back(base + of.ends[i] - of.ends[from]);
  } else {
    to.words.insert(to.words.end(), of.words + from, of.words + from + count);
  }
  to.nulls += nulls_in(of, from, count);
  to.size += count;
}

result_values empty_values(std::string name, column_type type) {
  result_values made{};
  made.name = std::move(name);
  made.type = static_cast<result_type>(type);
  if (type == column_type::bytes) made.offsets.push_back(0);
  return made;
}

}  // namespace icecore::detail

// The bytes of a block of rows: what most of a scan's or a load's frames consist of, so it is copied array by array.
//
//   SIZE        MEANING
//      4        rows
//      1        what is there: 1 versions of each row, 2 one version for all rows, 4 removals, 8 values before
//   array       keys
//   8 × rows    or 8: the versions, if there are some
//   rows        1: a removal; if there are some
//   array       the values before, then one byte a row, 1: there was none; if they were asked for
//   array       values
//
// An array: 4 bytes of length; for each row, 4 bytes, where its value ends in the bytes; the bytes. Those of the values
// come last, so that a frame may end with the string that they were gathered in (encoded_rows).
#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/messages/answers.hpp"

namespace icecore::wire {

namespace {

constexpr std::uint8_t has_versions = 1;
constexpr std::uint8_t has_one_version = 2;
constexpr std::uint8_t has_removals = 4;
constexpr std::uint8_t has_before = 8;

/// All but the bytes.
void write_ends(byte_buffer& to, const service::byte_array& values) {
  const std::uint64_t bytes = values.ends.empty() ? 0 : values.ends.back();
  if (bytes > UINT32_MAX) throw std::length_error("a field of 4 GiB or more");
  field_writer(to).u32(static_cast<std::uint32_t>(bytes));
  std::byte* place = to.grow(values.ends.size() * sizeof(std::uint32_t));
  for (const std::uint64_t end : values.ends) {
    const auto short_end = static_cast<std::uint32_t>(end);
    std::memcpy(place, &short_end, sizeof short_end);
    place += sizeof short_end;
  }
}

void write_array(byte_buffer& to, const service::byte_array& values) {
  write_ends(to, values);
  to.append(std::as_bytes(std::span(values.bytes)));
}

/// `count` elements of `size` bytes each.
bool read_elements(field_reader& from, std::uint64_t count, std::size_t size, std::span<const std::byte>& read) {
  return from.rest().size() / size >= count && from.raw(count * size, read);
}

bool read_array(field_reader& from, std::uint64_t rows, byte_array_view& values) {
  std::uint32_t size = 0;
  std::span<const std::byte> bytes;
  if (!from.u32(size) || !read_elements(from, rows, sizeof size, values.ends) || !from.raw(size, bytes)) return false;
  values.bytes = {reinterpret_cast<const char*>(bytes.data()), size};
  std::uint32_t before = 0;
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::uint32_t end = values.end(i);
    if (end < before) return false;
    before = end;
  }
  return before == size;
}

void copy_array(const byte_array_view& from, service::byte_array& to) {
  to.bytes.assign(from.bytes);
  to.ends.resize(from.size());
  for (std::size_t i = 0; i < to.ends.size(); ++i) to.ends[i] = from.end(i);
}

bool read_flags(field_reader& from, std::uint64_t rows, std::span<const std::byte>& flags) {
  return read_elements(from, rows, 1, flags) &&
         std::ranges::all_of(flags, [](std::byte f) { return f <= std::byte{1}; });
}

void copy_flags(std::span<const std::byte> from, std::vector<std::uint8_t>& to) {
  to.resize(from.size());
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

void write_flags(byte_buffer& to, const std::vector<std::uint8_t>& flags) {
  to.append(std::as_bytes(std::span(flags)));
}

std::uint8_t contents_of(const service::row_block& rows) noexcept {
  std::uint8_t contents = 0;
  if (!rows.versions.empty()) {
    const bool same = std::ranges::adjacent_find(rows.versions, std::not_equal_to{}) == rows.versions.end();
    contents |= same ? has_one_version : has_versions;
  }
  if (!rows.removed.empty()) contents |= has_removals;
  if (!rows.before.ends.empty()) contents |= has_before;
  return contents;
}

/// At least as many as the block's message has. Room for all at once: a buffer that grows copies what it has.
std::size_t bytes_most(const service::row_block& rows) noexcept {
  constexpr std::size_t head = 5 + 3 * sizeof(std::uint32_t);
  constexpr std::size_t of_each_row = 3 * sizeof(std::uint32_t) + sizeof(icecore::version) + 2;
  return head + rows.keys.bytes.size() + rows.values.bytes.size() + rows.before.bytes.size() +
         of_each_row * (rows.size() + 1);
}

}  // namespace

void write_byte_array(byte_buffer& to, const service::byte_array& values) {
  if (values.size() > UINT32_MAX) throw std::length_error("a list of 2^32 elements or more");
  field_writer(to).u32(static_cast<std::uint32_t>(values.size()));
  write_array(to, values);
}

bool read_byte_array(field_reader& from, service::byte_array& values) {
  std::uint32_t count = 0;
  byte_array_view read;
  if (!from.u32(count) || !read_array(from, count, read)) return false;
  copy_array(read, values);
  return true;
}

void write_rows(byte_buffer& to, const service::row_block& rows) {
  if (rows.size() > UINT32_MAX) throw std::length_error("a block of 2^32 rows or more");
  const std::uint8_t contents = contents_of(rows);
  to.reserve(to.size() + bytes_most(rows));
  field_writer out(to);
  out.u32(static_cast<std::uint32_t>(rows.size())).u8(contents);
  write_array(to, rows.keys);
  if ((contents & has_one_version) != 0) out.u64(rows.versions.front());
  if ((contents & has_versions) != 0) to.append(std::as_bytes(std::span(rows.versions)));
  if ((contents & has_removals) != 0) {
    write_flags(to, rows.removed);
    // Rows behind the last removal may have no flag.
    for (std::size_t i = rows.removed.size(); i < rows.size(); ++i) out.u8(0);
  }
  if ((contents & has_before) != 0) {
    write_array(to, rows.before);
    write_flags(to, rows.before_absent);
  }
  write_array(to, rows.values);
}

frame_payload encoded_rows(rows_answer& told) {
  std::string values = std::exchange(told.block_of_rows.values.bytes, {});
  return {encoded(told), std::move(values)};  // which has their ends, and is continued by them
}

bool read_rows(field_reader& from, rows_view& rows) {
  rows = {};
  std::uint32_t count = 0;
  std::uint8_t contents = 0;
  if (!from.u32(count) || !from.u8(contents)) return false;
  const bool each_version = (contents & has_versions) != 0, one_version = (contents & has_one_version) != 0;
  if (contents > (has_versions | has_one_version | has_removals | has_before)) return false;
  if ((each_version && one_version) || (count == 0 && contents != 0)) return false;
  if (!read_array(from, count, rows.keys)) return false;
  const std::uint64_t versions = each_version ? count : one_version ? 1 : 0;
  if (!read_elements(from, versions, sizeof(icecore::version), rows.versions)) return false;
  if ((contents & has_removals) != 0 && !read_flags(from, count, rows.removals)) return false;
  if ((contents & has_before) != 0 &&
      (!read_array(from, count, rows.values_before) || !read_flags(from, count, rows.none_before))) {
    return false;
  }
  return read_array(from, count, rows.values);
}

bool read_rows(field_reader& from, service::row_block& rows) {
  rows_view read;
  if (!read_rows(from, read)) return false;
  copy_array(read.keys, rows.keys);
  copy_array(read.values, rows.values);
  rows.versions.resize(read.versions.empty() ? 0 : read.size());
  for (std::size_t i = 0; i < rows.versions.size(); ++i) rows.versions[i] = read.version(i);
  copy_flags(read.removals, rows.removed);
  copy_array(read.values_before, rows.before);
  copy_flags(read.none_before, rows.before_absent);
  return true;
}

}  // namespace icecore::wire

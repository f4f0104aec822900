// The bytes of a block of rows: what most of a scan's or a load's frames consist of, so it is copied array by array.
//
//   SIZE        MEANING
//      4        rows
//      1        what is there: 1 versions of each row, 2 one version for all rows, 4 removals, 8 values before
//   array       keys
//   array       values
//   8 × rows    or 8: the versions, if there are some
//   rows        1: a removal; if there are some
//   array       the values before, then one byte a row, 1: there was none; if they were asked for
//
// An array: 4 bytes of length, the bytes, and for each row, 4 bytes, where its value ends in them.
#include <algorithm>
#include <cstring>

#include "wire/messages/codec.hpp"

namespace icecore::wire {

namespace {

constexpr std::uint8_t has_versions = 1;
constexpr std::uint8_t has_one_version = 2;
constexpr std::uint8_t has_removals = 4;
constexpr std::uint8_t has_before = 8;

bool read_ends(field_reader& from, std::uint64_t rows, std::uint64_t bytes, std::vector<std::uint64_t>& ends) {
  if (from.rest().size() / sizeof(std::uint32_t) < rows) return false;
  ends.clear();
  ends.reserve(rows);
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < rows; ++i) {
    std::uint32_t end = 0;
    if (!from.u32(end) || end < before || end > bytes) return false;
    ends.push_back(before = end);
  }
  return before == bytes;
}

void write_array(byte_buffer& to, const service::byte_array& values) {
  field_writer out(to);
  out.text(values.bytes);
  std::byte* place = to.grow(values.ends.size() * sizeof(std::uint32_t));
  for (const std::uint64_t end : values.ends) {
    const auto short_end = static_cast<std::uint32_t>(end);  // at most the length, which text() has checked
    std::memcpy(place, &short_end, sizeof short_end);
    place += sizeof short_end;
  }
}

bool read_array(field_reader& from, std::uint64_t rows, service::byte_array& values) {
  std::string_view bytes;
  if (!from.text(bytes) || !read_ends(from, rows, bytes.size(), values.ends)) return false;
  values.bytes.assign(bytes);
  return true;
}

bool read_flags(field_reader& from, std::uint64_t rows, std::vector<std::uint8_t>& flags) {
  if (from.rest().size() < rows) return false;
  flags.resize(rows);
  for (std::uint8_t& flag : flags) {
    if (!from.u8(flag) || flag > 1) return false;
  }
  return true;
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

bool read_versions(field_reader& from, std::uint64_t rows, std::uint8_t contents, std::vector<version>& versions) {
  versions.clear();
  std::uint64_t one = 0;
  if ((contents & has_one_version) != 0) {
    if (!from.u64(one)) return false;
    versions.assign(rows, one);
  }
  if ((contents & has_versions) != 0) {
    if (from.rest().size() / sizeof one < rows) return false;
    versions.resize(rows);
    for (version& each : versions) {
      if (!from.u64(each)) return false;
    }
  }
  return true;
}

}  // namespace

void write_byte_array(byte_buffer& to, const service::byte_array& values) {
  if (values.size() > UINT32_MAX) throw std::length_error("a list of 2^32 elements or more");
  field_writer(to).u32(static_cast<std::uint32_t>(values.size()));
  write_array(to, values);
}

bool read_byte_array(field_reader& from, service::byte_array& values) {
  std::uint32_t count = 0;
  return from.u32(count) && read_array(from, count, values);
}

void write_rows(byte_buffer& to, const service::row_block& rows) {
  if (rows.size() > UINT32_MAX) throw std::length_error("a block of 2^32 rows or more");
  const std::uint8_t contents = contents_of(rows);
  to.reserve(to.size() + bytes_most(rows));
  field_writer out(to);
  out.u32(static_cast<std::uint32_t>(rows.size())).u8(contents);
  write_array(to, rows.keys);
  write_array(to, rows.values);
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
}

bool read_rows(field_reader& from, service::row_block& rows) {
  rows.clear();
  std::uint32_t count = 0;
  std::uint8_t contents = 0;
  if (!from.u32(count) || !from.u8(contents)) return false;
  const bool both = (contents & has_versions) != 0 && (contents & has_one_version) != 0;
  if (contents > (has_versions | has_one_version | has_removals | has_before) || both) return false;
  if (count == 0 && contents != 0) return false;
  if (!read_array(from, count, rows.keys) || !read_array(from, count, rows.values)) return false;
  if (!read_versions(from, count, contents, rows.versions)) return false;
  if ((contents & has_removals) != 0 && !read_flags(from, count, rows.removed)) return false;
  if ((contents & has_before) == 0) return true;
  return read_array(from, count, rows.before) && read_flags(from, count, rows.before_absent);
}

}  // namespace icecore::wire

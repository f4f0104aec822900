#include "history/record.hpp"

#include <algorithm>
#include <cstring>

namespace icecore {

using format::record_kind;

namespace {

[[nodiscard]] std::uint8_t flags_of(std::size_t value_size, bool batched) noexcept {
  return static_cast<std::uint8_t>((batched ? format::flag_batched : 0) |
                                   (value_size >= format::large_value_size ? format::flag_large_value : 0));
}

}  // namespace

record_layout record_layout::of_entry(std::size_t key_size, std::size_t value_size, bool batched,
                                      bool removed) noexcept {
  auto flags = flags_of(value_size, batched);
  if (removed) flags |= format::flag_removed_first;
  return {record_kind::entry, flags, static_cast<std::uint16_t>(key_size), static_cast<std::uint32_t>(value_size)};
}

record_layout record_layout::of_insert(std::size_t value_size, bool batched) noexcept {
  return {record_kind::insert, flags_of(value_size, batched), 0, static_cast<std::uint32_t>(value_size)};
}

record_layout record_layout::of_remove(bool batched) noexcept {
  return {record_kind::remove, flags_of(0, batched), 0, 0};
}

record_layout record_layout::of_batch() noexcept { return {record_kind::batch, 0, 0, 0}; }

record_layout record_layout::of_tag(std::size_t name_size, std::size_t note_size) noexcept {
  return {record_kind::tag, flags_of(note_size, false), static_cast<std::uint16_t>(name_size),
          static_cast<std::uint32_t>(note_size)};
}

bool record_layout::plausible() const noexcept {
  if ((flags & ~format::flags_known) != 0) return false;
  const bool large = (flags & format::flag_large_value) != 0;
  if (large != (value_size >= format::large_value_size)) return false;
  const bool batched = (flags & format::flag_batched) != 0;
  const bool removed = (flags & format::flag_removed_first) != 0;
  switch (kind) {
    case record_kind::entry:
      return !removed || (value_size == 0 && batched);
    case record_kind::insert:
      return key_size == 0 && !removed;
    case record_kind::remove:
      return key_size == 0 && value_size == 0 && !removed;
    case record_kind::batch:
      return key_size == 0 && value_size == 0 && flags == 0;
    case record_kind::tag:
      return !batched && !removed && value_size <= key_size_max;
    case record_kind::none:
      return false;
  }
  return false;
}

std::uint64_t record_layout::place(std::uint64_t position) const noexcept {
  constexpr std::uint64_t line = format::cache_line_size;
  if ((flags & format::flag_large_value) != 0) {
    const std::uint64_t before_value = value_offset();
    return format::round_up(position + before_value, format::large_value_alignment) - before_value;
  }
  const std::uint64_t length = size();
  const std::uint64_t lines_here = (position + length - 1) / line - position / line + 1;
  return lines_here > (length + line - 1) / line ? format::round_up(position, line) : position;
}

link record::batch() const noexcept {
  link l;
  std::memcpy(&l, at_ + layout().batch_link_offset(), sizeof l);
  return l;
}

std::string_view record::key() const noexcept {
  const auto l = layout();
  return {reinterpret_cast<const char*>(at_ + l.key_offset()), l.key_size};
}

std::string_view record::value() const noexcept {
  const auto l = layout();
  return {reinterpret_cast<const char*>(at_ + l.value_offset()), l.value_size};
}

void record::fill(const record_layout& layout, link batch, std::string_view key,
                  std::string_view value) const noexcept {
  auto& h = header();
  h.kind = layout.kind;
  h.flags = layout.flags;
  h.key_size = layout.key_size;
  h.value_size = layout.value_size;
  h.depth = layout.kind == record_kind::entry ? 1 : 0;
  if ((layout.flags & format::flag_batched) != 0) {
    std::memcpy(at_ + layout.batch_link_offset(), &batch, sizeof batch);
  }
  if (!key.empty()) std::memcpy(at_ + layout.key_offset(), key.data(), key.size());
  if (!value.empty()) std::memcpy(at_ + layout.value_offset(), value.data(), value.size());
  if ((layout.flags & format::flag_large_value) != 0) {
    const std::uint32_t value_crc = crc32c(0, value.data(), value.size());
    std::memcpy(at_ + layout.value_crc_offset(), &value_crc, sizeof value_crc);
  }
}

bool record::value_intact() const noexcept {
  const auto l = layout();
  if ((l.flags & format::flag_large_value) == 0) return true;
  std::uint32_t value_crc;
  std::memcpy(&value_crc, at_ + l.value_crc_offset(), sizeof value_crc);
  return value_crc == crc32c(0, at_ + l.value_offset(), l.value_size);
}

std::uint32_t record::compute_crc(std::uint32_t seed) const noexcept {
  const auto& h = header();
  const auto l = layout();
  const std::uint64_t first = std::uint64_t{static_cast<std::uint8_t>(h.kind)} | (std::uint64_t{h.flags} << 8) |
                              (std::uint64_t{h.key_size} << 16) | (std::uint64_t{h.value_size} << 32);
  std::uint32_t crc = crc32c(seed, first);
  crc = crc32c(crc, std::uint64_t{h.depth});
  // an entry's head changes for ever; everything else after the common header stays
  const std::uint64_t from =
      h.kind == record_kind::entry ? sizeof(format::entry_header) : sizeof(format::record_header);
  const std::uint64_t to = (l.flags & format::flag_large_value) != 0 ? l.value_offset() : l.size();
  return crc32c(crc, at_ + from, to - from);
}

}  // namespace icecore

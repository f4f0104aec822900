// Records as they lie in the pool: where their parts are, how they are filled, how they are checked.
//
//   record_layout layout = record_layout::of_insert(value.size(), /*batched=*/false);
//   std::uint64_t at = layout.place(position);
//   record r(base + at);  r.fill(layout, null_link, {}, value);  r.seal(seed);
//
// Threads: a record has one writer until it is linked. After that only its stamp and an entry's head and second version
//   change, atomically.
// Invariants:
//   R1. `crc` covers every byte except itself, the stamp, an entry's head and second version, and a large value. Its
//       seed is made of the pool's id, the segment's generation and the record's position, so stale and misplaced bytes
//       fail the check.
//   R2. Between sealing and linking nothing of a record changes except older, jump and depth, and with them the crc.
//   R3. A record spans as few cache lines as its size allows; a large value starts at a multiple of 64.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/checksum.hpp"
#include "icecore/options.hpp"
#include "pool/checked_word.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore {

/// Sizes of a record's parts, all derived from kind, flags, key size and value size.
struct record_layout {
  format::record_kind kind = format::record_kind::none;
  std::uint8_t flags = 0;
  std::uint16_t key_size = 0;
  std::uint32_t value_size = 0;

  [[nodiscard]] static record_layout of_entry(std::size_t key_size, std::size_t value_size, bool batched,
                                              bool removed = false) noexcept {
    auto flags = flags_of(value_size, batched);
    if (removed) flags |= format::flag_removed_first;
    return {format::record_kind::entry, flags, static_cast<std::uint16_t>(key_size),
            static_cast<std::uint32_t>(value_size)};
  }
  /// A key without a value: it shows nothing and changes nothing until a second record is linked on it.
  [[nodiscard]] static record_layout of_key(std::size_t key_size) noexcept {
    return of_entry(key_size, 0, false, true);
  }
  [[nodiscard]] bool is_key_alone() const noexcept {
    return kind == format::record_kind::entry &&
           (flags & (format::flag_removed_first | format::flag_batched)) == format::flag_removed_first;
  }
  [[nodiscard]] bool is_removal() const noexcept {
    return kind == format::record_kind::remove || (flags & format::flag_removed_first) != 0;
  }
  [[nodiscard]] bool is_update() const noexcept {
    return kind == format::record_kind::insert || kind == format::record_kind::remove;
  }
  [[nodiscard]] bool batched() const noexcept { return (flags & format::flag_batched) != 0; }
  [[nodiscard]] static record_layout of_insert(std::size_t value_size, bool batched) noexcept {
    return {format::record_kind::insert, flags_of(value_size, batched), 0, static_cast<std::uint32_t>(value_size)};
  }
  [[nodiscard]] static record_layout of_remove(bool batched) noexcept {
    return {format::record_kind::remove, flags_of(0, batched), 0, 0};
  }
  [[nodiscard]] static record_layout of_batch() noexcept { return {format::record_kind::batch, 0, 0, 0}; }
  [[nodiscard]] static record_layout of_tag(std::size_t name_size, std::size_t note_size) noexcept {
    return {format::record_kind::tag, flags_of(note_size, false), static_cast<std::uint16_t>(name_size),
            static_cast<std::uint32_t>(note_size)};
  }

  [[nodiscard]] std::uint64_t fixed_size() const noexcept { return fixed_sizes[static_cast<std::uint8_t>(kind)]; }
  [[nodiscard]] std::uint64_t batch_link_offset() const noexcept { return fixed_size(); }
  [[nodiscard]] std::uint64_t value_crc_offset() const noexcept {
    return fixed_size() + ((flags & format::flag_batched) != 0 ? 8 : 0);
  }
  [[nodiscard]] std::uint64_t key_offset() const noexcept {
    return value_crc_offset() + ((flags & format::flag_large_value) != 0 ? 8 : 0);
  }
  [[nodiscard, gnu::always_inline]] std::uint64_t value_offset() const noexcept {
    return key_offset() + format::round_up(key_size, 8);
  }
  [[nodiscard, gnu::always_inline]] std::uint64_t size() const noexcept {
    return format::round_up(value_offset() + value_size, 8);
  }

  /// Whether a record can have these sizes at all. Check this before trusting a record read from media.
  [[nodiscard]] bool plausible() const noexcept;

  /// Where in the pool the record goes if everything before `position` is taken (R3). At most record_padding_max bytes
  /// further.
  [[nodiscard, gnu::always_inline]] link place(link position) const noexcept {
    constexpr std::uint64_t line = format::cache_line_size;
    if ((flags & format::flag_large_value) != 0) {
      const std::uint64_t before_value = value_offset();
      return format::round_up(position + before_value, format::large_value_alignment) - before_value;
    }
    const std::uint64_t length = size();
    const bool spans_one_more = position % line + length > format::round_up(length, line);
    return spans_one_more ? format::round_up(position, line) : position;
  }

 private:
  /// By kind; of a byte that is no kind, as media may have, that of the common header.
  static constexpr auto fixed_sizes = [] {
    std::array<std::uint8_t, 256> sizes{};
    sizes.fill(sizeof(format::record_header));
    sizes[static_cast<std::uint8_t>(format::record_kind::entry)] = sizeof(format::entry_header);
    sizes[static_cast<std::uint8_t>(format::record_kind::insert)] = sizeof(format::update_header);
    sizes[static_cast<std::uint8_t>(format::record_kind::remove)] = sizeof(format::update_header);
    sizes[static_cast<std::uint8_t>(format::record_kind::tag)] = sizeof(format::tag_header);
    return sizes;
  }();

  [[nodiscard]] static std::uint8_t flags_of(std::size_t value_size, bool batched) noexcept {
    return static_cast<std::uint8_t>((batched ? format::flag_batched : 0) |
                                     (value_size >= format::large_value_size ? format::flag_large_value : 0));
  }
};

[[gnu::always_inline]] inline bool record_layout::plausible() const noexcept {
  if ((flags & ~format::flags_known) != 0) return false;
  const bool large = (flags & format::flag_large_value) != 0;
  if (large != (value_size >= format::large_value_size)) return false;
  const bool batched = (flags & format::flag_batched) != 0;
  const bool removed = (flags & format::flag_removed_first) != 0;
  switch (kind) {
    case format::record_kind::entry:
      return !removed || value_size == 0;
    case format::record_kind::insert:
      return key_size == 0 && !removed;
    case format::record_kind::remove:
      return key_size == 0 && value_size == 0 && !removed;
    case format::record_kind::batch:
      return key_size == 0 && value_size == 0 && flags == 0;
    case format::record_kind::tag:
      return !batched && !removed && value_size <= key_size_max;
    case format::record_kind::none:
      return false;
  }
  return false;
}

/// What no version shows of a record on which a record of the same version was linked: of an entry its value, since its
/// key stays; of another record all of it.
[[nodiscard]] inline std::uint64_t superseded_bytes(record_layout of) noexcept {
  return of.is_update() ? of.size() : of.value_size;
}

/// A record in mapped memory: a pointer with named accessors.
class record {
 public:
  explicit record(std::byte* at) noexcept : at_(at) {}

  [[nodiscard]] std::byte* address() const noexcept { return at_; }
  [[nodiscard]] format::record_header& header() const noexcept {
    return *reinterpret_cast<format::record_header*>(at_);
  }
  [[nodiscard]] format::entry_header& as_entry() const noexcept {
    return *reinterpret_cast<format::entry_header*>(at_);
  }
  [[nodiscard]] format::update_header& as_update() const noexcept {
    return *reinterpret_cast<format::update_header*>(at_);
  }
  [[nodiscard]] format::tag_header& as_tag() const noexcept { return *reinterpret_cast<format::tag_header*>(at_); }

  [[nodiscard]] format::record_kind kind() const noexcept { return header().kind; }
  /// False of a byte on media that is no kind, or one of a newer format.
  [[nodiscard]] bool has_known_kind() const noexcept {
    return kind() != format::record_kind::none && kind() <= format::record_kind::tag;
  }
  [[nodiscard]] bool is_entry() const noexcept { return kind() == format::record_kind::entry; }
  [[nodiscard]] bool is_update() const noexcept {
    return kind() == format::record_kind::insert || kind() == format::record_kind::remove;
  }
  [[nodiscard]] bool is_removal() const noexcept {
    return kind() == format::record_kind::remove || (header().flags & format::flag_removed_first) != 0;
  }
  [[nodiscard]] bool batched() const noexcept { return (header().flags & format::flag_batched) != 0; }
  [[nodiscard]] bool has_large_value() const noexcept { return (header().flags & format::flag_large_value) != 0; }

  /// Whether it stands for lost records: what it would show is not known (store/check/salvage.hpp).
  [[nodiscard]] bool is_lost() const noexcept { return (header().flags & format::flag_lost) != 0; }
  /// Whether the value must not be returned without a further check: it is large and perhaps unverified, or lost.
  [[nodiscard]] bool value_unverified() const noexcept {
    return (header().flags & (format::flag_large_value | format::flag_lost)) != 0;
  }

  [[nodiscard]] record_layout layout() const noexcept {
    const auto& h = header();
    return {h.kind, h.flags, h.key_size, h.value_size};
  }
  [[nodiscard]] link batch() const noexcept;
  /// An entry's key, a tag's name.
  [[nodiscard, gnu::always_inline]] std::string_view key() const noexcept {
    const auto l = layout();
    return {reinterpret_cast<const char*>(at_ + l.key_offset()), l.key_size};
  }
  /// Unchecked if large: see value_intact().
  [[nodiscard, gnu::always_inline]] std::string_view value() const noexcept {
    const auto l = layout();
    return {reinterpret_cast<const char*>(at_ + l.value_offset()), l.value_size};
  }
  /// Only for a large value.
  [[nodiscard]] std::uint32_t value_crc() const noexcept;
  [[nodiscard]] link older() const noexcept { return is_update() ? as_update().older : null_link; }
  [[nodiscard]] link jump() const noexcept { return is_update() ? as_update().jump : null_link; }

  /// Fills everything except stamp, crc and an update's links; the memory must be zero. `batch` as in the layout.
  [[gnu::always_inline]] void fill(record_layout layout, link batch, std::string_view key,
                                   std::string_view value) const noexcept {
    fill(layout, batch, key, value, [value](std::byte* to) noexcept {
      std::memcpy(to, value.data(), value.size());
      return crc32c(0, value.data(), value.size());
    });
  }
  /// The same, with a function that copies the value if that is a large one, and returns its checksum; `value` is then
  /// not looked at.
  template <class CopyLarge>
  [[gnu::always_inline]] void fill(record_layout layout, link batch, std::string_view key, std::string_view value,
                                   const CopyLarge& copy_large) const {
    assert(layout.plausible());
    auto& h = header();
    h.kind = layout.kind;
    h.flags = layout.flags;
    h.key_size = layout.key_size;
    h.value_size = layout.value_size;
    h.depth = layout.kind == format::record_kind::entry ? 1 : 0;
    if ((layout.flags & (format::flag_batched | format::flag_large_value)) != 0) [[unlikely]] {
      if ((layout.flags & format::flag_batched) != 0) set_batch(layout, batch);
      if ((layout.flags & format::flag_large_value) != 0) {
        copy(at_ + layout.key_offset(), key);
        set_value_crc(layout, copy_large(at_ + layout.value_offset()));
        return;
      }
    }
    copy(at_ + layout.key_offset(), key);
    copy(at_ + layout.value_offset(), value);
  }
  /// Sets the crc: after this the record is valid.
  void seal(std::uint32_t seed) const noexcept { seal(layout(), seed); }
  /// The same for a caller that knows the record's layout.
  [[gnu::always_inline]] void seal(record_layout l, std::uint32_t seed) const noexcept {
    header().crc = compute_crc(l, seed);
  }

  /// Checks everything that the crc covers (R1). Precondition: layout().plausible() and its size is inside the segment.
  [[nodiscard]] bool intact(std::uint32_t seed) const noexcept { return header().crc == compute_crc(layout(), seed); }
  /// The only seed with which it is intact. Precondition: as intact().
  [[nodiscard]] std::uint32_t intact_seed() const noexcept;
  /// Checks a large value; true for other records, whose value intact() covers.
  [[nodiscard]] bool value_intact() const noexcept;

 private:
  void set_batch(record_layout layout, link batch) const noexcept;
  void set_value_crc(record_layout layout, std::uint32_t crc) const noexcept;
  /// Without a call for 8 bytes, which integers have.
  static void copy(std::byte* to, std::string_view from) noexcept {
    if (from.size() == sizeof(std::uint64_t)) {
      std::memcpy(to, from.data(), sizeof(std::uint64_t));
    } else if (!from.empty()) {
      std::memcpy(to, from.data(), from.size());
    }
  }
  [[nodiscard, gnu::always_inline]] std::uint32_t compute_crc(record_layout l, std::uint32_t seed) const noexcept {
    const std::uint64_t first = std::uint64_t{static_cast<std::uint8_t>(l.kind)} | (std::uint64_t{l.flags} << 8) |
                                (std::uint64_t{l.key_size} << 16) | (std::uint64_t{l.value_size} << 32);
    const auto [from, to] = covered(l);
    return crc32c(seed, first, header().depth, at_ + from, to - from);
  }
  /// The part that the crc covers beyond the header that all records have: whole words.
  struct covered_part {
    std::uint64_t from, to;
  };
  // An entry's head and second version change; everything else after the common header does not.
  [[nodiscard, gnu::always_inline]] static covered_part covered(record_layout l) noexcept {
    return {l.kind == format::record_kind::entry ? sizeof(format::entry_header) : sizeof(format::record_header),
            (l.flags & format::flag_large_value) != 0 ? l.value_offset() : l.size()};
  }

  std::byte* at_;
};

/// What a certificate adds up: differs if position, content or version of a record differs.
[[nodiscard, gnu::always_inline]] inline std::uint64_t record_digest(link at, std::uint32_t crc,
                                                                     std::uint64_t stamped) noexcept {
  return mix64(mix64(at ^ (std::uint64_t{crc} << 32)) + (stamped & format::stamp_version_mask));
}

}  // namespace icecore

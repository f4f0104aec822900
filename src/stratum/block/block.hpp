// One block of an extent, read where it lies: some neighbouring keys with their records (extent_format.hpp).
//
//   const block b(bytes);                        // block::check() has accepted it
//   const auto [i, is_there] = b.seek(sought_key("layer1/bias"));
//   if (is_there) if (const auto r = b.newest_at(i, v)) use(r->value);
//
// Threads: a block is immutable; any.
// Precondition of everything but check(): check() found nothing. Lifetime: views lead into the block's bytes.
// Cost: seek() O(log keys), with a good guess O(1); newest_at() O(records of the key in this block); the others O(1).
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/key_head.hpp"
#include "stratum/block/packed_record.hpp"

namespace icecore::stratum {

class block {
 public:
  /// So many neighbours of a guess are searched first: mostly it is wrong by a few.
  static constexpr std::uint32_t heads_at_once = 16;

  explicit block(const std::byte* at) noexcept : at_(at) {}
  [[nodiscard]] const std::byte* bytes() const noexcept { return at_; }

  /// What is wrong with the block of `size` bytes that lies at `at`; nullptr if all is well. `seed` is that of its
  /// place. Reads all of it.
  [[nodiscard]] static const char* check(const std::byte* at, std::uint64_t size, std::uint32_t seed) noexcept;

  [[nodiscard]] const format::block_header& header() const noexcept {
    return *reinterpret_cast<const format::block_header*>(at_);
  }
  [[nodiscard]] std::uint32_t keys() const noexcept { return header().keys; }

  [[nodiscard]] std::string_view key(std::uint32_t i) const noexcept {
    if (has(format::block_flags::keys_in_slots)) return text(slot(i), header().key_size);
    if (has(format::block_flags::keys_of_one_size)) {
      return text(at_ + header().keys_at + std::uint64_t{i} * header().key_size, header().key_size);
    }
    const std::uint32_t from = i == 0 ? 0 : key_end(i - 1);
    return text(at_ + header().keys_at + from, key_end(i) - from);
  }

  struct place {
    std::uint32_t at;  ///< the first key that is not less than the one sought; keys() if all are less
    bool is_there;     ///< it is the one sought
  };
  /// `guess`: where the key may be. It costs little if it is wrong by a few.
  [[nodiscard]] place seek(const sought_key& key, std::uint32_t guess) const noexcept;
  [[nodiscard]] place seek(const sought_key& key) const noexcept { return seek(key, keys() / 2U); }
  /// The same, which compares no heads but those near the guess, if it is not among them.
  struct near_place {
    std::uint32_t at;  ///< a better guess if it is not known
    bool is_there;
    bool is_known;
  };
  [[nodiscard]] near_place seek_near(const sought_key& key, std::uint32_t guess) const noexcept;

  /// The first key from `from` on that is not less than `bound`; keys() if all are less. Quick if that is so, or if it
  /// is not far.
  [[nodiscard]] std::uint32_t end_before(std::string_view bound, std::uint32_t from) const noexcept {
    constexpr std::uint32_t ahead = 8;  // so that the keys around the guess are those from this one on
    if (from >= keys() || key(keys() - 1) < bound) return keys();
    return std::max(from, seek(sought_key(bound), from + ahead).at);
  }

  /// Where a key's rows are, from the block's start.
  struct row_range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  [[nodiscard]] row_range rows_of(std::uint32_t i) const noexcept { return {rows_begin(i), rows_end(i)}; }
  /// The newest record of key i whose version is at most v.
  [[nodiscard]] std::optional<packed_record> newest_at(std::uint32_t i, version v) const noexcept {
    return newest_in(rows_of(i), v);
  }
  [[nodiscard]] std::optional<packed_record> newest_in(const row_range& of, version v) const noexcept {
    if (v < header().least) return std::nullopt;
    const row_reader rows(*this);
    for (std::uint64_t at = of.begin; at < of.end; at = rows.end(at)) {
      if (rows.stamped(at) <= v) return rows.read(at).record;
    }
    return std::nullopt;
  }
  /// The place of that record, from the block's start; 0 if there is none.
  [[nodiscard]] std::uint64_t newest_row_at(std::uint32_t i, version v) const noexcept {
    if (v < header().least) return 0;
    const row_reader rows(*this);
    const std::uint64_t end = rows_end(i);
    for (std::uint64_t at = rows_begin(i); at < end; at = rows.end(at)) {
      if (rows.stamped(at) <= v) return at;
    }
    return 0;
  }
  /// Calls `visit(record)` for the records of key i whose versions are at most v, newest first, until it returns false;
  /// whether it never did.
  template <class Visit>
  bool for_each_of(std::uint32_t i, version v, Visit&& visit) const;
  /// Calls `visit(key, record)` for the newest record of each key from `first` to before `end` whose version is at most
  /// v, until it returns false; whether it never did.
  template <class Visit>
  bool for_each_at(version v, std::uint32_t first, std::uint32_t end, Visit&& visit) const;

  /// Where keys and values are copied to, back to back.
  struct shown_columns {
    std::byte* keys;
    std::byte* values;
  };
  /// Whether each key and each value has so many bytes, and copy_shown() can copy them.
  [[nodiscard]] bool copies_to_columns(std::uint64_t key_size, std::uint64_t value_size) const noexcept;
  /// Copies what version v shows of the keys from `first` to before `end`, and says how many that is. The columns have
  /// room for end - first rows; those behind the copied ones may be written to, too.
  std::size_t copy_shown(version v, std::uint32_t first, std::uint32_t end, const shown_columns& to) const noexcept;

  /// A row, and where the next one begins, from the block's start.
  struct read_row {
    packed_record record;
    std::uint64_t end;
  };
  /// For who goes from row to row: those of key i are in [rows_begin(i), rows_end(i)).
  [[nodiscard]] std::uint64_t rows_begin(std::uint32_t i) const noexcept { return header().rows_at + row(i); }
  [[nodiscard]] std::uint64_t rows_end(std::uint32_t i) const noexcept {
    return i + 1 == keys() ? header().end : header().rows_at + row(i + 1);
  }
  [[nodiscard]] read_row row_at(std::uint64_t at) const noexcept { return row_reader(*this).read(at); }
  class rows_behind;
  /// The records of key i behind the one of row `at`.
  [[nodiscard]] rows_behind rows_after(std::uint32_t i, std::uint64_t at) const noexcept;

  /// Asks for some keys and their rows from key i on, as far as the block has them.
  [[gnu::always_inline]] void prefetch_from(std::uint32_t i, std::uint32_t count) const noexcept {
    const std::uint32_t keys = this->keys();
    const std::uint64_t first = std::min(i, keys);
    const std::uint64_t end = std::min<std::uint64_t>(first + count, keys);
    const std::uint64_t slot_bytes = header().slot_bytes;
    prefetch(sizeof(format::block_header) + first * slot_bytes, sizeof(format::block_header) + end * slot_bytes);
    // rows lie about as far behind the first one as slots do
    const std::uint64_t rows_at = header().rows_at;
    const std::uint64_t rows = header().end - rows_at;
    prefetch(rows_at + rows * first / keys, rows_at + rows * end / keys);
  }
  /// Asks for the first rows of a key, which may lie in two lines.
  [[gnu::always_inline]] static void prefetch_rows(const std::byte* block, const row_range& of) noexcept {
    constexpr std::uint64_t row_bytes_usual = 24;
    __builtin_prefetch(block + of.begin);
    __builtin_prefetch(block + of.begin + row_bytes_usual);
  }

 private:
  static constexpr std::uint64_t kind_mask = (1U << format::packed_kind_bits) - 1;

  /// How rows are read. A copy of what the header says, since a visitor may write anywhere: the compiler would read the
  /// header again for each row.
  class row_reader {
   public:
    explicit row_reader(const block& of) noexcept
        : at_(of.at_),
          least_(of.header().least),
          version_mask_(mask(of.header().version_bytes)),
          size_mask_(mask(of.header().size_bytes)),
          value_size_(of.header().value_size),
          version_bytes_(of.header().version_bytes),
          size_bytes_(of.header().size_bytes),
          padding_(of.has(format::block_flags::aligned) ? 7 : 0) {}

    // In parts, for who keeps them apart: `at` is where the row begins, `behind` where its version ends.
    [[nodiscard]] format::packed_kind kind(std::uint64_t at) const noexcept {
      return static_cast<format::packed_kind>(word_at(at_ + at) & kind_mask);
    }
    [[nodiscard]] std::uint64_t version_end(std::uint64_t at) const noexcept { return at + version_bytes_; }
    [[nodiscard]] std::uint64_t value_size(std::uint64_t behind) const noexcept {
      return size_bytes_ == 0 ? value_size_ : word_at(at_ + behind) & size_mask_;
    }
    [[nodiscard]] std::uint64_t value_begin(std::uint64_t behind) const noexcept {
      return (behind + size_bytes_ + padding_) & ~padding_;
    }
    /// From a row with a value to the next one, if that is the same for all rows; else 0.
    [[nodiscard]] std::uint64_t step_of_values() const noexcept {
      return size_bytes_ == 0 && padding_ == 0 ? version_bytes_ + value_size_ : 0;
    }
    /// Where the next row begins.
    [[nodiscard]] std::uint64_t end(std::uint64_t at) const noexcept {
      const std::uint64_t behind = version_end(at);
      return kind(at) == format::packed_kind::removal ? behind : value_begin(behind) + value_size(behind);
    }
    [[nodiscard]] const std::byte* bytes() const noexcept { return at_; }

    [[nodiscard]] version stamped(std::uint64_t at) const noexcept {
      return least_ + ((word_at(at_ + at) & version_mask_) >> format::packed_kind_bits);
    }
    [[nodiscard, gnu::always_inline]] read_row read(std::uint64_t at) const noexcept {
      const std::uint64_t word = word_at(at_ + at) & version_mask_;
      const version stamped = least_ + (word >> format::packed_kind_bits);
      const auto kind = static_cast<format::packed_kind>(word & kind_mask);
      at += version_bytes_;
      if (kind == format::packed_kind::removal) return {{stamped, kind, {}}, at};
      const std::uint64_t size = value_size(at);
      at = value_begin(at);
      return {{stamped, kind, text(at_ + at, size)}, at + size};
    }

   private:
    /// 4 is the most size_bytes, 7 the most version_bytes: no shift of 64.
    [[nodiscard]] static std::uint64_t mask(unsigned bytes) noexcept { return (std::uint64_t{1} << (8 * bytes)) - 1; }

    const std::byte* at_;
    version least_;
    std::uint64_t version_mask_;
    std::uint64_t size_mask_;
    std::uint64_t value_size_;
    std::uint64_t version_bytes_;
    std::uint64_t size_bytes_;
    std::uint64_t padding_;
  };

  [[gnu::always_inline]] void prefetch(std::uint64_t from, std::uint64_t end) const noexcept {
    constexpr std::uint64_t enough = 16 * std::uint64_t{format::block_alignment};  // of long records
    end = std::min(end, from + enough);
    for (; from < end; from += format::block_alignment) __builtin_prefetch(at_ + from);
  }
  [[nodiscard]] bool has(std::uint8_t flag) const noexcept { return (header().flags & flag) != 0; }
  [[nodiscard]] static std::string_view text(const std::byte* from, std::uint64_t size) noexcept {
    return {reinterpret_cast<const char*>(from), size};
  }
  [[nodiscard]] const std::byte* slot(std::uint32_t i) const noexcept {
    return at_ + sizeof(format::block_header) + std::uint64_t{i} * header().slot_bytes;
  }
  [[nodiscard]] std::uint64_t head(std::uint32_t i) const noexcept {
    return __builtin_bswap64(word_at(slot(i))) & head_mask();
  }
  [[nodiscard]] std::uint32_t head_bytes() const noexcept {
    return has(format::block_flags::keys_in_slots) ? header().key_size : sizeof(std::uint64_t);
  }
  [[nodiscard]] std::uint64_t head_mask() const noexcept { return ~std::uint64_t{0} << (64 - 8 * head_bytes()); }
  /// A number of the slot, at `offset` in it.
  [[nodiscard]] std::uint32_t number(std::uint32_t i, std::uint32_t offset) const noexcept {
    std::uint32_t n;
    std::memcpy(&n, slot(i) + offset, sizeof n);
    return has(format::block_flags::wide) ? n : n & UINT16_MAX;
  }
  [[nodiscard]] std::uint32_t number_bytes() const noexcept { return has(format::block_flags::wide) ? 4 : 2; }
  [[nodiscard]] std::uint32_t key_end(std::uint32_t i) const noexcept {
    return number(i, header().slot_bytes - number_bytes());
  }
  /// Where the first row of key i begins, from rows_at on.
  [[nodiscard]] std::uint64_t row(std::uint32_t i) const noexcept {
    if (has(format::block_flags::rows_of_one_size))
      return std::uint64_t{i} * (header().version_bytes + header().value_size);
    return number(i, head_bytes());
  }
  template <class KeyOf, class Visit>
  bool for_each_key_at(version v, std::uint32_t first, std::uint32_t keys_end, KeyOf key_of, Visit& visit) const;
  /// The first key whose head is not less: the `less` ones of the `heads_at_once` heads from `begin` on do not tell.
  template <class IsLess>
  [[nodiscard]] std::uint32_t first_not_less_beyond(std::uint32_t begin, std::uint32_t less,
                                                    IsLess is_less) const noexcept;
  /// `IsWhole`: a slot has 8 bytes of a head, or more. `beyond(begin, less, is_less)` tells it if it is not among the
  /// `heads_at_once` heads from `begin` on, which are around the guess.
  template <bool IsWhole, class Beyond>
  [[nodiscard]] std::uint32_t first_not_less(std::uint64_t head, std::uint32_t guess,
                                             const Beyond& beyond) const noexcept;
  template <class Beyond>
  [[nodiscard]] place seek_with(const sought_key& key, std::uint32_t guess, const Beyond& beyond) const noexcept;
  [[nodiscard]] const char* parts_fail() const noexcept;
  [[nodiscard]] const char* keys_fail() const noexcept;
  [[nodiscard]] const char* rows_fail() const noexcept;

  const std::byte* at_;
};

/// Some records of a key in a block, newest first. In parts, which a loop keeps in registers: a record that is put
/// together in memory, and then read from there, costs three times as much.
class block::rows_behind {
 public:
  rows_behind(const block& of, std::uint64_t first, std::uint64_t end) noexcept : rows_(of), next_(first), end_(end) {}
  /// Goes to the next one; false at the end.
  [[nodiscard, gnu::always_inline]] bool next() noexcept {
    if (next_ >= end_) return false;
    row_ = next_;
    next_ = rows_.version_end(row_);
    if (!is_removal()) [[likely]] {
      size_ = rows_.value_size(next_);
      value_ = rows_.value_begin(next_);
      next_ = value_ + size_;
    }
    return true;
  }
  /// Where all values have one size: goes over the next rows as long as they are values that lie there, `at_most` of
  /// them, and calls `take(stamped, value)` for each. False if it does not go on. It is next() without what differs
  /// from row to row.
  template <class Take>
  [[nodiscard, gnu::always_inline]] bool take_values(std::size_t at_most, Take&& take) noexcept {
    const std::uint64_t step = rows_.step_of_values();
    if (step == 0) return false;
    std::uint64_t at = next_;
    for (; at < end_ && at_most != 0 && rows_.kind(at) == format::packed_kind::value; at += step, --at_most) {
      take(rows_.stamped(at), text(rows_.bytes() + rows_.version_end(at), rows_.value_size(at)));
    }
    if (at == next_) return false;
    row_ = at - step;
    next_ = at;
    return true;
  }
  // ---- Of the one that next() went to ----
  /// From the block's start.
  [[nodiscard]] std::uint64_t row() const noexcept { return row_; }
  [[nodiscard]] version stamped() const noexcept { return rows_.stamped(row_); }
  [[nodiscard]] bool is_removal() const noexcept { return rows_.kind(row_) == format::packed_kind::removal; }
  [[nodiscard]] bool is_elsewhere() const noexcept { return rows_.kind(row_) == format::packed_kind::elsewhere; }
  /// Precondition: it is no removal, and the value is not elsewhere.
  [[nodiscard]] std::string_view value() const noexcept { return text(rows_.bytes() + value_, size_); }

 private:
  row_reader rows_;
  std::uint64_t next_;
  std::uint64_t end_;
  std::uint64_t row_ = 0;
  std::uint64_t value_ = 0;
  std::uint64_t size_ = 0;
};

inline block::rows_behind block::rows_after(std::uint32_t i, std::uint64_t at) const noexcept {
  return {*this, row_at(at).end, rows_end(i)};
}

template <class Visit>
bool block::for_each_of(std::uint32_t i, version v, Visit&& visit) const {
  if (v < header().least) return true;
  const row_reader rows(*this);
  const std::uint64_t end = rows_end(i);
  for (std::uint64_t at = rows_begin(i); at < end;) {
    const read_row r = rows.read(at);
    if (r.record.stamped <= v && !visit(r.record)) return false;
    at = r.end;
  }
  return true;
}

template <class Visit>
bool block::for_each_at(version v, std::uint32_t first, std::uint32_t end, Visit&& visit) const {
  if (v < header().least || first >= end) return true;
  if (has(format::block_flags::keys_in_slots)) {
    const std::size_t size = header().key_size;
    return for_each_key_at(
        v, first, end, [size](const block&, std::uint32_t, const std::byte* slot) { return text(slot, size); }, visit);
  }
  return for_each_key_at(
      v, first, end, [](const block& b, std::uint32_t i, const std::byte*) { return b.key(i); }, visit);
}

template <class KeyOf, class Visit>
bool block::for_each_key_at(version v, std::uint32_t first, std::uint32_t keys_end, KeyOf key_of, Visit& visit) const {
  const row_reader rows(*this);
  const std::uint32_t keys = this->keys();
  const std::uint64_t rows_begin = header().rows_at;
  const std::uint64_t slot_bytes = header().slot_bytes;
  const std::uint64_t rows_end_at = header().end;
  const std::byte* slot = this->slot(first);
  if (has(format::block_flags::rows_of_one_size)) {
    const std::uint64_t row_bytes = header().version_bytes + header().value_size;
    std::uint64_t at = rows_begin + first * row_bytes;
    for (std::uint32_t i = first; i < keys_end; ++i, at += row_bytes, slot += slot_bytes) {
      const read_row r = rows.read(at);
      if (r.record.stamped <= v && !visit(key_of(*this, i, slot), r.record)) return false;
    }
    return true;
  }
  const std::uint64_t row_offset = head_bytes();
  const std::uint32_t mask = has(format::block_flags::wide) ? UINT32_MAX : UINT16_MAX;
  std::uint64_t at = rows_begin + row(first);
  for (std::uint32_t i = first; i < keys_end; ++i, slot += slot_bytes) {
    std::uint32_t next;
    std::memcpy(&next, slot + slot_bytes + row_offset, sizeof next);  // of the last key: other bytes of the block
    const std::uint64_t end = i + 1 == keys ? rows_end_at : rows_begin + (next & mask);
    while (at < end) {
      const read_row r = rows.read(at);
      at = r.end;
      if (r.record.stamped > v) continue;
      if (!visit(key_of(*this, i, slot), r.record)) return false;
      break;
    }
    at = end;
  }
  return true;
}

}  // namespace icecore::stratum

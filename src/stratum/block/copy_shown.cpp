// What a version shows of a block, into columns. Which of a key's rows that is cannot be guessed, so no branch depends
// on it: each key is copied to the next place of the columns, which the next key takes, too, if this one is not shown.
#include <algorithm>

#include "stratum/block/block.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

constexpr std::uint64_t column_bytes = sizeof(std::uint64_t);                        // of each key and each value
constexpr std::uint64_t slot_bytes_numbered = column_bytes + sizeof(std::uint16_t);  // with the place of the rows

/// 1 if a < b, else 0: of a comparison GCC may make a branch. Precondition: both are less than 2^63.
[[nodiscard, gnu::always_inline]] inline std::uint64_t is_less(std::uint64_t a, std::uint64_t b) noexcept {
  return (a - b) >> 63;
}
[[nodiscard, gnu::always_inline]] inline std::uint64_t is_less(const std::byte* a, const std::byte* b) noexcept {
  return is_less(reinterpret_cast<std::uintptr_t>(a), reinterpret_cast<std::uintptr_t>(b));
}
/// 1 if the row that begins with this word is of a value, 0 if it is of a removal.
[[nodiscard, gnu::always_inline]] inline std::uint64_t is_value(std::uint64_t word) noexcept { return ~word & 1U; }
static_assert(static_cast<unsigned>(packed_kind::value) == 0 && static_cast<unsigned>(packed_kind::removal) == 1);
static_assert(sizeof(value_reference) != column_bytes);  // so no row here is of a value that lies elsewhere

/// Copies the keys of one block. A copy of what its header says, since bytes are written, which might be the header's.
class shown_copy {
 public:
  shown_copy(const block_header& h, version v, const block::shown_columns& to) noexcept
      : mask_((std::uint64_t{1} << (8 * h.version_bytes)) - 1),
        newest_((std::min<version>(v, h.greatest) - h.least) << packed_kind_bits | 1U),
        version_bytes_(h.version_bytes),
        next_block_(h.size),
        to_(to) {}

  /// Of keys with one record each, all values.
  void copy_single(const std::byte* slot, const std::byte* row, std::uint32_t keys) noexcept {
    for (; keys > 0; --keys, slot += column_bytes, row += version_bytes_ + column_bytes) {
      ask_ahead(slot, row);
      write(slot, row, 1U ^ is_less(newest_, word(row)));
    }
  }
  /// Of keys whose newest records are shown, unless they are removals.
  void copy_newest(const std::byte* slot, const std::byte* rows, std::uint32_t keys) noexcept {
    for (; keys > 0; --keys, slot += slot_bytes_numbered) {
      const std::byte* const row = rows + row_of(slot);
      ask_ahead(slot, row);
      write(slot, row, is_value(word(row)));
    }
  }
  /// Of other keys: `behind` is the slot behind the last one. Passes `expected` rows of a key that are too new without
  /// a branch.
  template <unsigned expected>
  void copy_at_version(const std::byte* slot, const std::byte* behind, const std::byte* rows) noexcept {
    for (const std::byte* row = rows + row_of(slot); slot != behind; slot += slot_bytes_numbered) {
      ask_ahead(slot, row);
      const std::byte* const next = rows + row_of(slot + slot_bytes_numbered);
      copy_key<expected>(slot, row, next);
      row = next;
    }
  }
  template <unsigned expected>
  [[gnu::always_inline]] void copy_key(const std::byte* slot, const std::byte* row, const std::byte* behind) noexcept {
    std::uint64_t w = word(row);  // behind the last row are bytes to be read
    std::uint64_t passed = is_less(newest_, w);
    for (unsigned i = 0; i < expected; ++i) {
      row += row_bytes(w) & (0U - passed);
      w = word(row);
      passed = is_less(newest_, w) & is_less(row, behind);
    }
    for (; passed != 0; passed = is_less(newest_, w) & is_less(row, behind)) [[unlikely]] {
      row += row_bytes(w);
      w = word(row);
    }
    write(slot, row, is_value(w) & is_less(row, behind));
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  [[nodiscard, gnu::always_inline]] std::uint64_t word(const std::byte* row) const noexcept {
    return word_at(row) & mask_;
  }
  [[nodiscard, gnu::always_inline]] std::uint64_t row_bytes(std::uint64_t w) const noexcept {
    return version_bytes_ + is_value(w) * column_bytes;
  }
  [[nodiscard, gnu::always_inline]] static std::uint64_t row_of(const std::byte* slot) noexcept {
    std::uint16_t row;
    std::memcpy(&row, slot + column_bytes, sizeof row);
    return row;
  }
  /// The next block is mostly like this one.
  [[gnu::always_inline]] void ask_ahead(const std::byte* slot, const std::byte* row) const noexcept {
    __builtin_prefetch(slot + next_block_);
    __builtin_prefetch(row + next_block_);
  }
  [[gnu::always_inline]] void write(const std::byte* slot, const std::byte* row, std::uint64_t shown) noexcept {
    std::memcpy(to_.keys + count_ * column_bytes, slot, column_bytes);
    std::memcpy(to_.values + count_ * column_bytes, row + version_bytes_, column_bytes);
    count_ += shown;
  }

  std::uint64_t mask_;
  std::uint64_t newest_;  // what a row that is not too new begins with, at most
  std::uint64_t version_bytes_;
  std::uint64_t next_block_;
  block::shown_columns to_;
  std::size_t count_ = 0;
};

}  // namespace

bool block::copies_to_columns(std::uint64_t key_size, std::uint64_t value_size) const noexcept {
  const block_header& h = header();
  return key_size == column_bytes && value_size == column_bytes && has(block_flags::keys_in_slots) &&
         h.key_size == key_size && h.value_size == value_size && h.size_bytes == 0 &&
         !has(block_flags::aligned | block_flags::wide);
}

std::size_t block::copy_shown(version v, std::uint32_t first, std::uint32_t end,
                              const shown_columns& to) const noexcept {
  const block_header& h = header();
  if (v < h.least || first >= end) return 0;
  shown_copy out(h, v, to);
  const std::byte* const rows = at_ + h.rows_at;
  if (has(block_flags::rows_of_one_size)) {
    out.copy_single(slot(first), rows + row(first), end - first);
  } else if (v >= h.greatest) {
    out.copy_newest(slot(first), rows, end - first);
  } else {
    const bool has_last = end == h.keys;
    const std::byte* const behind = slot(has_last ? end - 1 : end);
    if (v - h.least >= (h.greatest - h.least) / 2) {
      out.copy_at_version<1>(slot(first), behind, rows);
    } else {
      out.copy_at_version<2>(slot(first), behind, rows);
    }
    if (has_last) out.copy_key<1>(behind, rows + row(end - 1), at_ + header().end);
  }
  return out.count();
}

}  // namespace icecore::stratum

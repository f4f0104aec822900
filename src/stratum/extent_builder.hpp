// Writes an extent: records in the order of (key ascending, version descending), packed into blocks, with their fence.
//
//   extent_builder b(memory, seed);
//   while (there_is_more && b.add(key, record)) ...     // false: it is full, begin another with this record
//   const std::uint64_t size = b.finish();              // memory[0, size) is the extent
//
// Threads: one object, one thread.
// Durability: none; who makes the extent part of a store makes its bytes durable before.
// Errors: errc::invalid_argument from add() if a record is out of order, its key or value is too long, or its version
// cannot be.
// Cost: O(bytes). Memory: a block, and a few dozen bytes for each block.
// Invariants:
//   X1. What add() accepted fits, with its block and the fence: finish() never lacks room.
//   X2. A key's records are in one block, unless they alone are more than a block: then it has blocks of its own, and
//       the last of them may be followed by other keys.
//   X3. Blocks of short records end where pages of media end, if where the extent lies in a page is known: a find that
//       reads from a device needs one page, not two. Short ones take at most what is filled. A block that does not
//       begin with a page, behind a long record for instance, takes between half a page and one and a half, to where a
//       page ends; and what is left up to there is filled if it is little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stratum/block/block_builder.hpp"
#include "stratum/fence.hpp"

namespace icecore::stratum {

/// Bytes of a block, except where one record is longer, or shorter records are more than a block can count, or a page
/// of media ends elsewhere (X3).
inline constexpr std::uint64_t block_bytes_usual = 4096;
/// More count as these: the numbers in a block have 32 bits.
inline constexpr std::uint64_t block_bytes_max = std::uint64_t{1} << 30;
/// Longer values are not packed: with its key, a value is a block, whose size has 32 bits.
inline constexpr std::uint64_t packed_value_max = (std::uint64_t{1} << 32) - (std::uint64_t{1} << 17);
static_assert(packed_value_max + key_size_max + 4 * format::block_alignment + block_builder::filling_max <= UINT32_MAX);

class extent_builder {
 public:
  /// `to` keeps the extent; at most 256 GiB of it are used. It begins at a multiple of 64. `seed` is that of all
  /// checksums: of the store and the place, so that bytes of elsewhere are no extent here. `in_page`: where the extent
  /// will begin in a page of media, if finds read its blocks there (X3).
  extent_builder(std::span<std::byte> to, std::uint32_t seed, std::uint64_t block_bytes = block_bytes_usual,
                 std::optional<std::uint64_t> in_page = std::nullopt);

  /// Whether the record was taken. If not, it does not fit any more.
  [[nodiscard]] bool add(std::string_view key, const packed_record& record);
  [[nodiscard]] std::uint64_t records() const noexcept { return header_.records; }
  /// Completes the extent; returns its size. Precondition: there is a record.
  [[nodiscard]] std::uint64_t finish();

 private:
  /// Whether the record is of the key of the one before. errc::invalid_argument if it must not follow that one.
  [[nodiscard]] bool goes_on_with_last_key(std::string_view key, const packed_record& record) const;
  /// `by_pages`: blocks end with pages, where the next record is (X3).
  void write_block(bool by_pages);
  /// Whether a record that takes so many bytes more begins another block.
  [[nodiscard]] bool is_full_for(std::uint64_t more, bool by_pages) const noexcept;
  /// Bytes of the block that is being filled, at most, where blocks end with pages.
  [[nodiscard]] std::uint64_t page_limit() const noexcept;
  void count(std::string_view key, const packed_record& record, bool known_key);

  std::span<std::byte> to_;
  std::uint32_t seed_;
  std::uint64_t block_bytes_;
  std::optional<std::uint64_t> in_page_;               // where the extent begins
  std::uint64_t end_ = sizeof(format::extent_header);  // of the blocks that are written
  format::extent_header header_{};
  block_builder block_;    // the one that is being filled
  block_builder carried_;  // for moving a key to the next block
  fence_builder fence_;
  std::string first_key_;        // of the extent
  std::string last_key_;         // of the extent
  version last_version_ = 0;     // of the last record
  std::string written_key_;      // the last one of the blocks that are written
  version written_version_ = 0;  // of its last record there
};

}  // namespace icecore::stratum

// The fence of an extent: which block a search begins in.
//
//   fence_builder f;
//   f.add(separator, newest, place, {least, greatest});  ...    // of each block, in order
//   f.write(to, end_place, prefix);                             // f.size() bytes
//
//   const fence f(bytes, blocks, separators, prefix, {least, greatest});
//   f.find(sought_key("layer1/bias"), v);                       // the block, or none
//   if (f.may_have(i, 7, 9)) ...                                // versions 8 and 9 of block i
//
// A separator of a block is at most its first key, and greater than every key before it. What is sought is a pair of a
// key and a version; the block that has it, if one has, is the last one whose separator is not behind it.
//
// Threads: immutable after it was written; any. Cost: find() O(log blocks); it reads one line of heads for each
// factor of 16 and, only where heads tie, separators.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_head.hpp"
#include "icecore/options.hpp"
#include "stratum/extent_format.hpp"

namespace icecore::stratum {

/// Versions of records: the oldest and the newest one.
struct version_interval {
  version least;
  version greatest;
};

/// The versions of an extent's blocks in 32 bits each (format::block_versions).
class version_units {
 public:
  explicit version_units(const version_interval& of_extent) noexcept
      : least_(of_extent.least), shift_(shift_of(of_extent.greatest - of_extent.least)) {}
  /// A greater version has no smaller number, so who compares numbers may take a version for one that is there, and
  /// never misses one.
  [[nodiscard]] std::uint64_t of(version v) const noexcept { return v <= least_ ? 0 : (v - least_) >> shift_; }
  [[nodiscard]] format::block_versions of(const version_interval& block) const noexcept {
    return {static_cast<std::uint32_t>(of(block.least)), static_cast<std::uint32_t>(of(block.greatest))};
  }
  [[nodiscard]] version least() const noexcept { return least_; }

 private:
  [[nodiscard]] static unsigned shift_of(std::uint64_t span) noexcept {
    constexpr unsigned bits = 32;
    const auto width = static_cast<unsigned>(std::bit_width(span));
    return width > bits ? width - bits : 0;
  }

  version least_;
  unsigned shift_;
};

class fence_builder {
 public:
  /// `newest`: version_max, unless the block goes on with the key of the one before. `versions`: of its records.
  void add(std::string_view separator, version newest, format::block_place place, const version_interval& versions);
  [[nodiscard]] std::uint32_t blocks() const noexcept { return static_cast<std::uint32_t>(newest_.size()); }
  [[nodiscard]] std::uint64_t separators_size() const noexcept { return separators_.size(); }
  /// Bytes of the fence if one more block with a separator of so many bytes is added.
  [[nodiscard]] std::uint64_t size_with(std::uint64_t separator) const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept;
  /// `end`: where the last block ends, in units of 64 bytes. `prefix_size`: of the bytes that all keys share.
  void write(std::byte* to, std::uint32_t end, std::size_t prefix_size) const;

 private:
  [[nodiscard]] std::string_view separator(std::size_t i) const noexcept;

  std::string separators_;
  std::vector<std::uint32_t> ends_;
  std::vector<version> newest_;
  std::vector<format::block_place> places_;
  std::vector<version_interval> versions_;
};

/// Bytes of a fence.
[[nodiscard]] std::uint64_t fence_size(std::uint64_t blocks, std::uint64_t separators) noexcept;

class fence {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  /// `at` has fence_size(blocks, separators) bytes, which stay. `prefix_size`: as it was written. `versions`: of all.
  fence(const std::byte* at, std::uint32_t blocks, std::uint64_t separators, std::size_t prefix_size,
        const version_interval& versions) noexcept;

  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }
  /// A block, and which of its keys may be the one sought.
  struct guess {
    std::uint32_t block;
    std::uint32_t key;
  };
  /// The last block whose separator is not behind (key, v): newer versions of a key come first. none if there is none.
  /// And which of its keys `key` may be, if these are spread evenly between its separator and the next one.
  [[nodiscard]] guess find(const sought_key& key, version v) const noexcept { return find_in(group_of(key), key, v); }
  /// The same in two steps, for who has other keys to look for while lines come: group_of() reads no line of the lowest
  /// level, and expect_group() asks for those that find_in() reads, and place() of what it finds.
  [[nodiscard]] std::uint32_t group_of(const sought_key& key) const noexcept;
  [[gnu::always_inline]] void expect_group(std::uint32_t group) const noexcept {
    for (const std::byte* const column : {levels_[0].heads, places_}) {  // a block has 8 bytes of each
      const std::byte* const first = column + std::uint64_t{group} * sizeof(std::uint64_t);
      constexpr std::size_t line = format::block_alignment;
      for (std::size_t at = 0; at <= format::fence_fanout * sizeof(std::uint64_t); at += line) {
        __builtin_prefetch(first + at);  // the last one has what is behind the group, or its end
      }
    }
  }
  [[nodiscard]] guess find_in(std::uint32_t group, const sought_key& key, version v) const noexcept;
  /// Where block i begins, for i = blocks() where the last one ends, in bytes from the extent's start.
  [[nodiscard]] std::uint64_t place(std::uint32_t i) const noexcept {
    return std::uint64_t{block_at(i).at} * format::block_alignment;
  }
  [[nodiscard]] format::block_place block_at(std::uint32_t i) const noexcept {
    return number<format::block_place>(places_, i);
  }
  /// version_max, unless block i goes on with the key of the one before.
  [[nodiscard]] version newest(std::uint32_t i) const noexcept { return number<version>(newest_, i); }
  [[nodiscard]] bool goes_on(std::uint32_t i) const noexcept { return newest(i) != version_max; }
  /// Whether block i may have records of versions up to `v`.
  [[nodiscard]] bool may_have(std::uint32_t i, version v) const noexcept {
    return v >= units_.least() && versions_at(i).least <= units_.of(v);
  }
  /// Whether it may have some of versions greater than `after` up to `up_to`.
  [[nodiscard]] bool may_have(std::uint32_t i, version after, version up_to) const noexcept {
    return may_have(i, up_to) && versions_at(i).greatest >= units_.of(after + 1);
  }
  /// Whether it says so of a block that has these.
  [[nodiscard]] bool says(std::uint32_t i, const version_interval& versions) const noexcept {
    const format::block_versions is = versions_at(i);
    const format::block_versions due = units_.of(versions);
    return is.least == due.least && is.greatest == due.greatest;
  }
  [[nodiscard]] std::string_view separator(std::uint32_t i) const noexcept;
  /// What cannot be true; nullptr if all may. Reads all of it.
  [[nodiscard]] const char* fail() const noexcept;

 private:
  struct level {
    const std::byte* heads;
    std::uint32_t count;
  };
  template <class Number>
  [[nodiscard]] static Number number(const std::byte* column, std::uint32_t i) noexcept {
    Number n;
    std::memcpy(&n, column + std::uint64_t{i} * sizeof n, sizeof n);
    return n;
  }
  [[nodiscard]] format::block_versions versions_at(std::uint32_t i) const noexcept {
    return number<format::block_versions>(versions_, i);
  }
  [[nodiscard]] std::uint64_t head_at(std::uint32_t i) const noexcept {
    return number<std::uint64_t>(levels_[0].heads, i);
  }
  /// How many heads are at most `head`: of the uppermost level, and of a lower one, where they end in the group that
  /// begins at `from`.
  [[nodiscard]] std::uint32_t top_heads_to(std::uint64_t head) const noexcept;
  [[nodiscard]] static std::uint32_t heads_to(const level& in, std::uint32_t from, std::uint64_t head) noexcept;
  [[nodiscard]] std::uint32_t block_in(std::uint32_t group, std::uint64_t head, const sought_key& key,
                                       version v) const noexcept;
  [[nodiscard]] std::uint32_t key_in(std::uint32_t block, std::uint64_t head) const noexcept;
  /// block_in() if the separator before `end` has the key's head, and those from `end` on a greater one.
  [[nodiscard]] std::uint32_t last_not_behind(std::uint32_t end, std::uint64_t head, std::string_view key,
                                              version v) const noexcept;
  /// Whether block i's separator is behind (key, v).
  [[nodiscard]] bool is_behind(std::uint32_t i, std::string_view key, version v) const noexcept;

  static constexpr std::size_t levels_max = 8;
  level levels_[levels_max];  // the uppermost one has at most a group, the others have more
  std::uint32_t level_count_ = 0;
  std::uint64_t top_[format::fence_fanout];  // heads of the uppermost level, filled up with the greatest ones
  std::uint32_t blocks_;
  const std::byte* newest_;
  const std::byte* places_;
  const std::byte* versions_;
  version_units units_;
  const std::byte* ends_;
  const char* separators_;
  std::uint64_t separators_size_;
  std::string_view prefix_;
};

}  // namespace icecore::stratum

// The rows of a chunk that keeps keys as bits: which of the keys that were examined match.
//
//   the first key that was examined: its size (2 bytes), its bytes; then a bit for each that was examined, from the
//   lowest bit of the first byte on
//
// A version that is closed does not change, so the examined keys are found again: they are those that the version shows
// from the first one to the chunk's last key. Where more than one in eight matches that takes less space than the keys,
// and less work while the query runs. Only a chunk whose keys lie in one range of the filter may have bits.
//
// Threads: functions and values; one object, one thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pool/query/chunk.hpp"
#include "store/read/scan.hpp"

namespace icecore::detail {

class bit_rows_writer {
 public:
  /// Adds `count` examined keys, at most 64, whose first is `first`; bit i of `matches` is of the i-th.
  void add(std::string_view first, std::uint64_t matches, std::size_t count) {
    if (examined_ == 0) first_ = first;
    constexpr std::size_t word_bits = 64;
    const std::size_t shift = examined_ % word_bits;
    if (words_.size() < examined_ / word_bits + 2) words_.resize(2 * (examined_ / word_bits + 2));
    std::uint64_t* const word = words_.data() + examined_ / word_bits;
    if (shift == 0) *word = 0;
    *word |= matches << shift;
    if (shift + count > word_bits) word[1] = matches >> (word_bits - shift);
    examined_ += count;
  }
  /// Keys from another range of the filter follow.
  void begin_range() noexcept { spans_ranges_ = spans_ranges_ || examined_ != 0; }
  /// Whether bits are the better way to keep so many matches.
  [[nodiscard]] bool suits(std::size_t matches) const noexcept {
    constexpr std::size_t examined_min = 64;
    return !spans_ranges_ && examined_ >= examined_min && matches > examined_ / 8;
  }
  void append_to(std::vector<std::byte>& out) const {
    static_assert(std::endian::native == std::endian::little);
    const auto size = static_cast<std::uint16_t>(first_.size());
    const auto append = [&out](const void* bytes, std::size_t n) {
      const auto* const from = static_cast<const std::byte*>(bytes);
      out.insert(out.end(), from, from + n);
    };
    append(&size, sizeof size);
    append(first_.data(), first_.size());
    append(words_.data(), (examined_ + 7) / 8);
  }
  void clear() noexcept {
    examined_ = 0;
    spans_ranges_ = false;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t examined_ = 0;
  std::string_view first_;  ///< a view into the pool: keys stay where they are
  bool spans_ranges_ = false;
};

/// The keys that match, as views into the pool; empty if the version does not show as many keys there as were examined,
/// or the bytes are not such rows.
template <class Engine>
[[nodiscard]] std::optional<std::vector<std::string_view>> keys_of_bit_rows(const Engine& engine,
                                                                            const index::ordered_links& links,
                                                                            version at, const chunk& of) {
  std::span<const std::byte> bytes = of.rows();
  std::uint16_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes = bytes.subspan(sizeof size);
  const std::size_t examined = of.header().examined;
  if (bytes.size() != size + (examined + 7) / 8) return std::nullopt;
  scan_bounds bounds;
  bounds.from = {reinterpret_cast<const char*>(bytes.data()), size};
  bounds.of_closed_version = true;
  const std::span<const std::byte> bits = bytes.subspan(size);

  std::vector<std::string_view> matching;
  matching.reserve(of.header().rows);
  std::size_t seen = 0;
  bool is_first = true;
  for_each_block(engine, links, bounds, [&](const walked_entries& entries) {
    std::array<link, index::block::capacity> visible;
    const std::size_t found = visible_records(engine, entries, at, visible);
    for (std::size_t i = 0; i < found; ++i) {
      const std::string_view key = key_of_record(engine, visible[i]);
      if (key > of.last_key()) return false;
      if (std::exchange(is_first, false) && key != bounds.from) return false;
      if (seen < examined && (std::to_integer<unsigned>(bits[seen / 8]) >> seen % 8 & 1U) != 0) matching.push_back(key);
      ++seen;
    }
    return true;
  });
  if (seen != examined || matching.size() != of.header().rows) return std::nullopt;
  return matching;
}

}  // namespace icecore::detail

// Where the lines of a lookup table are, for who knows a key before it may look at the table: it asks for the key's
// line there, and takes its pin, or leases its writer, while the line comes.
//
//   lookup_place place;                              // outlives the table
//   lookup_cache cache(bytes_max, true, &place);
//   place.prefetch(lookup_cache::hash_of(key));      // the table may be another one by now, or none
//
// What it says is only a hint: a prefetch of an address that nothing is mapped at does nothing.
//
// Threads: any. Cost: a word is read, which changes when a table is made or grows.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace icecore::index {

class lookup_place {
 public:
  /// For who will write the line.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(line_of(hash), 1); }
  [[gnu::always_inline]] void prefetch_for_reading(std::uint64_t hash) const noexcept {
    __builtin_prefetch(line_of(hash));
  }
  /// `mask` selects the word of a hash at which its line begins; the lines begin at a multiple of 64.
  void is(const void* lines, std::uint64_t mask) noexcept {
    const auto bits = static_cast<std::uint64_t>(std::bit_width(mask));
    // relaxed: a hint
    place_.store(reinterpret_cast<std::uintptr_t>(lines) | bits, std::memory_order_relaxed);
  }
  /// Where the line of a hash is or was.
  [[nodiscard, gnu::always_inline]] const void* line_of(std::uint64_t hash) const noexcept {
    const std::uint64_t place = place_.load(std::memory_order_relaxed);  // relaxed: a hint
    const std::uint64_t mask = (std::uint64_t{1} << (place & bits_mask)) - words_a_line;
    return reinterpret_cast<const void*>((place & ~bits_mask) + (hash & mask) * sizeof(std::uint64_t));  // NOLINT
  }

 private:
  static constexpr std::uint64_t bits_mask = 63;
  static constexpr std::uint64_t words_a_line = 8;

  std::atomic<std::uint64_t> place_{3};  // an address, and bits of a mask: 3 for a single line
};

}  // namespace icecore::index

// Heads of keys: 8 bytes as a number that compares as the bytes do, so that most comparisons never read a key.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace icecore {

/// The head of a key of fewer than 8 bytes.
[[nodiscard, gnu::noinline]] inline std::uint64_t short_head_of(std::string_view key,
                                                                std::size_t prefix_length) noexcept {
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < sizeof head; ++i) {
    head <<= 8;
    if (prefix_length + i < key.size()) head |= static_cast<unsigned char>(key[prefix_length + i]);
  }
  return head;
}

/// The 8 bytes of `key` behind its first `prefix_length`, big-endian, zeros behind the key's end.
[[nodiscard, gnu::always_inline]] inline std::uint64_t head_of(std::string_view key,
                                                               std::size_t prefix_length = 0) noexcept {
  constexpr std::size_t width = sizeof(std::uint64_t);
  if (key.size() < width) [[unlikely]]
    return short_head_of(key, prefix_length);
  // If the key ends within the head, read its last 8 bytes and shift them up; zeros follow.
  const std::size_t from = std::min(prefix_length, key.size() - width);
  const std::size_t missing = prefix_length - from;
  std::uint64_t head = 0;
  std::memcpy(&head, key.data() + from, width);
  if constexpr (std::endian::native == std::endian::little) head = __builtin_bswap64(head);
  return missing < width ? head << (8 * missing) : 0;
}

/// a == b. Keys of 8 bytes, the most frequent ones, without a call.
[[nodiscard, gnu::always_inline]] inline bool key_equal(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  if (a.size() != sizeof(std::uint64_t)) return std::memcmp(a.data(), b.data(), a.size()) == 0;
  std::uint64_t word_a;
  std::uint64_t word_b;
  std::memcpy(&word_a, a.data(), sizeof word_a);
  std::memcpy(&word_b, b.data(), sizeof word_b);
  return word_a == word_b;
}

/// a < b. Most keys differ in their heads, which costs less than a call that compares bytes.
[[nodiscard, gnu::always_inline]] inline bool key_less(std::string_view a, std::string_view b) noexcept {
  if (a.size() >= sizeof(std::uint64_t) && b.size() >= sizeof(std::uint64_t)) {
    const std::uint64_t head_a = head_of(a);
    const std::uint64_t head_b = head_of(b);
    if (head_a != head_b) return head_a < head_b;
  }
  return a < b;
}

/// A key that is searched for, with its head: most nodes have no prefix, so a search computes one head for all of them.
struct sought_key {
  std::string_view bytes;
  std::uint64_t head;

  explicit sought_key(std::string_view key) noexcept : bytes(key), head(head_of(key)) {}

  /// The head in a node with this prefix.
  [[nodiscard]] std::uint64_t head_behind(std::size_t prefix_length) const noexcept {
    return prefix_length == 0 ? head : head_of(bytes, prefix_length);
  }
};

[[nodiscard]] inline std::size_t common_prefix(std::string_view a, std::string_view b) noexcept {
  const std::size_t size = std::min(a.size(), b.size());
  return static_cast<std::size_t>(std::mismatch(a.data(), a.data() + size, b.data()).first - a.data());
}

}  // namespace icecore

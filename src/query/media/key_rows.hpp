// The rows of a chunk that keeps keys: each key without the prefix that it shares with the one before.
//
//   byte 0: shared << 4 | rest, each at most 15; for each that is 15, a varint of what is beyond; then the rest's bytes
//
// So a key of 8 bytes takes at most 9. The first key of a chunk shares nothing: each chunk can be read alone.
//
// Threads: one object, one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::detail {

class key_rows_writer {
 public:
  /// Changes nothing if there is no memory.
  void add(std::string_view key) {
    const std::size_t shared = shared_prefix(before_, key);
    const std::size_t rest = key.size() - shared;
    if (bytes_.size() - used_ < key.size() + lengths_max) bytes_.resize(2 * (bytes_.size() + key.size() + lengths_max));
    std::byte* to = bytes_.data() + used_;
    *to++ = static_cast<std::byte>(std::min<std::size_t>(shared, escape) << 4 | std::min<std::size_t>(rest, escape));
    if (shared >= escape) to = varint(to, shared - escape);
    if (rest >= escape) to = varint(to, rest - escape);
    std::memcpy(to, key.data() + shared, rest);
    used_ = static_cast<std::size_t>(to - bytes_.data()) + rest;
    before_ = key;
  }
  /// The next chunk's rows begin.
  void clear() noexcept {
    used_ = 0;
    before_ = {};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), used_}; }

 private:
  static constexpr std::size_t escape = 15;
  static constexpr std::size_t lengths_max = 9;

  [[nodiscard]] static std::size_t shared_prefix(std::string_view a, std::string_view b) noexcept {
    const std::size_t most = std::min(a.size(), b.size());
    std::size_t n = 0;
    for (; n + sizeof(std::uint64_t) <= most; n += sizeof(std::uint64_t)) {
      std::uint64_t x = 0;
      std::uint64_t y = 0;
      std::memcpy(&x, a.data() + n, sizeof x);
      std::memcpy(&y, b.data() + n, sizeof y);
      if (x != y) return n + static_cast<std::size_t>(std::countr_zero(x ^ y)) / 8;
    }
    while (n < most && a[n] == b[n]) ++n;
    return n;
  }
  static std::byte* varint(std::byte* to, std::size_t n) noexcept {
    for (; n >= 128; n >>= 7) *to++ = static_cast<std::byte>(n | 128);
    *to++ = static_cast<std::byte>(n);
    return to;
  }

  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
  std::string_view before_;  ///< a view into the pool: keys stay where they are
};

class key_rows_reader {
 public:
  explicit key_rows_reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  /// Whether there was another key, which is now key(). False also if the bytes are not rows: they were checked, so
  /// that happens only if they were written wrongly; see ended_well().
  [[nodiscard]] bool next() {
    if (bytes_.empty() || broken_) return false;
    const auto lengths = static_cast<unsigned>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    std::size_t shared = lengths >> 4U;
    std::size_t rest = lengths & 15U;
    if (shared == escape) shared += varint();
    if (rest == escape) rest += varint();
    if (broken_ || shared > key_.size() || rest > bytes_.size()) {
      broken_ = true;
      return false;
    }
    key_.resize(shared);
    key_.append(reinterpret_cast<const char*>(bytes_.data()), rest);
    bytes_ = bytes_.subspan(rest);
    return true;
  }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  [[nodiscard]] bool ended_well() const noexcept { return !broken_ && bytes_.empty(); }

 private:
  static constexpr std::size_t escape = 15;
  [[nodiscard]] std::size_t varint() {
    std::size_t n = 0;
    for (unsigned shift = 0; shift < 28; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<std::size_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      n |= (byte & 127U) << shift;
      if (byte < 128) return n;
    }
    broken_ = true;
    return 0;
  }

  std::span<const std::byte> bytes_;
  std::string key_;
  bool broken_ = false;
};

}  // namespace icecore::detail

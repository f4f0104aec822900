// Records: their keys, and values that identify their key.
//
// Key i is random_key(i), a bijection, as eight big-endian bytes. So keys are inserted in hashed order, like YCSB's by
// default, none comes twice, and the order of bytes is the order of numbers.
//
// A value consists of words. The first has 40 bits that depend on the key and 24 bits that the writer chose; each other
// word is a function of the first and its position. A reader checks the whole value; a value of another key passes one
// time in 2^40.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "../measure.hpp"

namespace icecore::bench::ycsb {

class record_key {
 public:
  explicit record_key(std::uint64_t record) noexcept : number_(random_key(record)) {
    const std::uint64_t big_endian = __builtin_bswap64(number_);
    std::memcpy(bytes_.data(), &big_endian, sizeof big_endian);
  }

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string_view bytes() const noexcept { return {bytes_.data(), bytes_.size()}; }

 private:
  std::uint64_t number_;
  std::array<char, sizeof(std::uint64_t)> bytes_;
};

[[nodiscard]] inline std::uint64_t number_of_key(std::string_view key) noexcept {
  std::uint64_t big_endian = 0;
  std::memcpy(&big_endian, key.data(), std::min(key.size(), sizeof big_endian));
  return __builtin_bswap64(big_endian);
}

class values {
 public:
  static constexpr std::size_t size_min = sizeof(std::uint64_t);

  /// Precondition: size >= size_min.
  explicit values(std::size_t size) : made_(size) {}

  [[nodiscard]] std::size_t size() const noexcept { return made_.size(); }

  /// A value of that key; `choice` selects one of 2^24. Valid until the next call.
  [[nodiscard]] std::string_view make(std::uint64_t key, std::uint64_t choice) noexcept {
    const std::uint64_t head = owner(key) | (choice & choice_mask);
    for (std::size_t at = 0; at < made_.size(); at += sizeof head) {
      const std::uint64_t word = word_at(head, at);
      std::memcpy(&made_[at], &word, std::min(sizeof word, made_.size() - at));
    }
    return {made_.data(), made_.size()};
  }

  [[nodiscard]] bool is_of(std::uint64_t key, std::string_view value) const noexcept {
    if (value.size() != made_.size()) return false;
    std::uint64_t head = 0;
    std::memcpy(&head, value.data(), sizeof head);
    bool right = (head & ~choice_mask) == owner(key);
    for (std::size_t at = sizeof head; at < value.size(); at += sizeof head) {
      const std::uint64_t word = word_at(head, at);
      right &= std::memcmp(&value[at], &word, std::min(sizeof word, value.size() - at)) == 0;
    }
    return right;
  }

 private:
  static constexpr std::uint64_t choice_mask = (std::uint64_t{1} << 24) - 1;

  [[nodiscard]] static std::uint64_t owner(std::uint64_t key) noexcept { return random_key(key) & ~choice_mask; }
  [[nodiscard]] static std::uint64_t word_at(std::uint64_t head, std::size_t at) noexcept {
    return head + at * 0x9e3779b97f4a7c15U;
  }

  std::vector<char> made_;
};

}  // namespace icecore::bench::ycsb

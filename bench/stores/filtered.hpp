// The interface that the suite `query` needs: a store of keys of 8 bytes and whole numbers that finds, in key order,
// the keys whose number is below a bound.
//
// An adaptor is one file, <store>_filtered.cpp, that implements `filtered_store` and adds store kinds to the list in
// kinds.hpp. Each kind tests the number as cheaply as its library allows, where it meets it: no row is copied that does
// not match. Kinds "with versions" keep the older number of a key that is loaded again, and are asked about a version
// that is closed; the others overwrite.
//
// Threads: one thread calls. Errors: any exception; it ends the run of this store and is shown.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "store.hpp"

namespace icecore::bench {

/// A key, whose bytes are those of a big-endian number so that their order is that of the numbers, and its number.
struct filtered_pair {
  std::uint64_t key;
  std::int64_t number;

  [[nodiscard]] std::array<char, sizeof(std::uint64_t)> key_bytes() const noexcept {
    return std::bit_cast<std::array<char, sizeof(std::uint64_t)>>(__builtin_bswap64(key));
  }
};

[[nodiscard]] inline std::string_view text_of(const std::array<char, sizeof(std::uint64_t)>& bytes) noexcept {
  return {bytes.data(), bytes.size()};
}
[[nodiscard]] inline std::string_view bytes_of(const std::int64_t& number) noexcept {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// The number of a value as bytes_of() gave it.
[[nodiscard]] inline std::int64_t signed_number_of(std::string_view value) {
  return static_cast<std::int64_t>(number_of(value));
}

class filtered_store {
 public:
  filtered_store() = default;
  virtual ~filtered_store() = default;
  filtered_store(const filtered_store&) = delete;
  filtered_store& operator=(const filtered_store&) = delete;

  /// Writes the pairs in this order and closes the version. A key may be there already.
  virtual void load(std::span<const filtered_pair> pairs) = 0;

  /// Sets `keys` to the keys of all pairs of the newest version whose number is less than `below`, one after another.
  virtual void find_below(std::int64_t below, unsigned threads, std::string& keys) = 0;
};

}  // namespace icecore::bench

// (key, version) as bytes, for stores without versions of their own: key ++ big-endian(~version).
//
//   composite_key(key, at).bytes()   sorts by key, then newest first
//   key_of(composite), version_of(composite)
//
// Order: comparing bytes is correct only among keys of ONE size, which is what a run writes. Keys of a second size are
// refused with an exception (one_key_size when writing, written_for when reading), because they would be sorted
// wrongly.
//
// A find at a version is one seek to (key, version): the entry found is the answer if it has the same key.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "store.hpp"

namespace icecore::bench {

/// A removal is an empty value, so values need no prefix, and no copy to add one.
inline constexpr std::string_view removed_value{};

inline void require_not_empty(std::string_view value) {
  if (value.empty()) throw std::invalid_argument("an empty value, which marks a removal in this store");
}

class composite_key {
 public:
  static constexpr std::size_t version_size = sizeof(version);
  static constexpr std::size_t capacity = 128;

  composite_key(std::string_view key, version at) : size_(key.size() + version_size) {
    if (size_ > capacity) throw std::invalid_argument("a key that is longer than a composite key has place for");
    std::memcpy(bytes_.data(), key.data(), key.size());
    for (std::size_t i = 0; i < version_size; ++i) {
      bytes_[key.size() + i] = static_cast<char>(~at >> (8 * (version_size - 1 - i)));
    }
  }

  [[nodiscard]] std::string_view bytes() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, capacity> bytes_;
  std::size_t size_;
};

[[nodiscard]] inline std::string_view key_of(std::string_view composite) {
  if (composite.size() < composite_key::version_size) throw std::runtime_error("a composite key without a version");
  return composite.substr(0, composite.size() - composite_key::version_size);
}

[[nodiscard]] inline version version_of(std::string_view composite) {
  version inverted = 0;
  for (const char byte : composite.substr(key_of(composite).size())) {
    inverted = inverted << 8 | static_cast<unsigned char>(byte);
  }
  return ~inverted;
}

/// Whether the entry was written for `key`; the store should have no keys of another size.
[[nodiscard]] inline bool written_for(std::string_view key, std::string_view composite) {
  const std::string_view found = key_of(composite);
  if (found.size() != key.size()) throw std::invalid_argument("a key of a second size in a store of composite keys");
  return found == key;
}

/// The size of all keys of a store: that of the first key written. Its sessions share it.
class one_key_size {
 public:
  void require(std::size_t size) {
    std::size_t known = size_.load(std::memory_order_relaxed);  // no other data depends on the number
    if (known == none && size_.compare_exchange_strong(known, size, std::memory_order_relaxed)) return;
    if (known != size) throw std::invalid_argument("a key of a second size in a store of composite keys");
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  std::atomic<std::size_t> size_{none};
};

}  // namespace icecore::bench

// Keeps the memory of large messages for later messages. Memory that comes fresh from the system costs a page fault for
// every 4 KiB, which takes about as long as copying them.
//
//   static auto& kept = *new kept_memory<std::string>;    // never destroyed: memory may be given back after statics
//   end std::string bytes = kept.take(131072);           // empty if none of about that size is kept
//   kept.give(std::move(bytes), capacity);
//
// At most `pieces_max` pieces are kept; a new one replaces an old one. Under AddressSanitizer none is kept, because it
// could not detect the use of memory that was given back. Threads: any number.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/memory/sanitizer.hpp"

namespace icecore::ranks {

template <typename Memory>
class kept_memory {
 public:
  static constexpr std::size_t size_min = std::size_t{64} << 10;
  static constexpr std::size_t size_max = std::size_t{4} << 20;
  static constexpr std::size_t pieces_max = 4;

  /// Whether memory of this size is worth keeping.
  [[nodiscard]] static constexpr bool keeps(std::size_t size) noexcept {
    return !memory_is_watched && size_min <= size && size <= size_max;
  }

  /// A piece of at least `size` bytes and at most twice as many; an empty one if there is none.
  [[nodiscard]] Memory take(std::size_t size) noexcept {
    if (!keeps(size)) return {};
    const std::scoped_lock lock(mutex_);
    for (piece& each : kept_) {
      if (each.size < size || each.size / 2 > size) continue;
      each.size = 0;
      return std::move(each.memory);
    }
    return {};
  }

  /// Keeps memory of this size, or frees it.
  void give(Memory memory, std::size_t size) noexcept {
    if (!keeps(size)) return;
    const std::scoped_lock lock(mutex_);
    std::size_t at = next_;
    for (std::size_t i = pieces_max; i-- > 0;) {
      if (kept_[i].size == 0) at = i;
    }
    std::swap(kept_[at].memory, memory);  // the replaced piece is freed after the lock is released
    kept_[at].size = size;
    next_ = (at + 1) % pieces_max;
  }

 private:
  struct piece {
    Memory memory{};
    std::size_t size = 0;
  };

  std::mutex mutex_;
  std::array<piece, pieces_max> kept_{};
  std::size_t next_ = 0;  // the piece to replace when all are in use
};

}  // namespace icecore::ranks

// Which large values have been checked against their CRC. Opening checks the records, but not the large values in the
// certified part of the pool: a large value is checked when it is first read, so that opening does not read terabytes
// of tensors.
//
// There is a bit for each 4 KiB of each pool. The record of a large value is longer than that, so no two share a bit.
// Threads: all functions. Cost: one load if the value has been checked, one pass over the value if not.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "history/heads/history_base.hpp"
#include "pool/pool_set.hpp"

namespace icecore::detail {

class checked_values {
 public:
  /// The kernel gives the bits memory only where a large value has been marked.
  explicit checked_values(const pool_set& of);
  ~checked_values();
  checked_values(const checked_values&) = delete;
  checked_values& operator=(const checked_values&) = delete;

  void mark(link l) noexcept {
    // relaxed: no data depends on the bit. The bytes were there before any other thread had the record's link
    word_of(l).fetch_or(mask_of(l), std::memory_order_relaxed);
  }

  /// As if none had been checked.
  void forget() noexcept;

  /// Returns if the record's large value is intact. Throws errc::damaged with key, version and position if it is not,
  /// or if the record stands for lost ones.
  void require_intact(const pool_set& in, const history_base& histories, link l) {
    if (histories.at(l).is_lost()) raise_lost(in, histories, l);
    if ((word_of(l).load(std::memory_order_relaxed) & mask_of(l)) != 0) return;  // relaxed: see mark()
    check(in, histories, l);
  }

 private:
  void check(const pool_set& in, const history_base& histories, link l);
  [[noreturn]] static void raise_lost(const pool_set& in, const history_base& histories, link l);

  [[nodiscard]] std::atomic<std::uint64_t>& word_of(link l) const noexcept {
    return bits_[link_pool(l)].words[link_offset(l) / format::large_value_size / 64];
  }
  [[nodiscard]] static std::uint64_t mask_of(link l) noexcept {
    return std::uint64_t{1} << (link_offset(l) / format::large_value_size % 64);
  }

  struct of_pool {
    std::atomic<std::uint64_t>* words = nullptr;
    std::size_t size_bytes = 0;
  };
  std::array<of_pool, format::files_max> bits_{};
};

}  // namespace icecore::detail

// The lock word of a node that lies in the pool: an optimistic lock that the next opening takes over if a crash left it
// locked.
//
// The word works as in index/btree/optimistic_lock.hpp (readers load it before and after they read; writers lock it)
// and holds two more things. The *epoch* is the number of the opening whose threads last locked or checked the node. A
// locked word of an earlier epoch has no holder: the first thread that meets it takes it over and repairs the node
// (repair.cpp). A free word of an earlier epoch says that the node has yet to be checked; for that, a free word also
// holds a checksum of the node.
//
//   bit 0       locked
//   bits 1-23   changes, modulo 2^23
//   bits 24-47  epoch, modulo 2^24
//   bits 48-63  free: checksum of all else in the node; locked: the number of the process that holds it
//
// The word shares its line with everything that a change of the node writes last. After a crash the media hold a line
// as it was at one instant. So a free word on media stands for a change that is complete there or has not begun, and a
// locked word for a change that must be examined. Failure-free epochs (UPSkipList, section 4.1.3) do this for each node
// met; here only nodes that were being changed need repair, and all others are only checked. A thread waits for a
// locked word of this epoch if its process is alive, unless no thread holds any lock (lock_holders.hpp): then the word
// is damage.
//
// Memory orders are those of optimistic_lock.hpp, whose argument also holds here: fields release and acquire.
#pragma once

#include <atomic>
#include <cstdint>

namespace icecore::index {

struct node_word {
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr unsigned epoch_shift = 24;
  static constexpr std::uint64_t epoch_mask = (std::uint64_t{1} << 24) - 1;
  static constexpr unsigned check_shift = 48;
  static constexpr std::uint64_t changes_mask = epoch_mask & ~locked_bit;

  [[nodiscard]] static constexpr bool locked(std::uint64_t word) noexcept { return (word & locked_bit) != 0; }
  [[nodiscard]] static constexpr std::uint64_t epoch(std::uint64_t word) noexcept {
    return word >> epoch_shift & epoch_mask;
  }
  [[nodiscard]] static constexpr std::uint16_t check(std::uint64_t word) noexcept {
    return static_cast<std::uint16_t>(word >> check_shift);
  }
  [[nodiscard]] static constexpr std::uint16_t process(std::uint64_t word) noexcept { return check(word); }

  [[nodiscard]] static constexpr std::uint64_t make(std::uint64_t epoch, std::uint64_t changes, bool locked,
                                                    std::uint16_t check_or_process) noexcept {
    return (std::uint64_t{check_or_process} << check_shift) | ((epoch & epoch_mask) << epoch_shift) |
           (changes & changes_mask) | (locked ? locked_bit : 0);
  }
  [[nodiscard]] static constexpr std::uint64_t lock(std::uint64_t word, std::uint64_t epoch,
                                                    std::uint16_t process) noexcept {
    return make(epoch, word, true, process);
  }
  /// The word after a change has ended.
  [[nodiscard]] static constexpr std::uint64_t unlock(std::uint64_t word, std::uint16_t check) noexcept {
    return make(epoch(word), (word & changes_mask) + 2, false, check);
  }
  /// The word of a free node last checked in another epoch, after it was checked in `epoch`.
  [[nodiscard]] static constexpr std::uint64_t in_epoch(std::uint64_t word, std::uint64_t epoch) noexcept {
    return make(epoch, word, false, check(word));
  }
};

}  // namespace icecore::index

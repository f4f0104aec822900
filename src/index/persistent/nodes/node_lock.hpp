// The lock word of a node that lies in the pool: an optimistic lock that no crash leaves locked.
//
// The word is that of index/btree/optimistic_lock.hpp (readers look at it before and after they read; writers lock it)
// with two more things in it. The *epoch*: the number of the opening whose threads last locked or checked the node. A
// locked word of an earlier epoch is nobody's: whoever meets it takes it over and mends the node (repair.cpp). A free
// word of an earlier epoch says that the node has yet to be checked: a checksum of the node is in the word then, too.
//
//   bit 0       locked
//   bits 1-23   changes, modulo 2^23
//   bits 24-47  epoch, modulo 2^24
//   bits 48-63  free: checksum of all else in the node; locked: the number of the process that holds it
//
// The word shares its line with all that a change of the node writes last. A crash leaves of a line what it held at one
// instant, so: a free word in the media's image stands for a change that is whole in it or not begun, a locked one for
// a change that is to be looked at. This is what failure-free epochs (UPSkipList, section 4.1.3) do for each node met;
// here only nodes that were being changed need mending, all others are only checked. A locked word of this epoch whose
// process is there is waited for, unless nobody holds any lock (lock_holders.hpp): then it is damage.
//
// Memory orders are those of optimistic_lock.hpp, whose argument holds here too: fields release and acquire.
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
  /// The word of a change that has ended.
  [[nodiscard]] static constexpr std::uint64_t unlock(std::uint64_t word, std::uint16_t check) noexcept {
    return make(epoch(word), (word & changes_mask) + 2, false, check);
  }
  /// A free word, checked in another epoch.
  [[nodiscard]] static constexpr std::uint64_t in_epoch(std::uint64_t word, std::uint64_t epoch) noexcept {
    return make(epoch, word, false, check(word));
  }
};

}  // namespace icecore::index

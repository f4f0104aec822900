// Which boot of the machine this is: a process that was killed has left its writes in the page cache of the same boot.
//
//   read_boot_id(root.boot_id);               // of the root that is about to be written
//   if (written_this_boot(root)) ...          // its memory survived it
//
// The kernel tells a random number (/proc/sys/kernel/random/boot_id). Where that is hidden, a number of our own stands
// in /dev/shm, which a restart of the machine empties: that it is still there shows that this is the same boot. That it
// is another one shows nothing, for /dev/shm may have been emptied, or be another container's.
//
// Threads: all functions from any thread. Errors: none; what cannot be told is zero. They take no memory.
#pragma once

#include <cstdint>

#include "pool/format.hpp"

namespace icecore {

/// This boot of this machine; zeros if nothing tells.
void read_boot_id(std::uint8_t (&id)[16]) noexcept;
/// Whether the machine has not been started anew since the root was written; false also where that is not known.
[[nodiscard]] bool written_this_boot(const format::root& r) noexcept;
/// Whether the root was written in another boot than this one, both told by the kernel. Perhaps of another machine.
[[nodiscard]] bool written_in_another_boot(const format::root& r) noexcept;

}  // namespace icecore

// Identifies the boot of the machine. What a killed process wrote is still in the page cache of the same boot.
//
//   read_boot_id(root.boot_id);               // of the root that is about to be written
//   if (written_this_boot(root)) ...          // the page cache has what its writer wrote
//
// The kernel reports a random number (/proc/sys/kernel/random/boot_id). Where it is hidden, a random number of our own
// in /dev/shm replaces it. A restart of the machine empties /dev/shm, so the same number shows that this is the same
// boot. Another number shows nothing: /dev/shm may have been emptied, or may belong to another container.
//
// Threads: all functions from any thread. Errors: none but of require_boot_to_be_told(); an unknown boot is zero. No
// other function allocates memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "pool/format.hpp"

namespace icecore {

/// This boot of this machine; zeros if it is unknown.
void read_boot_id(std::uint8_t (&id)[16]) noexcept;
/// Whether the machine has not restarted since the root was written. False also if that is unknown.
[[nodiscard]] bool written_this_boot(const format::root& r) noexcept;
/// Whether the root was written in another boot than this one, both reported by the kernel. It may be another
/// machine's.
[[nodiscard]] bool written_in_another_boot(const format::root& r) noexcept;
/// For who was told that it is unknown, or another one: errc::io, naming `of`, if the process or the system has no file
/// descriptor or no memory left, so that nothing can be known of it.
void require_boot_to_be_told(std::string_view of);

}  // namespace icecore

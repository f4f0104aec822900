// Hints for pages of mapped files that may have to be read from a device.
//
//   expect_random_reads(bytes);               // once: a page that is missing comes alone
//   if (device_reads::lately()) ask_for(at);  // before a find reads `at`: its pages come together
//   walk_comes_to(bytes, at);                 // now and then, on a walk towards greater addresses
//
// A hint costs a system call, about as much as a find in memory. So those that are given all the time are for threads
// that have read from a device lately: the kernel counts what it reads for each thread, for its faults and for its
// hints alike. A thread begins as one that has.
//
// Threads: any; what is kept is kept for each thread. Errors: none, hints are ignored where they do not help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace icecore {

/// Of a walk: after how many bytes it says where it is.
inline constexpr std::uint64_t walk_step_bytes = std::uint64_t{16} << 10;

/// The kernel reads no neighbours of a page that is missing.
void expect_random_reads(std::span<const std::byte> bytes) noexcept;

/// The kernel begins to read what is missing of these bytes; nobody waits for it.
void ask_for(std::span<const std::byte> bytes) noexcept;

class device_reads {
 public:
  /// Whether this thread has read from a device since it was asked last. Cost: a system call.
  static bool renewed() noexcept;
  /// The same as of some time ago: one of 64 calls asks. Cost: a few instructions.
  static bool lately() noexcept {
    constexpr std::uint32_t between = 64;
    of_thread& mine = of_this_thread;
    if (++mine.calls % between == 0) [[unlikely]]
      return renewed();
    return mine.reads;
  }

 private:
  struct of_thread {
    std::uint64_t counted = 0;
    std::uint32_t calls = 0;
    bool reads = true;
  };
  static constinit thread_local of_thread of_this_thread;
};

/// A walk of this thread towards greater addresses comes to `at`, or begins there: what lies behind is asked for, up to
/// the end of `within`, if the thread reads from a device. First walk_step_bytes, then more and more, up to 4 MiB
/// ahead. Call it for each walk_step_bytes.
void walk_comes_to(std::span<const std::byte> within, const std::byte* at) noexcept;

}  // namespace icecore

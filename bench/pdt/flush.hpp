// Flushing cache lines and ordering the flushes: pwb and pfence of Izraelevitz et al., Linearizability of persistent
// memory objects (DISC 2016). Executed on whatever memory the file is in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace icecore::bench::pdt {

inline constexpr std::size_t line_size = 64;

#if defined(__x86_64__)
/// Leaf 7 of cpuid. Asked once: a virtual machine may take microseconds to answer.
inline const unsigned features_of_processor = [] {
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return b;
}();
#endif

/// Writes back the lines of these bytes; the next fence() waits for them.
inline void flush(const void* at, std::size_t size) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at) & ~(line_size - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(at) + size;
  for (auto line = first; line < end; line += line_size) {
#if defined(__x86_64__)
    auto* const byte = reinterpret_cast<volatile char*>(line);  // NOLINT(performance-no-int-to-ptr): within the array
    if ((features_of_processor & (1U << 24)) != 0) {
      __asm__ volatile("clwb %0" : "+m"(*byte));
    } else if ((features_of_processor & (1U << 23)) != 0) {
      __asm__ volatile("clflushopt %0" : "+m"(*byte));
    } else {
      __asm__ volatile("clflush %0" : "+m"(*byte));
    }
#elif defined(__aarch64__)
    __asm__ volatile("dc cvac, %0" : : "r"(line) : "memory");
#else
#error "no instruction is known that writes back a line of this processor"
#endif
  }
}

inline void fence() noexcept {
#if defined(__x86_64__)
  __asm__ volatile("sfence" : : : "memory");
#else
  __asm__ volatile("dsb ish" : : : "memory");
#endif
}

inline void persist(const void* at, std::size_t size) noexcept {
  flush(at, size);
  fence();
}

}  // namespace icecore::bench::pdt

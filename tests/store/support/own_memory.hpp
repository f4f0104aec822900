// How much memory this process holds.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#define ICECORE_TESTS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ICECORE_TESTS_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(ICECORE_TESTS_ADDRESS_SANITIZER)
#include <sanitizer/allocator_interface.h>
#endif

namespace icecore::testing {

/// Bytes of its own, shared mappings left out: what the kernel counts. AddressSanitizer keeps what was freed for a
/// while, so under it they are those that are not freed.
inline std::uint64_t own_memory() {
#if defined(ICECORE_TESTS_ADDRESS_SANITIZER)
  return __sanitizer_get_current_allocated_bytes();
#else
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (std::uint64_t kibibytes = 0; word == "RssAnon:" && status >> kibibytes) return kibibytes * 1024;
  }
  ADD_FAILURE() << "the kernel does not tell RssAnon";
  return 0;
#endif
}

}  // namespace icecore::testing

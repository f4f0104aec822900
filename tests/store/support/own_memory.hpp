// How much memory a process holds.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/memory/sanitizer.hpp"

#if defined(ICECORE_UNDER_ADDRESS_SANITIZER) || defined(ICECORE_UNDER_THREAD_SANITIZER)
#define ICECORE_TESTS_SANITIZED_MEMORY 1
#include <sanitizer/allocator_interface.h>
#endif

namespace icecore::testing {

/// Whether the kernel counts what was freed: AddressSanitizer keeps it for a while, and ThreadSanitizer notes of it.
#if defined(ICECORE_TESTS_SANITIZED_MEMORY)
inline constexpr bool freed_memory_is_counted = true;
#else
inline constexpr bool freed_memory_is_counted = false;
#endif

/// Resident bytes of a process, shared mappings left out, as the kernel counts them.
inline std::uint64_t memory_of(const std::string& process) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string word; status >> word;) {
    if (std::uint64_t kibibytes = 0; word == "RssAnon:" && status >> kibibytes) return kibibytes * 1024;
  }
  ADD_FAILURE() << "the kernel does not tell RssAnon";
  return 0;
}

/// The same of this process; under a sanitizer the bytes that are not freed.
inline std::uint64_t own_memory() {
#if defined(ICECORE_TESTS_SANITIZED_MEMORY)
  return __sanitizer_get_current_allocated_bytes();
#else
  return memory_of("self");
#endif
}

}  // namespace icecore::testing

// The sanitizers of this build, where they limit what a program may request.
#pragma once

namespace icecore {

#if defined(__SANITIZE_THREAD__)
#define ICECORE_UNDER_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define ICECORE_UNDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ICECORE_UNDER_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define ICECORE_UNDER_ADDRESS_SANITIZER 1
#endif
#endif

/// ThreadSanitizer leaves a program some terabytes of addresses, so each of many open stores must reserve less.
#if defined(ICECORE_UNDER_THREAD_SANITIZER)
inline constexpr bool addresses_are_scarce = true;
#else
inline constexpr bool addresses_are_scarce = false;
#endif

/// AddressSanitizer finds uses of memory that was freed, but not of memory that was kept for later use.
#if defined(ICECORE_UNDER_ADDRESS_SANITIZER)
inline constexpr bool memory_is_watched = true;
#else
inline constexpr bool memory_is_watched = false;
#endif

}  // namespace icecore

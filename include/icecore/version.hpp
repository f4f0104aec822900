// The version of the icecore library itself, at compile time and at run time.
#pragma once

#define ICECORE_VERSION_MAJOR 0
#define ICECORE_VERSION_MINOR 1
#define ICECORE_VERSION_PATCH 0

namespace [[gnu::visibility("default")]] icecore {

/// The version of the library that is linked, as "0.1.0". Static storage.
[[nodiscard]] const char* library_version() noexcept;

}  // namespace icecore

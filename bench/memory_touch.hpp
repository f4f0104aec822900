// The host of a virtual machine provides memory when it is first touched, which can cost 50 times as much as clearing
// it. Whether a measured store pays this would depend on what ran before it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace icecore::bench {

/// Writes an unnamed file of this many bytes, at most half of the free space, and deletes it, so the next process that
/// takes memory finds it touched. Does nothing on file systems that are not in memory, or if it fails.
void touch_memory(const std::filesystem::path& folder, std::uint64_t bytes) noexcept;

}  // namespace icecore::bench

// Memory that a virtual machine's host gives when it is first touched, at up to 50 times the cost of clearing it: what
// a measured store would pay or not, by who ran before it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace icecore::bench {

/// Writes a nameless file of so many bytes, at most half of what is free there, and gives it back: who takes memory
/// next finds it touched. On other than memory file systems, and where it fails, nothing.
void touch_memory(const std::filesystem::path& folder, std::uint64_t bytes) noexcept;

}  // namespace icecore::bench

// Cold and warm memory. The host of a virtual machine provides memory when it is first touched, which can cost 50 times
// as much as clearing it. Whether a measured store pays this would depend on what ran before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace icecore::bench {

enum class memory_state : std::uint8_t {
  warm,  ///< touched just before each measured phase: the host has it
  cold,  ///< as the phase finds it
};

[[nodiscard]] constexpr std::string_view name_of(memory_state state) noexcept {
  return state == memory_state::warm ? "warm" : "cold";
}

/// Writes an unnamed file of this many bytes, and as many in huge pages, together at most half of the free space, and
/// gives all back, so the next process that takes memory of either kind finds it touched. Does nothing on file systems
/// that are not in memory, or if it fails.
void touch_memory(const std::filesystem::path& folder, std::uint64_t bytes) noexcept;

}  // namespace icecore::bench

// The bytes of the keys and values that histories know by number, and back.
//
//   store.insert(key_name(key), value_bytes(77));
//   number_of_value(*store.find(key_name(key)));   // 77, or `garbled` if any byte is wrong
//
// Keys: a letter for the group and eight digits; some long; one is empty. Values: the number and a pattern made of it:
// most have 8 bytes, some a few hundred, some more than 4 KiB. Whoever reads a value compares all of its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "history.hpp"

namespace icecore::testing {

/// The number of bytes that are no value of ours.
inline constexpr std::uint64_t garbled = ~std::uint64_t{0};
inline constexpr std::uint32_t unknown_key = ~std::uint32_t{0};

/// A group for keys of which every client writes a few, one for keys that all clients make at about the same time, one
/// for the empty key, and one for each client's own.
enum class key_group : std::uint32_t { contended = 0, fresh = 1, empty_key = 2, own = 3 };
[[nodiscard]] constexpr std::uint32_t key_of(key_group group, std::uint32_t number, std::uint32_t client = 0) noexcept {
  return (static_cast<std::uint32_t>(group) + client) << 24 | number;
}

[[nodiscard]] std::string key_name(std::uint32_t key);
/// `unknown_key` if it is no name of ours.
[[nodiscard]] std::uint32_t key_number(std::string_view name);
/// What the names of a group's keys begin with; the group is neither `empty_key` nor all_groups.
[[nodiscard]] std::string group_prefix(std::uint32_t group);

[[nodiscard]] std::string value_bytes(std::uint64_t number);
[[nodiscard]] std::uint64_t number_of_value(std::string_view bytes);
/// 0 for nothing.
[[nodiscard]] inline std::uint64_t number_of_value(const std::optional<std::string_view>& found) {
  return found ? number_of_value(*found) : 0;
}

[[nodiscard]] std::string tag_name(std::uint64_t number);
[[nodiscard]] std::string tag_note(std::uint64_t number);
/// `garbled` if it is no name of ours.
[[nodiscard]] std::uint64_t tag_number(std::string_view name);

}  // namespace icecore::testing

#include "content.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace icecore::testing {
namespace {

constexpr std::size_t digits = 8;

[[nodiscard]] std::size_t size_of_value(std::uint64_t number) {
  const std::uint64_t chance = mix(number);
  switch (chance % 64) {
    case 0:
      return 4'000 + (chance >> 8) % 5'000;
    case 1:
    case 2:
    case 3:
      return 8 + (chance >> 8) % 400;
    default:
      return 8;
  }
}

/// All bytes of a value but its number.
[[nodiscard]] std::uint64_t pattern_of(std::uint64_t number) { return mix(number + 1); }

template <class T>
[[nodiscard]] std::optional<T> parse(std::string_view text, int base) {
  T n{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

}  // namespace

std::string key_name(std::uint32_t key) {
  if (group_of(key) == static_cast<std::uint32_t>(key_group::empty_key)) return {};
  const std::uint32_t number = key & 0xffffff;
  std::string name = group_prefix(group_of(key));
  for (std::size_t i = digits; i-- > 0;) name += "0123456789abcdef"[number >> 4 * i & 15];
  if (number % 16 == 7) name.append(40 + number % 300, 'k');
  return name;
}

std::uint32_t key_number(std::string_view name) {
  if (name.empty()) return key_of(key_group::empty_key, 0);
  if (name.size() < 1 + digits || name[0] < 'a') return unknown_key;
  const auto number = parse<std::uint32_t>(name.substr(1, digits), 16);
  if (!number || *number > 0xffffff) return unknown_key;
  const std::uint32_t key = static_cast<std::uint32_t>(name[0] - 'a') << 24 | *number;
  return name == key_name(key) ? key : unknown_key;
}

std::string group_prefix(std::uint32_t group) { return {static_cast<char>('a' + group)}; }

std::string value_bytes(std::uint64_t number) {
  std::string bytes(size_of_value(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  const std::uint64_t pattern = pattern_of(number);
  for (std::size_t i = sizeof number; i < bytes.size(); i += sizeof pattern) {
    std::memcpy(&bytes[i], &pattern, std::min(sizeof pattern, bytes.size() - i));
  }
  return bytes;
}

std::uint64_t number_of_value(std::string_view bytes) {
  std::uint64_t number = 0;
  if (bytes.size() < sizeof number) return garbled;
  std::memcpy(&number, bytes.data(), sizeof number);
  if (bytes.size() != size_of_value(number)) return garbled;
  const std::uint64_t pattern = pattern_of(number);
  for (std::size_t i = sizeof number; i < bytes.size(); i += sizeof pattern) {
    if (std::memcmp(&bytes[i], &pattern, std::min(sizeof pattern, bytes.size() - i)) != 0) return garbled;
  }
  return number;
}

std::string tag_name(std::uint64_t number) { return "tag-" + std::to_string(number); }
std::string tag_note(std::uint64_t number) { return std::string(mix(number) % 100, 'n') + std::to_string(number); }

std::uint64_t tag_number(std::string_view name) {
  if (!name.starts_with("tag-")) return garbled;
  return parse<std::uint64_t>(name.substr(4), 10).value_or(garbled);
}

}  // namespace icecore::testing

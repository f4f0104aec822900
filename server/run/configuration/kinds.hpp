// The kinds of values that a key can have: how a text becomes a value, how a value is written, and what is allowed.
//
//   constexpr kinds::number connections{1, 1'000'000};
//   connections.parse("10")      -> 10, and nothing for "0" or "ten"
//   connections.allowed()        -> "a whole number from 1 to 1000000"
//
// Each kind has: `type` and `integer_too` (of keys.hpp), allowed(), parse(text) and text(value), which parse reads
// again. Threads: values without state. Cost: O(length).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "run/configuration/configuration.hpp"
#include "run/configuration/keys.hpp"
#include "run/utf8.hpp"

namespace icecore::server::kinds {

/// Texts of more bytes, with control characters or without UTF-8 are refused.
inline constexpr std::size_t text_length_max = 4096;
[[nodiscard]] inline bool is_plain(std::string_view text) {
  return text.size() <= text_length_max && is_utf8(text) &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

struct number {
  std::uint64_t least;
  std::uint64_t most;
  static constexpr toml_type type = toml_type::integer;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const { return fmt::format("a whole number from {} to {}", least, most); }
  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view text) const {
    const auto value = parse_number(text);
    return value && *value >= least && *value <= most ? value : std::nullopt;
  }
  [[nodiscard]] std::string text(std::uint64_t value) const { return std::to_string(value); }
};

struct bytes {
  std::uint64_t least;
  std::uint64_t most;
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = true;

  [[nodiscard]] std::string allowed() const {
    return fmt::format("a size from \"{}\" to \"{}\", in B, KiB, MiB, GiB or TiB", bytes_text(least), bytes_text(most));
  }
  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view text) const {
    const auto value = parse_bytes(text);
    return value && *value >= least && *value <= most ? value : std::nullopt;
  }
  [[nodiscard]] std::string text(std::uint64_t value) const { return bytes_text(value); }
};

struct duration {
  std::chrono::microseconds least;
  std::chrono::microseconds most;
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const {
    return fmt::format("a duration from \"{}\" to \"{}\", in us, ms, s, min or h", duration_text(least),
                       duration_text(most));
  }
  [[nodiscard]] std::optional<std::chrono::microseconds> parse(std::string_view text) const {
    const auto value = parse_duration(text);
    return value && *value >= least && *value <= most ? value : std::nullopt;
  }
  [[nodiscard]] std::string text(std::chrono::microseconds value) const { return duration_text(value); }
};

struct flag {
  static constexpr toml_type type = toml_type::boolean;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const { return "true or false"; }
  [[nodiscard]] std::optional<bool> parse(std::string_view text) const {
    return text == "true" ? std::optional(true) : text == "false" ? std::optional(false) : std::nullopt;
  }
  [[nodiscard]] std::string text(bool value) const { return value ? "true" : "false"; }
};

/// One of a few names.
template <class Value, std::size_t Count>
struct choice {
  std::array<std::pair<std::string_view, Value>, Count> names;
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const {
    std::string list;
    for (std::size_t i = 0; i < Count; ++i) {
      list += i == 0 ? "" : i + 1 == Count ? " or " : ", ";
      list += fmt::format("\"{}\"", names[i].first);
    }
    return list;
  }
  [[nodiscard]] std::optional<Value> parse(std::string_view text) const {
    for (const auto& [name, value] : names) {
      if (name == text) return value;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string text(Value value) const {
    for (const auto& [name, known] : names) {
      if (known == value) return std::string(name);
    }
    return {};
  }
};

/// A name that appears in logs, metrics and file names.
struct name {
  bool may_be_empty;
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;
  static constexpr std::size_t length_max = 64;

  [[nodiscard]] std::string allowed() const {
    return fmt::format("{} to {} letters, digits, \"-\", \"_\" and \".\"", may_be_empty ? 0 : 1, length_max);
  }
  [[nodiscard]] std::optional<std::string> parse(std::string_view text) const {
    const auto is_allowed = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
             c == '.';
    };
    if (text.size() > length_max || (text.empty() && !may_be_empty)) return std::nullopt;
    if (!std::ranges::all_of(text, is_allowed)) return std::nullopt;
    return std::string(text);
  }
  [[nodiscard]] std::string text(const std::string& value) const { return value; }
};

struct path {
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const { return "a path, or \"\" for none"; }
  [[nodiscard]] std::optional<std::filesystem::path> parse(std::string_view text) const {
    return is_plain(text) ? std::optional<std::filesystem::path>(text) : std::nullopt;
  }
  [[nodiscard]] std::string text(const std::filesystem::path& value) const { return value.string(); }
};

struct file {
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const { return "a path, \"credential:NAME\", or \"\" for none"; }
  [[nodiscard]] std::optional<file_reference> parse(std::string_view text) const {
    constexpr std::string_view of_systemd = "credential:";
    if (!is_plain(text)) return std::nullopt;
    if (text.starts_with(of_systemd)) {
      const std::string_view credential = text.substr(of_systemd.size());
      if (credential == "." || credential == ".." || !name{false}.parse(credential)) return std::nullopt;
    }
    return file_reference{std::string(text)};
  }
  [[nodiscard]] std::string text(const file_reference& value) const { return value.given; }
};

struct address {
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;

  [[nodiscard]] std::string allowed() const {
    return "HOST:PORT or \"[IPV6]:PORT\" (port 0: any free one), or \"\" for off";
  }
  [[nodiscard]] std::optional<network_address> parse(std::string_view text) const {
    return text.empty() ? network_address{} : parse_address(text);
  }
  [[nodiscard]] std::string text(const network_address& value) const { return value.text(); }
};

struct rule {
  static constexpr toml_type type = toml_type::text;
  static constexpr bool integer_too = false;
  static constexpr duration interval{std::chrono::milliseconds(1), std::chrono::hours(24)};

  [[nodiscard]] std::string allowed() const {
    return fmt::format("\"write\", \"tag\" or \"every DURATION\" with {}", interval.allowed());
  }
  [[nodiscard]] std::optional<version_rule_setting> parse(std::string_view text) const {
    constexpr std::string_view every = "every ";
    if (text == "write") return version_rule_setting{version_rule_setting::kind::write, {}};
    if (text == "tag") return version_rule_setting{version_rule_setting::kind::tag, {}};
    if (!text.starts_with(every)) return std::nullopt;
    const auto told = interval.parse(text.substr(every.size()));
    return told ? std::optional(version_rule_setting{version_rule_setting::kind::every, *told}) : std::nullopt;
  }
  [[nodiscard]] std::string text(const version_rule_setting& value) const {
    switch (value.when) {
      case version_rule_setting::kind::write:
        return "write";
      case version_rule_setting::kind::tag:
        return "tag";
      case version_rule_setting::kind::every:
        break;
    }
    return "every " + interval.text(value.interval);
  }
};

}  // namespace icecore::server::kinds

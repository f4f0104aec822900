// Rows for tests of filters: keys and values in memory, and expressions evaluated over them in blocks.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filter/program.hpp"

namespace icecore::testing {

/// The bytes of numbers and texts, one behind the other.
template <typename... Parts>
[[nodiscard]] std::string packed(const Parts&... parts) {
  std::string bytes;
  const auto put = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      char raw[sizeof part];
      std::memcpy(raw, &part, sizeof part);
      bytes.append(raw, sizeof part);
    } else {
      bytes += part;
    }
  };
  (put(parts), ...);
  return bytes;
}

struct table {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<version> versions;

  void add(std::string key, std::string value) {
    keys.push_back(std::move(key));
    values.push_back(std::move(value));
    versions.push_back(keys.size());
  }

  /// Calls f(block, number of its first row) for blocks of `size` rows.
  template <typename F>
  void in_blocks(std::size_t size, F&& f) const {
    std::vector<std::string_view> k(keys.begin(), keys.end());
    std::vector<std::string_view> v(values.begin(), values.end());
    for (std::size_t at = 0; at < keys.size(); at += size) {
      detail::rows block{.size = std::min(size, keys.size() - at)};
      block.keys = k.data() + at;
      block.values = v.data() + at;
      block.versions = versions.data() + at;
      f(block, at);
    }
  }

  /// Which rows match.
  [[nodiscard]] std::vector<bool> matches(const filter& one, std::size_t block_size = detail::rows_max) const {
    std::vector<bool> found;
    detail::scratch memory;
    in_blocks(block_size, [&](const detail::rows& block, std::size_t) {
      const std::uint64_t mask = one.program().test(block, memory);
      for (std::size_t i = 0; i < block.size; ++i) found.push_back((mask >> i & 1U) != 0);
    });
    return found;
  }
};

}  // namespace icecore::testing

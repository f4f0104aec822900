// Stores whose versions are known, for tests of holds.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/store_in_memory.hpp"

namespace icecore::testing {

using content = std::map<std::string, std::string, std::less<>>;

inline content content_of(const snapshot& of) {
  content all;
  for (const auto& [key, value] : of.range()) all.emplace(key, value);
  return all;
}

inline std::vector<std::string> names_of(const store& s) {
  std::vector<std::string> names;
  for (const held_version& each : s.held_versions()) names.push_back(each.name);
  return names;
}

inline constexpr std::int64_t hour_ns = 3'600'000'000'000;

/// Versions 1 to `count`: each writes "all" and a key of its own, and removes that of the version before. Every fourth
/// has a tag with a name, so old that no policy by age wants it, but for the last tag of all.
inline void fill(store& s, version count, version from = 1) {
  for (version v = from; v < from + count; ++v) {
    s.insert("all", std::to_string(v));
    s.insert("of " + std::to_string(v), "there");
    if (v > 1) s.remove("of " + std::to_string(v - 1));
    if (v % 4 == 0) {
      const std::string name = "tag " + std::to_string(v);
      s.tag({.name = name, .time_ns = static_cast<std::int64_t>(v) * hour_ns});
    } else {
      s.tag();
    }
  }
}
inline content expected(version v) { return {{"all", std::to_string(v)}, {"of " + std::to_string(v), "there"}}; }

inline void expect_expired(const store& s, version v) {
  expect_error(errc::version_expired, "has expired", [&] { static_cast<void>(s.at(v)); });
}

}  // namespace icecore::testing

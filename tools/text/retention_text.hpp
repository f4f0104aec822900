// A store's retention as people and programs read it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "icecore/retention.hpp"
#include "icecore/store.hpp"
#include "text/json.hpp"

namespace icecore::cli {

/// "all versions", or "tagged versions; the newest 10".
[[nodiscard]] std::string in_words(const retention& kept);
[[nodiscard]] json_object retention_json(const retention& kept);
[[nodiscard]] json_object hold_json(const held_version& held);
/// "1 to 3", or "5".
[[nodiscard]] std::string in_words(const version_range& range);
/// "version 5", or "versions 1 to 3, 5". Of many ranges the first ones, and how many more there are.
[[nodiscard]] std::string in_words(std::span<const version_range> ranges);
/// {"NAME":{"first":1,"last":3}}
[[nodiscard]] std::string range_line(std::string_view name, const version_range& range);
/// The holds of a store; none where a reader beside the writer cannot read them, as the file system has no locks.
[[nodiscard]] std::vector<held_version> known_holds(const store& s);

}  // namespace icecore::cli

// Judges the feeds that a crash left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feed_model.hpp"

namespace icecore::crash {

/// What is wrong with them: each is there, is acknowledged where it was, and what it told is still so. Empty: nothing.
[[nodiscard]] std::string judge_feeds(const store& s, const std::vector<story_feed>& feeds);
/// Reads each from its place to its end, and compares with the histories. Changes nothing.
[[nodiscard]] std::string read_feeds(const store& s, const std::vector<story_feed>& feeds, std::uint64_t seed);
/// Reads, acknowledges and drops them, and makes another one. `feeds` then says what is left.
[[nodiscard]] std::string use_feeds(store& s, std::vector<story_feed>& feeds, std::uint64_t seed,
                                    bool by_version = false);

}  // namespace icecore::crash

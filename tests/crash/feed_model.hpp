// What a feed of a story must be after a crash, by the test's own reckoning.
//
//   story_feed f{.name = "mirror", .after = v, .filter = 2};
//   f.apply({.what = feed_step::make}, /*returned=*/true);           // now it is surely there
//   all_changes(s, f)                                                 // what it tells from its beginning on, as sums
//
// The oracle of what a feed tells are the histories of the keys, which are judged by themselves: their changes, sorted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "query/feed/position.hpp"
#include "written_model.hpp"

namespace icecore::crash {

/// A place in a feed.
struct feed_place {
  std::string token;
  std::uint64_t changes = 0;  ///< so many were told before it
  detail::feed_position at{};

  [[nodiscard]] static feed_place of(const std::string& token, std::uint64_t changes);
  friend bool operator==(const feed_place& a, const feed_place& b) noexcept { return a.token == b.token; }
};

enum class feed_step : std::uint8_t { make, read, acknowledge, drop };

/// What one operation did to a feed, or saw of it.
struct done_to_feed {
  feed_step what{};
  bool refused = false;                      ///< it was gone: nothing happened
  bool own = true;                           ///< of the writer that acknowledges and drops it
  std::optional<feed_place> found{};         ///< where the feed was acknowledged, if that was looked at
  std::optional<feed_place> acknowledged{};  ///< and is from now on
  std::uint64_t from = 0;                    ///< so many changes were told before
  std::vector<std::uint64_t> told{};         ///< these (change_sum())
  version told_up_to = 0;
  std::optional<feed_place> begun{};   ///< of feeds by_version: where it read from,
  std::vector<story_write> changes{};  ///< and these are told
};

struct story_feed {
  std::string name;
  version after = 0;
  unsigned filter = 0;  ///< filter_of_stories()
  bool snapshot = false;
  /// Compactions are beside it: of several changes of a key in one version it may tell the last alone, and it tells a
  /// version from its first change again. What was told is then compared by version and key.
  bool by_version = false;

  bool surely = false;  ///< it is there
  bool possibly = false;
  bool dropped = false;               ///< or that has begun
  std::vector<feed_place> places{};   ///< it is acknowledged at any of these,
  std::optional<feed_place> found{};  ///< and not before this one
  std::vector<std::uint64_t> told{};  ///< changes that were told from the beginning on: they stay true
  version told_up_to = 0;

  /// Operations of the feed's own writer in their order, those of others in any.
  void apply(const done_to_feed& o, bool returned);
  /// The acknowledged place with this token, if there may be one.
  [[nodiscard]] const feed_place* place_of(std::string_view token) const noexcept;
  /// Likewise; if it tells by version, the place in the version of one that there may be.
  [[nodiscard]] std::optional<feed_place> place_at(const std::string& token) const;
};

/// Of one change, or of an item of the snapshot, of which `before` and `first` do not count.
[[nodiscard]] std::uint64_t change_sum(const key_change& c, bool is_snapshot) noexcept;

/// All that the feed tells from its beginning on, up to a version, by the histories of the keys.
[[nodiscard]] std::vector<std::uint64_t> all_changes(const store& s, const story_feed& f, version up_to);
/// The same for people.
[[nodiscard]] std::string changes_text(const store& s, const story_feed& f);

/// What is read of a feed in at most so many batches, each of at most `max` changes.
struct read_of_feed {
  std::vector<std::uint64_t> told;
  std::vector<story_write> changes;
  version up_to = 0;
  bool is_all = false;  ///< the last batch was empty
};
[[nodiscard]] read_of_feed read_feed(feed& f, std::uint64_t max, std::uint64_t batches);

/// What is wrong with what a feed with this filter told from a place on, up to a version, where this was written.
[[nodiscard]] std::string judge_told(const written_groups& written, unsigned filter, const feed_place& from,
                                     const std::vector<story_write>& told, version up_to);

}  // namespace icecore::crash

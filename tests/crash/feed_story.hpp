// What stories do with feeds.
//
//   planned_feed p = plan_feed(draw);
//   feeds_in_use live;
//   run_feed(s, into, live, number, p);      // as operation `number` of the story
//   check_what_was_told(finished, into);     // throws if something that was told is not so
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "story.hpp"

namespace icecore::crash {

struct planned_feed {
  feed_step what = feed_step::make;
  std::uint64_t which = 0;  ///< of those that are there
  unsigned filter = 0;
  bool snapshot = false;
  std::uint64_t after = 0;    ///< 0: the newest closed version; otherwise one that is drawn by it
  std::uint64_t max = 1;      ///< changes of a batch
  std::uint64_t batches = 1;  ///< that are read
  bool anew = false;          ///< the feed is opened again, and so goes on where it was acknowledged
  bool stale = false;         ///< a place is acknowledged that is behind the one that was
};

[[nodiscard]] planned_feed plan_feed(const std::function<std::uint64_t(std::uint64_t below)>& draw);

/// The objects of a session; they live from one operation to the next, as in a consumer's loop.
struct feeds_in_use {
  struct one {
    std::optional<feed> reads{};
    std::uint64_t told = 0;                ///< changes before its place
    std::optional<feed_place> place{};     ///< that is acknowledged
    std::vector<feed_place> known{};       ///< all places that were ever acknowledged, or are about to be
    std::optional<feed_place> previous{};  ///< behind a batch that was told before
  };
  std::map<std::size_t, one> by_number;

  /// Before the store is closed: what is acknowledged is known, where feeds are read goes with the objects.
  void close() {
    for (auto& [number, f] : by_number) f.reads.reset();
  }
};

void run_feed(store& s, story& into, feeds_in_use& live, unsigned number, const planned_feed& p);
/// Sees which of the feeds a crash has left, and where they stand.
void look_at(const store& s, std::vector<story_feed>& feeds);
void check_what_was_told(const store& finished, const story& of);

}  // namespace icecore::crash

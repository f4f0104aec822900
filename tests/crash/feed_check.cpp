#include "feed_check.hpp"

#include <algorithm>
#include <random>

#include "kept_model.hpp"

namespace icecore::crash {
namespace {

std::string judge_one(const store& s, const feed_info& info, const story_feed& wanted) {
  const std::string& name = wanted.name;
  try {
    static_cast<void>(s.open_feed(name));
  } catch (const error& e) {
    return name + " behind version " + std::to_string(wanted.after) + ", told up to " +
           std::to_string(wanted.told_up_to) + ", acknowledged up to " + std::to_string(info.acknowledged) +
           " cannot be opened: " + e.what();
  }
  if (info.after != wanted.after || info.snapshot != wanted.snapshot) return name + " began elsewhere";
  const feed f = s.open_feed(name);
  const std::optional<feed_place> place = wanted.place_at(f.token());
  if (!place) {
    const feed_place there = feed_place::of(f.token(), 0);
    return name + " is acknowledged up to version " + std::to_string(there.at.told()) + " and " +
           std::to_string(there.at.changes) + " changes, which it never was";
  }
  if (info.acknowledged != place->at.told()) return name + " tells another acknowledged version than its place";
  if (wanted.by_version) return {};
  const std::vector<std::uint64_t> all = all_changes(s, wanted, version_max);
  const bool right =
      wanted.told.size() <= all.size() && std::ranges::equal(wanted.told, std::span(all).first(wanted.told.size()));
  if (!right) {
    return name + " has told " + std::to_string(wanted.told.size()) +
           " changes that are not so any more; after version " + std::to_string(wanted.after) + ":\n" +
           changes_text(s, wanted);
  }
  return {};
}

/// The newest version that a feed could tell if all of them were durable.
version newest_version(const store& s) {
  version v = s.clock() - 1;
  while (v > 0 && s.lost_versions().contains(v)) --v;
  return v;
}

/// Reads on to its end. What it should then have told from its beginning on is put into `all`.
std::string read_to_end(const store& s, feed& f, const story_feed& wanted, std::mt19937_64& random,
                        std::vector<std::uint64_t>& all, version& told_up_to) {
  const std::optional<feed_place> place = wanted.place_at(f.token());
  if (!place) return wanted.name + " is acknowledged where it never was";
  constexpr std::uint64_t batches_max = 1'000'000;
  const std::uint64_t max = random() % 3 == 0 ? 1000 : 1 + random() % 4;
  const read_of_feed rest = read_feed(f, max, batches_max);
  told_up_to = rest.up_to;
  if (rest.up_to < wanted.told_up_to) {
    return wanted.name + " told all up to version " + std::to_string(wanted.told_up_to) + ", now up to " +
           std::to_string(rest.up_to);
  }
  if (wanted.by_version) {
    const story_writes now = story_writes::behind(s);
    auto wrong = judge_told(groups_of(now, 0), wanted.filter, *place, rest.changes, rest.up_to);
    return wrong.empty() ? wrong : wanted.name + " from version " + std::to_string(place->at.at) + " on: " + wrong;
  }
  all = all_changes(s, wanted, rest.up_to);
  const bool right =
      place->changes <= all.size() && std::ranges::equal(rest.told, std::span(all).subspan(place->changes));
  if (!right) {
    return wanted.name + ", acknowledged up to version " + std::to_string(place->at.told()) + " and " +
           std::to_string(place->at.changes) + " changes (" + std::to_string(place->changes) + " told), tells " +
           std::to_string(rest.told.size()) + " changes up to version " + std::to_string(rest.up_to) +
           ", which are not those behind its place; after version " + std::to_string(wanted.after) + ":\n" +
           changes_text(s, wanted);
  }
  return {};
}

}  // namespace

std::string judge_feeds(const store& s, const std::vector<story_feed>& feeds) {
  std::vector<std::string> there;
  for (const feed_info& info : s.feeds()) {
    const auto wanted = std::ranges::find(feeds, info.name, &story_feed::name);
    if (wanted == feeds.end()) return info.name + " is there, but was never made, or dropped";
    there.push_back(info.name);
    if (auto wrong = judge_one(s, info, *wanted); !wrong.empty()) return wrong;
  }
  for (const story_feed& f : feeds) {
    if (!f.surely || std::ranges::find(there, f.name) != there.end()) continue;
    try {
      static_cast<void>(s.open_feed(f.name));
    } catch (const error& e) {
      return f.name + " is gone: " + e.what();
    }
  }
  return {};
}

std::string read_feeds(const store& s, const std::vector<story_feed>& feeds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const feed_info& info : s.feeds()) {
    feed f = s.open_feed(info.name);
    std::vector<std::uint64_t> all;
    version told_up_to = 0;
    const auto wanted = std::ranges::find(feeds, info.name, &story_feed::name);
    if (auto wrong = read_to_end(s, f, *wanted, random, all, told_up_to); !wrong.empty()) return wrong;
  }
  return {};
}

std::string use_feeds(store& s, std::vector<story_feed>& feeds, std::uint64_t seed, bool by_version) {
  std::mt19937_64 random(seed);
  const bool all_is_durable = random() % 2 == 0;
  if (all_is_durable) s.sync();
  std::vector<story_feed> left;
  const auto use = [&](feed&& f, story_feed now) -> std::string {
    if (auto wrong = read_to_end(s, f, now, random, now.told, now.told_up_to); !wrong.empty()) return wrong;
    if (all_is_durable && now.told_up_to != newest_version(s)) {
      return now.name + " tells only versions up to " + std::to_string(now.told_up_to) + " of " +
             std::to_string(newest_version(s));
    }
    now.surely = now.possibly = true;
    now.places = {now.place_at(s.open_feed(now.name).token()).value()};
    now.found.reset();
    if (random() % 3 != 0) {
      now.places = {feed_place::of(f.token(), now.told.size())};
      f.acknowledge(f.token());
    }
    left.push_back(std::move(now));
    return {};
  };
  for (const feed_info& info : s.feeds()) {
    const story_feed& wanted = *std::ranges::find(feeds, info.name, &story_feed::name);
    if (random() % 4 == 0) {
      s.drop_feed(info.name);
    } else if (auto wrong = use(s.open_feed(info.name), wanted); !wrong.empty()) {
      return wrong;
    }
  }
  story_feed next{.name = "feed after", .filter = static_cast<unsigned>(random() % filters_of_stories)};
  next.by_version = by_version;
  next.snapshot = random() % 2 == 0 && !by_version;
  const version newest = newest_version(s);
  feed made =
      s.feed({.name = next.name, .after = newest, .where = filter_of_stories(next.filter), .snapshot = next.snapshot});
  next.after = newest;
  next.places = {feed_place::of(made.token(), 0)};
  if (auto wrong = use(std::move(made), next); !wrong.empty()) return wrong;
  feeds = std::move(left);
  if (auto wrong = judge_feeds(s, feeds); !wrong.empty()) return "after others were made: " + wrong;
  return {};
}

}  // namespace icecore::crash

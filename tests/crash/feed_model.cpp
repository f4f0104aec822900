#include "feed_model.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "content.hpp"
#include "kept_model.hpp"

namespace icecore::crash {

feed_place feed_place::of(const std::string& token, std::uint64_t changes) {
  return {token, changes, detail::place_in(token)};
}

const feed_place* story_feed::place_of(std::string_view token) const noexcept {
  const auto at = std::ranges::find(places, token, &feed_place::token);
  return at == places.end() ? nullptr : &*at;
}

std::optional<feed_place> story_feed::place_at(const std::string& token) const {
  if (const feed_place* exact = place_of(token)) return *exact;
  const feed_place there = feed_place::of(token, 0);
  const auto is_there = [&](const feed_place& p) { return p.at.at == there.at.at; };
  return by_version && std::ranges::any_of(places, is_there) ? std::optional(there) : std::nullopt;
}

void story_feed::apply(const done_to_feed& o, bool returned) {
  if (o.refused) return;
  switch (o.what) {
    case feed_step::make:
      possibly = true;
      surely = returned;
      if (o.found) places = {*o.found};
      break;
    case feed_step::drop:
      surely = false;
      dropped = true;
      if (returned) possibly = false;
      break;
    case feed_step::read:
    case feed_step::acknowledge:
      break;
  }
  if (returned) surely = !dropped;  // it was found
  if (returned && o.found) {
    if (o.own) places = {*o.found};
    if (!found || found->at.before(o.found->at)) found = o.found;
  }
  if (o.acknowledged) {
    if (returned) places.clear();
    places.push_back(*o.acknowledged);
  }
  if (found) {
    std::erase_if(places,
                  [this](const feed_place& p) { return by_version ? p.at.at < found->at.at : p.at.before(found->at); });
  }
  if (!returned) return;
  told_up_to = std::max(told_up_to, o.told_up_to);
  if (by_version) return;  // judged by what was written
  const std::uint64_t end = o.from + o.told.size();
  if (end <= told.size() || o.from > told.size()) return;
  told.insert(told.end(), o.told.end() - static_cast<std::ptrdiff_t>(end - told.size()), o.told.end());
}

std::uint64_t change_sum(const key_change& c, bool is_snapshot) noexcept {
  const auto as_change = [&c](const std::optional<std::string_view>& value) { return change{c.version, value}; };
  const std::uint64_t what = record_sum(c.key, is_snapshot ? 1 : 0, as_change(c.value));
  if (is_snapshot) return what;
  return what + 3 * record_sum(c.key, c.first ? 2 : 4, as_change(c.before));
}

namespace {

template <class Change>
bool matches(unsigned filter, const Change& c) {
  if (c.value) return matches_filter_of_stories(filter, c.key, *c.value);
  return !filter_of_stories_reads_values(filter) && matches_filter_of_stories(filter, c.key, {});
}

std::vector<key_change> sorted_changes(const store& s, const story_feed& f, version up_to) {
  std::vector<key_change> all;
  for (const std::string_view key : s.keys()) {
    std::optional<std::string_view> before;
    bool first = true;
    for (const change& c : s.history(key).oldest_first()) {
      const key_change now{key, c.version, c.value, before, first};
      const bool changes_something = c.value || before;
      if (changes_something && c.version > f.after && c.version <= up_to && matches(f.filter, now)) all.push_back(now);
      before = c.value;
      first = first && !c.value;
    }
  }
  std::ranges::stable_sort(all, [](const key_change& a, const key_change& b) {
    return std::tie(a.version, a.key) < std::tie(b.version, b.key);
  });
  return all;
}

std::vector<key_change> items_of_snapshot(const store& s, const story_feed& f) {
  std::vector<key_change> all;
  if (!f.snapshot) return all;
  for (const std::string_view key : s.keys()) {
    std::optional<change> shown;
    for (const change& c : s.history(key).oldest_first()) {
      if (c.version <= f.after) shown = c;
    }
    if (!shown || !shown->value) continue;
    const key_change item{key, shown->version, shown->value, {}, true};
    if (matches(f.filter, item)) all.push_back(item);
  }
  std::ranges::sort(all, {}, &key_change::key);
  return all;
}

}  // namespace

std::vector<std::uint64_t> all_changes(const store& s, const story_feed& f, version up_to) {
  std::vector<std::uint64_t> sums;
  for (const key_change& c : items_of_snapshot(s, f)) sums.push_back(change_sum(c, true));
  for (const key_change& c : sorted_changes(s, f, up_to)) sums.push_back(change_sum(c, false));
  return sums;
}

std::string changes_text(const store& s, const story_feed& f) {
  std::string text;
  const auto add = [&text](const key_change& c, const char* what) {
    text.append("  ").append(what).append(" v").append(std::to_string(c.version)).append(" ");
    text.append(c.key.substr(0, 40)).append("=").append(c.value ? c.value->substr(0, 12) : "removed").append("\n");
  };
  for (const key_change& c : items_of_snapshot(s, f)) add(c, "item");
  for (const key_change& c : sorted_changes(s, f, version_max)) add(c, "change");
  return text;
}

read_of_feed read_feed(feed& f, std::uint64_t max, std::uint64_t batches) {
  read_of_feed all;
  for (std::uint64_t i = 0; i < batches && !all.is_all; ++i) {
    const feed_batch some = f.next(max);
    for (const key_change& c : some.changes) {
      all.told.push_back(change_sum(c, some.is_snapshot));
      all.changes.push_back({.key = std::string(c.key), .at = c.version, .value = {}});
      if (c.value) all.changes.back().value = *c.value;
    }
    all.up_to = some.told;
    all.is_all = some.changes.empty();
  }
  return all;
}

std::string judge_told(const written_groups& written, unsigned filter, const feed_place& from,
                       const std::vector<story_write>& told, version up_to) {
  // of each version and key the last change that was told
  std::map<std::pair<version, std::string>, const story_write*> last;
  const story_write* before = nullptr;
  for (const story_write& w : told) {
    const std::string named = w.key.substr(0, 40) + " in version " + std::to_string(w.at);
    if (before != nullptr && std::tie(w.at, w.key) < std::tie(before->at, before->key)) return named + " is told late";
    if (w.at < from.at.at || w.at > up_to + 1) {
      return named + " is told out of its place, from version " + std::to_string(from.at.at) + " to " +
             std::to_string(up_to);
    }
    before = last[{w.at, w.key}] = &w;
  }
  for (const auto& [key, groups] : written) {
    bool was_there = false;
    bool may_lack = true;  // the first may be a removal of what retention has dropped
    for (const written_group& g : groups) {
      const std::string named = key.substr(0, 40) + " in version " + std::to_string(g.at);
      const auto one = last.find({g.at, key});
      const bool is_told = one != last.end();
      if (is_told) {
        const auto is_it = [&](const story_write* w) { return w->value == one->second->value; };
        if (!std::ranges::any_of(g.all, is_it)) return named + " is told with what nobody wrote";
        const bool all_match = std::ranges::all_of(g.last, [&](const story_write* w) { return matches(filter, *w); });
        const bool is_whole = g.at <= up_to;
        if (all_match && is_whole && !std::ranges::any_of(g.last, is_it))
          return named + " is not told as it came to be";
        last.erase(one);
      }
      const bool removes = !g.last.front()->value;
      const bool all_match = std::ranges::all_of(g.last, [&](const story_write* w) { return matches(filter, *w); });
      const bool is_due = (from.at.changes == 0 ? g.at >= from.at.at : g.at > from.at.at) && g.at <= up_to;
      if (!is_told && is_due && all_match && !(removes && (may_lack || !was_there))) return named + " is not told";
      was_there = !removes;
      may_lack = false;
    }
  }
  if (last.empty()) return {};
  return last.begin()->first.second.substr(0, 40) + " in version " + std::to_string(last.begin()->first.first) +
         " is told, and was not written";
}

}  // namespace icecore::crash

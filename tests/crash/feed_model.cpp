#include "feed_model.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

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
  if (found) std::erase_if(places, [this](const feed_place& p) { return p.at.before(found->at); });
  if (!returned) return;
  told_up_to = std::max(told_up_to, o.told_up_to);
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

bool matches(unsigned filter, const key_change& c) {
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
    for (const key_change& c : some.changes) all.told.push_back(change_sum(c, some.is_snapshot));
    all.up_to = some.told;
    all.is_all = some.changes.empty();
  }
  return all;
}

}  // namespace icecore::crash

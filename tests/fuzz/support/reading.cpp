#include "support/reading.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "dump/dump_writer.hpp"
#include "support/model.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t versions_read_max = 12;

/// All histories, as the store shows them.
[[nodiscard]] model model_of(const store& opened) {
  model shown;
  shown.clock = opened.clock();
  for (const std::string_view key : opened.keys()) {
    auto& records = shown.records[std::string(key)];
    for (const auto& [version, value] : opened.history(key).oldest_first()) {
      records.push_back({version, value ? std::optional<std::string>(*value) : std::nullopt});
    }
    promise(std::ranges::is_sorted(records, {}, &model::record::version),
            [&] { return "the versions of the history of " + show(key) + " do not ascend"; });
    promise(records.empty() || (records.front().version > 0 && records.back().version <= shown.clock),
            [&] { return "the history of " + show(key) + " has versions that cannot be"; });
  }
  promise(shown.records.size() == opened.keys().size(), [] { return std::string("keys() shows a key twice"); });
  return shown;
}

/// Versions at which something changed, and their neighbours.
[[nodiscard]] std::set<version> versions_of(const model& shown) {
  std::set<version> all = {0, shown.clock - 1};
  for (const auto& [key, records] : shown.records) {
    for (const auto& r : records) {
      for (const version v : {r.version - 1, r.version}) {
        if (v < shown.clock && all.size() < versions_read_max) all.insert(v);
      }
    }
  }
  return all;
}

template <class Range>
[[nodiscard]] std::vector<std::pair<std::string, std::string>> collect(Range&& range) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : range) all.emplace_back(key, value);
  return all;
}

[[nodiscard]] std::string text_of(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text;
  for (const auto& [key, value] : items) text += ' ' + show(key) + '=' + show(value);
  return text;
}

void read_version(const snapshot& then, const model& shown) {
  const auto where = [&] { return " in version " + std::to_string(then.version()) + " disagrees with the histories"; };
  const auto items = shown.items_at(then.version());
  std::vector<std::pair<std::string, std::string>> wanted(items.begin(), items.end());
  promise(collect(then.range()) == wanted,
          [&] { return "a scan" + where() + ":" + text_of(collect(then.range())) + " instead of" + text_of(wanted); });
  promise(collect(then.items()) == wanted, [&] { return "items()" + where(); });
  promise(then.size(1) == wanted.size(), [&] { return "size()" + where(); });
  std::ranges::reverse(wanted);
  promise(collect(then.range().reversed()) == wanted, [&] { return "a scan backwards" + where(); });
  std::vector<std::string_view> keys;
  for (const auto& [key, records] : shown.records) keys.push_back(key);
  std::vector<std::optional<std::string_view>> many(keys.size());
  then.find_many(keys, many);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto right = shown.find(std::string(keys[i]), then.version());
    promise(then.find(keys[i]) == right, [&] { return "find(" + show(keys[i]) + ")" + where(); });
    promise(many[i] == right, [&] { return "find_many(" + show(keys[i]) + ")" + where(); });
    promise(then.history(keys[i]).size() == shown.newest_first(std::string(keys[i]), then.version()).size(),
            [&] { return "history(" + show(keys[i]) + ")" + where(); });
  }
}

void read_differences(const store& opened, const model& shown, version before, version after) {
  std::vector<model::difference> found;
  for (const auto& [key, old_value, new_value] : opened.diff(before, after)) {
    const auto own = [](const auto& view) { return view ? std::optional<std::string>(*view) : std::nullopt; };
    found.push_back({std::string(key), own(old_value), own(new_value)});
  }
  promise(found == shown.diff(before, after), [&] {
    return "diff(" + std::to_string(before) + ", " + std::to_string(after) + ") disagrees with the histories";
  });
}

void read_tags(const store& opened) {
  for (const tag_info& tag : opened.tags()) {
    const auto by_version = opened.find_tag(tag.version);
    promise(by_version && by_version->name == tag.name && by_version->time_ns == tag.time_ns,
            [&] { return "the tag " + show(tag.name) + " is not found by its version"; });
    if (!tag.name.empty()) {
      const auto by_name = opened.find_tag(tag.name);
      promise(by_name && by_name->version == tag.version,
              [&] { return "the tag " + show(tag.name) + " is not found by its name"; });
    }
    promise(opened.find_tag_at_time(tag.time_ns).has_value(),
            [&] { return "the tag " + show(tag.name) + " is not found by its time"; });
    promise(tag.version > 0 && tag.version < opened.clock(),
            [&] { return "the tag " + show(tag.name) + " is of a version that is not closed"; });
  }
}

}  // namespace

void read_in_all_ways(const store& opened) {
  const model shown = model_of(opened);
  for (const auto& [key, records] : shown.records) {
    promise(opened.find(key) == shown.find(key), [&] { return "find(" + show(key) + ") now"; });
  }
  std::optional<version> before;
  for (const version at : versions_of(shown)) {
    if (opened.lost_versions().contains(at)) continue;  // its root may say so
    read_version(opened.at(at), shown);
    if (before) read_differences(opened, shown, *before, at);
    before = at;
  }
  read_tags(opened);
  const statistics counts = opened.stats();
  promise(counts.keys == shown.records.size(), [] { return std::string("stats().keys"); });
}

std::string dump_of(const store& opened) {
  std::string text;
  cli::output to(text);
  cli::write_dump(opened, 1'000'000, to);
  return text;
}

}  // namespace icecore::testing

#include "support/model.hpp"

#include <algorithm>

namespace icecore::testing {

version model::insert(const std::string& key, std::string value) {
  records[key].push_back({clock, std::move(value)});
  return newest_write = clock;
}

std::optional<version> model::remove(const std::string& key) {
  if (!find(key)) return std::nullopt;
  records[key].push_back({clock, std::nullopt});
  return newest_write = clock;
}

void model::pack() {
  idle_removes = 0;
  for (auto entry = records.begin(); entry != records.end();) {
    std::vector<record> left;
    for (const record& r : entry->second) {
      if (!left.empty() && left.back().version == r.version) left.pop_back();
      left.push_back(r);
    }
    std::vector<record> changes;
    for (record& r : left) {
      if (r.value || (!changes.empty() && changes.back().value)) changes.push_back(std::move(r));
    }
    entry->second = std::move(changes);
    entry = entry->second.empty() ? records.erase(entry) : std::next(entry);
  }
}

version model::apply(const icecore::batch& operations) {
  std::map<std::string, std::optional<std::string>> last;
  for (const auto& operation : operations.operations()) last[operation.key] = operation.value;
  for (auto& [key, value] : last) {
    const bool there = find(key).has_value();
    auto& history = records[key];
    newest_write = clock;
    if (value || there) {
      history.push_back({clock, std::move(value)});
    } else {
      ++idle_removes;
    }
  }
  return clock;
}

std::optional<std::string> model::find(const std::string& key, version at) const {
  const auto found = records.find(key);
  if (found == records.end()) return std::nullopt;
  std::optional<std::string> value;
  for (const auto& write : found->second) {
    if (write.version <= at) value = write.value;
  }
  return value;
}

model::items model::items_at(version at, const key_bounds& bounds) const {
  items present;
  for (const auto& [key, history] : records) {
    if (bounds.from && key < *bounds.from) continue;
    if (bounds.to && key >= *bounds.to) continue;
    if (auto value = find(key, at)) present.emplace(key, std::move(*value));
  }
  return present;
}

std::vector<model::record> model::newest_first(const std::string& key, version up_to) const {
  const auto found = records.find(key);
  if (found == records.end()) return {};
  std::vector<record> newest(found->second.rbegin(), found->second.rend());
  std::erase_if(newest, [up_to](const record& r) { return r.version > up_to; });
  return newest;
}

std::vector<model::difference> model::diff(version before, version after, const key_bounds& bounds) const {
  std::vector<difference> differences;
  for (const auto& [key, history] : records) {
    if (bounds.from && key < *bounds.from) continue;
    if (bounds.to && key >= *bounds.to) continue;
    auto old_value = find(key, before);
    auto new_value = find(key, after);
    if (old_value != new_value) differences.push_back({key, std::move(old_value), std::move(new_value)});
  }
  return differences;
}

const tag_info* model::find_tag(std::string_view name) const {
  const auto found = std::ranges::find(tags, name, &tag_info::name);
  return name.empty() || found == tags.end() ? nullptr : &*found;
}

const tag_info* model::find_tag(version tagged) const {
  const auto found = std::ranges::find(tags, tagged, &tag_info::version);
  return found == tags.end() ? nullptr : &*found;
}

const tag_info* model::find_tag_at_time(std::int64_t time_ns) const {
  const tag_info* best = nullptr;
  for (const auto& tag : tags) {
    if (tag.time_ns <= time_ns && (best == nullptr || tag.time_ns >= best->time_ns)) best = &tag;
  }
  return best;
}

std::string show(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  constexpr std::size_t shown_max = 40;
  std::string text = "\"";
  for (const char c : bytes.substr(0, shown_max)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  text += '"';
  if (bytes.size() > shown_max) text += "... of " + std::to_string(bytes.size()) + " bytes";
  return text;
}

std::string show_found(const std::optional<std::string_view>& bytes) { return bytes ? show(*bytes) : "nothing"; }

}  // namespace icecore::testing

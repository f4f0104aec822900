#include "support/model.hpp"

#include <algorithm>
#include <chrono>

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

std::uint64_t model::expire() {
  if (kept.keeps_all() || clock < 2) return 0;
  const version newest = clock - 1;
  std::set<version> wanted{newest};
  std::uint64_t counted = 0;
  for (version v = newest; v > 0 && counted < kept.newest; --v) {
    if (is_expired(v)) continue;
    wanted.insert(v);
    ++counted;
  }
  for (version v = 1; v < newest; ++v) {
    if (kept.tagged && find_tag(v) != nullptr) wanted.insert(v);
    if (kept.younger_than.count() == 0) continue;
    const tag_info* from = nullptr;  // the first tag from it on
    for (const tag_info& tag : tags) {
      if (tag.version >= v && (from == nullptr || tag.version < from->version)) from = &tag;
    }
    const std::int64_t age_ns = std::chrono::nanoseconds(kept.younger_than).count();
    if (from == nullptr || from->time_ns >= now_ns - age_ns) wanted.insert(v);
  }
  const std::size_t before = expired.size();
  for (version v = 1; v < newest; ++v) {
    if (!wanted.contains(v)) expired.insert(v);
  }
  return expired.size() - before;
}

/// Whether a version that can be read, or the present, shows record `i` of a history, the oldest first.
bool model::is_shown(const std::vector<record>& history, std::size_t i) const {
  if (i + 1 == history.size()) return true;
  for (version v = history[i].version; v < history[i + 1].version; ++v) {
    if (!is_expired(v)) return true;
  }
  return false;
}

bool model::may_show(const std::string& key, const std::vector<record>& found, version up_to) const {
  if (!thinned()) return found == newest_first(key, up_to);
  const auto all = records.find(key);
  if (all == records.end()) return found.empty();
  std::size_t matched = 0;
  for (std::size_t i = all->second.size(); i-- > 0;) {
    const record& each = all->second[i];
    if (each.version > up_to) continue;
    if (matched < found.size() && found[matched] == each) {
      ++matched;
    } else if (each.value && is_shown(all->second, i)) {
      return false;
    }
  }
  return matched == found.size();
}

bool model::must_list(const std::string& key) const {
  const auto all = records.find(key);
  if (all == records.end()) return false;
  for (std::size_t i = 0; i < all->second.size(); ++i) {
    if (all->second[i].value && is_shown(all->second, i)) return true;
  }
  return false;
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

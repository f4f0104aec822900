#include "store/write/tags.hpp"

#include <limits>
#include <utility>

namespace icecore {

bool tag_index::reserve(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  return by_name_.try_emplace(std::string(name), 0).second;
}

void tag_index::release(std::string_view name) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end() && found->second == 0) by_name_.erase(found);
}

void tag_index::add(tag_info tag) {
  if (find(tag.version) || (!tag.name.empty() && !reserve(tag.name) && find(tag.name))) return;
  const version tagged = tag.version;
  add(prepare(std::move(tag)), tagged);
}

tag_index::prepared tag_index::prepare(tag_info tag) {
  times time;
  time.emplace(std::pair{tag.time_ns, version{0}}, 0);
  versions one;
  one.emplace(0, std::move(tag));
  return {one.extract(one.begin()), time.extract(time.begin())};
}

void tag_index::add(prepared tag, version tagged) {
  const std::scoped_lock lock(mutex_);
  tag_info& about = tag.by_version.mapped();
  about.version = tagged;
  if (const auto name = by_name_.find(about.name); name != by_name_.end()) name->second = tagged;
  tag.by_version.key() = tag.by_time.key().second = tag.by_time.mapped() = tagged;
  by_time_.insert(std::move(tag.by_time));
  by_version_.insert(std::move(tag.by_version));
}

std::optional<tag_info> tag_index::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second == 0) return std::nullopt;
  return by_version_.at(found->second);
}

std::optional<tag_info> tag_index::find(version tagged) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_version_.find(tagged);
  if (found == by_version_.end()) return std::nullopt;
  return found->second;
}

std::optional<tag_info> tag_index::find_from(version least) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_version_.lower_bound(least);
  if (found == by_version_.end()) return std::nullopt;
  return found->second;
}

std::optional<tag_info> tag_index::find_at_time(std::int64_t time_ns) const {
  const std::scoped_lock lock(mutex_);
  const auto after = by_time_.upper_bound({time_ns, std::numeric_limits<version>::max()});
  if (after == by_time_.begin()) return std::nullopt;
  return by_version_.at(std::prev(after)->second);
}

std::vector<tag_info> tag_index::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<tag_info> tags;
  tags.reserve(by_version_.size());
  for (const auto& [v, tag] : by_version_) tags.push_back(tag);
  return tags;
}

std::size_t tag_index::size() const {
  const std::scoped_lock lock(mutex_);
  return by_version_.size();
}

}  // namespace icecore

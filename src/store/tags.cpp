#include "store/tags.hpp"

#include <limits>
#include <utility>

namespace icecore {

bool tag_index::reserve(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  return by_name_.try_emplace(std::string(name), 0).second;
}

void tag_index::release(std::string_view name) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(std::string(name));
  if (found != by_name_.end() && found->second == 0) by_name_.erase(found);
}

void tag_index::add(tag_info tag) {
  const std::scoped_lock lock(mutex_);
  if (!tag.name.empty()) by_name_[tag.name] = tag.version;
  by_time_[{tag.time_ns, tag.version}] = tag.version;
  const version v = tag.version;
  by_version_.insert_or_assign(v, std::move(tag));
}

std::optional<tag_info> tag_index::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end() || found->second == 0) return std::nullopt;
  return by_version_.at(found->second);
}

std::optional<tag_info> tag_index::find(version tagged) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_version_.find(tagged);
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

// The named and timed tags of a store, in memory: by name, by version, by time. Rebuilt at opening from the tag
// records.
//
// Threads: all functions; a mutex, since tags are few and O(log tags).
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "icecore/options.hpp"

namespace icecore {

class tag_index {
 public:
  /// Reserves a name; false if it is taken. A reserved name is not yet found.
  [[nodiscard]] bool reserve(std::string_view name);
  void release(std::string_view name) noexcept;

  void add(tag_info tag);

  [[nodiscard]] std::optional<tag_info> find(std::string_view name) const;
  [[nodiscard]] std::optional<tag_info> find(version tagged) const;
  [[nodiscard]] std::optional<tag_info> find_at_time(std::int64_t time_ns) const;
  [[nodiscard]] std::vector<tag_info> all() const;
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<version, tag_info> by_version_;
  std::unordered_map<std::string, version> by_name_;  // version 0: reserved
  std::map<std::pair<std::int64_t, version>, version> by_time_;
};

}  // namespace icecore

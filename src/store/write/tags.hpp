// The named and timed tags of a store, in memory: by name, by version, by time. Built from the tag records: at opening,
// or, after an instant recovery, when a tag is first asked for.
//
// Threads: all functions. A mutex suffices, since tags are few and each call is O(log tags).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/options.hpp"

namespace icecore {

class tag_index {
 public:
  /// Reserves a name; false if it is taken. A reserved name is not yet found.
  [[nodiscard]] bool reserve(std::string_view name);
  void release(std::string_view name) noexcept;

  /// Does nothing if its version or its name is there already. A name that is only reserved is this tag's then: another
  /// process was faster.
  void add(tag_info tag);

 private:
  using versions = std::map<version, tag_info>;
  using times = std::map<std::pair<std::int64_t, version>, version>;

 public:
  /// Everything that adding a tag needs except its version, so that nothing can fail once the version is closed.
  struct prepared {
    versions::node_type by_version;
    times::node_type by_time;
  };
  [[nodiscard]] static prepared prepare(tag_info tag);
  void add(prepared tag, version tagged);

  [[nodiscard]] std::optional<tag_info> find(std::string_view name) const;
  [[nodiscard]] std::optional<tag_info> find(version tagged) const;
  [[nodiscard]] std::optional<tag_info> find_from(version least) const;
  [[nodiscard]] std::optional<tag_info> find_at_time(std::int64_t time_ns) const;
  [[nodiscard]] std::vector<tag_info> all() const;
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  versions by_version_;
  std::map<std::string, version, std::less<>> by_name_;  // version 0: reserved
  times by_time_;
};

}  // namespace icecore

// What one user may do, in the form in which it is looked up.
//
// Threads: any number; but for `changed` it never changes.
// Invariant: `permissions` are sorted by the begin of their ranges (no begin is the empty key, the least one).
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "service/access.hpp"

namespace icecore::service {

struct user_rules {
  struct allowed_range {
    std::string database;  ///< a name, or a prefix if `prefix`
    bool prefix = false;
    std::string from{};
    std::optional<std::string> to{};
    rights what = 0;
    [[nodiscard]] bool matches(std::string_view of) const noexcept {
      return prefix ? of.substr(0, database.size()) == database : of == database;
    }
  };
  std::string name{};
  bool root = false;
  std::vector<allowed_range> ranges{};
  // Set once, when the user or one of the user's roles changes. Relaxed: it guards no other memory. Whoever learns that
  // the change is done has it before its own read, so that this read sees it.
  mutable std::atomic<bool> changed{false};

  [[nodiscard]] bool current() const noexcept { return !changed.load(std::memory_order_relaxed); }
  void add(const permission& p);
  void sort();
  /// O(permissions).
  [[nodiscard]] bool cover(std::string_view database, const icecore::key_bounds& keys, right what) const;
};

}  // namespace icecore::service

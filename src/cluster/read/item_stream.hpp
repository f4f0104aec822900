// The items of one owner between bounds, in key order or in reverse, from any kind of partition.
//
//   const auto items = of(owner).scan(wanted);          // begins; waits for nothing
//   for (; items->valid(); items->next()) use(items->current());
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string_view>

#include "icecore/snapshot.hpp"

namespace icecore::mpi {

/// Which items of a version.
struct scan_request {
  version at;
  std::string_view from;
  bool after;  ///< begin after `from`, not at it
  std::optional<std::string_view> to;
  bool backward = false;  ///< begin with the last item before `to`, and go down to `from`
};

class item_stream {
 public:
  item_stream() = default;
  virtual ~item_stream() = default;
  item_stream(const item_stream&) = delete;
  item_stream& operator=(const item_stream&) = delete;

  /// Whether there is an item. Waits for it.
  [[nodiscard]] virtual bool valid() = 0;
  /// Views that are valid until the next step. Precondition: valid().
  [[nodiscard]] virtual item current() const = 0;
  virtual void next() = 0;
};

}  // namespace icecore::mpi

// What is behind the handles of icecore_remote.h. The barrier that stops exceptions, and the texts of errors, are those
// of the C interface of stores (bindings/c/support.hpp).
//
// Threads, lifetime: as the objects that they hold. Cost: an allocation a handle.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "support.hpp"

#pragma GCC visibility push(default)  // these functions are exported
#include "icecore/icecore_remote.h"
#pragma GCC visibility pop

#include "icecore/remote.hpp"

struct icecore_remote_client {
  icecore::remote::client client;
};
struct icecore_remote_store {
  icecore::remote::store store;
};
struct icecore_remote_snapshot {
  icecore::remote::snapshot snapshot;
};

/// One of the four kinds of rows, and where it stands.
struct icecore_remote_rows {
  template <class Range>
  struct walk {
    explicit walk(Range&& given) : range(std::move(given)) {}
    Range range;
    std::optional<typename Range::iterator> at{};  // empty before the first row
  };
  std::variant<walk<icecore::remote::item_range>, walk<icecore::remote::history_range>,
               walk<icecore::remote::difference_range>, walk<icecore::remote::change_range>>
      rows;
};

struct icecore_remote_watch {
  icecore::remote::watch watch;
  icecore::remote::watch::batch batch{};
  std::size_t given = 0;  // of the batch
};

struct icecore_remote_pending {
  std::variant<icecore::remote::pending<icecore::version>,
               icecore::remote::pending<std::optional<icecore::remote::value>>>
      result;
};

namespace icecore::remote::c {

using icecore::c::guarded;
using icecore::c::require;
using icecore::c::view;

/// Moves a value into the caller's structure; the caller releases it.
void hand_out(std::optional<value> found, icecore_remote_value& to);

inline void put(icecore_version* to, std::optional<version> from) noexcept {
  if (to != nullptr) *to = from.value_or(0);
}

}  // namespace icecore::remote::c

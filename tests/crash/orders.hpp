// Whether a few operations that overlapped can be put in one order that explains all they answered.
//
// The definition of linearizability, tried out: some order that keeps what returned before another was called, in which
// a plain map of versions, with a clock, gives each operation the answer it gave, and in the end holds what the store
// holds. For some ten operations with little overlap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"

namespace icecore::crash {

/// One operation as it was called and answered.
struct answered {
  enum class kind { insert, remove, batch, find, tag, look, insert_new, replace, batch_new, sync };
  struct write {
    std::string key;
    std::optional<std::string> value;  // empty: remove
  };
  using items = std::map<std::string, std::string>;

  kind what;
  std::vector<write> writes;  // find: the key alone
  std::uint64_t called = 0;   // moments
  std::uint64_t returned = 0;
  version belongs_to = 0;            // remove: 0 if the key was not there; likewise where a condition did not hold
  version expected = 0;              // replace: the version that the newest record must have
  std::optional<std::string> found;  // find
  std::optional<items> shown;        // tag: what the version it closed showed to whoever closed it; look: a snapshot
  // Of a store whose durability is deferred:
  std::uint64_t ended = 0;  // the moment when all was read that it shows
  version durable = 0;      // by then, up to which version all was durable
};

/// What each key's history was in the end, oldest first.
using all_histories = std::map<std::string, std::vector<std::pair<version, std::optional<std::string>>>>;

/// Whether an order explains the answers and the end. `before`: the content at the beginning; `clock`: likewise. A sync
/// may close the open version.
[[nodiscard]] bool has_order(const all_histories& before, version clock, const std::vector<answered>& operations,
                             const all_histories& after);

}  // namespace icecore::crash

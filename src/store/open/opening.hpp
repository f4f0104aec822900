// How a store's parts are put together: by the first process, which opens it, or by others that attach to it.
//
//   plan                what the pool holds, or what is asked for     carried out by
//   create, rebuild     nothing yet; records, which are all read      recovery.cpp
//   salvage, copy       damaged records; those of another file        recovery.cpp
//   take over           a persistent index, which is trusted          instant_recovery.cpp
//   attach              a store that another process has open         attach() in opening.cpp
//   observe             a store that another process writes           beside/observing.cpp
//
// Each makes all the parts and then constructs the engine (engine.hpp) from them, so the engine is complete from the
// start.
#pragma once

#include <memory>

#include "store/engine.hpp"

namespace icecore::detail {

/// Those that every opening has; it makes the clock, and what belongs to an engine.
[[nodiscard]] store_parts parts_in(std::unique_ptr<pool_set> pool, std::shared_ptr<index::arena> memory,
                                   shared_state& shared, const options& opening);

[[nodiscard]] history_parts history_parts_of(const store_parts& parts);

/// Parts for heads that opening computes. The index is still to be built, unless it lies in an arena where another
/// process has built it. The histories are not made yet.
[[nodiscard]] rebuilt_parts rebuilt_parts_of(const store_parts& parts);

enum class anchor_is : std::uint8_t {
  fresh,   ///< made just now
  there,   ///< left by the last session
  in_use,  ///< used by the processes that share the store
};

/// Parts for durable heads. The index is the one that the root's anchor leads to, or is still to be built there.
/// `records` becomes the base of the histories.
[[nodiscard]] durable_parts durable_parts_in(store_parts& parts, const format::root& root, std::uint64_t epoch,
                                             anchor_is anchor, history_base&& records);

}  // namespace icecore::detail

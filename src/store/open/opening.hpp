// How a store's parts come together: opened by the first process, or attached to by others beside it.
//
//   plan                what the pool holds, and what is asked        who carries it out
//   create, rebuild     nothing yet; records, which are all read      recovery.cpp
//   salvage, copy       damaged records; those of another file        recovery.cpp
//   take over           a durable index, which is believed            instant_recovery.cpp
//   attach              a store that another process has open         attach(), here
//
// Each makes complete parts, and of them the engine (engine.hpp), which is whole from then on.
#pragma once

#include <memory>

#include "store/engine.hpp"

namespace icecore::detail {

[[nodiscard]] history_parts history_parts_of(const store_parts& parts);

/// Heads are to be computed, and the index built, but for one in the arena that another process has built. Without
/// histories.
[[nodiscard]] rebuilt_parts rebuilt_parts_of(const store_parts& parts);

enum class anchor_is : std::uint8_t {
  fresh,   ///< made just now
  there,   ///< left by the last session
  in_use,  ///< by the processes that share the store
};

/// The index is the one that the root's anchor leads to, or that is to be built there. `records` are those of before.
[[nodiscard]] durable_parts durable_parts_in(store_parts& parts, const format::root& root, std::uint64_t epoch,
                                             anchor_is anchor, history_base&& records);

}  // namespace icecore::detail

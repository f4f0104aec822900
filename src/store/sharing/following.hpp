// Engines of the young generation that takes the writes, for a process that is attached to a store.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "store/core.hpp"

namespace icecore::detail {

/// Completes `parts`, which say which process has the store, for the generation that takes the writes now: its
/// manifest, strata, the memory of its index, and the view that keeps all of them. False if the generation changes just
/// now: ask again. errc::damaged; errc::io; std::bad_alloc.
[[nodiscard]] bool take_generation(const opened_store& store, store_parts& parts);
/// The engine of a generation behind the first one, of these parts. From then on this process writes in it.
[[nodiscard]] std::unique_ptr<store_core> following_engine(store_parts&& parts);

}  // namespace icecore::detail

// Makes the index of the kind that a store was created with.
#pragma once

#include <memory>

#include "icecore/options.hpp"
#include "index/arena.hpp"
#include "index/index.hpp"
#include "index/list/key_hash.hpp"

namespace icecore::index {

/// The index that the arena holds, which must be of this kind, or an empty one if it holds none. `source` must outlive
/// it. `seed` is for the hash. Not for the persistent index, which lies in the pool.
[[nodiscard]] std::unique_ptr<ordered_index> make_index(index_kind kind, const key_source& source,
                                                        std::shared_ptr<arena> memory, const hash_seed& seed);

}  // namespace icecore::index

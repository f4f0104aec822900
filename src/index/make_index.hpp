// From the kind of index that a store was created with to the index itself.
#pragma once

#include <memory>

#include "icecore/options.hpp"
#include "index/arena.hpp"
#include "index/index.hpp"

namespace icecore::index {

/// An empty index. `source` must outlive it.
[[nodiscard]] std::unique_ptr<ordered_index> make_index(index_kind kind, const key_source& source,
                                                        const arena_options& memory);

}  // namespace icecore::index

// LockedMap (IPDPS 2022, section V-B): std::map with a vector of versions for each key, behind one mutex, without
// persistence. The paper's vector can be read without a lock; behind the map's mutex that has no benefit.
#include <map>

#include "kinds.hpp"
#include "versioned_map.hpp"

namespace icecore::bench {
namespace {

template <class Key, class Value>
using locked_map =
    versioned_map<std::map<Key, std::vector<versioned_value<Value>>>, std::mutex, std::lock_guard<std::mutex>>;

}  // namespace

std::vector<store_kind> locked_map_kinds() {
  return {{.name = "LockedMap",
           .configuration = "std::map from keys to vectors of versions, one std::mutex around every operation; "
                            "keys and values of 8 bytes as integers",
           .survives_kill = false,
           .parallel_extract = false,
           .open = open_for_sizes<locked_map>}};
}

}  // namespace icecore::bench

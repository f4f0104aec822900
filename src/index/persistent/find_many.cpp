// find_many: a group of keys descends together, so that their waits for memory overlap. Each step ends with a prefetch
// of what the same key's next step reads.
#include <algorithm>
#include <array>
#include <cassert>

#include "index/persistent/descent.hpp"

namespace icecore::index {

void persistent_index::find_many(std::span<const std::string_view> keys, std::span<link> out) const {
  assert(keys.size() == out.size());
  constexpr std::size_t group_size = 16;  // waits that overlap: about as many as a core can have misses in flight
  for (std::size_t first = 0; first < keys.size(); first += group_size) {
    const std::size_t count = std::min(group_size, keys.size() - first);
    std::array<view, group_size> here;
    std::array<std::uint8_t, group_size> waiting;  // numbers of the keys that have not reached their leaf
    const view from = top();
    for (std::size_t i = 0; i < count; ++i) {
      here[i] = from;
      waiting[i] = static_cast<std::uint8_t>(i);
    }
    for (std::size_t left = count; left > 0;) {
      std::size_t still = 0;
      for (std::size_t w = 0; w < left; ++w) {
        const std::uint8_t i = waiting[w];
        if (!go_down<side::right>(here[i], keys[first + i], 0)) waiting[still++] = i;
      }
      left = still;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view key = keys[first + i];
      const node_order order(*here[i].at);
      const link found = lower_bound(here[i], order, key).equal;
      const bool elsewhere = found == null_link && is_beyond(*here[i].at, order, key, side::right, true);
      out[first + i] = here[i].validate() && !elsewhere ? found : find(key);
      if (out[first + i] != null_link) source_.prefetch(out[first + i]);
    }
  }
}

}  // namespace icecore::index

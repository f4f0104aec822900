// Many searches at once: in the list by one walk for a group of keys, in the hash with their cache misses overlapped.
#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <optional>

#include "index/list/linked_list.hpp"

namespace icecore::index {

template <class Way>
void linked_list<Way>::find_many(std::span<const std::string_view> keys, std::span<link> out) const noexcept {
  find_together(keys, out);
}

template <class Way>
void linked_list<Way>::find_together(std::span<const std::string_view> keys, std::span<link> out) const noexcept
  requires(!hashed)
{
  constexpr std::size_t group_size = 64;
  assert(keys.size() <= out.size());
  for (std::size_t first = 0; first < keys.size(); first += group_size) {
    const std::size_t size = std::min(group_size, keys.size() - first);
    std::array<std::size_t, group_size> ascending;
    const auto group = std::span(ascending).first(size);
    std::iota(group.begin(), group.end(), first);
    std::ranges::sort(group, {}, [&](std::size_t i) { return keys[i]; });
    position where{.before = front_};
    for (const std::size_t i : group) {
      // a key that occurs twice is found again behind the same predecessor
      const node_ref there = advance(way_.sought_for(keys[i]), where);
      out[i] = there == 0 ? null_link : at(there).entry;
      if (there != 0) source_.prefetch(out[i]);
    }
  }
}

/// One of the searches that run together. Each step ends with a prefetch of the node that the next step reads.
template <class Way>
struct linked_list<Way>::lookup {
  std::optional<sought> key;
  node_ref candidate = 0;  ///< prefetched; 0: the search has ended
  link found = null_link;
};

template <class Way>
void linked_list<Way>::find_together(std::span<const std::string_view> keys, std::span<link> out) const noexcept
  requires(hashed)
{
  constexpr std::size_t group_size = 16;  // waits that overlap: about as many as a core can have misses in flight
  assert(keys.size() <= out.size());
  std::array<lookup, group_size> group;
  const auto prefetch_candidate = [this](const lookup& l) {
    if (l.candidate != 0) __builtin_prefetch(&at(l.candidate));
  };
  const auto step = [&](lookup& l) {
    const list_node& node = at(l.candidate);
    const int order = compare(*l.key, node, source_);
    if (order == 0) {
      l.found = node.entry;
      source_.prefetch(node.entry);
    }
    l.candidate = order <= 0 ? 0 : node.next();
    prefetch_candidate(l);
  };
  for (std::size_t first = 0; first < keys.size(); first += group_size) {
    const auto now = std::span(group).first(std::min(group_size, keys.size() - first));
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].key.emplace(way_.sought_for(keys[first + i]));
      now[i].found = null_link;
      way_.prefetch(*now[i].key);
    }
    for (lookup& l : now) {
      l.candidate = way_.near(*l.key);
      prefetch_candidate(l);
    }
    for (lookup& l : now) {  // this node is in front of the key, or is the front, which has none
      l.candidate = at(l.candidate).next();
      prefetch_candidate(l);
    }
    for (bool more = true; more;) {
      more = false;
      for (lookup& l : now) {
        if (l.candidate == 0) continue;
        step(l);
        more = true;
      }
    }
    for (std::size_t i = 0; i < now.size(); ++i) out[first + i] = now[i].found;
  }
}

template void linked_list<from_front>::find_many(std::span<const std::string_view>, std::span<link>) const noexcept;
template void linked_list<shortcuts>::find_many(std::span<const std::string_view>, std::span<link>) const noexcept;

}  // namespace icecore::index

#include "store/tag_list.hpp"

#include <cstring>

namespace icecore::detail {

// relaxed, all of it: one thread at a time
link tag_list::newest() const {
  const auto& first = space_.anchor().tags;
  return space_.decode(first.load(std::memory_order_relaxed), &first);
}

void tag_list::append(link tag) {
  const link block = newest();
  if (block != null_link) {
    for (auto& place : at(block).tags) {
      if (place.load(std::memory_order_relaxed) != 0) continue;
      place.store(space_.encode(tag, &place), std::memory_order_relaxed);
      space_.flush(&place, sizeof place);
      return;
    }
  }
  index::taken_node fresh(space_, *this, index::node_space::tag_source);
  format::tag_block& b = at(fresh.where());
  std::memset(static_cast<void*>(&b), 0, sizeof b);
  b.older = space_.encode(block, &b.older);
  b.tags[0].store(space_.encode(tag, &b.tags[0]), std::memory_order_relaxed);
  space_.flush(&b, sizeof b);
  space_.fence();
  auto& first = space_.anchor().tags;
  first.store(space_.encode(fresh.where(), &first), std::memory_order_relaxed);
  space_.flush(&first, sizeof first);
  fresh.keep();
}

void tag_list::for_each(const std::function<bool(link)>& visit) const {
  for (link block = newest(); block != null_link; block = space_.decode(at(block).older, &at(block).older)) {
    for (std::size_t i = std::size(at(block).tags); i-- > 0;) {
      const auto& place = at(block).tags[i];
      const link tag = space_.decode(place.load(std::memory_order_relaxed), &place);
      if (tag != null_link && !visit(tag)) return;
    }
  }
}

bool tag_list::is_linked(link block) const {
  for (link b = newest(); b != null_link; b = space_.decode(at(b).older, &at(b).older)) {
    if (b == block) return true;
  }
  return false;
}

}  // namespace icecore::detail

#include "store/persistent/tag_list.hpp"

#include <cstring>

#include "base/checksum.hpp"

namespace icecore::detail {

// relaxed, everywhere here: one thread at a time
link tag_list::newest() const {
  const link block =
      bounded(space_.load(space_.anchor().tags, std::memory_order_relaxed), space_.place_of(space_.anchor().tags));
  // The block that was given out last is linked when its source says that it is in use. If another block is linked,
  // that link is of an earlier time: the device lost a write.
  const auto& source = space_.anchor().nodes[index::node_space::tag_source];
  const std::uint64_t noted = source.pending.load(std::memory_order_relaxed);
  const bool in_use = (noted & format::pending_in_use) != 0;
  if (in_use && space_.decode(noted & ~format::pending_in_use, space_.place_of(source.pending)) != block)
    space_.owner().raise_damaged(space_.place_of(space_.anchor().tags),
                                 "the list of tags does not lead to its newest block: the device lost a write");
  return block;
}

link tag_list::older(link block) const { return bounded(space_.decode(at(block).older, block), block); }

/// Returns `block`, which the word at `linked_from` leads to, if all of it lies in the store.
link tag_list::bounded(link block, link linked_from) const {
  if (block != null_link && !space_.owner().leads_into_pool(block, sizeof(format::tag_block)))
    space_.owner().raise_damaged(linked_from, "a link of the list of tags points outside the store");
  return block;
}

link tag_list::place_of(link block, std::size_t i) noexcept {
  return block + offsetof(format::tag_block, tags) + i * sizeof(std::uint64_t);
}

std::size_t tag_list::first_free(link block) const noexcept {
  std::size_t i = 0;
  while (i < std::size(at(block).tags) && at(block).tags[i].load(std::memory_order_relaxed) != 0) ++i;
  return i;
}

void tag_list::reserve() {
  const link block = newest();
  if (block != null_link && first_free(block) < std::size(at(block).tags)) return;
  index::taken_node fresh(space_, *this, index::node_space::tag_source);
  const link where = fresh.where();
  format::tag_block& b = at(where);
  std::memset(static_cast<void*>(&b), 0, sizeof b);
  b.older = space_.encode(block, where);
  for (std::size_t i = 0; i < std::size(b.tags); ++i) {
    if (is_mark(i)) b.tags[i].store(space_.encode(where, place_of(where, i)), std::memory_order_relaxed);
  }
  space_.flush(&b, sizeof b);
  space_.fence();
  auto& first = space_.anchor().tags;
  first.store(space_.encode(where, space_.place_of(first)), std::memory_order_relaxed);
  space_.flush(&first, sizeof first);
  space_.fence();  // for keep(): what leads to the block is durable
  fresh.keep();
}

void tag_list::append(link tag) {
  reserve();
  const link block = newest();
  const std::size_t i = first_free(block);
  at(block).tags[i].store(space_.encode(tag, place_of(block, i)), std::memory_order_relaxed);
  space_.flush(&at(block).tags[i], sizeof(std::uint64_t));
}

void tag_list::list(link tag) {
  space_.flush(&space_.anchor().tags, sizeof(std::uint64_t));
  unsigned seen = 0;
  for (link block = newest(); block != null_link && seen < under_way_max; block = older(block)) {
    for (std::size_t i = std::size(at(block).tags); i-- > 0;) {
      const link listed = space_.decode(at(block).tags[i].load(std::memory_order_relaxed), place_of(block, i));
      if (listed == null_link || listed == block) continue;
      ++seen;
      if (listed != tag) continue;
      space_.flush(&at(block).tags[i], sizeof(std::uint64_t));
      return;
    }
  }
  append(tag);
}

// A place that is marked as unused leads to its own block, as a mark does. logged_segments::recover() has flushed the
// anchor's word, which a killed process may have left only in the caches.

void tag_list::recover(const std::function<bool(link)>& was_cut_off) {
  unsigned seen = 0;
  bool is_end = true;  // whether this is the newest block, behind its last link
  for (link block = newest(); block != null_link && seen < under_way_max; block = older(block)) {
    for (std::size_t i = std::size(at(block).tags); i-- > 0;) {
      std::atomic<std::uint64_t>& place = at(block).tags[i];
      const link listed = space_.decode(place.load(std::memory_order_relaxed), place_of(block, i));
      if (is_mark(i) || (listed == null_link && is_end)) continue;
      is_end = false;
      ++seen;
      if (listed != block) {
        if (listed != null_link && !was_cut_off(listed)) continue;
        place.store(space_.encode(block, place_of(block, i)), std::memory_order_relaxed);
      }
      space_.flush(&place, sizeof(std::uint64_t));  // stored here, or by an opening that was killed
    }
    is_end = false;
  }
}

void tag_list::for_each(const std::function<bool(link)>& visit) const {
  bool is_end = true;
  for (link block = newest(); block != null_link; block = older(block)) {
    for (std::size_t i = std::size(at(block).tags); i-- > 0;) {
      const link listed = space_.decode(at(block).tags[i].load(std::memory_order_relaxed), place_of(block, i));
      if (listed == null_link || is_mark(i)) {
        const bool as_left = is_mark(i) ? listed == block : is_end;
        if (!as_left) space_.owner().raise_damaged(place_of(block, i), "a link is missing in the list of tags");
        continue;
      }
      if (listed == block) continue;
      is_end = false;
      if (!visit(listed)) return;
    }
    is_end = false;
  }
}

std::uint64_t tag_list::digest() const {
  std::uint64_t of_all = 0;
  for_each([&](link tag) {
    of_all = mix64(of_all + tag);
    return true;
  });
  return of_all;
}

void tag_list::leave_evidence() const {
  auto& evidence = space_.anchor().tags_evidence;
  evidence.store(space_.evidence_of(digest()), std::memory_order_relaxed);
  space_.flush(&evidence, sizeof evidence);
}

void tag_list::require_as_closed() const {
  const auto& evidence = space_.anchor().tags_evidence;
  const std::uint64_t left = evidence.load(std::memory_order_relaxed);
  if (space_.trusts(left) && !space_.agrees(left, digest()))
    space_.owner().raise_damaged(space_.place_of(evidence),
                                 "the list of tags is older than its evidence: the device lost a write");
}

bool tag_list::is_linked(link block) const {
  for (link b = newest(); b != null_link; b = older(b)) {
    if (b == block) return true;
  }
  return false;
}

}  // namespace icecore::detail

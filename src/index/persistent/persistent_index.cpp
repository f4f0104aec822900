#include "index/persistent/persistent_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "base/threads.hpp"
#include "index/persistent/descent.hpp"

namespace icecore::index {

persistent_index::persistent_index(const key_source& source, const node_space::parts& where, state& shared)
    : source_(source), space_(where), shared_(&shared) {
  // relaxed: no other thread reads it before this thread hands it over
  shared_->top.store(space_.load(space_.anchor().top, std::memory_order_relaxed), std::memory_order_relaxed);
}

link persistent_index::find(std::string_view key) const {
  view here = descend<side::right>(key, 0);
  for (;;) {
    const node_order order(*here.at);
    const place found = lower_bound(here, order, key);
    if (found.equal == null_link && is_beyond(*here.at, order, key, side::right, true)) {
      if (!move_right(here)) look_again(here);
      continue;
    }
    if (here.validate()) return found.equal;
    look_again(here);
  }
}

link persistent_index::insert(std::string_view key, entry_factory& factory) {
  link made = null_link;
  view here = descend<side::right>(key, 0);
  for (backoff wait;; look_again(here)) {
    index_node& n = *here.at;
    const node_order order(n);
    if (is_beyond(n, order, key, side::right, true)) {
      // If a writer came between, the key may belong here after all: the bound may have been read halfway through a
      // split.
      static_cast<void>(move_right(here));
      continue;
    }
    const place found = lower_bound(here, order, key);
    if (found.equal != null_link) {
      if (here.validate()) return found.equal;
      continue;
    }
    if (!here.validate()) continue;
    if (order.count() == index_pairs_max) {
      split(here, found.index);
      continue;
    }
    if (made == null_link) {
      made = factory.make();
      assert(made != null_link);
    }
    if (!try_lock(here)) {
      wait.pause();
      continue;
    }
    // counted before it is inserted: if a process is killed in between, the count is too great by one
    shared_->size.add(1);
    // Finds that read the lock word from here on wait for the unlock. No atomic operation comes between the entry's
    // flush in before_publish() and the pair's flush: it would wait for the first.
    factory.before_publish();
    add_pair(n, here.ref, order, found.index, head_of(key, order.prefix_length()), made);
    return made;
  }
}

void persistent_index::flush_leaf_of(std::string_view key) const {
  view here = descend<side::right>(key, 0);
  for (;;) {
    if (is_beyond(*here.at, node_order(*here.at), key, side::right, true)) {
      if (!move_right(here)) look_again(here);
      continue;
    }
    space_.flush(here.at, format::cache_line_size);
    if (here.validate()) return;  // otherwise a split may have moved the pair
    look_again(here);
  }
}

/// Heads of equal keys are equal, so only pairs whose head is that of `key` have their keys compared.
persistent_index::place persistent_index::lower_bound(const view& in, const node_order& order,
                                                      std::string_view key) const {
  const index_node& n = *in.at;
  const unsigned count = order.count();
  const std::uint64_t head = head_of(key, order.prefix_length());
  unsigned first = first_not_below(n, order, 0, head);
  unsigned end = first;
  while (end < count && head_at(n, order, end) == head) ++end;
  std::array<link, std::bit_width(index_pairs_max)> others{};
  unsigned compared = 0;
  while (first < end) {
    const unsigned middle = first + (end - first) / 2;
    const link candidate = to_at(n, order, middle);
    if (candidate == null_link) return {first, null_link};  // torn: the caller's validation will fail
    const int difference = key.compare(source_.key_of(candidate));
    if (difference == 0) return {middle, candidate};
    others[compared++] = candidate;
    if (difference < 0) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  // The key is not there, unless one of these has it and is damaged. If the node has changed since, they may be entries
  // of a killed process that were rolled back: then the caller's validation will fail.
  if (compared != 0 && !in.validate()) return {first, null_link};
  for (unsigned i = 0; i < compared; ++i) {
    source_.verify_key(others[i]);
    // If a write was lost, another key's entry may have taken an entry's place: the pair still has the old head (N4).
    if (head_of(source_.key_of(others[i]), order.prefix_length()) != head)
      space_.owner().raise_damaged(others[i], "the index leads to the entry of another key");
  }
  return {first, null_link};
}

/// The index of the pair for the last child whose low is not above `key` (with side::left: is below it).
unsigned persistent_index::child_for(const index_node& n, const node_order& order, std::string_view key,
                                     side equal) const {
  const unsigned count = order.count();
  if (count < 2) return 0;
  const std::uint64_t head = head_of(key, order.prefix_length());
  unsigned first = first_not_below(n, order, 1, head);  // the first child is taken whatever its low is (N2)
  unsigned end = first;
  while (end < count && head_at(n, order, end) == head) ++end;
  while (first < end) {
    const unsigned middle = first + (end - first) / 2;
    const link low = low_of(to_at(n, order, middle), order.level());
    if (low == null_link) break;  // torn: the caller's validation will fail
    source_.verify_key(low);      // a wrong key would lead past the key, which would then seem not to be there
    const int compared = key.compare(source_.key_of(low));
    if (compared < 0 || (compared == 0 && equal == side::left)) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return first - 1;
}

/// The entry with the least key of what a pair in a node of `level` leads to.
link persistent_index::low_of(link to, unsigned level) const noexcept {
  if (level == 0 || to == null_link) return to;
  // never changes; acquire: the node was complete when it was linked
  return space_.at(to).low.load(std::memory_order_acquire);
}

/// Whether `key` belongs to a node on the right. If the prefix is not empty, the heads may wrongly say no: a key
/// without the prefix came from above through a pair that does not reflect a split yet. Then the node's own keys are
/// all smaller. On the way down it does no harm to stay; at the end the caller asks again, with `for_certain`. The
/// bound's key is intact: the first thread that checked the node verified it, or the thread that made the bound did.
bool persistent_index::is_beyond(const index_node& n, const node_order& order, std::string_view key, side equal,
                                 bool for_certain) const {
  const link high = n.high.load(std::memory_order_acquire);
  if (high == null_link) return false;
  const unsigned prefix = order.prefix_length();
  if (!for_certain || prefix == 0) {
    const std::uint64_t head = head_of(key, prefix);
    const std::uint64_t bound = n.high_head.load(std::memory_order_acquire);
    if (head != bound) return head > bound;
  }
  const int compared = key.compare(source_.key_of(high));
  return compared > 0 || (compared == 0 && equal == side::right);
}

persistent_index::view persistent_index::look_at(link ref) const {
  if (!space_.owner().leads_into_pool(ref, sizeof(index_node))) [[unlikely]]
    space_.owner().raise_damaged(ref, "a link of the index points outside the store");
  index_node& n = space_.at(ref);
  return {&n, ref, free_word(n, ref), true};
}

bool persistent_index::is_empty() const {
  for (view top = look_at(space_.load(space_.anchor().top, std::memory_order_acquire));; look_again(top)) {
    const node_order order(*top.at);
    const bool empty = order.level() == 0 && order.count() == 0;
    if (top.validate()) return empty;
  }
}

void persistent_index::look_again(view& v) const { v.seen = free_word(*v.at, v.ref); }

/// Moves to the right neighbour, for which the level above may have no pair; false if a writer came between.
bool persistent_index::move_right(view& v) const {
  const link next = v.at->next.load(std::memory_order_acquire);
  if (!v.validate()) return false;
  prefetch_node(space_.bytes(next));
  const bool promotes = v.promotes;
  v = look_at(next);
  v.promotes = promotes;
  // Usually the thread that split the node is about to promote it. After a crash no thread is, so now and then a search
  // does (towers are completed as they are met: sections 4.4.1 and 4.5.2 of the thesis): at most once in a search,
  // however many nodes it passes. relaxed: the count need not be exact
  constexpr std::uint32_t one_in = 8;
  if (promotes && space_.searches_link() &&
      shared_->moves_right.fetch_add(1, std::memory_order_relaxed) % one_in == 0) {
    v.promotes = false;
    try {
      promote(next);
    } catch (const std::exception&) {  // no space, or damage elsewhere: this search needs neither
    }
    look_again(v);
  }
  return true;
}

std::unique_ptr<persistent_index> make_persistent_index(const key_source& source, const node_space::parts& where,
                                                        persistent_index::state& shared) {
  return std::make_unique<persistent_index>(source, where, shared);
}

}  // namespace icecore::index

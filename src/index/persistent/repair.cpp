// What whoever meets a node does before it reads it: wait for a writer; check a node that nobody has looked at since
// the store was opened; mend one whose writer is no more.
#include "base/locks/looks.hpp"
#include "base/threads.hpp"
#include "index/persistent/descent.hpp"

namespace icecore::index {
namespace {

/// Whether a node's bound is of this key. A key that came into the place of a lost entry is another one, and keys of
/// the node behind it would seem not to be there.
bool ends_before(const index_node& n, std::string_view key) noexcept {
  // relaxed: where it differs the caller has a fence before it looks at the word again
  return n.high_head.load(std::memory_order_relaxed) == head_of(key, node_order(n).prefix_length());
}

}  // namespace

/// The word of the node once it is free and checked in this epoch. errc::damaged if it fails its check.
std::uint64_t persistent_index::wait_or_repair(index_node& n, link ref) const {
  backoff wait;
  for (unsigned rounds = 1;; ++rounds) {
    std::uint64_t word = n.lock.load(std::memory_order_acquire);  // acquire: see node_lock.hpp
    const bool of_this_epoch = node_word::epoch(word) == space_.epoch();
    if (!node_word::locked(word)) {
      if (of_this_epoch) return word;
      const char* wrong = nullptr;
      if (node_word::check(word) != check_of(n, space_.seed_of(ref))) {
        wrong = "a node of the index fails its checksum";
      } else if (!is_bounded(n)) {
        wrong = "a node of the index leads out of the store";
      } else if (is_outdated(n, ref, word)) {
        wrong = "a node of the index, or a key that it leads to, is of an earlier time";
      } else if (const link high = n.high.load(std::memory_order_acquire); high != null_link) {
        source_.verify_key(high);  // once: is_beyond() compares keys with it time and again
        if (!ends_before(n, source_.key_of(high))) wrong = "a node of the index ends before the entry of another key";
      }
      if (wrong == nullptr) {
        const std::uint64_t checked = node_word::in_epoch(word, space_.epoch());
        space_.owner().note_met(ref);
        // acquire: as the load. The line is not flushed: after a crash somebody checks the node again
        if (n.lock.compare_exchange_strong(word, checked, std::memory_order_acq_rel, std::memory_order_relaxed))
          return checked;
      } else {
        // Before its word is loaded again: a writer stores with release, so with any of its stores its lock is seen.
        std::atomic_thread_fence(std::memory_order_acquire);
        // relaxed: behind the fence. Else somebody changes it meanwhile
        if (n.lock.load(std::memory_order_relaxed) == word) space_.owner().raise_damaged(ref, wrong);
      }
      continue;
    }
    const bool look = rounds % rounds_between_looks == 0;
    if (!of_this_epoch || (look && !space_.owner().is_alive(node_word::process(word)))) {
      // The word is locked, so is_outdated() looks at it and at what closing left, not at the contents: all threads
      // decide alike, and none takes the node over.
      if (!of_this_epoch && is_outdated(n, ref, word))
        space_.owner().raise_damaged(ref, "a node of the index is of an earlier time");
      space_.owner().note_met(ref);
      shared_->holders.enter();
      const std::uint64_t mine = node_word::lock(word, space_.epoch(), space_.process());
      // With the same number of changes: readers who saw the node before wait for the unlock. If the dead one's number
      // is this one's, then because it was this epoch's and this process's: alive.
      if (n.lock.compare_exchange_strong(word, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        try {
          verify_torn(n, ref);
          if (of_this_epoch) roll_back_dead_writers(n);
        } catch (...) {
          n.lock.store(word, std::memory_order_release);  // release: nothing was changed; the next one finds it so
          shared_->holders.leave();
          throw;
        }
        repair(n, ref);
      } else {
        shared_->holders.leave();
      }
      continue;
    }
    // acquire: see lock_holders.hpp
    if (look && shared_->holders.none() && n.lock.load(std::memory_order_acquire) == word)
      space_.owner().raise_damaged(ref, "a node of the index is locked by nobody");
    wait.pause();
  }
}

/// Whether the links of a node whose checksum is right, which has 16 bits that damage may pass by chance, lead to where
/// nodes and entries can lie: then what follows them finds damage, and not the end of the mapping. Asked by the first
/// to look at a node: what writers of this epoch put in needs no look.
bool persistent_index::is_bounded(const index_node& n) const noexcept {
  const auto leads_to_node = [&](link l) { return space_.owner().leads_into_pool(l, sizeof(index_node)); };
  // relaxed, all loads: of a node that changes meanwhile, the word that was seen is there no more
  const node_order order(n);
  for (unsigned i = 0; i < order.count(); ++i) {
    const link to = n.pairs[order.slot(i)].to.load(std::memory_order_relaxed);
    if (!(order.level() == 0 ? source_.is_readable(to) : leads_to_node(to))) return false;
  }
  for (const link bound : {n.low.load(std::memory_order_relaxed), n.high.load(std::memory_order_relaxed)}) {
    if (bound != null_link && !source_.is_readable(bound)) return false;
  }
  const link next = n.next.load(std::memory_order_relaxed);
  return next == null_link || leads_to_node(next);
}

/// The links and keys from which mend() computes what the node is: it has no checksum until it is unlocked.
/// errc::damaged if no writer can have left it so.
void persistent_index::verify_torn(const index_node& n, link ref) const {
  const auto require = [&](bool possible) {
    if (!possible) space_.owner().raise_damaged(ref, "a node of the index that a write was cut off in is impossible");
  };
  // relaxed, all loads: inside the lock
  const node_order torn(n);
  unsigned pairs = 0;
  for (unsigned i = 0; i < torn.count(); ++i) {
    if (torn.byte(i) >= index_pairs_max) continue;  // of words that were still to be written
    ++pairs;
    const link to = n.pairs[torn.byte(i)].to.load(std::memory_order_relaxed);
    require(to != null_link);
    if (torn.level() > 0) require(space_.owner().leads_into_pool(to, sizeof(index_node)));
    verify_low(low_of(to, torn.level()), ref);
  }
  verify_low(n.low.load(std::memory_order_relaxed), ref);
  // only the first leaf of an index without keys has none
  require(pairs != 0 || ref == space_.load(space_.anchor().top, std::memory_order_acquire));
  const link next = n.next.load(std::memory_order_relaxed);
  if (next == null_link) return;
  require(space_.owner().leads_into_pool(next, sizeof(index_node)));
  const link low = space_.at(next).low.load(std::memory_order_acquire);
  require(low != null_link);
  verify_low(low, ref);
}

/// Of a torn node: the entry with the least key of what one of its links leads to.
void persistent_index::verify_low(link low, link ref) const {
  if (low == null_link) return;
  if (!space_.owner().leads_into_pool(low, sizeof(format::entry_header)))
    space_.owner().raise_damaged(ref, "a node of the index that a write was cut off in leads to no entry");
  source_.verify_key(low);
}

/// Entries of a locked leaf whose writers were killed before their pairs were shown, while others go on: each of those
/// is whole and has a version, with which opening would enter it, and by then its key may have been found missing, or
/// have been made by another. (What the machine's end, or that of all processes, leaves so, nobody has met: opening
/// enters it.)
void persistent_index::roll_back_dead_writers(const index_node& n) const {
  // relaxed, all loads: inside the lock
  const node_order torn(n);
  if (torn.level() != 0) return;
  const link low = n.low.load(std::memory_order_relaxed);
  const link next = n.next.load(std::memory_order_relaxed);
  const link high = next == null_link ? null_link : space_.at(next).low.load(std::memory_order_acquire);
  space_.owner().roll_back_dead_writers([&](std::string_view key, link entry) {
    if (low != null_link && key < source_.key_of(low)) return false;
    if (high != null_link && key >= source_.key_of(high)) return false;
    for (unsigned i = 0; i < torn.count(); ++i) {  // as mend() takes them
      const unsigned slot = torn.byte(i);
      if (slot < index_pairs_max && n.pairs[slot].to.load(std::memory_order_relaxed) == entry) return false;
    }
    return true;
  });
}

/// Makes a node whole whose writer died inside the lock, which this thread has taken over, and unlocks it. What the
/// writer had done so far is finished if anybody may have seen it, else forgotten; the same if this is interrupted and
/// done again, since all is computed from the pairs' links, which order words show only once they are durable.
void persistent_index::repair(index_node& n, link ref) const {
  // relaxed, all loads: inside the lock
  const node_order torn(n);
  node_order whole(torn.level(), torn.prefix_length());
  const link next = n.next.load(std::memory_order_relaxed);
  const link high = next == null_link ? null_link : space_.at(next).low.load(std::memory_order_acquire);
  std::uint32_t seen = 0;
  for (unsigned i = 0; i < torn.count(); ++i) {
    const unsigned slot = torn.byte(i);
    if (slot >= index_pairs_max || (seen >> slot & 1) != 0) continue;  // of words that were still to be written
    seen |= std::uint32_t{1} << slot;
    const link low = low_of(n.pairs[slot].to.load(std::memory_order_relaxed), torn.level());
    const bool moved = high != null_link && low != null_link && source_.key_of(low) >= source_.key_of(high);
    if (!moved) whole.insert(whole.count(), slot);
  }
  if (high == null_link) whole.set_prefix_length(0);
  set_heads(n, whole);
  space_.flush(&n.pairs, sizeof n.pairs);
  space_.fence();
  // release, all: see node_lock.hpp
  n.high.store(high, std::memory_order_release);
  n.high_head.store(high == null_link ? 0 : head_of(source_.key_of(high), whole.prefix_length()),
                    std::memory_order_release);
  whole.store_fewer_in(n);
  space_.flush(&n, format::cache_line_size);
  space_.fence();
  unlock(n, ref);
}

/// Whether a node that may have been linked is. It was filled durably before, so if its low or its level are not those
/// of a node it was not.
bool persistent_index::is_linked(link node) const {
  if (!space_.owner().leads_into_pool(node, sizeof(index_node)))
    space_.owner().raise_damaged(node, "a source of nodes of the index leads out of the store");
  const index_node& n = space_.at(node);
  const unsigned level = node_order(n).level();
  const link highest = space_.load(space_.anchor().top, std::memory_order_acquire);
  if (level > node_order(*look_at(highest).at).level()) return false;
  const link low = n.low.load(std::memory_order_acquire);
  view here = look_at(highest);
  here.tells = false;      // a source is held: to tell of another node would take another one
  if (low == null_link) {  // only a level's first node has none
    for (;;) {
      const node_order order(*here.at);
      if (order.level() == level) return here.ref == node;
      const link first = to_at(*here.at, order, 0);
      if (here.validate())
        here = look_at(first);
      else
        look_again(here);
    }
  }
  if (!source_.is_readable(low)) return false;
  const std::string_view key = source_.key_of(low);
  while (!go_down<side::right>(here, key, level)) {
  }
  for (;;) {
    if (here.ref == node) return true;
    const node_order order(*here.at);
    const bool beyond = is_beyond(*here.at, order, key, side::right, true);
    const link next = here.at->next.load(std::memory_order_acquire);
    if (!here.validate())
      look_again(here);
    else if (!beyond)
      return false;
    else
      here = look_at(next);
  }
}

}  // namespace icecore::index

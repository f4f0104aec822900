// What a thread does at a node before it reads it: waits for a writer; checks a node that has not been checked since
// the store was opened; repairs one whose writer is dead.
#include "base/locks/looks.hpp"
#include "base/threads.hpp"
#include "index/persistent/descent.hpp"

namespace icecore::index {
namespace {

/// Whether a node's bound belongs to this key. If another key has taken the place of a lost entry, the bound is wrong,
/// and keys of the node would seem not to be there.
bool ends_before(const index_node& n, std::string_view key) noexcept {
  // relaxed: if it differs, the caller has a fence before it looks at the word again
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
        wrong = "a node of the index has a link that points outside the store";
      } else if (is_outdated(n, ref, word)) {
        wrong = "a node of the index or one of its entries is older than its evidence: the device lost a write";
      } else if (const link high = n.high.load(std::memory_order_acquire); high != null_link) {
        source_.verify_key(high);  // once: is_beyond() compares keys with it many times
        if (!ends_before(n, source_.key_of(high))) wrong = "a node of the index ends at the entry of another key";
      }
      if (wrong == nullptr) {
        const std::uint64_t checked = node_word::in_epoch(word, space_.epoch());
        space_.owner().note_met(ref);
        // acquire: as the load. The line is not flushed: after a crash another thread checks the node again
        if (n.lock.compare_exchange_strong(word, checked, std::memory_order_acq_rel, std::memory_order_relaxed))
          return checked;
      } else {
        // Before its word is loaded again: a writer stores with release, so a thread that sees any of its stores sees
        // its lock.
        std::atomic_thread_fence(std::memory_order_acquire);
        // relaxed: behind the fence. If the word differs, another thread is changing the node
        if (n.lock.load(std::memory_order_relaxed) == word) space_.owner().raise_damaged(ref, wrong);
      }
      continue;
    }
    const bool look = rounds % rounds_between_looks == 0;
    if (!of_this_epoch || (look && !space_.owner().is_alive(node_word::process(word)))) {
      // The word is locked, so is_outdated() examines only it and what closing left, not the contents. So all threads
      // decide alike, and none takes the node over.
      if (!of_this_epoch && is_outdated(n, ref, word))
        space_.owner().raise_damaged(ref, "a node of the index is older than its evidence: the device lost a write");
      space_.owner().note_met(ref);
      shared_->holders.enter();
      const std::uint64_t mine = node_word::lock(word, space_.epoch(), space_.process());
      // The number of changes stays the same, so readers that saw the node before wait for the unlock. `mine` differs
      // from `word`: a word with this epoch and this process's number belongs to a live process and does not get here.
      if (n.lock.compare_exchange_strong(word, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        try {
          verify_torn(n, ref);
          if (of_this_epoch) roll_back_dead_writers(n);
        } catch (...) {
          // release: nothing was changed; the next thread finds it as it was
          n.lock.store(word, std::memory_order_release);
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
      space_.owner().raise_damaged(ref, "a node of the index is locked, but no thread holds its lock");
    wait.pause();
  }
}

/// Whether the links of a node lead to where nodes and entries can lie, so that a thread that follows them finds damage
/// and not the end of the mapping. The node's checksum is correct, but it has 16 bits, so damage may pass it by chance.
/// Only the first thread that checks the node in this epoch calls this: what writers of this epoch store needs no
/// check.
bool persistent_index::is_bounded(const index_node& n) const noexcept {
  const auto leads_to_node = [&](link l) { return space_.owner().leads_into_pool(l, sizeof(index_node)); };
  // relaxed, all loads: if the node changes meanwhile, its word is no longer the one that was seen
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

/// Verifies the links and keys from which repair() computes the node, which has no checksum until it is unlocked.
/// Raises errc::damaged if no writer can have left it so.
void persistent_index::verify_torn(const index_node& n, link ref) const {
  const auto require = [&](bool possible) {
    if (!possible)
      space_.owner().raise_damaged(
          ref, "a node of the index that a crash left half-written is in a state that no writer leaves");
  };
  // relaxed, all loads: inside the lock
  const node_order torn(n);
  unsigned pairs = 0;
  for (unsigned i = 0; i < torn.count(); ++i) {
    if (torn.byte(i) >= index_pairs_max) continue;  // in words that were yet to be written
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

/// For a torn node: verifies the entry with the least key of what one of its links leads to.
void persistent_index::verify_low(link low, link ref) const {
  if (low == null_link) return;
  if (!space_.owner().leads_into_pool(low, sizeof(format::entry_header)))
    space_.owner().raise_damaged(
        ref, "a node of the index that a crash left half-written has a link that points outside the store");
  source_.verify_key(low);
}

/// Rolls back entries of a locked leaf whose writers were killed before their pairs were shown, while other processes
/// go on. Such an entry is intact and has a version, so the next opening would enter it into the index. By then another
/// thread may have found its key missing, or made another entry for it. (If the machine or all processes stop, no
/// thread has met such an entry, and opening enters it.)
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
    for (unsigned i = 0; i < torn.count(); ++i) {  // as repair() takes them
      const unsigned slot = torn.byte(i);
      if (slot < index_pairs_max && n.pairs[slot].to.load(std::memory_order_relaxed) == entry) return false;
    }
    return true;
  });
}

/// Repairs a node whose writer died inside the lock, which this thread has taken over, and unlocks it. The writer's
/// change is completed if any thread may have seen it, otherwise dropped. If the repair is interrupted and done again,
/// the result is the same: all is computed from the pairs' links, which order words show only once they are durable.
void persistent_index::repair(index_node& n, link ref) const {
  // relaxed, all loads: inside the lock
  const node_order torn(n);
  node_order repaired(torn.level(), torn.prefix_length());
  const link next = n.next.load(std::memory_order_relaxed);
  const link high = next == null_link ? null_link : space_.at(next).low.load(std::memory_order_acquire);
  std::uint32_t seen = 0;
  for (unsigned i = 0; i < torn.count(); ++i) {
    const unsigned slot = torn.byte(i);
    if (slot >= index_pairs_max || (seen >> slot & 1) != 0) continue;  // in words that were yet to be written
    seen |= std::uint32_t{1} << slot;
    const link low = low_of(n.pairs[slot].to.load(std::memory_order_relaxed), torn.level());
    const bool moved = high != null_link && low != null_link && source_.key_of(low) >= source_.key_of(high);
    if (!moved) repaired.insert(repaired.count(), slot);
  }
  if (high == null_link) repaired.set_prefix_length(0);
  set_heads(n, repaired);
  space_.flush(&n.pairs, sizeof n.pairs);
  space_.fence();
  // release, all: see node_lock.hpp
  n.high.store(high, std::memory_order_release);
  n.high_head.store(high == null_link ? 0 : head_of(source_.key_of(high), repaired.prefix_length()),
                    std::memory_order_release);
  repaired.store_fewer_in(n);
  space_.flush(&n, format::cache_line_size);
  space_.fence();
  unlock(n, ref);
}

/// Whether a node that may have been linked is linked. It was durably filled before it was linked. So if its low or its
/// level is not that of a node, it was not linked.
bool persistent_index::is_linked(link node) const {
  if (!space_.owner().leads_into_pool(node, sizeof(index_node)))
    space_.owner().raise_damaged(node, "the index's source of new nodes points outside the store");
  const index_node& n = space_.at(node);
  const unsigned level = node_order(n).level();
  const link highest = space_.load(space_.anchor().top, std::memory_order_acquire);
  if (level > node_order(*look_at(highest).at).level()) return false;
  const link low = n.low.load(std::memory_order_acquire);
  view here = look_at(highest);
  here.promotes = false;   // this thread holds a source: promoting another node would take another one
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

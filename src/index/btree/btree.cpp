#include "index/btree/btree.hpp"

#include <cassert>
#include <new>
#include <utility>

#include "base/locks/looks.hpp"
#include "index/btree/descent.hpp"

namespace icecore::index {

btree::btree(const key_source& source, std::shared_ptr<arena> memory)
    : source_(source), memory_(std::move(memory)), arena_(*memory_) {
  arena_ref place = arena_.root(index_root);
  if (place != 0) {
    shared_ = reinterpret_cast<state*>(arena_.at(place));
    return;
  }
  place = arena_.allocate(sizeof(state));
  shared_ = new (arena_.at(place)) state;
  shared_->first_leaf = arena_.allocate(sizeof(node));
  new (arena_.at(shared_->first_leaf)) node(0, null_link, null_link);
  // Release: as every publication of a node, so that a thread that follows the reference sees the whole node.
  shared_->root.store(shared_->first_leaf, std::memory_order_release);
  arena_.set_root(index_root, place);
}

// The word holds the holder's number. A waiting thread checks that process only if the wait is long. A process that
// ends without being killed unlocks first. So if the process is gone and the word is still the same, it was killed
// inside.
std::uint64_t btree::wait_for(const node& n) const {
  backoff wait;
  for (unsigned rounds = 1;; ++rounds) {
    const std::uint64_t word = n.lock.peek();
    if (!optimistic_lock::is_locked(word)) return word;
    const bool look = rounds % rounds_between_looks == 0;
    if (look && !arena_.is_held(optimistic_lock::holder(word)) && n.lock.peek() == word) source_.raise_owner_died();
    wait.pause();
  }
}

link btree::find(std::string_view key) const {
  const sought_key sought(key);
  for (backoff wait;; wait.pause()) {
    const path where = try_descend<side::right, stop::leaf>(sought);
    if (where.node.at == nullptr) continue;
    const place found = lower_bound(*where.node.at, where.form, sought, source_);
    if (where.node.validate()) return found.equal;
  }
}

inline void btree::insert_in_leaf(node& leaf, node_form form, unsigned slot, const sought_key& key,
                                  link entry) noexcept {
  if (form.open && form.prefix_length != 0) [[unlikely]] {
    admit_to_prefix(leaf, key.bytes);
    form = leaf.form.load();
  }
  assert(slot <= form.count && form.count < slot_count);
  leaf.note_insert(slot);
  leaf.make_room(slot, form.count);
  leaf.heads[slot].store(key.head_behind(form.prefix_length));
  leaf.links[slot].store(entry);
  form.admit_size(true, key.bytes.size());
  ++form.count;
  leaf.form.store(form);
  // N4, as far as heads tell
  assert(slot == 0 || leaf.heads[slot - 1].load() <= leaf.heads[slot].load());
  assert(slot + 1 == form.count || leaf.heads[slot].load() <= leaf.heads[slot + 1].load());
}

/// Null if another writer came between, or if a node had to be split first.
inline link btree::try_insert(const sought_key& key, entry_factory& factory, link& made) {
  const path where = try_descend<side::right, stop::full_inner>(key);
  if (where.node.at == nullptr) return null_link;
  node& n = *where.node.at;
  if (where.form.level != 0) {
    (void)split_inner(where, key);  // either way the path has changed
    return null_link;
  }
  const place found = lower_bound(n, where.form, key, source_);
  if (found.equal != null_link) return where.node.validate() ? found.equal : null_link;
  if (made == null_link) {
    if (!where.node.validate()) return null_link;
    made = factory.make();
    assert(made != null_link);
  }
  if (where.form.count == slot_count) {
    if (!split_leaf(where, found.slot, key, made)) return null_link;
  } else {
    const write_guard guard(n.lock, where.node.seen, arena_.process());
    if (!guard.holds()) return null_link;
    factory.before_publish();  // finds that read the lock word from here on wait for the unlock
    insert_in_leaf(n, where.form, found.slot, key, made);
  }
  shared_->size.add(1);
  return made;
}

link btree::insert(std::string_view key, entry_factory& factory) {
  const sought_key sought(key);
  link made = null_link;
  for (backoff wait;; wait.pause()) {
    const link there = try_insert(sought, factory, made);
    if (there != null_link) return there;
  }
}

std::unique_ptr<ordered_index> make_btree(const key_source& source, std::shared_ptr<arena> memory) {
  return std::make_unique<btree>(source, std::move(memory));
}

std::unique_ptr<ordered_index> make_btree(const key_source& source, arena_options options) {
  return make_btree(source, std::make_shared<arena>(options));
}

}  // namespace icecore::index

// Search, insert, and blocks: some neighbouring links.
//
// Why X3 holds. A block's `next` is the node behind its last link when that was read. Nodes are never unlinked, so the
// walk continues there however many nodes were linked since: those between the two were not there when the walk began,
// or it would have met them. A backward walk goes by keys: the block before k ends with the last node before k.
#include "index/list/linked_list.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "index/evenly_chosen.hpp"

namespace icecore::index {
namespace {

/// A node for an insert; it goes back to the spare ones unless it was used.
class spare_node {
 public:
  spare_node(const list_nodes& nodes, free_list& spares) : nodes_(nodes), spares_(spares), ref_(nodes.take(spares)) {}
  ~spare_node() {
    if (ref_ != 0) nodes_.give(spares_, ref_);
  }
  spare_node(const spare_node&) = delete;
  spare_node& operator=(const spare_node&) = delete;

  [[nodiscard]] node_ref ref() const noexcept { return ref_; }
  void use() noexcept { ref_ = 0; }

 private:
  const list_nodes& nodes_;
  free_list& spares_;
  node_ref ref_;
};

}  // namespace

template <class Way>
typename linked_list<Way>::state& linked_list<Way>::state_in(arena& memory) {
  arena_ref place = memory.root(index_root);
  if (place == 0) {
    place = memory.allocate(sizeof(state));
    new (memory.at(place)) state;
    memory.set_root(index_root, place);
  }
  return *reinterpret_cast<state*>(memory.at(place));
}

/// Walks on from where.before to where `key` is or would be. Returns its node, or 0.
template <class Way>
node_ref linked_list<Way>::advance(const sought& key, position& where) const noexcept {
  for (;;) {
    where.behind = at(where.before).next();
    const int order = where.behind == 0 ? -1 : compare(key, at(where.behind), source_);
    if (order <= 0) return order == 0 ? where.behind : 0;
    where.before = where.behind;
  }
}

/// The same from as near as possible. Lets the table learn of a better place to begin.
template <class Way>
node_ref linked_list<Way>::search(const sought& key, position& where) const noexcept {
  where.before = front_;
  if constexpr (hashed) {
    const std::uint64_t begin = way_.slot_begin(key);
    unsigned passed = 0;
    for (where.before = way_.near(key);; ++passed) {
      where.behind = at(where.before).next();
      if (where.behind == 0 || at(where.behind).order >= begin) break;
      where.before = where.behind;
    }
    way_.learn(key, where.before, passed);
  }
  return advance(key, where);
}

template <class Way>
link linked_list<Way>::find(std::string_view key) const noexcept {
  position where;
  const node_ref there = search(way_.sought_for(key), where);
  return there == 0 ? null_link : at(there).entry;
}

template <class Way>
link linked_list<Way>::insert(std::string_view key, entry_factory& factory) {
  const sought wanted = way_.sought_for(key);
  position where;
  if (const node_ref there = search(wanted, where); there != 0) return at(there).entry;

  const link made = factory.make();
  assert(made != null_link);
  spare_node fresh(nodes_, shared_->spares);
  list_node& node = at(fresh.ref());
  node.order = wanted.order;
  node.head = wanted.key.head;
  node.entry = made;
  node.key_size = static_cast<std::uint16_t>(key.size());
  for (;;) {
    node.set_next(where.behind);
    if (at(where.before).publish_next(where.behind, fresh.ref())) break;
    // Another node was linked behind the same predecessor. If it is not this key's, walk on past it.
    if (const node_ref there = advance(wanted, where); there != 0) return at(there).entry;
  }
  fresh.use();
  shared_->size.add(1);
  way_.grow(wanted, [this] { return size(); });
  return made;
}

// ---- Blocks ----

/// Copies the links from node `first` (0: none) on.
template <class Way>
void linked_list<Way>::read_from(node_ref first, block& out) const noexcept {
  node_ref here = first;
  out.size = 0;
  while (here != 0 && out.size < block::capacity) {
    const list_node& node = at(here);
    here = node.next();
    if (here != 0) __builtin_prefetch(&at(here));
    out.entries[out.size++] = node.entry;
  }
  out.next = here;
}

template <class Way>
void linked_list<Way>::seek(std::string_view key, block& out) const noexcept {
  position where;
  (void)search(way_.sought_for(key), where);
  read_from(where.behind, out);
}

template <class Way>
void linked_list<Way>::seek_first(block& out) const noexcept {
  read_from(at(front_).next(), out);
}

template <class Way>
bool linked_list<Way>::next_block(block& b) const noexcept {
  read_from(static_cast<node_ref>(b.next), b);
  return b.size != 0;
}

/// The newest of the links that were added.
template <class Way>
class linked_list<Way>::last_links {
 public:
  void add(link entry) noexcept { links_[count_++ % block::capacity] = entry; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  void copy_to(block& out) const noexcept {
    out.size = std::min(count_, block::capacity);
    for (std::size_t i = 0; i < out.size; ++i) out.entries[i] = links_[(count_ - out.size + i) % block::capacity];
  }

 private:
  std::array<link, block::capacity> links_;
  std::size_t count_ = 0;
};

/// Adds the links behind `from` and before `key`, or before the end if it is null. Returns the node behind them.
template <class Way>
node_ref linked_list<Way>::read_before(const sought* key, node_ref from, last_links& into) const noexcept {
  node_ref here = at(from).next();
  while (here != 0 && (key == nullptr || compare(*key, at(here), source_) > 0)) {
    into.add(at(here).entry);
    here = at(here).next();
  }
  return here;
}

template <class Way>
bool linked_list<Way>::read_last_before(const sought* key, block& out) const noexcept
  requires(!hashed)
{
  last_links found;
  out.next = read_before(key, front_, found);
  found.copy_to(out);
  return out.size != 0;
}

/// Begins some slots before the key, and ever more of them until there are enough links.
template <class Way>
bool linked_list<Way>::read_last_before(const sought* key, block& out) const noexcept
  requires(hashed)
{
  const unsigned bits = way_.bits();
  const std::uint64_t to = key == nullptr ? shortcuts::mask(bits) : bits == 0 ? 0 : key->order >> (64 - bits);
  for (std::uint64_t slots = block::capacity;; slots *= 4) {
    last_links found;
    const bool all = slots > to;
    const node_ref from = all ? front_ : way_.near_order((to - slots) << (64 - bits));
    out.next = read_before(key, from, found);
    if (!all && found.count() < block::capacity / 4) continue;
    found.copy_to(out);
    return out.size != 0;
  }
}

template <class Way>
void linked_list<Way>::seek_last(block& out) const noexcept {
  (void)read_last_before(nullptr, out);
}

template <class Way>
bool linked_list<Way>::block_before(std::string_view key, block& out) const noexcept {
  const sought wanted = way_.sought_for(key);
  return read_last_before(&wanted, out);
}

template <class Way>
std::vector<link> linked_list<Way>::split_points(std::size_t count) const {
  constexpr std::size_t finer = 16;
  std::vector<link> points;
  if (count == 0) return points;
  const std::uint64_t keys = size();
  if constexpr (hashed) {
    if (keys / finer > count) {  // hashes are spread evenly
      const std::uint64_t step = ~std::uint64_t{0} / (count + 1);
      for (std::size_t i = 1; i <= count; ++i) {
        node_ref here = at(way_.near_order(i * step)).next();
        while (here != 0 && at(here).order < i * step) here = at(here).next();
        if (here != 0 && (points.empty() || points.back() != at(here).entry)) points.push_back(at(here).entry);
      }
      return points;
    }
  }
  // every so-manieth key: more than are asked for, since keys may be added meanwhile
  const std::uint64_t distance = std::max<std::uint64_t>(1, keys / (count * finer));
  std::uint64_t i = 0;
  for (node_ref here = at(front_).next(); here != 0; here = at(here).next()) {
    if (i++ % distance == 0) points.push_back(at(here).entry);
  }
  return evenly_chosen(std::move(points), count);
}

std::unique_ptr<ordered_index> make_list(const key_source& source, std::shared_ptr<arena> memory) {
  return std::make_unique<key_list>(source, std::move(memory));
}
std::unique_ptr<ordered_index> make_hash(const key_source& source, std::shared_ptr<arena> memory,
                                         const hash_seed& seed) {
  return std::make_unique<hash_list>(source, std::move(memory), seed);
}
std::unique_ptr<ordered_index> make_list(const key_source& source, arena_options options) {
  return make_list(source, std::make_shared<arena>(options));
}
std::unique_ptr<ordered_index> make_hash(const key_source& source, const hash_seed& seed, arena_options options) {
  return make_hash(source, std::make_shared<arena>(options), seed);
}

}  // namespace icecore::index

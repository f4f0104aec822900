#include "index/skip_list/skip_list.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <utility>

#include "base/checksum.hpp"

namespace icecore::index {
namespace {

/// 1 with probability 3/4, 2 with 3/16, and so on. Entries lie at different positions, so their links serve as random
/// numbers.
unsigned height_of(link entry) noexcept {
  const auto twos = static_cast<unsigned>(std::countr_zero(mix64(entry)));
  return std::min(1 + twos / 2, height_max);
}

}  // namespace

/// A tower for an insert; it goes back to the free list unless it was used.
class skip_list::unused_tower {
 public:
  unused_tower(skip_list& list, unsigned height) : list_(list), ref_(list.take_tower(height)), height_(height) {}
  ~unused_tower() {
    if (ref_ != 0) list_.give_back(ref_, height_);
  }
  unused_tower(const unused_tower&) = delete;
  unused_tower& operator=(const unused_tower&) = delete;

  [[nodiscard]] arena_ref ref() const noexcept { return ref_; }
  void use() noexcept { ref_ = 0; }

 private:
  skip_list& list_;
  arena_ref ref_;
  unsigned height_;
};

skip_list::skip_list(const key_source& source, std::shared_ptr<arena> memory)
    : source_(source), memory_(std::move(memory)), arena_(*memory_) {
  arena_ref place = arena_.root(index_root);
  if (place != 0) {
    shared_ = reinterpret_cast<state*>(arena_.at(place));
    first_ = shared_->first;
    return;
  }
  place = arena_.allocate(sizeof(state));
  shared_ = new (arena_.at(place)) state;
  first_ = shared_->first = take_tower(height_max);
  at(first_).height = height_max;
  arena_.set_root(index_root, place);
}

arena_ref skip_list::take_tower(unsigned height) {
  const arena_ref reused = shared_->free_towers[height].take([&](arena_ref ref) { return at(ref).next(0); });
  return reused != 0 ? reused : arena_.allocate(tower::bytes_of(height));
}

void skip_list::give_back(arena_ref ref, unsigned height) noexcept {
  shared_->free_towers[height].give(ref, [&](arena_ref one, arena_ref next) { at(one).set_next(0, next); });
}

/// Walks on from out.predecessors[level], on that level, to where `key` is or would be. Returns its tower, or 0.
arena_ref skip_list::advance(const sought_key& key, unsigned level, position& out) const noexcept {
  arena_ref before = out.predecessors[level];
  for (;;) {
    const arena_ref behind = at(before).next(level);
    const int order = behind == 0 ? -1 : compare(key, at(behind), source_);
    if (order <= 0) {
      out.predecessors[level] = before;
      out.successors[level] = behind;
      return order == 0 ? behind : 0;
    }
    before = behind;
  }
}

/// FindSkip: predecessors and successors on all levels in use. Returns the tower of `key`, or 0. If it finds one, it
/// leaves out the levels below the one where it met the tower.
arena_ref skip_list::find_skip(const sought_key& key, position& out) const noexcept {
  arena_ref before = first_;
  out.predecessors.fill(first_);  // for levels above those in use
  for (unsigned level = height(); level-- > 0;) {
    out.predecessors[level] = before;
    const arena_ref there = advance(key, level, out);
    if (there != 0) return there;
    before = out.predecessors[level];
  }
  return 0;
}

/// The last tower on `level` before `key`, or before the end if `key` is null: first_ if there is none.
arena_ref skip_list::last_before(const sought_key* key, unsigned level) const noexcept {
  arena_ref before = first_;
  arena_ref not_before = 0;  // a tower met above need not be compared again
  for (unsigned l = std::max(height(), level + 1); l-- > level;) {
    for (;;) {
      const arena_ref behind = at(before).next(l);
      if (behind == 0 || behind == not_before) break;
      if (key != nullptr && compare(*key, at(behind), source_) <= 0) {
        not_before = behind;
        break;
      }
      before = behind;
    }
  }
  return before;
}

/// The first tower whose key is not smaller; 0 if there is none.
arena_ref skip_list::lower_bound(const sought_key& key) const noexcept {
  // By now there may be another smaller tower behind the last tower before the key: walk on until there is none.
  for (arena_ref before = last_before(&key, 0);;) {
    const arena_ref behind = at(before).next(0);
    if (behind == 0 || compare(key, at(behind), source_) <= 0) return behind;
    before = behind;
  }
}

link skip_list::find(std::string_view key) const noexcept {
  const sought_key sought(key);
  arena_ref before = first_;
  arena_ref not_before = 0;
  for (unsigned level = height(); level-- > 0;) {
    for (;;) {
      const arena_ref behind = at(before).next(level);
      if (behind == 0 || behind == not_before) break;
      const tower& t = at(behind);
      const int order = compare(sought, t, source_);
      if (order == 0) return t.entry;
      if (order < 0) {
        not_before = behind;
        break;
      }
      before = behind;
    }
  }
  return null_link;
}

link skip_list::insert(std::string_view key, entry_factory& factory) {
  const sought_key sought(key);
  position where;
  if (const arena_ref there = find_skip(sought, where); there != 0) return at(there).entry;

  const link made = factory.make();
  assert(made != null_link);
  const unsigned height = height_of(made);
  unused_tower fresh(*this, height);
  tower& t = at(fresh.ref());
  t.head = sought.head;
  t.entry = made;
  t.key_size = static_cast<std::uint16_t>(key.size());
  t.height = static_cast<std::uint16_t>(height);
  for (;;) {
    t.set_next(0, where.successors[0]);
    if (at(where.predecessors[0]).publish_next(0, where.successors[0], fresh.ref())) break;
    // Another tower was linked behind the same predecessor. If it is not this key's, walk on past it.
    if (const arena_ref there = advance(sought, 0, where); there != 0) return at(there).entry;
  }
  const arena_ref published = fresh.ref();
  fresh.use();
  link_above(published, sought, where);
  shared_->size.add(1);
  return made;
}

/// Links a tower that is on level 0 on its other levels. The predecessors are those of find_skip(), or older.
void skip_list::link_above(arena_ref fresh, const sought_key& key, position& where) noexcept {
  tower& t = at(fresh);
  for (unsigned level = 1; level < t.height; ++level) {
    do {
      // No other thread links this tower, so the walk meets none with its key.
      (void)advance(key, level, where);
      t.set_next(level, where.successors[level]);
    } while (!at(where.predecessors[level]).publish_next(level, where.successors[level], fresh));
  }
  raise_height(t.height);
}

void skip_list::raise_height(unsigned to) noexcept {
  unsigned now = height();
  // Relaxed: a hint where to start; it publishes nothing.
  while (now < to && !shared_->height.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

// ---- find_many ----

/// One of the searches that run together. Each step ends with a prefetch of the tower that the next step reads.
struct skip_list::lookup {
  sought_key key{{}};
  arena_ref before = 0;
  arena_ref candidate = 0;  ///< prefetched
  arena_ref not_before = 0;
  unsigned level = 0;
  link found = null_link;
  bool done = false;
};

void skip_list::find_many(std::span<const std::string_view> keys, std::span<link> out) const noexcept {
  constexpr std::size_t group_size = 16;  // waits that overlap: about as many as a core can have misses in flight
  assert(keys.size() <= out.size());
  std::array<lookup, group_size> group;
  const auto choose = [this](lookup& l) {  // the next tower to compare with; if none, the search has ended
    for (;;) {
      l.candidate = at(l.before).next(l.level);
      if (l.candidate != 0 && l.candidate != l.not_before) {
        __builtin_prefetch(&at(l.candidate));
        return;
      }
      if (l.level == 0) {
        l.done = true;
        return;
      }
      --l.level;
    }
  };
  const auto step = [&](lookup& l) {
    const tower& t = at(l.candidate);
    const int order = compare(l.key, t, source_);
    if (order == 0) {
      l.found = t.entry;
      l.done = true;
      source_.prefetch(t.entry);
      return;
    }
    if (order > 0) {
      l.before = l.candidate;
    } else {
      l.not_before = l.candidate;
      if (l.level == 0) {
        l.done = true;
        return;
      }
      --l.level;
    }
    choose(l);
  };
  for (std::size_t first = 0; first < keys.size(); first += group_size) {
    const std::size_t size = std::min(group_size, keys.size() - first);
    for (std::size_t i = 0; i < size; ++i) {
      group[i] = {.key = sought_key(keys[first + i]), .before = first_, .level = height() - 1};
      choose(group[i]);
    }
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < size; ++i) {
        if (group[i].done) continue;
        step(group[i]);
        more = true;
      }
    }
    for (std::size_t i = 0; i < size; ++i) out[first + i] = group[i].found;
  }
}

std::unique_ptr<ordered_index> make_skip_list(const key_source& source, std::shared_ptr<arena> memory) {
  return std::make_unique<skip_list>(source, std::move(memory));
}

std::unique_ptr<ordered_index> make_skip_list(const key_source& source, arena_options options) {
  return make_skip_list(source, std::make_shared<arena>(options));
}

}  // namespace icecore::index

#include "index/persistent/nodes/node_space.hpp"

#include "base/bytes.hpp"
#include "base/locks/looks.hpp"
#include "base/threads.hpp"

namespace icecore::index {
namespace {

constexpr std::uint64_t in_use = format::pending_in_use;

}  // namespace

link node_space::decode(std::uint64_t word, link at) const {
  const auto l = parts_.codec.decode_link(word, at);
  if (!l || (*l != null_link && !owner().leads_into_pool(*l, 8)))  // 8: the least that anything linked to has
    owner().raise_damaged(at, "a link of the index fails its check");
  return *l;
}

std::uint64_t node_space::bytes_taken() const noexcept {
  std::uint64_t granules = 1;  // the anchor's
  // relaxed: a statistic
  for (const auto& source : anchor().nodes) granules += source.segments.load(std::memory_order_relaxed);
  return granules * format::granule_size;
}

taken_node::taken_node(node_space& space, const node_finder& finder) : space_(space) {
  lease();
  try {
    take(finder);
  } catch (...) {
    release();
    throw;
  }
}

taken_node::taken_node(node_space& space, const node_finder& finder, unsigned source) : space_(space) {
  backoff wait;
  while (!try_lease(source, true)) wait.pause();
  try {
    take(finder);
  } catch (...) {
    release();
    throw;
  }
}

taken_node::~taken_node() {
  if (kept_) {
    // What leads to the node is durable. The next thread to take a node from this source need not search for this one,
    // nor trust what the node says about itself. After a crash before this store it must. relaxed: one thread has the
    // source
    source_->pending.store(source_->pending.load(std::memory_order_relaxed) | in_use, std::memory_order_relaxed);
    space_.flush(source_, sizeof *source_);
  }
  // relaxed, both: the next thread that has the source acquires it
  shared_->known.store(true, std::memory_order_relaxed);
  shared_->reusable.store(!kept_, std::memory_order_relaxed);
  release();
}

void taken_node::lease() {
  const unsigned own = thread_number() % node_space::sources;
  backoff wait;
  for (unsigned rounds = 1;; ++rounds) {
    for (unsigned i = 0; i < node_space::sources; ++i) {
      if (try_lease((own + i) % node_space::sources, rounds % rounds_between_looks == 0)) return;
    }
    wait.pause();
  }
}

/// `look`: whether to check that a process that has the source is still alive.
bool taken_node::try_lease(unsigned source, bool look) {
  auto& one = space_.parts_.shared->of[source];
  std::uint32_t seen = one.taken.load(std::memory_order_relaxed);  // relaxed: the exchange decides
  if (seen != 0 && (!look || space_.owner().is_alive(static_cast<std::uint16_t>(seen & 0xffff)))) return false;
  const std::uint32_t mine = std::uint32_t{1} << 16 | space_.process();
  // acquire: everything that the last holder did
  if (!one.taken.compare_exchange_strong(seen, mine, std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  if (seen != 0) {
    // a dead process's pending node is checked as after a crash, once it is decided whether its last segment is taken
    one.known.store(false, std::memory_order_relaxed);
    try {
      space_.owner().recover_dead();
    } catch (...) {
      one.taken.store(seen, std::memory_order_relaxed);  // still the dead process's
      throw;
    }
  }
  shared_ = &one;
  source_ = &space_.anchor().nodes[source];
  return true;
}

void taken_node::release() noexcept { shared_->taken.store(0, std::memory_order_release); }  // release: see try_lease()

/// Memory that was never given out is zero. After a crash a node's bytes may be there although its source does not say
/// that it was given out; but then no level has the node. A source from before other nodes were given out (the device
/// lost a write) leads to a node that is in use.
void taken_node::require_unused(link node, const node_finder& finder) const {
  const auto& owner = space_.owner();
  if (!owner.leads_into_pool(node, sizeof(index_node)))
    owner.raise_damaged(space_.place_of(source_->position), "the index's source of new nodes points outside the store");
  // the field behind these bytes holds evidence of another node
  if (!all_zero(space_.bytes(node), offsetof(index_node, evidence)) && finder.is_linked(node))
    owner.raise_damaged(space_.place_of(source_->position),
                        "the index's source of new nodes points to a node that is in use");
}

void taken_node::take(const node_finder& finder) {
  // relaxed, all of the source: one thread has it
  const auto get = [&](const std::atomic<std::uint64_t>& of) {
    return space_.decode(of.load(std::memory_order_relaxed), space_.place_of(of));
  };
  const auto set = [&](std::atomic<std::uint64_t>& of, link l) {
    of.store(space_.encode(l, space_.place_of(of)), std::memory_order_relaxed);
  };
  const std::uint64_t noted = source_->pending.load(std::memory_order_relaxed);
  const link pending = space_.decode(noted & ~in_use, space_.place_of(source_->pending));
  if (!shared_->known.load(std::memory_order_relaxed)) {
    const bool linked = pending == null_link || (noted & in_use) != 0 || finder.is_linked(pending);
    shared_->reusable.store(!linked, std::memory_order_relaxed);
    shared_->known.store(true, std::memory_order_relaxed);
  }
  link position = get(source_->position);
  if (pending != null_link && shared_->reusable.load(std::memory_order_relaxed)) {
    node_ = pending;
    if (source_ != &space_.anchor().nodes[node_space::tag_source]) space_.owner().note_met(node_);
    if (position != pending) return;
    // a crash came between the two stores below
    set(source_->position, node_segment(get(source_->end)).behind(pending));
    space_.flush(source_, sizeof *source_);
    return;
  }
  if (position == null_link || position == get(source_->end)) {
    struct noting final : space_owner::claim {
      taken_node* of = nullptr;
      void bounds(link begin, link end) noexcept override {
        format::node_source& s = *of->source_;
        // In this order: granules are counted before they are taken; and if the end is in another segment than the
        // position, the position has yet to be stored.
        s.segments.store(s.segments.load(std::memory_order_relaxed) + node_segment(end).size / format::granule_size,
                         std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // as below
        s.end.store(of->space_.encode(end, of->space_.place_of(s.end)), std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // as below
        s.position.store(of->space_.encode(begin, of->space_.place_of(s.position)), std::memory_order_relaxed);
        of->space_.flush(&s, sizeof s);
        of->space_.fence();
      }
    } claim;
    claim.of = this;
    space_.owner().take_segment(claim);
    position = get(source_->position);
  }
  require_unused(position, finder);
  // In this order: if only the first reaches the media, the node is given out again, after it was found unlinked.
  set(source_->pending, position);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order too; x86 stores in order
  set(source_->position, node_segment(get(source_->end)).behind(position));
  space_.flush(source_, sizeof *source_);  // fenced with the node, before it is linked
  node_ = position;
  if (source_ != &space_.anchor().nodes[node_space::tag_source]) space_.owner().note_met(node_);
}

}  // namespace icecore::index

#include "store/sharing/following.hpp"

#include <utility>

#include "base/locks/looks.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/engine.hpp"
#include "store/open/opening.hpp"
#include "store/packed/open_strata.hpp"
#include "store/sharing/compaction_asker.hpp"

namespace icecore::detail {

namespace {

std::shared_ptr<index::arena> index_memory(const opened_store& store, std::uint32_t arena) {
  try {
    return store.memory->attach_sibling(arena, store.as_asked.huge_pages);
  } catch (const std::bad_alloc&) {
    raise(
        errc::no_space,
        "{}: another process has packed the store, and this one cannot map the index that follows: too little address "
        "space",
        store.pool->file().path().native());
  }
}

}  // namespace

bool take_generation(const opened_store& store, store_parts& parts) {
  const writer_set& writers = *store.writers;
  const std::uint64_t number = writers.generation();
  parts.packed.reset();
  parts.views.reset();
  parts.views = std::make_shared<const generation_view>(store.view_locks, number);
  // seq_cst, as the store that changes it: R3
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (writers.generation() != number) return false;
  const auto& about = store.shared->generations.of[number % 2];
  // relaxed: the number was read with acquire (R1)
  const std::uint32_t era = about.era.load(std::memory_order_relaxed);
  const std::uint32_t arena = about.arena.load(std::memory_order_relaxed);
  try {
    parts.packing = manifest_of(*store.pool);
    if (parts.packing.era != era) return false;  // a root leads to the next one already (R2)
    parts.packed = open_strata(*store.pool, parts.packing, store.as_asked.block_cache_bytes);
    parts.index_memory = arena == 0 ? store.memory : index_memory(store, arena);
  } catch (const error&) {
    if (writers.generation() == number) throw;
    return false;  // these words belong to another one already
  }
  parts.generation = number;
  return writers.generation() == number;
}

std::unique_ptr<store_core> following_engine(store_parts&& parts) {
  pool_set& pools = *parts.pool;
  pools.set_era(parts.packing.era);
  for (pool* p : pools.files()) p->forget_used_end();  // the word was in the anchor of the first generation's index
  rebuilt_parts own = rebuilt_parts_of(parts);
  own.histories = std::make_unique<rebuilt_histories>(history_parts_of(parts));
  auto made = make_engine<rebuilt_engine, rebuilt_heads>(std::move(parts), std::move(own));
  made->share_tags();
  return made;
}

/// In a process that is attached. Each of its calls comes here when it finds that another process has packed the store.
void opened_store::follow() {
  pins.take().core().check_usable();  // a forked child would wait for the mutex
  const std::scoped_lock one_at_a_time(following_);
  backoff wait;
  for (unsigned rounds = 1; followed_.load(std::memory_order_relaxed) != writers->generation(); ++rounds) {
    store_parts parts = current().parts_of_next();
    parts.lookups = std::make_unique<index::lookup_cache>(as_asked.lookup_cache_bytes, as_asked.huge_pages, &lookups);
    if (take_generation(*this, parts)) {
      // acquire: with what this process's threads did in engines that end now. Who changed the generation has seen
      // their leases end (E1), so this thread would, too; but a thread sanitizer does not see what another process
      // orders.
      writers->for_each_slot(
          [](unsigned, const writer_slot& slot) { static_cast<void>(slot.sequence.load(std::memory_order_acquire)); });
      const std::scoped_lock one_engine(replacing);  // who compares the engine with what was written is not disturbed
      const std::uint64_t number = parts.generation;
      replace(prepare_replacing(following_engine(std::move(parts))));
      // release: who sees the number finds the engine, or one behind it
      followed_.store(number, std::memory_order_release);
      continue;
    }
    wait.pause();
    if (rounds % rounds_between_looks == 0) {
      writers->open_gate_of_dead();  // it may have been killed amid the change
      current().check_usable();
    }
  }
  drop_replaced();
}

/// An idle process would keep the space of generations that it does not look at.
void opened_store::follow_in_background() {
  following_in_background_.emplace([this] {
    try {
      if (followed_.load(std::memory_order_relaxed) != writers->generation()) follow();
      drop_replaced();
    } catch (const std::exception&) {  // the next call of this process tells of it
    }
  });
}

void opened_store::begin_following(std::uint64_t number) {
  followed_.store(number, std::memory_order_relaxed);  // relaxed: no other thread is there yet
  follows_ = true;
  asks = std::make_unique<compaction_asker>(*this);
  follow_in_background();
}

/// Under the gate, whose last holder was killed. If it was changing the generation, and a root leads to the next
/// manifest, then what the writers' segments hold is packed, and must not be written in any more: the change goes on.
/// Otherwise nothing has changed.
void opened_store::complete_change_of_dead() {
  auto& change = shared->generations.change;
  const std::uint64_t to = change.to.load(std::memory_order_acquire);  // acquire: with the other fields
  if (to == 0) return;
  if (writers->generation() != to && pool->roots().read().manifest == change.manifest) {
    pool->roots().update_both([](format::root&) {});  // both pages lead there, durably (A10)
    shared->recovered = change.left;
    shared->superseded_recovered = 0;
    writers->begin_generation(to, change.newest);
    shared->closed_versions.ring();
  }
  change.to.store(0, std::memory_order_release);
}

}  // namespace icecore::detail

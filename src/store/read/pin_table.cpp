#include "store/read/pin_table.hpp"

#include <utility>

#include "base/raise.hpp"
#include "icecore/pin.hpp"

namespace icecore {
namespace detail {
namespace {

/// All tables that this process has made. Tables are only added.
std::atomic<pin_table*> all_tables{nullptr};

}  // namespace

pin_table& pin_table::open(const store_core& core, memory views_lead_into) {
  give_up_leftovers();
  // acquire: what the thread that added a table wrote to it
  for (pin_table* t = all_tables.load(std::memory_order_acquire); t != nullptr; t = t->next_) {
    auto seen = state::unused;
    // acquire: the thread that gave the table up is done with it
    if (!t->state_.compare_exchange_strong(seen, state::open, std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    t->kept_ = std::move(views_lead_into);
    t->core_.store(&core, std::memory_order_relaxed);  // relaxed: the opener hands the store over with its pointer
    return *t;
  }
  auto* const made = new pin_table;
  made->kept_ = std::move(views_lead_into);
  made->core_.store(&core, std::memory_order_relaxed);
  made->state_.store(state::open, std::memory_order_relaxed);
  made->next_ = all_tables.load(std::memory_order_relaxed);
  // release: publishes the table to open() and give_up_leftovers()
  while (!all_tables.compare_exchange_weak(made->next_, made, std::memory_order_release, std::memory_order_relaxed)) {
  }
  prepare_all_threads_barrier();
  return *made;
}

void pin_table::retire() noexcept {
  core_.store(nullptr, std::memory_order_relaxed);  // V2
  // release: a thread that gives up sees all that happened to the open store
  state_.store(state::retired, std::memory_order_release);
  all_threads_barrier();
  give_up_if_unpinned();
  give_up_leftovers();
}

std::uint64_t pin_table::live() const noexcept {
  std::uint64_t released = 0;
  std::uint64_t taken = 0;
  // acquire: what the releasing threads took before, and all their reads, come before what follows
  for (const line& l : lines_) released += l.released.load(std::memory_order_acquire);
  for (const line& l : lines_) taken += l.taken.load(std::memory_order_relaxed);
  return taken - released;
}

void pin_table::release_behind_close() noexcept {
  // the count before the look at the state: if another thread is giving up now, it counts once more behind its fence
  std::atomic_thread_fence(std::memory_order_seq_cst);
  give_up_if_unpinned();
}

void pin_table::give_up_if_unpinned() noexcept {
  // relaxed: whoever must not miss `retired` has passed a fence
  while (state_.load(std::memory_order_relaxed) == state::retired) {
    auto seen = state::retired;
    // acquire: kept_
    if (!state_.compare_exchange_strong(seen, state::giving_up, std::memory_order_acquire, std::memory_order_relaxed))
      return;  // another thread looks, and looks again when it is done
    if (live() == 0) {
      const memory given_up = std::exchange(kept_, {});
      // release: open() may use the table from now on
      state_.store(state::unused, std::memory_order_release);
      return;
    }
    state_.store(state::retired, std::memory_order_release);  // as in retire(): the next one acquires kept_ from here
    std::atomic_thread_fence(std::memory_order_seq_cst);      // pairs with the one in release_behind_close()
    if (live() != 0) return;                                  // the last of these pins sees `retired`
  }
}

void pin_table::give_up_leftovers() noexcept {
  // acquire: as in open()
  for (pin_table* t = all_tables.load(std::memory_order_acquire); t != nullptr; t = t->next_) t->give_up_if_unpinned();
}

}  // namespace detail

void pin::take(detail::pin_table& of) noexcept { of.take(); }
void pin::release(detail::pin_table& of) noexcept { of.release(); }

const detail::store_core& pin::core() const {
  const detail::store_core* const core = of_ == nullptr ? nullptr : of_->core();
  if (core == nullptr) [[unlikely]] {
    raise(
        errc::closed,
        "the store is closed: what was read from it before stays valid, but its snapshots, cursors and ranges can read "
        "no more");
  }
  return *core;
}

}  // namespace icecore

#include "store/packed/compacting/automatic.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/background/library_thread.hpp"
#include "icecore/error.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/pace.hpp"
#include "store/packed/compacting/plan/merge_plan.hpp"

namespace icecore::detail {
namespace {

using namespace std::chrono_literals;

/// Thrown into a compaction to end it.
struct ended {};

}  // namespace

automatic_compaction::automatic_compaction(opened_store& store, const compaction_limits& limits)
    : store_(&store),
      limits_(limits),
      fork_generation_(fork_generation()),
      thread_(library_thread([this] { run(); })) {}

bool automatic_compaction::is_of_parent() const noexcept { return fork_generation_ != fork_generation(); }

automatic_compaction::~automatic_compaction() {
  if (is_of_parent()) {
    thread_.detach();
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  thread_.join();
}

void automatic_compaction::pause() noexcept {
  if (is_of_parent()) return;
  const std::scoped_lock lock(state_->mutex);
  state_->is_paused = true;
}

void automatic_compaction::resume() noexcept {
  if (is_of_parent()) return;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->is_paused = false;
  }
  state_->changed.notify_all();
}

std::string automatic_compaction::failure() const {
  if (is_of_parent()) return {};
  const std::scoped_lock lock(state_->mutex);
  return state_->failure;
}

bool automatic_compaction::is_enough() {
  if (is_unfinished(store_->hold()->packing())) return true;  // one by ranges of keys was cut off
  const std::uint64_t operations = store_->writers->operations();
  if (operations == operations_seen_) return false;
  std::uint64_t young = 0;
  std::uint64_t records = 0;
  {
    const writer_set::gate stopped(*store_->writers);
    const record_totals all = store_->current().young_totals();  // the gate is shut: E1
    // what a record takes besides its bytes, about
    constexpr std::uint64_t of_each = 48;
    records = all.inserts + all.removes;
    young = all.key_bytes + all.value_bytes + records * of_each;
  }
  const held_engine now = store_->hold();
  const std::uint64_t packed = now->packed() == nullptr ? 0 : now->packed()->media_bytes();
  const bool enough = records != 0 && young >= std::max(limits_.young_bytes, packed / 2);
  if (!enough) operations_seen_ = operations;
  return enough;
}

void automatic_compaction::give_back() {
  const std::unique_lock nobody_compacts(store_->compacting, std::try_to_lock);
  if (!nobody_compacts.owns_lock()) return;
  if (store_->replaced_space.empty() && store_->replaced_arenas.empty() && store_->forgets == nullptr) return;
  static_cast<void>(store_->give_back_replaced());
}

void automatic_compaction::rest() {
  std::unique_lock lock(state_->mutex);
  // Writers do not wait for a compaction that rests. Another thread of it may slow them once more before it rests, too.
  constexpr auto between = 20ms;
  while (!state_->ends && state_->is_paused) {
    store_->writers->end_slow();
    state_->changed.wait_for(lock, between);
  }
  if (state_->ends) throw ended();
}

void automatic_compaction::compact_once() {
  compaction_options how;
  how.threads = limits_.threads;
  how.compression = limits_.compress ? compression::zstd : compression::none;
  pace slow(limits_.bytes_per_second, [this] { rest(); });
  if (store_->compact(how, slow, compacts::by_itself).packed)
    done_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
}

void automatic_compaction::run() noexcept {
  std::chrono::milliseconds next = 100ms;
  for (;;) {
    {
      std::unique_lock lock(state_->mutex);
      state_->changed.wait_for(lock, next, [this] { return state_->ends; });
      if (state_->ends) return;
      if (state_->is_paused) continue;
    }
    next = 100ms;
    std::string failed;
    try {
      give_back();
      const bool enough = is_enough();
      looks_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
      if (!enough) continue;
      compact_once();
    } catch (const ended&) {
      return;
    } catch (const error& e) {
      failed = e.message();
    } catch (const std::exception& e) {
      failed = e.what();
    }
    if (!failed.empty()) next = 60s;
    const std::scoped_lock lock(state_->mutex);
    state_->failure = std::move(failed);
  }
}

}  // namespace icecore::detail

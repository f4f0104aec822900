#include "store/packed/current_pins.hpp"

#include <algorithm>
#include <utility>

#include "store/core.hpp"

namespace icecore::detail {

void current_pins::begin(const store_core& core, pin_table::memory views_lead_into) {
  const std::scoped_lock lock(mutex_);
  core_ = &core;
  memory_ = std::move(views_lead_into);
  since_ = now_in(core);
  // release: pairs with take()
  newest_.store(&pin_table::open(core, memory_), std::memory_order_release);
}

void current_pins::retire() noexcept {
  const std::scoped_lock lock(mutex_);
  memory_.clear();
  for (const numbered& each : std::exchange(older_, {})) each.table->retire();
  // relaxed: closing runs alone
  if (pin_table* const newest = newest_.exchange(nullptr, std::memory_order_relaxed)) newest->retire();
}

std::uint64_t current_pins::live() const noexcept {
  const std::scoped_lock lock(mutex_);
  std::uint64_t sum = newest_.load(std::memory_order_relaxed)->live();
  for (const numbered& each : older_) sum += each.table->live();
  return sum;
}

std::optional<std::uint64_t> current_pins::renew() {
  const std::scoped_lock lock(mutex_);
  return begin_table(next_table(*core_, memory_));
}

current_pins::next_table current_pins::prepare(const store_core& core, pin_table::memory views_lead_into) {
  return {core, std::move(views_lead_into)};
}

std::optional<std::uint64_t> current_pins::replace(next_table next) noexcept {
  const std::scoped_lock lock(mutex_);
  return begin_table(std::move(next));
}

std::optional<std::uint64_t> current_pins::begin_table(next_table next) noexcept {
  core_ = next.core_;
  memory_ = std::move(next.memory_);
  next.place_.front() = {number_, newest_.load(std::memory_order_relaxed), since_};
  older_.splice(older_.end(), next.place_);
  since_ = now_in(*core_);  // before the table is the newest one: its pins are taken later
  // release: what the caller did before; seq_cst: pairs with are_on()
  newest_.store(next.table_.release(), std::memory_order_seq_cst);
  ++number_;
  if (!all_threads_barrier()) return std::nullopt;
  return number_;
}

bool current_pins::none_before(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  drop_unpinned();
  return std::ranges::none_of(older_, [&](const numbered& each) { return each.number < number; });
}

std::optional<current_pins::beginning> current_pins::oldest() {
  const std::scoped_lock lock(mutex_);
  drop_unpinned();
  std::optional<beginning> oldest;
  if (!older_.empty()) {
    oldest = older_.front().since;
  } else if (newest_.load(std::memory_order_relaxed)->live() != 0) {
    oldest = since_;
  }
  const bool was_a_version_closed = now_in(*core_).open != since_.open;
  // Without the barrier a table may be missed that has a pin: then no table is made that is not needed.
  if (was_a_version_closed && older_.size() < tables_max && all_threads_barrier()) {
    static_cast<void>(begin_table(next_table(*core_, memory_)));
  }
  return oldest;
}

current_pins::beginning current_pins::now_in(const store_core& core) {
  return {core.clock().now(), std::chrono::steady_clock::now()};
}

void current_pins::drop_unpinned() {
  std::erase_if(older_, [](const numbered& each) {
    if (each.table->live() != 0) return false;
    each.table->retire();
    return true;
  });
}

}  // namespace icecore::detail

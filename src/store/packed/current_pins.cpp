#include "store/packed/current_pins.hpp"

#include <algorithm>
#include <utility>

namespace icecore::detail {

current_pins::current_pins(const store_core& core, pin_table::memory views_lead_into)
    : core_(&core), memory_(std::move(views_lead_into)), newest_(&pin_table::open(core, memory_)) {}

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
  older_.reserve(older_.size() + 1);
  pin_table& next = pin_table::open(*core_, memory_);
  older_.push_back({number_, newest_.load(std::memory_order_relaxed)});
  // release: what the caller did before
  newest_.store(&next, std::memory_order_release);
  ++number_;
  if (!all_threads_barrier()) return std::nullopt;
  return number_;
}

bool current_pins::none_before(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(older_, [](const numbered& each) {
    if (each.table->live() != 0) return false;
    each.table->retire();
    return true;
  });
  return std::ranges::none_of(older_, [&](const numbered& each) { return each.number < number; });
}

}  // namespace icecore::detail

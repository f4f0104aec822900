#include "service/limits.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"

namespace icecore::service {

bool gauge::try_take(std::uint64_t amount, share& into) noexcept {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (most_ != 0 && (used > most_ || amount > most_ - used)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + amount, std::memory_order_relaxed));
  into = share(this, amount);
  return true;
}

gauge::share gauge::take(std::uint64_t amount) {
  share taken;
  if (!try_take(amount, taken)) {
    throw error(
        errc::limit_reached,
        fmt::format("the limit \"{}\" is {}: {} are taken, and {} more were asked for; try again later, ask for "
                    "less, or have the limit raised",
                    name_, most_, used(), amount));
  }
  return taken;
}

}  // namespace icecore::service

#include "service/write/space.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "icecore/error.hpp"

namespace icecore::service {

space::space(const icecore::store& of, std::uint64_t quota_bytes, std::function<bool()> device_has_room,
             refusals* refused)
    : store_(&of), device_has_room_(std::move(device_has_room)), refused_(refused), quota_(quota_bytes) {}

void space::look() {
  used_.store(store_->stats().used_bytes, std::memory_order_relaxed);
  has_looked_.store(true, std::memory_order_relaxed);
}

void space::look_again() {
  if (quota_.load(std::memory_order_relaxed) != 0 && has_looked_.load(std::memory_order_relaxed)) look();
}

void space::require(const transaction& what) {
  bool writes = false;
  bool only_removes = true;
  for (const auto* list : {&what.then, &what.otherwise}) {
    for (const operation& o : *list) {
      if (!o.writes()) continue;
      writes = true;
      const bool removes = o.what == operation::kind::remove || o.what == operation::kind::remove_range ||
                           o.what == operation::kind::end_lease || o.what == operation::kind::expire_lease ||
                           o.what == operation::kind::compact;
      only_removes = only_removes && removes;
    }
  }
  if (writes) require(what.bytes(), only_removes);
}

void space::require(std::uint64_t bytes, bool only_removes) {
  constexpr std::uint64_t least_reserve = std::uint64_t{1} << 20;
  const std::uint64_t quota = quota_.load(std::memory_order_relaxed);
  if (quota != 0) {
    if (!has_looked_.load(std::memory_order_relaxed)) look();
    const std::uint64_t used = used_.load(std::memory_order_relaxed);
    const std::uint64_t most = only_removes ? quota + std::max(quota / 100, least_reserve) : quota;
    if (used >= most || bytes > most - used) {
      count(kept_limit::quota_bytes);
      throw icecore::error(errc::no_space,
                           fmt::format("the database uses {} bytes, and its quota is {}: raise the quota, or copy the "
                                       "newest version to another database and drop this one",
                                       used, quota));
    }
  }
  if (!only_removes && !device_has_room_()) {
    count(kept_limit::free_disk_bytes);
    throw icecore::error(errc::no_space, std::string(device_is_full));
  }
  used_.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace icecore::service

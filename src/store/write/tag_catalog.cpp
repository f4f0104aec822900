#include "store/write/tag_catalog.hpp"

#include <string>

namespace icecore::detail {

std::unique_lock<std::mutex> listed_tags::reserve() {
  std::unique_lock one_at_a_time(mutex_);
  list_.reserve();
  return one_at_a_time;
}

void listed_tags::load(tag_index& into) {
  // relaxed: the tags have a mutex of their own
  if (loaded_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock one_at_a_time(mutex_);
  if (loaded_.load(std::memory_order_relaxed)) return;  // relaxed: under the mutex
  list_.require_as_closed();
  list_.for_each([&](link l) {
    const record r = histories_->at(l);
    const bool is_tag = media_->is_intact(l) && r.kind() == format::record_kind::tag &&
                        r.header().stamp.load(std::memory_order_acquire) != 0;  // acquire: as for any stamp
    if (!is_tag) media_->raise_damaged(l, "the list of tags leads here, but no intact tag is here");
    into.add({histories_->stamp_of(l), r.as_tag().time_ns, std::string(r.key()), std::string(r.value())});
    return true;
  });
  loaded_.store(true, std::memory_order_relaxed);
}

void listed_tags::leave_evidence() const {
  if (loaded_.load(std::memory_order_relaxed)) list_.leave_evidence();  // relaxed: nothing else runs
}

}  // namespace icecore::detail

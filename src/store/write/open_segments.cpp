#include "store/write/open_segments.hpp"

#include <cassert>
#include <new>

namespace icecore {
namespace {

/// Bin b holds segments with 2^(b - 1) to 2^b - 1 bytes of room; bin 0 holds those with too little to be of use.
unsigned bin_of(std::uint64_t space) noexcept { return static_cast<unsigned>(std::bit_width(space)); }

}  // namespace

std::optional<segment_tail> open_segments::exchange(const segment_tail& remaining, std::uint64_t bytes,
                                                    std::uint16_t from) {
  const std::scoped_lock lock(shared_->lock);
  const index::arena_ref free_node = remaining.in.size != 0 ? new_node() : 0;
  const index::arena_ref found = unlink(bytes, from);
  if (found == 0) {
    if (free_node != 0) at(free_node).next = std::exchange(shared_->unused, free_node);
    return std::nullopt;
  }
  const segment_tail taken = at(found).what;
  at(found).next = std::exchange(shared_->unused, found);
  if (free_node != 0) add(free_node, remaining);
  return taken;
}

index::arena_ref open_segments::new_node() {
  if (shared_->unused == 0) {
    constexpr std::size_t together = 32;
    const index::arena_ref first = memory_->allocate(together * sizeof(node));
    for (std::size_t i = together; i-- > 0;) {
      const auto n = static_cast<index::arena_ref>(first + i);
      new (memory_->at(n)) node{{}, shared_->unused};
      shared_->unused = n;
    }
  }
  const index::arena_ref n = shared_->unused;
  shared_->unused = at(n).next;
  return n;
}

void open_segments::add(index::arena_ref n, const segment_tail& what) noexcept {
  assert(what.position >= what.in.first_record() && what.position <= what.in.end());
  const unsigned bin = what.space() < space_min ? 0 : bin_of(what.space());
  index::arena_ref& first = shared_->bins[link_pool(what.in.offset)][bin];
  at(n) = {what, first};
  first = n;
}

/// Takes a node of the pool with room for `bytes` out of its bin; 0 if none is found.
index::arena_ref open_segments::unlink(std::uint64_t bytes, std::uint16_t in) noexcept {
  const unsigned least = bin_of(std::max(bytes, space_min));
  for (unsigned bin = least; bin < bin_count; ++bin) {
    index::arena_ref* from = &shared_->bins[in][bin];
    for (unsigned seen = 0; *from != 0 && seen < looked_at_max; ++seen) {
      const index::arena_ref n = *from;
      if (at(n).what.space() >= bytes) {
        *from = at(n).next;
        return n;
      }
      from = &at(n).next;
    }
  }
  return 0;
}

}  // namespace icecore

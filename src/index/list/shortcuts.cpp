#include "index/list/shortcuts.hpp"

#include <algorithm>
#include <new>

namespace icecore::index {

/// Makes the slots that a table of 2^bits slots has and a smaller one has not.
void shortcuts::add_part(unsigned bits) {
  const std::uint64_t slots = bits == bits_min ? std::uint64_t{1} << bits : std::uint64_t{1} << (bits - 1);
  const arena_ref made = memory_->allocate(slots * sizeof(std::atomic<node_ref>));
  shared_->parts[bits - bits_min].store(made, std::memory_order_relaxed);  // relaxed: published with the bits
  // release: who sees the bits sees the part, and its zeros (T2)
  shared_->bits.store(bits, std::memory_order_release);
}

void shortcuts::grow_from(unsigned bits) noexcept {
  const unsigned to = std::max(bits + 1, bits_min);
  // Acquire: what the thread that grew it last has stored. Relaxed: another thread is at it; if its process was killed
  // meanwhile the table keeps its size, and searches grow longer.
  std::uint32_t unclaimed = bits;
  if (!shared_->claimed.compare_exchange_strong(unclaimed, to, std::memory_order_acquire, std::memory_order_relaxed))
    return;
  try {
    add_part(to);
  } catch (const std::bad_alloc&) {                           // the table stays as it is; a later insert tries again
    shared_->claimed.store(bits, std::memory_order_release);  // release: pairs with the acquire above
  }
}

void shortcuts::prepare(std::uint64_t count) {
  const auto wanted = std::clamp(static_cast<unsigned>(std::bit_width(count)), bits_min, bits_max);
  for (unsigned bits = std::max(this->bits() + 1, bits_min); bits <= wanted; ++bits) {
    add_part(bits);
    shared_->claimed.store(bits, std::memory_order_relaxed);  // relaxed: one thread builds
  }
}

}  // namespace icecore::index

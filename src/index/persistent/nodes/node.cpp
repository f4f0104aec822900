#include "index/persistent/nodes/node.hpp"

namespace icecore::index {

std::uint16_t check_of(const index_node& n, std::uint32_t seed) noexcept {
  // relaxed: if the node is changing meanwhile, the caller's second look at its word finds that out
  const auto word = [](const std::atomic<std::uint64_t>& of) { return of.load(std::memory_order_relaxed); };
  const node_order order(n);
  // Three sums that the processor can compute in parallel.
  std::uint32_t a = crc32c(crc32c(crc32c(seed, word(n.next)), word(n.high_head)), word(n.high));
  a = crc32c(a, word(n.low));
  std::uint32_t b = seed;
  for (const auto& w : n.order) b = crc32c(b, word(w));
  std::uint32_t c = seed;
  const unsigned count = order.count();
  unsigned i = 0;
  for (; i + 3 <= count; i += 3) {
    const auto& x = n.pairs[order.slot(i)];
    const auto& y = n.pairs[order.slot(i + 1)];
    const auto& z = n.pairs[order.slot(i + 2)];
    a = crc32c(crc32c(a, word(x.head)), word(x.to));
    b = crc32c(crc32c(b, word(y.head)), word(y.to));
    c = crc32c(crc32c(c, word(z.head)), word(z.to));
  }
  for (; i < count; ++i) {
    const auto& x = n.pairs[order.slot(i)];
    a = crc32c(crc32c(a, word(x.head)), word(x.to));
  }
  // Linear, so whether a single flipped bit shows depends only on its position. persistent_damage_test.cpp flips each
  // bit.
  const std::uint32_t mixed = a ^ b ^ c;
  return static_cast<std::uint16_t>(mixed ^ mixed >> 16);
}

}  // namespace icecore::index

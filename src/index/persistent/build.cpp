// Bottom-up building from links in order: level by level, nodes filled by several threads. Nothing leads to the nodes
// before the anchor does, and the caller makes that durable.
#include <algorithm>
#include <atomic>
#include <cassert>

#include "base/threads.hpp"
#include "index/persistent/persistent_index.hpp"

namespace icecore::index {

/// The nodes of one level: what they hold and where they are.
struct persistent_index::level_plan {
  unsigned level = 0;
  std::vector<link> nodes;
  std::span<const link> items;  ///< what pairs lead to
  std::span<const link> lows;   ///< of the items

  [[nodiscard]] std::size_t begin(std::size_t i) const noexcept { return i * items.size() / nodes.size(); }
  /// The low of node i; null for the first and behind the last.
  [[nodiscard]] link low(std::size_t i) const noexcept {
    return i == 0 || i == nodes.size() ? null_link : lows[begin(i)];
  }
};

void persistent_index::build(std::span<const link> sorted, unsigned threads) {
  // Nine tenths full, like the B+-tree: later inserts find room before they must split.
  constexpr std::size_t fill_of_node = index_pairs_max * 9 / 10;
  assert(size() == 0);
  std::vector<link> items(sorted.begin(), sorted.end());
  std::vector<link> lows = items;
  level_plan plan;
  for (;; ++plan.level) {
    plan.items = items;
    plan.lows = lows;
    plan.nodes.resize(std::max<std::size_t>(1, (items.size() + fill_of_node - 1) / fill_of_node));
    for (link& node : plan.nodes) {
      taken_node taken(space_, *this);
      node = taken.where();
      taken.keep();
    }
    std::atomic<std::size_t> shared_out{0};
    constexpr std::size_t share = 64;
    run_on_threads(plan.nodes.size() < share ? 1 : std::max(1U, threads), [&](unsigned) {
      // relaxed: only hands out numbers; the end of the threads publishes what they wrote
      for (std::size_t first; (first = shared_out.fetch_add(share, std::memory_order_relaxed)) < plan.nodes.size();) {
        for (std::size_t i = first; i < std::min(first + share, plan.nodes.size()); ++i) fill(plan, i);
      }
    });
    if (plan.level == 0) {
      auto& first_leaf = space_.anchor().first_leaf;
      // relaxed: no other thread uses the index yet
      first_leaf.store(space_.encode(plan.nodes.front(), space_.place_of(first_leaf)), std::memory_order_relaxed);
    }
    if (plan.nodes.size() == 1) break;
    std::vector<link> lows_above(plan.nodes.size());
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) lows_above[i] = plan.low(i);
    lows = std::move(lows_above);
    items = std::move(plan.nodes);
    plan.nodes.clear();
  }
  auto& top = space_.anchor().top;
  // relaxed: no other thread uses the index yet
  top.store(space_.encode(plan.nodes.front(), space_.place_of(top)), std::memory_order_relaxed);
  shared_->top.store(plan.nodes.front(), std::memory_order_relaxed);
  space_.flush(&space_.anchor(), format::cache_line_size);
  shared_->size.add(sorted.size());
}

// relaxed, all of it: no other thread knows the node
void persistent_index::fill(const level_plan& plan, std::size_t i) const noexcept {
  constexpr std::size_t ahead = 16;  // entries that are prefetched while one is read
  const link ref = plan.nodes[i];
  index_node& n = space_.at(ref);
  const link low = plan.low(i);
  const link high = plan.low(i + 1);
  const std::size_t begin = plan.begin(i);
  const std::size_t end = plan.begin(i + 1);
  node_order order(plan.level, prefix_between(low, high, 0));
  for (std::size_t at = begin; at < end; ++at) {
    if (at + ahead < plan.lows.size() && plan.lows[at + ahead] != null_link) source_.prefetch(plan.lows[at + ahead]);
    const auto slot = static_cast<unsigned>(at - begin);
    const link least = plan.lows[at];
    n.pairs[slot].head.store(least == null_link ? 0 : head_of(source_.key_of(least), order.prefix_length()),
                             std::memory_order_relaxed);
    n.pairs[slot].to.store(plan.items[at], std::memory_order_relaxed);
    order.insert(slot, slot);
  }
  n.low.store(low, std::memory_order_relaxed);
  n.next.store(i + 1 < plan.nodes.size() ? plan.nodes[i + 1] : null_link, std::memory_order_relaxed);
  n.high.store(high, std::memory_order_relaxed);
  n.high_head.store(high == null_link ? 0 : head_of(source_.key_of(high), order.prefix_length()),
                    std::memory_order_relaxed);
  for (unsigned w = 0; w < node_order::words; ++w) n.order[w].store(~std::uint64_t{0}, std::memory_order_relaxed);
  order.store_in(n);
  n.lock.store(node_word::make(space_.epoch(), 0, false, check_of(n, space_.seed_of(ref))), std::memory_order_relaxed);
  space_.flush(&n, sizeof n);
}

}  // namespace icecore::index

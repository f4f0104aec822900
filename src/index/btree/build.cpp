// Bottom-up building from links in order: level by level, the nodes of one level next to each other in memory, filled
// by several threads.
#include <algorithm>
#include <cassert>
#include <new>

#include "base/threads.hpp"
#include "index/btree/btree.hpp"

namespace icecore::index {
namespace {

/// Calls work(i) for each i below `count` from up to `threads` threads, this one among them.
template <class Work>
void for_each_in_parallel(std::size_t count, unsigned threads, const Work& work) {
  constexpr std::size_t share = 64;
  std::atomic<std::size_t> next{0};
  const auto useful = static_cast<unsigned>(std::min<std::size_t>(threads, count / share + 1));
  run_on_threads(useful, [&](unsigned) {
    for (;;) {
      // Relaxed: only hands out numbers; the joins publish the results.
      const std::size_t first = next.fetch_add(share, std::memory_order_relaxed);
      if (first >= count) return;
      for (std::size_t i = first; i < std::min(first + share, count); ++i) work(i);
    }
  });
}

}  // namespace

/// The nodes of one level: what they hold and where they are.
struct btree::level_plan {
  std::uint8_t level = 0;
  arena_ref first = 0;  ///< the nodes follow each other from here
  std::size_t nodes = 0;
  std::span<const link> items;  ///< leaves: the entries; inner nodes: the lows of the children, the first null
  arena_ref first_child = 0;

  [[nodiscard]] std::size_t node_bytes() const noexcept { return level == 0 ? sizeof(node) : sizeof(inner_node); }
  [[nodiscard]] std::size_t child_units() const noexcept {
    return (level == 1 ? sizeof(node) : sizeof(inner_node)) / arena::unit_bytes;
  }
  [[nodiscard]] arena_ref ref(std::size_t index) const noexcept {
    return static_cast<arena_ref>(first + index * (node_bytes() / arena::unit_bytes));
  }
  [[nodiscard]] std::size_t begin(std::size_t index) const noexcept { return index * items.size() / nodes; }
  [[nodiscard]] link low(std::size_t index) const noexcept { return index == 0 ? null_link : items[begin(index)]; }
  [[nodiscard]] link high(std::size_t index) const noexcept {
    return index + 1 == nodes ? null_link : items[begin(index + 1)];
  }
};

void btree::build(std::span<const link> sorted, unsigned threads) {
  // Nine tenths full: later inserts find room before they must split (docs/design/0002-btree.md).
  constexpr std::size_t fill_of_leaf = slot_count * 9 / 10;
  constexpr std::size_t children_of_inner = slot_count * 9 / 10;
  assert(size() == 0);
  if (sorted.empty()) return;

  level_plan plan;
  plan.items = sorted;
  plan.nodes = (sorted.size() + fill_of_leaf - 1) / fill_of_leaf;
  arena_ref first_leaf = 0;
  std::vector<link> lows;
  for (;;) {
    plan.first = arena_.allocate(plan.nodes * plan.node_bytes());
    if (plan.level == 0) first_leaf = plan.first;
    for_each_in_parallel(plan.nodes, threads, [&](std::size_t index) { fill(plan, index); });
    if (plan.nodes == 1) break;
    std::vector<link> lows_above(plan.nodes);
    for (std::size_t i = 0; i < plan.nodes; ++i) lows_above[i] = plan.low(i);
    lows = std::move(lows_above);
    plan.items = lows;
    plan.first_child = plan.first;
    plan.nodes = (lows.size() + children_of_inner - 1) / children_of_inner;
    ++plan.level;
  }
  give_back(shared_->first_leaf, true);
  shared_->first_leaf = first_leaf;
  // Release: publishes all nodes.
  shared_->root.store(plan.first, std::memory_order_release);
  shared_->size.add(sorted.size());
}

void btree::fill(const level_plan& plan, std::size_t index) noexcept {
  constexpr std::size_t ahead = 24;  // entries that are prefetched while one is read
  node* n = nullptr;
  std::size_t begin = plan.begin(index);
  const std::size_t end = plan.begin(index + 1);
  if (plan.level == 0) {
    n = new (arena_.at(plan.ref(index))) node(0, plan.low(index), plan.high(index));
    if (index + 1 < plan.nodes) n->next.store(plan.ref(index + 1));
  } else {
    auto* inner = new (arena_.at(plan.ref(index))) inner_node(plan.level, plan.low(index), plan.high(index));
    for (std::size_t i = begin; i < end; ++i) {
      inner->children[i - begin].store(static_cast<arena_ref>(plan.first_child + i * plan.child_units()));
    }
    n = inner;
    ++begin;  // the first child's low is the node's own
  }
  node_form form = n->form.load();
  form.count = static_cast<std::uint16_t>(end - begin);
  for (std::size_t i = begin; i < end; ++i) n->links[i - begin].store(plan.items[i]);
  n->form.store(form);
  form.prefix_length = static_cast<std::uint16_t>(longest_prefix(*n, source_));
  form.count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (i + ahead < plan.items.size()) source_.prefetch(plan.items[i + ahead]);
    const std::string_view key = source_.key_of(plan.items[i]);
    n->heads[i - begin].store(head_of(key, form.prefix_length));
    form.admit_size(true, key.size());
    ++form.count;
  }
  n->form.store(form);
}

}  // namespace icecore::index

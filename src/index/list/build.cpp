// Building from links in key order, and checking.
//
// Nodes lie in the order of the list, one behind the other, so scans of what was built run through memory from front to
// back. For the hash, threads divide the keys into buckets by the first bits of their order and sort each bucket.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <functional>

#include "base/threads.hpp"
#include "index/list/linked_list.hpp"

namespace icecore::index {

template <class Way>
list_node linked_list<Way>::made_of(link entry) const noexcept {
  const std::string_view key = source_.key_of(entry);
  const sought s = way_.sought_for(key);
  return {s.order, s.key.head, entry, 0, static_cast<std::uint16_t>(key.size()), 0};
}

/// Calls visit(i, node made of links[i]) for i from `begin` to before `end`.
template <class Make, class Visit>
static void make_each(const key_source& source, std::span<const link> links, std::size_t begin, std::size_t end,
                      const Make& make, const Visit& visit) {
  constexpr std::size_t ahead = 24;  // entries that are prefetched while one is read
  for (std::size_t i = begin; i < end; ++i) {
    if (i + ahead < links.size()) source.prefetch(links[i + ahead]);
    visit(i, make(links[i]));
  }
}

template <class Way>
void linked_list<Way>::fill(std::span<const link> sorted, node_ref first, unsigned threads) const
  requires(!hashed)
{
  run_on_threads(threads, [&](unsigned t) {
    make_each(
        source_, sorted, sorted.size() * t / threads, sorted.size() * (t + 1) / threads,
        [this](link l) { return made_of(l); },
        [&](std::size_t i, const list_node& node) { at(first + static_cast<node_ref>(i)) = node; });
  });
}

template <class Way>
void linked_list<Way>::fill(std::span<const link> sorted, node_ref first, unsigned threads) const
  requires(hashed)
{
  constexpr unsigned bucket_bits = 10;
  constexpr std::size_t buckets = std::size_t{1} << bucket_bits;
  const auto bucket_of = [](const list_node& node) { return node.order >> (64 - bucket_bits); };
  const auto begin_of = [&](unsigned t) { return sorted.size() * t / threads; };
  std::vector<list_node> made(sorted.size());
  std::vector<std::array<std::size_t, buckets>> places(
      threads);  // of each thread: where its next node of a bucket goes
  run_on_threads(threads, [&](unsigned t) {
    places[t].fill(0);
    make_each(
        source_, sorted, begin_of(t), begin_of(t + 1), [this](link l) { return made_of(l); },
        [&](std::size_t i, const list_node& node) {
          made[i] = node;
          ++places[t][bucket_of(node)];
        });
  });
  std::array<std::size_t, buckets + 1> begins{};
  std::size_t placed = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    begins[b] = placed;
    for (unsigned t = 0; t < threads; ++t) placed += std::exchange(places[t][b], placed);
  }
  begins[buckets] = placed;
  run_on_threads(threads, [&](unsigned t) {
    for (std::size_t i = begin_of(t); i < begin_of(t + 1); ++i)
      at(first + static_cast<node_ref>(places[t][bucket_of(made[i])]++)) = made[i];
  });
  std::atomic<std::size_t> next{0};
  run_on_threads(threads, [&](unsigned) {
    // relaxed: only hands out numbers
    for (std::size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < buckets;) {
      std::sort(&at(first) + begins[b], &at(first) + begins[b + 1], [this](const list_node& x, const list_node& y) {
        return x.order != y.order ? x.order < y.order : source_.key_of(x.entry) < source_.key_of(y.entry);
      });
    }
  });
}

/// Links each node to the one behind it in memory.
template <class Way>
void linked_list<Way>::join(node_ref first, std::uint64_t count, unsigned threads) noexcept {
  const auto join_part = [&](unsigned t) {
    for (std::uint64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) {
      const node_ref here = first + static_cast<node_ref>(i);
      at(here).set_next(i + 1 < count ? here + 1 : 0);
      if constexpr (hashed) {
        // the slots that begin behind the node before and not behind this one
        const node_ref before = i == 0 ? front_ : here - 1;
        std::uint64_t rank = i == 0 ? 0 : way_.rank_of(at(before).order) + 1;
        for (; rank <= way_.rank_of(at(here).order); ++rank) way_.set(rank, before);
      }
    }
  };
  run_on_threads(threads, std::ref(join_part));  // by reference: takes no memory
  at(front_).set_next(first);
}

template <class Way>
void linked_list<Way>::build(std::span<const link> sorted, unsigned threads) {
  assert(size() == 0);
  if (sorted.empty()) return;
  const unsigned parts = std::max(1U, threads);
  const node_ref first = nodes_.allocate(sorted.size());
  if constexpr (hashed) way_.prepare(sorted.size());
  fill(sorted, first, parts);
  // The end of build() publishes everything: no other function is called before it.
  join(first, sorted.size(), parts);
  shared_->size.add(sorted.size());
}

template <class Way>
std::vector<std::string> linked_list<Way>::check() const {
  constexpr std::size_t enough = 100;
  constexpr const char* name = hashed ? "hash" : "list";
  std::vector<std::string> wrong;
  const auto fail = [&](std::string what) {
    if (wrong.size() < enough) wrong.push_back(std::move(what));
  };
  std::uint64_t nodes = 0;
  const std::uint64_t counted = size();
  for (node_ref here = at(front_).next(); here != 0 && nodes <= counted; here = at(here).next(), ++nodes) {
    const list_node& node = at(here);
    const std::string_view key = source_.key_of(node.entry);
    const sought s = way_.sought_for(key);
    if (node.order != s.order || node.head != s.key.head || node.key_size != key.size())
      fail(fmt::format("{}, node {}: N2: its order, head or key size is not that of its key", name, here));
    if (const node_ref behind = node.next(); behind != 0 && compare(s, at(behind), source_) >= 0)
      fail(fmt::format("{}, node {}: N1: its successor is not behind it", name, here));
  }
  if (nodes != counted) fail(fmt::format("{}: {} nodes, but the count is {}", name, nodes, counted));
  if constexpr (hashed) {
    const std::uint64_t slots = way_.bits() == 0 ? 0 : std::uint64_t{1} << way_.bits();
    for (std::uint64_t i = 0; i < slots; ++i) {
      const node_ref said = way_.said_by(i);
      if (said != 0 && said != front_ && at(said).order >= reversed_bits(i))
        fail(fmt::format("hash, slot {}: T1: it leads behind keys of its own", i));
    }
  }
  return wrong;
}

template std::vector<std::string> linked_list<from_front>::check() const;
template std::vector<std::string> linked_list<shortcuts>::check() const;
template void linked_list<from_front>::build(std::span<const link> sorted, unsigned threads);
template void linked_list<shortcuts>::build(std::span<const link> sorted, unsigned threads);

}  // namespace icecore::index

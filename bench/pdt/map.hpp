// The data types: a list, a skip list and a hash table of lists, in durable or in plain memory.
//
//   durable_map<24> m(path, {.slots = 1 << 20});        // a skip list; buckets = 1
//   durable_map<1> h(path, {.slots = 1 << 20}, 1 << 19);  // a hash table
//   m.insert(7, bytes);
//   auto keys = m.filter(condition, on_item);           // killed; then, in the next process:
//   auto keys = m.filter(condition, on_item);           // goes on behind the item that it evaluated last
//
// The filter is that of the paper, step by step; it is not linearizable (README.md).
//
// Threads: any number call insert, remove and get; one at a time calls filter.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "chain.hpp"
#include "region.hpp"

namespace icecore::bench::pdt {

/// What a filter asks of an item's value.
using condition = std::function<bool(std::string_view value)>;

/// PNodes in a region, and the query that inserts and removes help.
template <class Steps>
class durable_memory {
 public:
  using payload = pnode*;

  durable_memory(const std::filesystem::path& path, const region_size& sizes) : region_(path, sizes) {}

  payload make(std::uint64_t key, std::string_view value) {
    if (value.size() != region_.head().item_size) throw std::runtime_error("an item of another size");
    pnode& p = region_.allocate();
    p.key = key;
    std::memcpy(p.value(), value.data(), value.size());
    // An item within one line is flushed with its flag: stores to a line reach memory in order.
    if (sizeof(pnode) + value.size() > line_size) persist(&p, sizeof(pnode) + value.size());
    return &p;
  }

  void complete(payload p) {
    Steps::point(&asked_, false);
    const condition* const asked = asked_.load(std::memory_order_acquire);  // the condition was made before
    if (asked != nullptr) {
      const bool matches = (*asked)(value_of(*p));
      Steps::point(&p->fq, true);
      p->fq.store(matches ? 1 : 0, std::memory_order_relaxed);  // flushed below, read by the filter after its walk
    }
    stamp(p->its);
    Steps::point(&p->i_flag, true);
    p->i_flag.store(1, std::memory_order_release);  // behind the item
    persist(p, sizeof(pnode));
  }

  void removed(payload p, bool ours) {
    stamp(p->dts);
    Steps::point(&p->d_flag, true);
    p->d_flag.store(1, std::memory_order_release);
    persist(p, sizeof(pnode));
    if (!ours) return;
    Steps::point(&asked_, false);
    if (asked_.load(std::memory_order_acquire) == nullptr) return;
    Steps::point(&region_.head().tombstones, true);
    region_.add_tombstone(p->key);
  }

  /// Begins a query, or goes on with the one that a crash ended.
  void begin(const condition& asks) {
    region_header& h = region_.head();
    if (h.start.load(std::memory_order_relaxed) == 0) {  // one query at a time
      h.tombstones.store(0, std::memory_order_relaxed);
      h.rp.store(0, std::memory_order_relaxed);
      persist(&h, sizeof h);
      Steps::point(&h.clock, true);
      h.start.store(h.clock.fetch_add(1, std::memory_order_acq_rel) + 1, std::memory_order_release);
      persist(&h, sizeof h);
    }
    Steps::point(&asked_, true);
    asked_.store(&asks, std::memory_order_release);
  }

  /// The query's step: the result is durable before the position.
  void evaluate(payload p, const condition& asks) {
    const bool matches = asks(value_of(*p));
    Steps::point(&p->fq, true);
    p->fq.store(matches ? 1 : 0, std::memory_order_relaxed);
    persist(&p->fq, 1);
    std::atomic<std::uint64_t>& rp = region_.head().rp;
    rp.store(region_.number_of(*p) + 1, std::memory_order_relaxed);  // the query's own
    persist(&rp, sizeof rp);
  }

  /// The item that the query evaluated last; null if none.
  [[nodiscard]] payload last() const {
    const std::uint64_t rp = region_.head().rp.load(std::memory_order_relaxed);
    return rp == 0 ? nullptr : &region_.slot(rp - 1);
  }

  [[nodiscard]] std::unordered_set<std::uint64_t> tombstones() const {
    const region_header& h = region_.head();
    Steps::point(&h.tombstones, false);
    std::unordered_set<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < h.tombstones.load(std::memory_order_acquire); ++i) {
      // 0: a crash or its writer was faster; such a remove has not returned
      if (const std::uint64_t key = region_.tombstone(i).load(std::memory_order_acquire); key != 0)
        keys.insert(key - 1);
    }
    return keys;
  }
  [[nodiscard]] bool answers(payload p) const {
    Steps::point(&p->fq, false);
    Steps::point(&p->its, false);
    return p->fq.load(std::memory_order_relaxed) != 0 &&
           p->its.load(std::memory_order_acquire) < region_.head().start.load(std::memory_order_relaxed);
  }

  void end() {
    Steps::point(&asked_, true);
    asked_.store(nullptr, std::memory_order_release);
    region_.head().start.store(0, std::memory_order_relaxed);
    persist(&region_.head().start, sizeof(std::uint64_t));
  }

  /// Calls live(pnode) for what is in the map, and frees the rest. One pass over the slots.
  template <typename Live>
  void recover(const Live& live) {
    const payload keep = last();
    for (std::uint64_t i = 0; i < region_.head().used.load(std::memory_order_relaxed); ++i) {
      pnode& p = region_.slot(i);
      if (p.i_flag.load(std::memory_order_relaxed) != 0 && p.d_flag.load(std::memory_order_relaxed) == 0) {
        live(p);
      } else if (&p != keep) {
        region_.give_back(i);
      }
    }
    fence();
  }

  [[nodiscard]] std::string_view value_of(pnode& p) const { return {p.value(), region_.head().item_size}; }
  [[nodiscard]] std::string_view value_of(payload p) const { return value_of(*p); }
  [[nodiscard]] std::uint64_t used_bytes() const { return region_.used_bytes(); }

 private:
  void stamp(std::atomic<std::uint64_t>& when) {
    std::uint64_t none = 0;
    Steps::point(&region_.head().clock, false);
    const std::uint64_t now = region_.head().clock.load(std::memory_order_acquire);
    Steps::point(&when, true);
    when.compare_exchange_strong(none, now, std::memory_order_acq_rel);
  }

  region region_;
  std::atomic<const condition*> asked_{nullptr};
};

/// Values of 8 bytes in the nodes, longer ones beside them.
class plain_memory {
 public:
  union payload {
    std::uint64_t number;
    const char* bytes;
  };
  plain_memory(arena& values, std::size_t item_size) : values_(&values), item_size_(item_size) {}

  payload make(std::uint64_t, std::string_view value) {
    payload made{};
    if (item_size_ == sizeof made.number) {
      std::memcpy(&made.number, value.data(), sizeof made.number);
    } else {
      char* const bytes = static_cast<char*>(values_->allocate((item_size_ + 7) / 8 * 8));
      std::memcpy(bytes, value.data(), item_size_);
      made.bytes = bytes;
    }
    return made;
  }
  void complete(const payload&) noexcept {}
  void removed(const payload&, bool) noexcept {}
  [[nodiscard]] std::string_view value_of(const payload& p) const {
    return {item_size_ == sizeof p.number ? reinterpret_cast<const char*>(&p.number) : p.bytes, item_size_};
  }

 private:
  arena* values_;
  std::size_t item_size_;
};

/// Chains of one memory; one of them, or a hash table of buckets.
template <class Memory, unsigned levels_max, class Steps>
class buckets {
 public:
  using chain_type = chain<Memory, levels_max, Steps>;
  using node = typename chain_type::node;

  buckets(Memory& memory, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) chains_.push_back(std::make_unique<chain_type>(memory, nodes_));
  }
  [[nodiscard]] std::uint64_t bucket_of(std::uint64_t key) const noexcept {
    if (chains_.size() == 1) return 0;
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<wide>(key * 0x9e3779b97f4a7c15U) * chains_.size() >> 64);
  }
  [[nodiscard]] chain_type& of(std::uint64_t key) { return *chains_[bucket_of(key)]; }

  /// All nodes behind a key in the order of buckets and keys, or from the first on.
  template <typename Visit>
  void walk(std::optional<std::uint64_t> behind, const Visit& visit) {
    const std::uint64_t first = behind ? bucket_of(*behind) : 0;
    for (std::uint64_t b = first; b < chains_.size(); ++b) {
      const bool within = behind && b == first;
      if (within && *behind == ~std::uint64_t{0}) continue;
      if (!chains_[b]->walk(within ? *behind + 1 : 0, visit)) return;
    }
  }

 private:
  arena nodes_;
  std::vector<std::unique_ptr<chain_type>> chains_;
};

template <unsigned levels_max, class Steps = no_steps>
class durable_map {
 public:
  /// Makes it, or recovers what a killed process left: with the same sizes and as many buckets.
  durable_map(const std::filesystem::path& path, const region_size& sizes, std::uint64_t bucket_count = 1)
      : memory_(path, sizes), chains_(memory_, bucket_count) {
    std::vector<std::tuple<std::uint64_t, std::uint64_t, pnode*>> live;
    memory_.recover([&](pnode& p) { live.emplace_back(chains_.bucket_of(p.key), p.key, &p); });
    std::ranges::sort(live);
    for (const auto& [bucket, key, p] : live) chains_.of(key).append(key, p);
  }

  bool insert(std::uint64_t key, std::string_view value) { return chains_.of(key).insert(key, value); }
  bool remove(std::uint64_t key) { return chains_.of(key).remove(key); }
  /// The view is good as long as the map.
  std::optional<std::string_view> get(std::uint64_t key) {
    auto* const found = chains_.of(key).get(key);
    return found == nullptr ? std::nullopt : std::optional(memory_.value_of(found->holds));
  }

  /// FILTER(f) of the paper: the keys, in the order of buckets and keys. Goes on if a crash ended it. `on_item` is
  /// called before each evaluation.
  std::vector<std::uint64_t> filter(
      const condition& asks, const std::function<void()>& on_item = [] {}) {
    memory_.begin(asks);
    const pnode* const last = memory_.last();
    chains_.walk(last == nullptr ? std::nullopt : std::optional(last->key), [&](auto& node) {
      on_item();
      memory_.evaluate(node.holds, asks);
      return true;
    });
    const auto removed = memory_.tombstones();
    std::vector<std::uint64_t> keys;
    chains_.walk(std::nullopt, [&](auto& node) {
      if (memory_.answers(node.holds) && !removed.contains(node.key)) keys.push_back(node.key);
      return true;
    });
    memory_.end();
    return keys;
  }
  [[nodiscard]] std::uint64_t used_bytes() const { return memory_.used_bytes(); }

 private:
  durable_memory<Steps> memory_;
  buckets<durable_memory<Steps>, levels_max, Steps> chains_;
};

/// The same in plain memory: the paper's volatile baseline.
template <unsigned levels_max>
class plain_map {
 public:
  explicit plain_map(std::size_t item_size, std::uint64_t bucket_count = 1)
      : memory_(values_, item_size), chains_(memory_, bucket_count) {}

  bool insert(std::uint64_t key, std::string_view value) { return chains_.of(key).insert(key, value); }
  bool remove(std::uint64_t key) { return chains_.of(key).remove(key); }
  std::optional<std::string_view> get(std::uint64_t key) {
    auto* const found = chains_.of(key).get(key);
    return found == nullptr ? std::nullopt : std::optional(memory_.value_of(found->holds));
  }

  /// Calls on_item(key, value) for each item behind a key, or for all, and returns the keys that match.
  std::vector<std::uint64_t> filter(const condition& asks, std::optional<std::uint64_t> behind,
                                    const std::function<void(std::uint64_t, std::string_view)>& on_item) {
    std::vector<std::uint64_t> keys;
    chains_.walk(behind, [&](auto& node) {
      const std::string_view value = memory_.value_of(node.holds);
      on_item(node.key, value);
      if (asks(value)) keys.push_back(node.key);
      return true;
    });
    return keys;
  }

 private:
  arena values_;
  plain_memory memory_;
  buckets<plain_memory, levels_max, no_steps> chains_;
};

}  // namespace icecore::bench::pdt

// The persistent index: an ordered_index that lies in the pool and exists already when the store is opened.
//
// A skip list of fat nodes after UPSkipList (S. Chowdhury: A Scalable Recoverable Skip List for Persistent Memory on
// NUMA Machines, University of Waterloo 2021, chapters 4 to 6): levels of nodes, each level a list in key order. The
// lowest level leads to the entries, each other level to nodes of the level below it. Improvements over UPSkipList:
// keys are sorted; a node has a pair in the level above instead of a tower, so all nodes can have one size; readers
// take no lock; locks do not survive a crash; after opening, nodes are checked when met, not claimed.
// docs/design/0008-persistent-index.md gives the reasons.
//
// A writer locks only the node that it changes. A split links the new node first and adds its pair to the level above
// afterwards. Until then, and permanently if a crash comes between, the node is found from its left neighbour (N6).
// Searches that move to the right add the missing pair now and then.
//
// What a crash leaves (if memory survives by cache lines, and each store to a line after the stores before it):
//   - of an insert: nothing visible before the order word; then all of it. The entry and its pair are durable, and the
//     entry is stamped, before the order word is written.
//   - of a split: the new node unlinked, to be taken again (node_space.hpp); or the old node locked, which repair()
//     then cuts; or only the pair above missing.
//   - of a new uppermost level: the node unlinked, or all of it.
// The caller must fence before it reports that an insert is done.
//
// Threads: as ordered_index says; of all processes that share the store. Failures: errc::no_space from insert() and
//   build(), errc::damaged if a node fails its check; then the index is as before.
// Files: node_lock.hpp, node.hpp (layout, invariants N1 to N6), node_space.hpp (memory), persistent_index.cpp (descent,
// find, insert), split.cpp, repair.cpp, evidence.cpp, walk.cpp, build.cpp, check.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/counter.hpp"
#include "index/index.hpp"
#include "index/persistent/nodes/lock_holders.hpp"
#include "index/persistent/nodes/node_lock.hpp"
#include "index/persistent/nodes/node_space.hpp"

namespace icecore::index {

class persistent_index final : public ordered_index, public node_finder {
 public:
  /// What all processes share about the index besides the pool; it lies in their common arena.
  struct state {
    node_space::state space;
    std::atomic<link> top{null_link};  ///< the first node of a level, perhaps no longer the uppermost
    spread_counter size;
    lock_holders holders;
    std::atomic<std::uint32_t> moves_right{0};
  };

  /// The index that the anchor leads to; build it first if the anchor leads to none. `source` must outlive it.
  persistent_index(const key_source& source, const node_space::parts& where, state& shared);

  [[nodiscard]] link find(std::string_view key) const override;
  void find_many(std::span<const std::string_view> keys, std::span<link> out) const override;
  using ordered_index::insert;
  link insert(std::string_view key, entry_factory& factory) override;

  void seek(std::string_view key, block& out) const override;
  void seek_first(block& out) const override;
  void seek_last(block& out) const override;
  bool next_block(block& b) const override;
  bool block_before(std::string_view key, block& out) const override;
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

  /// When it returns, everything is flushed; it is durable after a fence (or sync).
  void build(std::span<const link> sorted, unsigned threads) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return shared_->size.sum(); }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept override { return space_.bytes_taken(); }
  [[nodiscard]] std::vector<std::string> check() const override;
  /// Nodes that a source has given out of its last segment and that are in no level, except the one that the source
  /// will give out again. A crash leaves none (node_space.hpp); a build that threw may. Only while no thread writes.
  [[nodiscard]] std::vector<std::string> lost_nodes() const;

  /// Whether there is no key at all. O(1).
  [[nodiscard]] bool is_empty() const;
  /// Adds the number of entries of an index that was opened.
  void count(std::uint64_t entries) noexcept { shared_->size.add(entries); }
  /// For threads that take nodes: whether a node that its source gave out is in use.
  [[nodiscard]] bool is_linked(link node) const override;
  /// Flushes the leaf of an existing key: its pair is durable after a fence, even if its writer was killed before its
  /// own fence.
  void flush_leaf_of(std::string_view key) const;
  /// Leaves evidence of all nodes of a granule that were met in this epoch. Only while no other thread uses the store.
  void leave_evidence(link granule) const noexcept;
  /// The space from which other blocks of a node's size can be taken, too.
  [[nodiscard]] node_space& space() noexcept { return space_; }

 private:
  /// A node as it was when its word was `seen` and free. If `seen` is 0, the word has not been loaded yet.
  struct view {
    index_node* at = nullptr;
    link ref = null_link;
    std::uint64_t seen = 0;
    bool promotes = true;  ///< whether the search may still promote a node to the level above: at most one in a search
    // relaxed: see optimistic_lock::validate()
    [[nodiscard]] bool validate() const noexcept { return at->lock.load(std::memory_order_relaxed) == seen; }
  };
  /// The position of a key among the pairs of a node, or where it would be inserted.
  struct place {
    unsigned index;
    link equal;  ///< the pair's link, if the keys are equal
  };
  /// Whether a descent takes the node that begins with the key, or the one before it.
  enum class side { right, left };

  // persistent_index.cpp
  [[nodiscard]] view look_at(link ref) const;
  void look_again(view& v) const;
  [[nodiscard]] std::uint64_t free_word(index_node& n, link ref) const {
    const std::uint64_t word = n.lock.load(std::memory_order_acquire);  // acquire: see node_lock.hpp
    if (!node_word::locked(word) && node_word::epoch(word) == space_.epoch()) [[likely]]
      return word;
    return wait_or_repair(n, ref);
  }
  [[nodiscard]] link low_of(link to, unsigned level) const noexcept;
  [[nodiscard]] place lower_bound(const view& in, const node_order& order, std::string_view key) const;
  [[nodiscard]] unsigned child_for(const index_node& n, const node_order& order, std::string_view key,
                                   side equal) const;
  [[nodiscard]] bool is_beyond(const index_node& n, const node_order& order, std::string_view key, side equal,
                               bool for_certain) const;
  [[nodiscard]] bool move_right(view& v) const;
  [[nodiscard]] view top() const;
  template <side equal>
  [[nodiscard]] view descend(std::string_view key, unsigned level, bool promotes = true) const;
  template <side equal>
  [[nodiscard]] bool go_down(view& here, std::string_view key, unsigned level) const;

  // split.cpp
  [[nodiscard]] bool try_lock(view& v) const noexcept;
  void unlock(index_node& n, link ref) const noexcept;
  void add_pair(index_node& n, link ref, node_order order, unsigned index, std::uint64_t head, link to) const noexcept;
  [[nodiscard]] unsigned prefix_between(link low, link high, std::uint64_t at_least) const noexcept;
  void verify_bounds(const index_node& n, unsigned cut) const;
  void set_heads(index_node& n, const node_order& order) const noexcept;
  void split(view v, unsigned index) const;
  void promote(link node) const;
  void raise_top(unsigned above) const;

  // repair.cpp
  [[nodiscard]] std::uint64_t wait_or_repair(index_node& n, link ref) const;
  [[nodiscard]] bool is_bounded(const index_node& n) const noexcept;
  void verify_torn(const index_node& n, link ref) const;
  void verify_low(link low, link ref) const;
  void roll_back_dead_writers(const index_node& n) const;
  void repair(index_node& n, link ref) const;

  // evidence.cpp
  [[nodiscard]] std::uint64_t digest_of(const index_node& n, std::uint64_t word) const noexcept;
  [[nodiscard]] bool is_outdated(const index_node& n, link ref, std::uint64_t word) const noexcept;

  // walk.cpp
  [[nodiscard]] bool read_leaf(const view& leaf, unsigned first, unsigned end, block& out) const;
  void read_from(std::string_view key, bool at_key, block& out) const;

  // build.cpp
  struct level_plan;
  void fill(const level_plan& plan, std::size_t i) const noexcept;

  // check.cpp
  struct audit;
  void check_level(link first, unsigned level, audit& a) const;
  void check_levels(audit& a) const;

  const key_source& source_;
  mutable node_space space_;  // finds take memory too, when they promote a node that a crash left without a pair above
  state* shared_;
};

/// Calls the constructor.
[[nodiscard]] std::unique_ptr<persistent_index> make_persistent_index(const key_source& source,
                                                                      const node_space::parts& where,
                                                                      persistent_index::state& shared);

}  // namespace icecore::index

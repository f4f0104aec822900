// The B+-tree: an ordered_index whose readers take no lock and write nothing that other threads read.
//
//   const auto tree = make_btree(source, {.huge_pages = true});
//   const link there = tree->insert(key, entry);        // entry, or the link that had the key already
//
// Writers lock the leaf they change, and for a split its parent, too (optimistic_lock.hpp). An insert splits full inner
// nodes on its way down, so a split never needs more than two locks, the parent's first. Writers only try locks and
// never wait for them, so there is no deadlock. Nodes are never freed or merged. docs/design/0002-btree.md gives the
// reasons.
//
// Threads: as ordered_index says. Failures: std::bad_alloc from insert() and build(), and then the tree is as before;
//   errc::poisoned from all functions except build() and check() if another process was killed inside a node's lock: no
//   thread can repair what it left half changed.
// Files: node.hpp (layout, invariants N1 to N7, search), btree.cpp (descent, find, insert), split.cpp, prefix.cpp,
// find_many.cpp, walk.cpp (blocks), build.cpp, check.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/arena.hpp"
#include "index/btree/node.hpp"
#include "index/counter.hpp"
#include "index/free_list.hpp"
#include "index/index.hpp"

namespace icecore::index {

class btree final : public ordered_index {
 public:
  /// The tree that the arena holds, or a new one if it holds none. `source` must outlive it. Throws std::bad_alloc.
  btree(const key_source& source, std::shared_ptr<arena> memory);

  [[nodiscard]] link find(std::string_view key) const override;
  void find_many(std::span<const std::string_view> keys, std::span<link> out) const override;
  using ordered_index::insert;
  link insert(std::string_view key, entry_factory& factory) override;

  /// As ordered_index says. In addition, the first link of `out` is the lower bound itself; `out` is empty only if
  /// there is none.
  void seek(std::string_view key, block& out) const override;
  void seek_first(block& out) const override;
  void seek_last(block& out) const override;
  bool next_block(block& b) const override;
  bool block_before(std::string_view key, block& out) const override;
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

  void build(std::span<const link> sorted, unsigned threads) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return shared_->size.sum(); }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept override { return arena_.used_bytes(); }
  [[nodiscard]] std::vector<std::string> check() const override;

 private:
  /// A node as it was when its lock word was `seen`.
  struct view {
    node* at = nullptr;
    std::uint64_t seen = 0;
    [[nodiscard]] bool validate() const noexcept { return at->lock.validate(seen); }
  };
  /// Where a descent ended.
  struct path {
    view parent;              ///< at is null if node is the root
    view node;                ///< at is null if a writer came between: start again
    node_form form;           ///< of the node
    unsigned child_slot = 0;  ///< node is parent.children[child_slot]
  };
  /// Which child a descent takes if its key equals a separator.
  enum class side { right, left };
  /// What a descent stops at, besides a leaf.
  enum class stop { leaf, full_inner };

  [[nodiscard]] node* at(arena_ref ref) const noexcept { return reinterpret_cast<node*>(arena_.at(ref)); }
  [[nodiscard]] arena_ref ref_of(const node* n) const noexcept {
    return arena_.ref_of(reinterpret_cast<const std::byte*>(n));
  }
  /// The word of a node that is free; waits while a writer is inside. Raises errc::poisoned if that writer's process
  /// was killed.
  [[nodiscard]] std::uint64_t free_word(const node& n) const {
    const std::uint64_t word = n.lock.peek();
    return optimistic_lock::is_locked(word) ? wait_for(n) : word;
  }
  [[nodiscard]] std::uint64_t wait_for(const node& n) const;
  [[nodiscard]] view root() const;
  template <side equal, stop until>
  [[nodiscard, gnu::always_inline]] path try_descend(const sought_key& key) const;

  [[nodiscard, gnu::always_inline]] link try_insert(const sought_key& key, entry_factory& factory, link& made);
  [[gnu::always_inline]] void insert_in_leaf(node& leaf, node_form form, unsigned slot, const sought_key& key,
                                             link entry) noexcept;

  // split.cpp
  // A path is passed by value, so that the caller's need not be in memory.
  class unused_node;
  struct cut;
  [[nodiscard]] bool split_inner(path where, const sought_key& key);
  [[nodiscard]] bool split_leaf(path where, unsigned slot, const sought_key& key, link entry);
  template <class Node>
  [[nodiscard]] bool split(const path& where, const cut& c);
  void add_child(inner_node& parent, unsigned slot, const cut& c, arena_ref child) noexcept;
  [[nodiscard]] arena_ref take_node(bool leaf);
  void give_back(arena_ref ref, bool leaf) noexcept;

  // prefix.cpp
  void refresh_prefix(node& n, bool was_open) noexcept;
  void admit_to_prefix(node& n, std::string_view key) noexcept;
  void set_prefix(node& n, std::size_t prefix_length) noexcept;

  // find_many.cpp
  struct lookup;
  void find_group(std::span<const std::string_view> keys, std::span<link> out) const;
  [[nodiscard]] bool step_down(lookup& l, const sought_key& key) const noexcept;
  [[nodiscard]] bool search_leaf(lookup& l, const sought_key& key) const noexcept;
  [[nodiscard]] bool take_candidate(lookup& l) const noexcept;

  // walk.cpp
  [[nodiscard]] bool read_leaf(const view& leaf, unsigned first, unsigned end, block& out) const noexcept;
  void read_from(std::string_view key, bool at_key, block& out) const;
  void collect(arena_ref ref, unsigned level, std::vector<link>& out) const;

  // build.cpp
  struct level_plan;
  void fill(const level_plan& plan, std::size_t index) noexcept;

  // check.cpp
  struct audit;
  void check_links(const node& n, audit& a) const;
  void check_node(const node& n, audit& a) const;

  /// A tree's data besides its nodes. It lies in the arena, the same for all processes.
  struct state {
    std::atomic<arena_ref> root{0};
    arena_ref first_leaf = 0;  ///< splits add to the right only, so the leftmost leaf stays; build() may replace it
    /// Nodes taken for a split that another writer made first: [0] inner nodes, [1] leaves.
    std::array<free_list, 2> free_nodes;
    spread_counter size;
  };

  const key_source& source_;
  std::shared_ptr<arena> memory_;
  arena& arena_;
  state* shared_;
};

/// Calls the constructor.
[[nodiscard]] std::unique_ptr<ordered_index> make_btree(const key_source& source, std::shared_ptr<arena> memory);
/// An empty B+-tree with an arena of its own.
[[nodiscard]] std::unique_ptr<ordered_index> make_btree(const key_source& source, arena_options options = {});

}  // namespace icecore::index

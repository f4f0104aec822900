// The lock-free list: an ordered_index of one linked list, in which no thread ever waits for another.
//
//   const auto list = make_list(source, {.huge_pages = true});                // in key order; finds are O(n)
//   const auto hash = make_hash(source, seed, {.huge_pages = true});          // in the order of hashes; finds are O(1)
//
// After T. Harris, "A Pragmatic Implementation of Non-Blocking Linked-Lists" (DISC 2001), without its marks: removals
// are records, so no node is ever unlinked, and linking one is a single compare-and-swap.
//
// Threads: as ordered_index says; lock-free (a failed compare-and-swap means that another thread's succeeded), except
//   for memory, which the kernel provides. Failures: std::bad_alloc from insert() and build(), and then the list is as
//   before.
// Cost, n keys: list: find, insert, seek, block_before, split_points O(n); find_many O(n) for each 64 keys. hash: find,
//   insert, seek, block_before O(1) expected, split_points O(count). Both: next_block O(block); build of the list O(n),
//   of the hash O(n log n).
// Memory: 32 bytes a key; the hash 4 to 8 more.
// Invariants:
//   N1. Nodes ascend strictly by (order, key).
//   N2. A node's order, head, entry and key_size never change once it is published; its successor is only ever replaced
//       by a node between the two.
// Files: node.hpp (layout, comparison, memory), shortcuts.hpp (how a search gets near to its key), linked_list.cpp
//   (search, insert, blocks), find_many.cpp, build.cpp (build, check), key_hash.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "index/arena.hpp"
#include "index/counter.hpp"
#include "index/free_list.hpp"
#include "index/index.hpp"
#include "index/list/node.hpp"
#include "index/list/shortcuts.hpp"

namespace icecore::index {

/// `Way`, from_front or shortcuts, says how the list is ordered and where a search begins.
template <class Way>
class linked_list final : public ordered_index {
 public:
  /// The list that the arena holds, or a new one if it holds none. `source` must outlive it. Throws std::bad_alloc.
  template <class... Seed>
  linked_list(const key_source& source, std::shared_ptr<arena> memory, const Seed&... seed)
      : source_(source),
        memory_(std::move(memory)),
        arena_(*memory_),
        nodes_(arena_),
        shared_(&state_in(arena_)),
        front_(arena_.root(index_root) * list_nodes::per_unit),
        way_(arena_, shared_->way, front_, seed...) {}

  [[nodiscard]] bool orders_keys() const noexcept override { return !hashed; }
  [[nodiscard]] link find(std::string_view key) const noexcept override;
  void find_many(std::span<const std::string_view> keys, std::span<link> out) const noexcept override;
  using ordered_index::insert;
  link insert(std::string_view key, entry_factory& factory) override;

  /// As ordered_index says. In addition, the first link of `out` is the lower bound itself; `out` is empty only if
  /// there is none.
  void seek(std::string_view key, block& out) const noexcept override;
  void seek_first(block& out) const noexcept override;
  void seek_last(block& out) const noexcept override;
  bool next_block(block& b) const noexcept override;
  bool block_before(std::string_view key, block& out) const noexcept override;
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

  void build(std::span<const link> sorted, unsigned threads) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return shared_->size.sum(); }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept override { return arena_.used_bytes(); }
  [[nodiscard]] std::vector<std::string> check() const override;

  /// For tests: what has grown.
  [[nodiscard]] const Way& way() const noexcept { return way_; }

 private:
  using sought = typename Way::sought;
  static constexpr bool hashed = std::is_same_v<Way, shortcuts>;

  /// A list's data besides its nodes. It lies in the arena, the same for all processes.
  struct state {
    list_node front{};  ///< in front of every key, and of none itself; the list's first reference is to it
    spread_counter size;
    free_list spares;  ///< nodes that were made but not used
    typename Way::state way;
  };
  static_assert(std::is_standard_layout_v<state>, "the front's place is the state's");

  /// Neighbours between which a key is, or would be.
  struct position {
    node_ref before = 0;
    node_ref behind = 0;  ///< the first node whose key is not smaller; 0: none
  };
  struct lookup;
  class last_links;

  [[nodiscard]] static state& state_in(arena& memory);
  [[nodiscard]] list_node& at(node_ref ref) const noexcept { return nodes_.at(ref); }
  [[nodiscard]] node_ref advance(const sought& key, position& where) const noexcept;
  [[nodiscard]] node_ref search(const sought& key, position& where) const noexcept;
  void find_together(std::span<const std::string_view> keys, std::span<link> out) const noexcept
    requires(!hashed);
  void find_together(std::span<const std::string_view> keys, std::span<link> out) const noexcept
    requires(hashed);
  void read_from(node_ref first, block& out) const noexcept;
  [[nodiscard]] node_ref read_before(const sought* key, node_ref from, last_links& into) const noexcept;
  [[nodiscard]] bool read_last_before(const sought* key, block& out) const noexcept
    requires(!hashed);
  [[nodiscard]] bool read_last_before(const sought* key, block& out) const noexcept
    requires(hashed);

  // build.cpp
  [[nodiscard]] list_node made_of(link entry) const noexcept;
  void fill(std::span<const link> sorted, node_ref first, unsigned threads) const
    requires(!hashed);
  void fill(std::span<const link> sorted, node_ref first, unsigned threads) const
    requires(hashed);
  void join(node_ref first, std::uint64_t count, unsigned threads) noexcept;

  const key_source& source_;
  std::shared_ptr<arena> memory_;
  arena& arena_;
  list_nodes nodes_;
  state* shared_;
  node_ref front_;
  Way way_;
};

using key_list = linked_list<from_front>;
using hash_list = linked_list<shortcuts>;

/// Call the constructor.
[[nodiscard]] std::unique_ptr<ordered_index> make_list(const key_source& source, std::shared_ptr<arena> memory);
[[nodiscard]] std::unique_ptr<ordered_index> make_hash(const key_source& source, std::shared_ptr<arena> memory,
                                                       const hash_seed& seed);
/// Empty ones with an arena of their own.
[[nodiscard]] std::unique_ptr<ordered_index> make_list(const key_source& source, arena_options options = {});
[[nodiscard]] std::unique_ptr<ordered_index> make_hash(const key_source& source, const hash_seed& seed,
                                                       arena_options options = {});

}  // namespace icecore::index

// The ordered index: leads from a key to its entry. This file is the concept that every index implements.
//
// An index holds links to entries, ordered by the entries' key bytes (unsigned, lexicographic, shorter first), or by a
// hash of the keys if orders_keys() is false. "Ascending", "before", "lower bound" and the like mean the index's order.
// It never owns keys. It keeps their normalized heads itself, and reads a key through a key_source only if heads are
// equal.
//
// Threads: every function may be called from any number of threads at once, except build(), which must be the first.
// Cost: find, insert, seek O(log n) comparisons, in the list O(n), in the hash O(1) expected; next_block O(block).
// Invariants:
//   X1. Links are never removed or changed, so a link once returned stays valid and nodes need no reclamation.
//   X2. A link is visible to every find that starts after insert() returned it (release on publish, acquire on read).
//   X3. Blocks cover the key space without gap or overlap: a walk by next_block (block_before) from any block meets
//       every link that was in the index when the walk began exactly once, in (reverse) order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.hpp"
#include "pool/link.hpp"

namespace icecore::index {

/// Reads the key of the entry behind a link. The view stays valid as long as the index. Implementations must be safe to
/// call from any thread for any link ever given to the index, even for one read from a node that is changing.
class key_source {
 public:
  [[nodiscard]] virtual std::string_view key_of(link entry) const noexcept = 0;
  /// Whether key_of() may be called for a link that an index found on media: the key ends inside the mapped memory.
  [[nodiscard]] virtual bool is_readable(link /*entry*/) const noexcept { return true; }
  /// Hints that key_of(entry) and the entry itself will be read soon.
  virtual void prefetch(link entry) const noexcept = 0;
  /// A persistent index calls this if key_of() returned another key than the head made it expect. Throws errc::damaged
  /// if the key is damaged.
  virtual void verify_key(link /*entry*/) const {}
  /// A digest of what can change in an entry. A persistent index stores it and later checks that it is still the same.
  [[nodiscard]] virtual std::uint64_t state_of(link /*entry*/) const noexcept { return 0; }
  /// Flushes what state_of() reads.
  virtual void flush_state(link /*entry*/) const noexcept {}
  /// An index calls this if another process was killed inside a lock that no thread can take over, so that no thread
  /// waits for it. Throws errc::poisoned, and makes all processes that share the index learn of it.
  [[noreturn]] virtual void raise_owner_died() const {
    raise(errc::poisoned, "another process was killed while it changed the index");
  }

 protected:
  ~key_source() = default;
};

/// Some neighbouring links in their order, copied out of the index at one instant.
struct block {
  static constexpr std::size_t capacity = 64;
  std::array<link, capacity> entries;
  std::size_t size = 0;
  /// Where the walk continues; only the index can interpret it, and it needs nothing else. 0: at the end.
  std::uint64_t next = 0;
};

/// Makes the entry of a key after the index has found that the key has none, so that an insert searches only once.
class entry_factory {
 public:
  /// Called at most once for an insert, with nothing locked. Its exceptions leave insert().
  [[nodiscard]] virtual link make() = 0;

  /// An index that publishes under a lock calls this at most once, when it is certain to publish the entry that was
  /// made: finds that begin after this call see the entry, or wait until they do. A full fence separates the step that
  /// makes them wait from this call, so what this function reads is no older than any find that misses the entry. Finds
  /// wait meanwhile, so it should take a few dozen instructions at most.
  virtual void before_publish() noexcept {}

 protected:
  ~entry_factory() = default;
};

/// Links in an order, read in blocks.
class ordered_links {
 public:
  virtual ~ordered_links() = default;

  /// The block in which the lower bound of `key` lies: it holds all links of some key interval that contains `key`
  /// (its first links may have smaller keys). If all of them are smaller, the lower bound is the first link of the next
  /// block.
  virtual void seek(std::string_view key, block& out) const = 0;
  virtual void seek_first(block& out) const = 0;
  virtual void seek_last(block& out) const = 0;
  /// Replaces `b` by the block after it; false, and `b` empty, at the end.
  virtual bool next_block(block& b) const = 0;
  /// Replaces `out` by the block whose last link is the greatest with a key < `key` (it leaves out links >= key);
  /// false, and `out` empty, if there is none.
  virtual bool block_before(std::string_view key, block& out) const = 0;

  /// At most `count` links that cut the links into parts of about equal size, ascending.
  [[nodiscard]] virtual std::vector<link> split_points(std::size_t count) const = 0;
};

class ordered_index : public ordered_links {
 public:
  /// Whether the order is that of the keys. If not, it is one that depends on each key alone and stays the same for the
  /// store's life.
  [[nodiscard]] virtual bool orders_keys() const noexcept { return true; }

  /// The entry of `key`, or null_link.
  [[nodiscard]] virtual link find(std::string_view key) const = 0;

  /// out[i] = find(keys[i]), with the memory accesses of neighbouring keys overlapped; prefetches the entries found.
  virtual void find_many(std::span<const std::string_view> keys, std::span<link> out) const = 0;

  /// The key's entry: the existing one, or else the one that `factory` makes, whose key must be `key` and readable
  /// through the key_source. If another thread inserts the key first, that thread's entry is returned and the one made
  /// is not used.
  virtual link insert(std::string_view key, entry_factory& factory) = 0;
  /// The same with an entry that exists already.
  link insert(std::string_view key, link entry) {
    struct made final : entry_factory {
      explicit made(link l) noexcept : it(l) {}
      [[nodiscard]] link make() override { return it; }
      link it;
    } factory(entry);
    return insert(key, factory);
  }

  /// Fills the empty index with links in strictly ascending order of their keys, using `threads` threads.
  virtual void build(std::span<const link> sorted, unsigned threads) = 0;

  /// Links held. Approximate while writers run.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Memory taken from the arena, bytes.
  [[nodiscard]] virtual std::uint64_t memory_bytes() const noexcept = 0;
  /// Checks the structure's own invariants while no thread writes; returns what is wrong, empty if nothing is.
  [[nodiscard]] virtual std::vector<std::string> check() const = 0;
};

}  // namespace icecore::index

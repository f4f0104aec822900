// The ordered index: leads from a key to its entry. This page is the concept that every index implements.
//
// An index holds links to entries, ordered by the entries' key bytes (unsigned, lexicographic, shorter first). It never
// owns keys: it reads them through a key_source, and only when the normalized heads it keeps itself tie.
//
// Threads: every function may be called from any number of threads at once, except build(), which must be the first.
// Cost: find, insert, seek O(log n) comparisons; next_block O(block).
// Invariants:
//   X1. Links are never removed or changed, so a link once returned stays right and nodes need no reclamation.
//   X2. A link is visible to every find that starts after insert() returned it (release on publish, acquire on read).
//   X3. Blocks cover the key space without gap or overlap: walking by next_block (previous_block) from any block meets
//       every link that was in the index when the walk began exactly once, in (reverse) key order.
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
/// call from any thread for any link ever given to the index, even for one read from a node that is just changing.
class key_source {
 public:
  [[nodiscard]] virtual std::string_view key_of(link entry) const noexcept = 0;
  /// Whether key_of() may be called for a link that an index found on media: its key ends where memory does or before.
  [[nodiscard]] virtual bool is_readable(link /*entry*/) const noexcept { return true; }
  /// Hints that key_of(entry) and the entry itself will be read soon.
  virtual void prefetch(link entry) const noexcept = 0;
  /// An index that lies on media says that a key, read by key_of(), was not the one that its head let expect: it may be
  /// damaged. Throws errc::damaged if so.
  virtual void verify_key(link /*entry*/) const {}
  /// What changes in an entry, as a number: an index that lies on media notes it, and looks whether it is so still.
  [[nodiscard]] virtual std::uint64_t state_of(link /*entry*/) const noexcept { return 0; }
  /// Sends what state_of() reads on its way to the media.
  virtual void flush_state(link /*entry*/) const noexcept {}
  /// An index says that another process was killed inside a lock of it that nobody can take over: nobody is to wait for
  /// that. Throws errc::poisoned, and sees to it that all who share the index are told so.
  [[noreturn]] virtual void raise_owner_died() const {
    raise(errc::poisoned, "another process was killed while it changed the index");
  }

 protected:
  ~key_source() = default;
};

/// Some neighbouring links in key order, copied out of the index at one instant.
struct block {
  static constexpr std::size_t capacity = 64;
  std::array<link, capacity> entries;
  std::size_t size = 0;
  /// Where the walk goes on; means something to the index only, and all there is to know. 0: at the end.
  std::uint64_t next = 0;
};

/// Makes the entry of a key once the index knows that the key has none, so that an insert searches once.
class entry_factory {
 public:
  /// Called at most once for an insert, with nothing locked. What it throws, insert() throws.
  [[nodiscard]] virtual link make() = 0;

  /// Called by an index that publishes under a lock, at most once, when the entry made is about to be published for
  /// sure: finds that begin after this call see the entry, or wait until they do. A full fence is between whatever
  /// makes them wait and this call, so that what it reads is no older than any find that misses the entry. A few dozen
  /// instructions at most: they wait.
  virtual void before_publish() noexcept {}

 protected:
  ~entry_factory() = default;
};

class ordered_index {
 public:
  virtual ~ordered_index() = default;

  /// The entry of `key`, or null_link.
  [[nodiscard]] virtual link find(std::string_view key) const = 0;

  /// out[i] = find(keys[i]), with the memory accesses of neighbouring keys overlapped; prefetches the entries found.
  virtual void find_many(std::span<const std::string_view> keys, std::span<link> out) const = 0;

  /// The key's entry: the one that is there, or else the one that `maker` makes, whose key must be `key` and readable
  /// through the key_source. It may have been made in vain: if another thread was faster, theirs is returned.
  virtual link insert(std::string_view key, entry_factory& factory) = 0;
  /// The same with an entry that is made already.
  link insert(std::string_view key, link entry) {
    struct made final : entry_factory {
      explicit made(link l) noexcept : it(l) {}
      [[nodiscard]] link make() override { return it; }
      link it;
    } factory(entry);
    return insert(key, factory);
  }

  /// The block in which the lower bound of `key` lies: it holds all links of some key interval that contains `key`
  /// (its first links may have smaller keys). If all of them are smaller, the lower bound is the first link of the next
  /// block.
  virtual void seek(std::string_view key, block& out) const = 0;
  virtual void seek_first(block& out) const = 0;
  virtual void seek_last(block& out) const = 0;
  /// Replaces `b` by the block after it; false, and `b` empty, at the end.
  virtual bool next_block(block& b) const = 0;
  /// Replaces `out` by the block whose last link is the greatest with a key < `key` (links >= key are left out); false,
  /// and `out` empty, if there is none.
  virtual bool block_before(std::string_view key, block& out) const = 0;

  /// At most `count` links that cut the keys into parts of about equal size, ascending.
  [[nodiscard]] virtual std::vector<link> split_points(std::size_t count) const = 0;

  /// Fills the empty index with links in strictly ascending key order, using `threads` threads.
  virtual void build(std::span<const link> sorted, unsigned threads) = 0;

  /// Links held. Approximate while writers run.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Memory taken from the arena, bytes.
  [[nodiscard]] virtual std::uint64_t memory_bytes() const noexcept = 0;
  /// Checks the structure's own invariants while nobody writes; returns what is wrong, empty if nothing is.
  [[nodiscard]] virtual std::vector<std::string> check() const = 0;
};

}  // namespace icecore::index

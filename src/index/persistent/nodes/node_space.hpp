// Where the nodes of the persistent index lie, and where new ones come from.
//
//   taken_node fresh(space);                 // memory that nothing leads to
//   ... fill, flush, fence, link, flush, fence ...
//   fresh.keep();                            // linked for good; otherwise it is given out again
//
// Nodes come from segments of the pool. One thread at a time fills a segment front to back, through one of the anchor's
// node_sources. A source stores which node it gave out last (`pending`) in the same line as its position, and this is
// durable before the node is linked. So a crash loses at most one node of each source, and it is known which one. The
// next thread that takes a node from the source finds out whether it is linked (`node_finder`), and if not, takes it
// (the log of UPSkipList, section 4.1.4). Once what leads to the node is durable, the source stores that too, so this
// is in question only after a crash.
//
// Threads: all functions, of all processes that share the store.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "index/persistent/nodes/node.hpp"
#include "pool/checked_word.hpp"
#include "pool/file/persist.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore::index {

/// What the index needs from the store around it.
class space_owner {
 public:
  /// Receives the bounds of a new segment before the segment is taken.
  class claim {
   public:
    virtual void bounds(link begin, link end) noexcept = 0;

   protected:
    ~claim() = default;
  };
  /// Takes a zeroed segment for nodes, with a durable header: from its first free byte to its end. Before that it calls
  /// `by`; what that call made durable decides after a crash whether the segment is taken. Throws errc::no_space.
  virtual void take_segment(claim& by) = 0;
  /// When it returns, what a killed process left unfinished in take_segment() is rolled forward or back.
  virtual void recover_dead() = 0;
  /// Called when a killed process held a leaf's lock. Durably rolls back those unfinished writes of killed processes
  /// for which `never_shown` is true, before any thread learns that the key is not there.
  virtual void roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown) = 0;
  /// Whether a process that shares the store is still running.
  [[nodiscard]] virtual bool is_alive(std::uint16_t process) const noexcept = 0;
  /// Raises errc::damaged: something at `l` has changed.
  [[noreturn]] virtual void raise_damaged(link l, const char* what) const = 0;
  /// Whether `bytes` bytes at `l` lie in the pool.
  [[nodiscard]] virtual bool leads_into_pool(link l, std::uint64_t bytes) const noexcept = 0;
  /// The node at the same position in the other granule of its segment; null if the segment has one granule.
  [[nodiscard]] virtual link partner_of(link node) const noexcept = 0;
  /// Called before the node gets this epoch: closing will leave evidence of it (evidence.cpp).
  virtual void note_met(link node) noexcept = 0;

 protected:
  ~space_owner() = default;
};

/// Says whether a node or block that a source gave out last is in use.
class node_finder {
 public:
  [[nodiscard]] virtual bool is_linked(link node) const = 0;

 protected:
  ~node_finder() = default;
};

/// A segment from which nodes are given out, identified by the end of its last node.
struct node_segment {
  explicit node_segment(link end) noexcept
      : size(link_offset(end) % format::granule_size == format::nodes_end ? format::node_segment_size
                                                                          : format::granule_size),
        begin(format::round_up(end, format::granule_size) - size) {}
  [[nodiscard]] link first() const noexcept { return begin + sizeof(format::segment_header); }
  /// The node behind this one, or the end of the last one.
  [[nodiscard]] link behind(link node) const noexcept {
    const link next = node + sizeof(index_node);
    const bool of_other_granule = size == format::node_segment_size && next == begin + format::nodes_end;
    return of_other_granule ? begin + format::granule_size + sizeof(format::segment_header) : next;
  }

  std::uint64_t size;
  link begin;
};

class node_space {
 public:
  static constexpr std::size_t pools_max = format::files_max;
  /// The last source is only for blocks of links to tags.
  static constexpr unsigned sources = format::writers_max - 1;
  static constexpr unsigned tag_source = sources;
  static constexpr unsigned epoch_bits = 24;  ///< as in node_lock.hpp
  static constexpr std::uint64_t epoch_mask = (std::uint64_t{1} << epoch_bits) - 1;

  /// What all processes share about the sources; it lies in their common arena.
  struct state {
    struct alignas(64) source {
      std::atomic<std::uint32_t> taken{0};  ///< bit 16 and the number of the process that has it; 0: free
      std::atomic<bool> known{false};       ///< `pending` has been checked in this epoch: it is linked unless reusable
      std::atomic<bool> reusable{false};    ///< `pending` is not linked
    };
    std::array<source, sources + 1> of;
  };

  struct parts {
    std::array<std::byte*, pools_max> bases{};
    format::index_anchor* anchor = nullptr;
    persistence* persist = nullptr;
    space_owner* owner = nullptr;
    state* shared = nullptr;
    word_codec codec{0};
    std::uint64_t epoch = 0;
    std::uint32_t epochs_trusted = 0;  ///< evidence of this many epochs before this one counts
    std::uint16_t process = 0;
    /// Whether a search may link a node that it finds unlinked. Not in an attached process: close() does not stop its
    /// reads, so they must not write.
    bool searches_link = true;
  };
  explicit node_space(const parts& of) noexcept : parts_(of) {}

  [[nodiscard]] std::byte* bytes(link l) const noexcept {
    return parts_.bases[link_pool(l) % pools_max] + link_offset(l);
  }
  [[nodiscard]] index_node& at(link l) const noexcept { return *reinterpret_cast<index_node*>(bytes(l)); }
  [[nodiscard]] format::index_anchor& anchor() const noexcept { return *parts_.anchor; }
  [[nodiscard]] space_owner& owner() const noexcept { return *parts_.owner; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return parts_.epoch & epoch_mask; }
  [[nodiscard]] std::uint16_t process() const noexcept { return parts_.process; }
  [[nodiscard]] bool searches_link() const noexcept { return parts_.searches_link; }
  /// How many epochs ago this was; for the epoch of a node's word or of a word of evidence.
  [[nodiscard]] std::uint64_t age_of(std::uint64_t epoch_then) const noexcept {
    return (parts_.epoch - epoch_then) & epoch_mask;
  }
  /// A word of evidence: the digest that closing in this epoch found.
  [[nodiscard]] std::uint64_t evidence_of(std::uint64_t digest) const noexcept {
    return digest << epoch_bits | epoch();
  }
  [[nodiscard]] bool trusts_any() const noexcept { return parts_.epochs_trusted != 0; }
  [[nodiscard]] bool trusts(std::uint64_t evidence) const noexcept {
    const std::uint64_t age = age_of(evidence);
    return evidence != 0 && age != 0 && age <= parts_.epochs_trusted;
  }
  [[nodiscard]] bool agrees(std::uint64_t evidence, std::uint64_t digest) const noexcept {
    return (evidence ^ evidence_of(digest)) >> epoch_bits == 0;
  }
  /// The seed of a node's checksum.
  [[nodiscard]] std::uint32_t seed_of(link node) const noexcept { return parts_.codec.record_seed(0, node); }

  void flush(const void* data, std::size_t size) const noexcept { parts_.persist->flush(data, size); }
  void fence() const noexcept { parts_.persist->fence(); }

  /// A link as a checked word for this position.
  [[nodiscard]] std::uint64_t encode(link l, link at) const noexcept { return parts_.codec.encode_link(l, at); }
  /// Raises errc::damaged if the word fails its check.
  [[nodiscard]] link decode(std::uint64_t word, link at) const;
  /// The position of a word of the anchor, which lies in the first pool.
  [[nodiscard]] link place_of(const std::atomic<std::uint64_t>& of_anchor) const noexcept {
    return make_link(0, static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&of_anchor) - parts_.bases[0]));
  }
  /// The link in a word of the anchor.
  [[nodiscard]] link load(const std::atomic<std::uint64_t>& of_anchor, std::memory_order order) const {
    return decode(of_anchor.load(order), place_of(of_anchor));
  }

  [[nodiscard]] std::uint64_t bytes_taken() const noexcept;

 private:
  friend class taken_node;
  parts parts_;
};

/// A node's memory, taken from a source that only this thread uses meanwhile.
class taken_node {
 public:
  taken_node(node_space& space, const node_finder& finder);
  /// From this source; waits while another thread has it.
  taken_node(node_space& space, const node_finder& finder, unsigned source);
  ~taken_node();
  taken_node(const taken_node&) = delete;
  taken_node& operator=(const taken_node&) = delete;

  [[nodiscard]] link where() const noexcept { return node_; }
  [[nodiscard]] index_node& operator*() const noexcept { return space_.at(node_); }
  /// Call it if what leads to the node will be durable when this object is destroyed, or the whole index is not trusted
  /// yet.
  void keep() noexcept { kept_ = true; }

 private:
  void take(const node_finder& finder);
  void require_unused(link node, const node_finder& finder) const;
  void lease();
  [[nodiscard]] bool try_lease(unsigned source, bool look);
  void release() noexcept;

  node_space& space_;
  format::node_source* source_ = nullptr;
  node_space::state::source* shared_ = nullptr;
  link node_ = null_link;
  bool kept_ = false;
};

}  // namespace icecore::index

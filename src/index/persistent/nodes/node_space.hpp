// Where the nodes of the persistent index lie, and where new ones come from.
//
//   taken_node fresh(space);                 // memory that nobody knows of
//   ... fill, flush, fence, link, flush, fence ...
//   fresh.keep();                            // linked for good; else it is given out again
//
// Nodes come from segments of the pool, each filled front to back by one thread at a time through one of the anchor's
// node_sources. A source notes the node it gave out last (`pending`), in one line with how far it has come, and that is
// durable before the node is linked. So a crash loses at most one node of each source, and it is known which: the next
// one to take a node from the source asks whether it is linked (`node_finder`), and if not, takes it (the log of
// UPSkipList, section 4.1.4). Once what leads to the node is durable the source notes that too, so that only a crash
// leaves anything to ask.
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

/// What the index asks of the store around it.
class space_owner {
 public:
  /// Told where a new segment will be, before it is.
  class claim {
   public:
    virtual void told(link begin, link end) noexcept = 0;

   protected:
    ~claim() = default;
  };
  /// A zeroed segment for nodes, its header durable: from the first free byte to its end. Before it is taken, `by` is
  /// told, and what that made durable decides after a crash. Throws errc::no_space.
  virtual void take_segment(claim& by) = 0;
  /// What a process that was killed in take_segment() left half done is done, or undone, when it returns.
  virtual void recover_dead() = 0;
  /// A leaf was locked by a process that was killed. What processes were making when they were killed and `never_shown`
  /// says true of, is made undone, durably, before anybody is told that the key is not there.
  virtual void roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown) = 0;
  /// Whether a process that shares the store still runs.
  [[nodiscard]] virtual bool is_alive(std::uint16_t process) const noexcept = 0;
  /// errc::damaged: something at `l` is not what it was.
  [[noreturn]] virtual void raise_damaged(link l, const char* what) const = 0;
  /// Whether `l` can be followed for `bytes`.
  [[nodiscard]] virtual bool leads_into_pool(link l, std::uint64_t bytes) const noexcept = 0;
  /// The node at the same place in the other granule of its segment; null in a segment that has one granule.
  [[nodiscard]] virtual link partner_of(link node) const noexcept = 0;
  /// The node is about to be of this epoch: closing will leave evidence of it (evidence.cpp).
  virtual void note_met(link node) noexcept = 0;

 protected:
  ~space_owner() = default;
};

/// Whether a node or block that a source gave out last is in use.
class node_finder {
 public:
  [[nodiscard]] virtual bool is_linked(link node) const = 0;

 protected:
  ~node_finder() = default;
};

/// A segment that nodes are given out of, as told by where its last one ends.
struct node_segment {
  explicit node_segment(link end) noexcept
      : size(link_offset(end) % format::granule_size == format::nodes_end ? format::node_segment_size
                                                                          : format::granule_size),
        begin(format::round_up(end, format::granule_size) - size) {}
  [[nodiscard]] link first() const noexcept { return begin + sizeof(format::segment_header); }
  /// The node behind this one, or where the last one ends.
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
  /// The last source is for blocks of links to tags alone.
  static constexpr unsigned sources = format::writers_max - 1;
  static constexpr unsigned tag_source = sources;
  static constexpr unsigned epoch_bits = 24;  ///< as in node_lock.hpp
  static constexpr std::uint64_t epoch_mask = (std::uint64_t{1} << epoch_bits) - 1;

  /// What all processes know of the sources, in their common arena.
  struct state {
    struct alignas(64) source {
      std::atomic<std::uint32_t> taken{0};  ///< 1 and the number of the process that has it; 0: free
      std::atomic<bool> known{false};     ///< `pending` has been looked at in this epoch: it is linked if not reusable
      std::atomic<bool> reusable{false};  ///< `pending` is not linked
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
    std::uint32_t epochs_trusted = 0;  ///< of so many epochs before this one evidence counts
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
  /// How many epochs before this one: of a node's word, or of a word of evidence.
  [[nodiscard]] std::uint64_t age_of(std::uint64_t epoch_then) const noexcept {
    return (parts_.epoch - epoch_then) & epoch_mask;
  }
  /// A word of evidence: what a closing in this epoch found.
  [[nodiscard]] std::uint64_t evidence_of(std::uint64_t digest) const noexcept {
    return digest << epoch_bits | epoch();
  }
  [[nodiscard]] bool trusts_any() const noexcept { return parts_.epochs_trusted != 0; }
  [[nodiscard]] bool believes(std::uint64_t evidence) const noexcept {
    const std::uint64_t age = age_of(evidence);
    return evidence != 0 && age != 0 && age <= parts_.epochs_trusted;
  }
  [[nodiscard]] bool agrees(std::uint64_t evidence, std::uint64_t digest) const noexcept {
    return (evidence ^ evidence_of(digest)) >> epoch_bits == 0;
  }
  /// What seeds a node's checksum.
  [[nodiscard]] std::uint32_t seed_of(link node) const noexcept { return parts_.codec.record_seed(0, node); }

  void flush(const void* data, std::size_t size) const noexcept { parts_.persist->flush(data, size); }
  void fence() const noexcept { parts_.persist->fence(); }

  /// A link in a word at this place, which checks itself.
  [[nodiscard]] std::uint64_t encode(link l, link at) const noexcept { return parts_.codec.encode_link(l, at); }
  /// errc::damaged if it is none.
  [[nodiscard]] link decode(std::uint64_t word, link at) const;
  /// The place of a word of the anchor, which lies in the first pool.
  [[nodiscard]] link place_of(const std::atomic<std::uint64_t>& of_anchor) const noexcept {
    return make_link(0, static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&of_anchor) - parts_.bases[0]));
  }
  /// What a word of the anchor says.
  [[nodiscard]] link load(const std::atomic<std::uint64_t>& of_anchor, std::memory_order order) const {
    return decode(of_anchor.load(order), place_of(of_anchor));
  }

  [[nodiscard]] std::uint64_t bytes_taken() const noexcept;

 private:
  friend class taken_node;
  parts parts_;
};

/// A node's memory, taken from the source that this thread then has alone.
class taken_node {
 public:
  taken_node(node_space& space, const node_finder& finder);
  /// From this source, which no other thread takes from meanwhile.
  taken_node(node_space& space, const node_finder& finder, unsigned source);
  ~taken_node();
  taken_node(const taken_node&) = delete;
  taken_node& operator=(const taken_node&) = delete;

  [[nodiscard]] link where() const noexcept { return node_; }
  [[nodiscard]] index_node& operator*() const noexcept { return space_.at(node_); }
  /// What leads to it is durable when this object goes, or the whole index is not to be trusted yet.
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

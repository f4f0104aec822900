// Segments that no writer is filling now, from which the next writer that needs room takes one.
//
// The list lies in the store's arena, for all processes that share it. It is divided by pool and room into bins, each
// for twice the room of the bin before, so that taking a segment looks at few of them however many there are.
//
// Threads: all functions, from any thread of any process. Cost: put() O(1), exchange() O(bins).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/locks/process_lock.hpp"
#include "index/arena.hpp"
#include "pool/pool.hpp"

namespace icecore {

/// A segment, and the place in it behind which it is unused.
struct segment_tail {
  segment in;
  link position = 0;  ///< the first free byte
  [[nodiscard]] std::uint64_t space() const noexcept { return in.end() - position; }
};

class open_segments {
  static constexpr unsigned bin_count = 65;  // by the bit width of the room

 public:
  /// The part in the arena.
  struct state {
    process_lock lock;
    std::array<std::array<index::arena_ref, bin_count>, format::files_max> bins{};  ///< of each pool
    index::arena_ref unused = 0;                                                    ///< free nodes
  };

  open_segments(index::arena& memory, state& shared) noexcept : memory_(&memory), shared_(&shared) {}

  /// Adds a segment to the list; one with little room left is never taken again. Throws std::bad_alloc.
  void put(const segment_tail& remaining) {
    if (remaining.in.size == 0) return;
    const std::scoped_lock lock(shared_->lock);
    add(new_node(), remaining);
  }
  /// Takes a segment of pool `from` with room for `bytes`, and adds `remaining` to the list. If there is none, returns
  /// nothing and changes nothing. Throws std::bad_alloc, and then changes nothing either.
  [[nodiscard]] std::optional<segment_tail> exchange(const segment_tail& remaining, std::uint64_t bytes,
                                                     std::uint16_t from = 0);

  /// Forgets all of them.
  void clear() noexcept {
    const std::scoped_lock lock(shared_->lock);
    for (auto& bins : shared_->bins) {
      for (index::arena_ref& first : bins) {
        while (first != 0) {
          const index::arena_ref n = first;
          first = at(n).next;
          at(n).next = shared_->unused;
          shared_->unused = n;
        }
      }
    }
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    const std::scoped_lock lock(shared_->lock);
    for (const auto& bins : shared_->bins) {
      for (const index::arena_ref first : bins) {
        for (index::arena_ref n = first; n != 0; n = at(n).next) visit(at(n).what);
      }
    }
  }

 private:
  struct alignas(index::arena::unit_bytes) node {
    segment_tail what;
    index::arena_ref next = 0;
  };
  static_assert(sizeof(node) == index::arena::unit_bytes);

  static constexpr std::uint64_t space_min = 128;
  /// At most this many segments of a bin are looked at; their rooms may be too small.
  static constexpr unsigned looked_at_max = 16;

  [[nodiscard]] node& at(index::arena_ref ref) const noexcept { return *reinterpret_cast<node*>(memory_->at(ref)); }
  [[nodiscard]] index::arena_ref new_node();
  void add(index::arena_ref n, const segment_tail& what) noexcept;
  [[nodiscard]] index::arena_ref unlink(std::uint64_t bytes, std::uint16_t in) noexcept;

  index::arena* memory_;
  state* shared_;
};

}  // namespace icecore

// Writers: who fills which segment. Each write borrows a writer for its duration and fills that writer's segment front
// to back, so that no two threads ever touch the same free space.
//
//   writer_lease w(core.writers());
//   link fresh = w->allocate(layout);                 // zeroed memory, errc::no_space if there is none
//   ... fill, link, stamp ...
//   w->count(...);                                    // then the lease ends
//
// Threads: a writer belongs to the thread that leased it. Leasing is one uncontended atomic exchange on a cache line
//   that the thread had last time; only above `writers_max` threads at once does one wait.
// Invariants:
//   W1. A writer's sequence is odd exactly while it is leased.
//   W2. In a segment, stamps never decrease from front to back: one writer at a time fills it, one operation after the
//       other. So what a crash must drop is always a segment's end.
//   W3. While the gate is closed no operation runs and none begins; all counters are then exact.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/threads.hpp"
#include "history/record.hpp"
#include "icecore/options.hpp"
#include "pool/pool.hpp"

namespace icecore {

/// Sums over records. Certified ones are what a root vouches for.
struct record_totals {
  std::uint64_t records = 0;  ///< of any kind
  std::uint64_t digest = 0;   ///< sum of their record_digest()s
  std::uint64_t inserts = 0;
  std::uint64_t removes = 0;
  std::uint64_t keys = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t record_bytes = 0;  ///< with headers, without the padding between records

  void add(const record_totals& other) noexcept;
  /// Adds one record of this layout.
  void add(const record_layout& layout, bool removal, std::uint64_t record_digest) noexcept {
    ++records;
    digest += record_digest;
    record_bytes += layout.size();
    if (layout.kind == format::record_kind::batch || layout.kind == format::record_kind::tag) return;
    if (layout.kind == format::record_kind::entry) {
      ++keys;
      key_bytes += layout.key_size;
    }
    if (removal) {
      ++removes;
    } else {
      ++inserts;
      value_bytes += layout.value_size;
    }
  }
};

/// All segments that no writer is filling now; those with room left can be taken, best fit first.
class partial_segments {
 public:
  struct place {
    segment in;
    std::uint64_t position = 0;  ///< the first free byte
    [[nodiscard]] std::uint64_t room() const noexcept { return in.end() - position; }
  };

  /// Lays a segment aside; one with little room left is never taken again.
  void put(const place& rest);
  /// The segment with the smallest room of at least `bytes`; empty if there is none.
  [[nodiscard]] std::optional<place> take(std::uint64_t bytes);

  template <typename Visit>
  void for_each(Visit visit) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [room, p] : by_room_) visit(p);
    for (const auto& p : full_) visit(p);
  }

 private:
  static constexpr std::uint64_t room_min = 128;

  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, place> by_room_;
  std::vector<place> full_;
};

class alignas(128) writer {
 public:
  /// Zeroed memory for a record, at the place its layout wants. errc::no_space leaves everything as it was.
  [[nodiscard]] link allocate(const record_layout& layout) {
    std::uint64_t start = layout.place(place_.position);
    if (start + layout.size() > place_.in.end()) [[unlikely]] {
      change_segment(layout.size() + format::record_padding_max);
      start = layout.place(place_.position);
    }
    position_before_ = place_.position;
    place_.position = start + layout.size();
    // The records to come: asked for now, their lines are here when they are filled. A prefetch never faults.
    __builtin_prefetch(pool_->at(place_.position) + 4 * format::cache_line_size, 1);
    return make_link(0, start);
  }
  /// Gives the last allocation back: zeroes it. Under operation durability the zeros are durable when it returns: the
  /// next record may lie behind some of them and reach the medium before they do, and what then lay before it would be
  /// damage. In the other modes nothing counts that was not synced, and these bytes with it.
  void rewind(link last, const record_layout& layout) noexcept;
  /// Sees to it that records of `bytes` in all can be allocated without failing.
  void reserve(std::uint64_t bytes);

  /// The checksum seed of a record in this writer's segment.
  [[nodiscard]] std::uint32_t seed_of(link fresh) const noexcept {
    return pool_->codec().record_seed(place_.in.generation, link_offset(fresh));
  }
  /// Counts a record that is linked, stamped and sealed.
  void count(const record_layout& layout, bool removal, link at, std::uint32_t crc, version stamped) noexcept {
    totals_.add(layout, removal, record_digest(link_offset(at), crc, stamped));
    // release: pairs with none_since(), whose caller must find this write in the version it then reads
    last_version_.store(stamped, std::memory_order_release);
  }

 private:
  friend class writer_set;
  friend class writer_lease;

  void change_segment(std::uint64_t bytes);

  std::atomic<std::uint64_t> sequence_{0};
  /// The newest version this writer has written in; read by others.
  std::atomic<version> last_version_{0};
  pool* pool_ = nullptr;
  partial_segments* partials_ = nullptr;
  partial_segments::place place_{};
  std::uint64_t position_before_ = 0;  // of the last allocation, for rewind
  record_totals totals_;
};

/// All writers of a store, and the gate that stops them for a moment.
class writer_set {
 public:
  static constexpr unsigned writers_max = 128;

  explicit writer_set(pool& from);

  [[nodiscard]] partial_segments& partials() noexcept { return partials_; }

  /// Sum of what all writers have written since opening. Call under the gate (W3).
  [[nodiscard]] record_totals totals() const noexcept;
  /// Whether since opening no write has taken effect in a version >= `open` that the caller can know of: none has
  /// completed, and none is under way.
  [[nodiscard]] bool none_since(version open) const noexcept;

  /// Stops all writers between two operations, for as long as it lives (W3).
  class gate {
   public:
    explicit gate(writer_set& set);
    ~gate();
    gate(const gate&) = delete;
    gate& operator=(const gate&) = delete;

   private:
    writer_set* set_;
    std::unique_lock<std::mutex> only_one_;
  };

  /// Visits every segment of the store with the place that is filled so far. Call under the gate (W3).
  template <typename Visit>
  void for_each_place(Visit visit) const {
    partials_.for_each(visit);
    for (unsigned i = 0; i < writers_max; ++i) {
      if (writers_[i].place_.in.size != 0) visit(writers_[i].place_);
    }
  }

 private:
  friend class writer_lease;

  std::unique_ptr<writer[]> writers_;
  partial_segments partials_;
  alignas(64) std::atomic<bool> gate_closed_{false};
  std::mutex gate_mutex_;
};

/// A borrowed writer.
class writer_lease {
 public:
  /// `through_gate`: the caller itself holds the gate.
  explicit writer_lease(writer_set& set, bool through_gate = false) {
    // a thread's own writer first: its line is in this core's cache and no one else wants it
    const unsigned own = thread_number() % writer_set::writers_max;
    if (!try_lease(set, own, through_gate)) [[unlikely]]
      lease_any(set, own, through_gate);
  }
  ~writer_lease() {
    // release: the next holder, and the gate, see all this operation did (W1)
    writer_->sequence_.store(writer_->sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  writer_lease(const writer_lease&) = delete;
  writer_lease& operator=(const writer_lease&) = delete;

  [[nodiscard]] writer* operator->() const noexcept { return writer_; }
  [[nodiscard]] writer& operator*() const noexcept { return *writer_; }

 private:
  /// False if the writer is leased already, or the gate is closed.
  [[nodiscard]] bool try_lease(writer_set& set, unsigned number, bool through_gate) noexcept {
    writer& w = set.writers_[number];
    std::uint64_t sequence = w.sequence_.load(std::memory_order_relaxed);  // relaxed: the exchange decides
    if ((sequence & 1) != 0) return false;
    // seq_cst against the gate's store: either it sees this writer at work or we see it closed
    if (!w.sequence_.compare_exchange_strong(sequence, sequence + 1, std::memory_order_seq_cst,
                                             std::memory_order_relaxed)) {
      return false;
    }
    if (through_gate || !set.gate_closed_.load(std::memory_order_seq_cst)) {
      writer_ = &w;
      return true;
    }
    w.sequence_.store(sequence + 2, std::memory_order_release);  // nothing was done
    return false;
  }
  void lease_any(writer_set& set, unsigned own, bool through_gate) noexcept;

  writer* writer_ = nullptr;
};

}  // namespace icecore

// Writers: who fills which segment. Each write borrows a writer for its duration and fills that writer's segment front
// to back, so that no two threads ever touch the same free space.
//
//   writer_lease w(core.writers());
//   link fresh = w->allocate(layout);                 // zeroed memory, errc::no_space if there is none
//   ... fill, link, stamp ...
//   w->count(...);                                    // then the lease ends
//
// Writers lie in the store's arena, for all processes that share it.
//
// Threads: a writer belongs to the thread that leased it. Leasing is one uncontended atomic exchange on a cache line
//   that the thread had last time; only above `writers_max` threads at once does one wait.
// Invariants:
//   W1. A writer's sequence is odd exactly while it is leased, and says in the same word by which process: there is no
//       instant at which a kill leaves it unknown whose a lease was.
//   W2. In a segment, stamps never decrease from front to back: one writer at a time fills it, one operation after the
//       other. So what a crash must drop is always a segment's end.
//   W3. While the gate is closed no operation runs and none begins; all counters are then exact.
//   W4. Where the index lasts, a writer whose process was killed is finished by one survivor at a time, under a lock of
//       its own; the sequence becomes even when all else is done, so a survivor killed meanwhile leaves it to the next.
//       The holder never waits for a thread that wants this lock.
// Errors: where the index does not last, errc::poisoned for all once a process was killed amid a write.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "base/locks/process_lock.hpp"
#include "base/threads.hpp"
#include "history/history.hpp"
#include "history/record.hpp"
#include "icecore/options.hpp"
#include "index/arena.hpp"
#include "pool/pool_set.hpp"
#include "store/write/open_segments.hpp"
#include "store/write/record_totals.hpp"
#include "store/write/segment_source.hpp"

namespace icecore {

/// What there is of a writer: the same for all processes that share the store.
struct alignas(128) writer_slot {
  static constexpr unsigned process_shift = 48;
  static constexpr std::uint64_t count_mask = (std::uint64_t{1} << process_shift) - 1;

  std::atomic<std::uint64_t> sequence{0};  // below process_shift; above it the process that leased it last
  /// The newest version this writer has written in; read by others.
  std::atomic<version> last_version{0};
  open_segments::place place{};
  link position_before = 0;  // of the last allocation, for rewind
  record_totals totals;
  /// The last update, durable, whose entry is still to be told so (durable_heads::commit()).
  written_record pending{};

  [[nodiscard]] static bool leased(std::uint64_t sequence) noexcept { return (sequence & 1) != 0; }
  [[nodiscard]] static unsigned process(std::uint64_t sequence) noexcept {
    return static_cast<unsigned>(sequence >> process_shift);
  }
};

/// What becomes of the last operation of a writer whose process was killed.
class dead_writer_recovery {
 public:
  /// The slot is that of a writer at rest when it returns. May be called again if it did not return.
  virtual void roll_forward(unsigned writer, writer_slot& slot) = 0;
  /// What the writer made last is as if it never was, if it is a new entry and `never_shown` says so.
  virtual void roll_back(unsigned writer, const std::function<bool(std::string_view key, link entry)>& never_shown) = 0;

 protected:
  ~dead_writer_recovery() = default;
};

/// A leased writer.
class writer {
 public:
  /// Zeroed memory for a record, at the place its layout wants. errc::no_space leaves everything as it was.
  [[nodiscard, gnu::always_inline]] link allocate(const record_layout& layout) const {
    open_segments::place& place = slot_->place;
    link start = layout.place(place.position);
    if (start + layout.size() > place.in.end()) [[unlikely]] {
      change_segment(layout.size() + format::record_padding_max);
      start = layout.place(place.position);
    }
    assert(start % 8 == 0 && start >= place.position && start + layout.size() <= place.in.end());  // L2, W2
    slot_->position_before = place.position;
    place.position = start + layout.size();
    // The records to come: asked for now, their lines are here when they are filled. A prefetch never faults.
    __builtin_prefetch(pool_->at(place.position) + 4 * format::cache_line_size, 1);
    return start;
  }
  /// Gives the last allocation back: zeroes it. Under operation durability the zeros are durable when it returns: the
  /// next record may lie behind some of them and reach the medium before they do, and what then lay before it would be
  /// damage. In the other modes nothing counts that was not synced, and these bytes with it.
  void rewind(link last, const record_layout& layout) const noexcept;
  /// Sees to it that records of `bytes` in all can be allocated without failing.
  void reserve(std::uint64_t bytes) const;

  /// The checksum seed of a record in this writer's segment.
  [[nodiscard]] std::uint32_t seed_of(link fresh) const noexcept {
    return pool_->codec().record_seed(slot_->place.in.generation, fresh);
  }
  /// Counts a record that is linked, stamped and sealed.
  void count(const record_layout& layout, bool removal, link at, std::uint32_t crc, version stamped) const noexcept {
    slot_->totals.add(layout, removal, record_digest(at, crc, stamped));
    // relaxed: the end of the lease releases it, for none_since()
    slot_->last_version.store(stamped, std::memory_order_relaxed);
  }
  /// What this writer's last write left to its next one; no entry if nothing.
  [[nodiscard]] written_record& pending() const noexcept { return slot_->pending; }

 private:
  friend class writer_lease;

  void change_segment(std::uint64_t bytes) const;

  writer_slot* slot_ = nullptr;
  unsigned number_ = 0;
  pool_set* pool_ = nullptr;
  segment_source* segments_ = nullptr;
};

/// All writers of a store, and the gate that stops them for a moment.
class writer_set {
 public:
  static constexpr unsigned writers_max = format::writers_max;
  static constexpr unsigned first_process = 0;  ///< the one that opened the store

  /// What is in the arena.
  struct state {
    std::array<writer_slot, writers_max> slots;
    alignas(64) std::atomic<bool> gate_closed{false};
    process_lock gate;
    process_lock finishing;  ///< W4
    open_segments::state partials;
    std::atomic<unsigned> processes{0};  ///< that ever shared the store
  };

  /// `shared` lies in `memory`.
  writer_set(pool_set& from, index::arena& memory, state& shared);

  /// Segments that opening has found, for writers that take no others (use()).
  [[nodiscard]] scanned_segments& scanned() noexcept { return scanned_; }
  /// The number of this process among those that ever shared the store.
  [[nodiscard]] unsigned process() const noexcept { return process_; }
  /// Whether no other process that shares the store is there. Asked when it is closed: who attaches from now on finds
  /// it so.
  [[nodiscard]] bool is_alone() const noexcept;
  /// Takes them in the place of scanned(), and of poisoning the store after a kill. Before the first write.
  void use(segment_source& segments, dead_writer_recovery& finisher) noexcept {
    segments_ = &segments;
    recovery_ = &finisher;
  }
  /// Finishes all writers whose processes were killed (W4); errc::poisoned, for all, if there are any and no finisher
  /// is in use(). Cost: a look at each writer, a system call for each that is leased.
  void recover_dead_writers();
  /// Of all writers whose processes were killed. By who holds the lock of the leaf that `never_shown` asks about.
  void roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown);
  /// Gives a writer a segment to go on in. Before the first write.
  void set_place(unsigned number, const open_segments::place& place) noexcept { shared_->slots[number].place = place; }
  /// What each writer has, while the gate is closed.
  template <typename Visit>
  void for_each_writer(Visit visit) const {
    for (unsigned i = 0; i < writers_max; ++i) {
      const writer_slot& s = shared_->slots[i];
      // relaxed: the gate orders it
      if (s.place.in.size != 0) visit(i, s.place, s.totals, s.last_version.load(std::memory_order_relaxed));
    }
  }

  /// Settles what each writer's last write left to its next one. Call under the gate (W3).
  void commit_last(const durable_heads& heads) noexcept;
  /// Sum of what all writers have written since opening. Call under the gate (W3).
  [[nodiscard]] record_totals totals() const noexcept;
  /// Whether since opening no write has taken effect in a version >= `open` that the caller can know of: none has
  /// completed, and none is under way.
  [[nodiscard]] bool none_since(version open) const noexcept;

  /// Stops all writers between two operations, for as long as it lives (W3).
  /// errc::poisoned if another process was killed amid a write, and the index does not last.
  class gate {
   public:
    explicit gate(writer_set& set);
    ~gate();
    gate(const gate&) = delete;
    gate& operator=(const gate&) = delete;

   private:
    void wait_for(const writer_slot& slot);

    writer_set* set_;
    recovering_lock only_one_;
  };

  /// Every segment of the store with the place that is filled so far. Call under the gate (W3). O(segments).
  [[nodiscard]] std::vector<open_segments::place> places() const;

 private:
  friend class writer_lease;

  /// Nothing is known of a killed writer's last operation: nobody may go on.
  class poisoner final : public dead_writer_recovery {
   public:
    explicit poisoner(pool_set& in) noexcept : pool_(&in) {}
    void roll_forward(unsigned /*writer*/, writer_slot& /*slot*/) override { raise_owner_died(); }
    void roll_back(unsigned /*writer*/,
                   const std::function<bool(std::string_view key, link entry)>& /*never_shown*/) override {
      raise_owner_died();
    }

   private:
    [[noreturn]] void raise_owner_died() const;
    pool_set* pool_;
  };

  /// For who waits long for a writer that `process` has: whether it was killed. errc::poisoned, for all, if nothing can
  /// be done about it.
  void look_after(unsigned process);
  /// The gate of a process that was killed under it. errc::poisoned, for all, if the index does not last.
  void open_gate_of_dead();
  [[nodiscard]] bool is_of_dead(std::uint64_t sequence) const noexcept {
    return writer_slot::leased(sequence) && !memory_->is_held(writer_slot::process(sequence));
  }

  pool_set* pool_;
  state* shared_;
  scanned_segments scanned_;
  segment_source* segments_ = &scanned_;
  poisoner poisoner_;
  dead_writer_recovery* recovery_ = &poisoner_;
  index::arena* memory_;
  unsigned process_;  ///< the number of this process among those that ever shared the store
  unsigned first_;    ///< the slot of this process's first thread: two processes rarely want the same
};

/// A borrowed writer.
class writer_lease {
 public:
  /// `through_gate`: the caller itself holds the gate.
  explicit writer_lease(writer_set& set, bool through_gate = false) {
    // a thread's own writer first: its line is in this core's cache and no one else wants it
    const unsigned own = (set.first_ + thread_number()) % writer_set::writers_max;
    if (!try_lease(set, own, through_gate)) [[unlikely]]
      lease_any(set, own, through_gate);
  }
  ~writer_lease() {
    // release: the next holder, and the gate, see all this operation did (W1)
    auto& sequence = writer_.slot_->sequence;
    assert(writer_slot::leased(sequence.load(std::memory_order_relaxed)));  // W1; relaxed: this thread wrote it
    sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  writer_lease(const writer_lease&) = delete;
  writer_lease& operator=(const writer_lease&) = delete;

  [[nodiscard]] const writer* operator->() const noexcept { return &writer_; }
  [[nodiscard]] const writer& operator*() const noexcept { return writer_; }

 private:
  /// False if the writer is leased already, or the gate is closed.
  [[nodiscard]] bool try_lease(writer_set& set, unsigned number, bool through_gate) noexcept {
    writer_slot& slot = set.shared_->slots[number];
    std::uint64_t sequence = slot.sequence.load(std::memory_order_relaxed);  // relaxed: the exchange decides
    if (writer_slot::leased(sequence)) return false;
    const std::uint64_t mine = ((sequence + 1) & writer_slot::count_mask) | std::uint64_t{set.process_}
                                                                                << writer_slot::process_shift;
    // seq_cst against the gate's store: either it sees this writer at work or we see it closed
    if (!slot.sequence.compare_exchange_strong(sequence, mine, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      return false;
    }
    if (through_gate || !set.shared_->gate_closed.load(std::memory_order_seq_cst)) {
      writer_.slot_ = &slot;
      writer_.number_ = number;
      writer_.pool_ = set.pool_;
      writer_.segments_ = set.segments_;
      return true;
    }
    slot.sequence.store(mine + 1, std::memory_order_release);  // nothing was done
    return false;
  }
  void lease_any(writer_set& set, unsigned own, bool through_gate);

  writer writer_;
};

}  // namespace icecore

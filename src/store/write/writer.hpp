// Writers: which thread fills which segment. Each write leases a writer for its duration and fills that writer's
// segment front to back, so no two threads ever touch the same free space.
//
//   writer_lease w(core.writers());
//   link fresh = w->allocate(layout);                 // zeroed memory, errc::no_space if there is none
//   ... fill, link, stamp ...
//   w->count(...);                                    // then the lease ends
//
// Writers lie in the store's arena, and all processes that share the store use them.
//
// Threads: a writer belongs to the thread that leased it. A lease is one uncontended compare-and-swap on a cache line
//   that the thread had last time. A thread waits only if more than `writers_max` threads write at once.
// Invariants:
//   W1. A writer's sequence is odd exactly while it is leased, and the same word holds the process that leased it: so
//       after a kill at any instant it is known whose lease it was.
//   W2. In a segment, stamps never decrease from front to back: one writer at a time fills it, one operation after the
//       other. So what a crash must drop is always a segment's end.
//   W3. While the gate is closed no operation runs and none begins; all counters are then exact.
//   W4. With a persistent index, one survivor at a time recovers the dead writers, under a lock of its own. A writer's
//       sequence becomes even as the last step, so if the survivor is killed too, the next one starts again.
//       The holder never waits for a thread that wants this lock.
//   W5. The generation changes while the gate is shut and no writer is leased. So who has leased a writer, and looks at
//       the number behind that, has the current one until the lease ends, in whatever process.
//   W6. Segments and recoverers that are used (use()) serve writers of the generation that they were made for, and of
//       no other. In the next one the logs, lists and heads that they know belong to nobody: their space is given back.
//   W7. A writer's bit in ever_leased is set before its sequence first leaves 0, and stays. Whoever leases it later has
//       acquired the sequence that followed. So who knows of a write knows of the bit.
// Errors: without a persistent index, errc::poisoned for all processes once one was killed during a write.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>

#include "base/locks/process_lock.hpp"
#include "base/threads.hpp"
#include "history/history.hpp"
#include "history/record.hpp"
#include "history/value_parts.hpp"
#include "icecore/options.hpp"
#include "index/arena.hpp"
#include "pool/pool_set.hpp"
#include "store/feed/filled_ranges.hpp"
#include "store/write/open_segments.hpp"
#include "store/write/record_totals.hpp"
#include "store/write/segment_source.hpp"

namespace icecore {

/// A writer's state, common to all processes that share the store.
struct alignas(128) writer_slot {
  static constexpr unsigned process_shift = 48;
  static constexpr std::uint64_t count_mask = (std::uint64_t{1} << process_shift) - 1;

  std::atomic<std::uint64_t> sequence{0};  // below process_shift; the bits above hold the process that leased it last
  /// The newest version this writer has written in; read by others.
  std::atomic<version> last_version{0};
  /// Keys of batches but for one of each; written by the one that has leased it, read by others.
  std::atomic<std::uint64_t> batched_keys{0};
  segment_tail tail{};
  link position_before = 0;  // before the last allocation; for rewind
  record_totals totals;
  filling filled{};  // for feeds
  write_counts counts{};
  /// How many writes in a row met a key that had no entry, up to a limit.
  std::uint32_t new_keys_in_a_row = 0;
  /// The last update: it is durable, but its entry's committed head is not advanced yet (durable_heads::commit()).
  written_record pending{};

  [[nodiscard]] static bool leased(std::uint64_t sequence) noexcept { return (sequence & 1) != 0; }
  [[nodiscard]] static unsigned process(std::uint64_t sequence) noexcept {
    return static_cast<unsigned>(sequence >> process_shift);
  }
};

/// What to do with the last operation of a dead writer.
class dead_writer_recovery {
 public:
  /// When it returns, the slot is that of an idle writer. If it does not return, it may be called again.
  virtual void roll_forward(unsigned writer, writer_slot& slot) = 0;
  /// Undoes the writer's last operation if that made a new entry and `never_shown` says that no thread has seen it.
  virtual void roll_back(unsigned writer, const std::function<bool(std::string_view key, link entry)>& never_shown) = 0;

 protected:
  ~dead_writer_recovery() = default;
};

class writer_set;

/// A leased writer.
class writer {
 public:
  /// Zeroed memory for a record, at the position its layout wants. errc::no_space leaves everything as it was.
  [[nodiscard, gnu::always_inline]] link allocate(record_layout layout) const {
    segment_tail& tail = slot_->tail;
    link start = layout.place(tail.position);
    if (start + layout.size() > tail.in.end()) [[unlikely]] {
      change_segment(layout.size() + format::record_padding_max);
      start = layout.place(tail.position);
    }
    assert(start % 8 == 0 && start >= tail.position && start + layout.size() <= tail.in.end());  // L2, W2
    slot_->position_before = tail.position;
    tail.position = start + layout.size();
    // Prefetch for the coming records, so that their lines are here when they are filled. A prefetch never faults.
    __builtin_prefetch(pool_->at(tail.position) + 4 * format::cache_line_size, 1);
    return start;
  }
  /// Fills what allocate() has returned, as record::fill() does. errc::no_space or io, only for a very large value,
  /// gives the allocation back.
  [[gnu::always_inline]] void fill(link at, record_layout layout, link batch, std::string_view key,
                                   std::string_view value) const {
    record(pool_->at(at)).fill(layout, batch, key, value, [&](std::byte*) { return copy_large(at, layout, value); });
  }
  void fill(link at, record_layout layout, link batch, std::string_view key, const value_parts& value) const {
    record(pool_->at(at)).fill(layout, batch, key, {}, [&](std::byte*) { return copy_large(at, layout, value); });
  }
  /// Gives the last allocation back: zeroes it. Under operation durability the zeros are durable when it returns: the
  /// next record may lie behind some of them and reach the medium before they do, and the old bytes before it would
  /// then count as damage. In the other modes only what was synced counts, so these bytes do not.
  void rewind(link last, record_layout layout) const noexcept;
  /// Makes sure that records of `bytes` in total can be allocated without failing.
  void reserve(std::uint64_t bytes) const;

  /// The checksum seed of a record in this writer's segment.
  [[nodiscard, gnu::always_inline]] std::uint32_t seed_of(link fresh) const noexcept {
    return pool_->codec().record_seed(slot_->tail.in.generation, fresh);
  }
  /// Counts a record that is linked, stamped and sealed.
  [[gnu::always_inline]] void count(record_layout layout, bool removal, link at, std::uint32_t crc,
                                    version stamped) const noexcept {
    slot_->totals.add(layout, removal, record_digest(at, crc, stamped));
    // relaxed: the end of the lease releases it, for none_since()
    slot_->last_version.store(stamped, std::memory_order_relaxed);
  }
  /// Counts a write that has taken effect.
  [[gnu::always_inline]] void count_given(std::size_t key_size) const noexcept { slot_->counts.key_bytes += key_size; }
  /// Counts a batch's further keys.
  void count_batched(std::size_t further_keys) const noexcept {
    // relaxed: a count, which this thread alone writes
    std::atomic<std::uint64_t>& keys = slot_->batched_keys;
    keys.store(keys.load(std::memory_order_relaxed) + further_keys, std::memory_order_relaxed);
  }
  /// Counts a record that one of the same version has replaced.
  void count_superseded(record_layout layout) const noexcept {
    slot_->counts.superseded_bytes += superseded_bytes(layout);
  }
  /// The pending commit of this writer's last write; without an entry if there is none.
  [[nodiscard]] written_record& pending() const noexcept { return slot_->pending; }

  /// Whether this writer's last writes all met keys that had no entry, so that the next one probably does too.
  [[nodiscard, gnu::always_inline]] bool expects_new_keys() const noexcept {
    return slot_->new_keys_in_a_row == new_keys_expected_after;
  }
  [[gnu::always_inline]] void note_key(bool is_new) const noexcept {
    std::uint32_t& in_a_row = slot_->new_keys_in_a_row;
    if (!is_new) {
      in_a_row = 0;
    } else if (in_a_row != new_keys_expected_after) {
      ++in_a_row;
    }
  }

 private:
  friend class writer_lease;

  static constexpr std::uint32_t new_keys_expected_after = 8;

  writer(writer_slot& slot, unsigned number, pool_set& pool, writer_set& all, filled_ranges& left) noexcept
      : slot_(&slot), number_(number), pool_(&pool), all_(&all), left_(&left) {}

  void change_segment(std::uint64_t bytes) const;
  [[nodiscard]] std::uint32_t copy_large(link at, record_layout layout, std::string_view value) const;
  [[nodiscard]] std::uint32_t copy_large(link at, record_layout layout, const value_parts& value) const;

  writer_slot* slot_;
  unsigned number_;
  pool_set* pool_;
  writer_set* all_;
  filled_ranges* left_;
};

/// All writers of a store, and the gate that stops them for a moment.
class writer_set {
 public:
  static constexpr unsigned writers_max = format::writers_max;
  static constexpr unsigned first_process = 0;  ///< the one that opened the store

  /// Of state::gate_closed.
  static constexpr std::uint8_t is_shut = 1;  ///< the gate is: no lease begins
  static constexpr std::uint8_t is_slow = 2;  ///< leases begin as slow_down() says

  /// The part in the arena.
  struct state {
    std::array<writer_slot, writers_max> slots;
    alignas(64) std::atomic<std::uint8_t> gate_closed{0};  ///< 0: open; else bits of what a lease has to look at
    std::atomic<std::uint64_t> operations_max{0};          ///< while is_slow: operations() that may have begun
    std::atomic<std::uint64_t> naps{0};                    ///< of writers, while is_slow
    process_lock gate;
    process_lock recovering;  ///< held while dead writers are recovered (W4)
    /// Which young generation takes the writes; from 1. Changes under the gate while no writer is leased (W5). It has a
    /// line that seldom changes: processes that are attached look at it in each call.
    alignas(64) std::atomic<std::uint64_t> generation{1};
    std::array<std::atomic<std::uint64_t>, writers_max / 64> ever_leased{};  ///< a bit for each writer (W7)
    alignas(64) std::array<open_segments::state, 2> open_lists;              ///< of a generation's number % 2
    std::atomic<unsigned> processes{0};                                      ///< that ever shared the store
    filled_ranges filled;                                                    ///< for feeds
    /// What earlier young generations of this session had; under the gate.
    record_totals totals_before;
    write_counts counts_before;
    std::atomic<std::uint64_t> gates_shut{0};
  };

  /// `shared` lies in `memory`.
  writer_set(pool_set& from, index::arena& memory, state& shared);

  /// The segments that opening has found, for writers that use no other source (use()).
  [[nodiscard]] scanned_segments& scanned() noexcept { return scanned_of(generation()); }
  /// The number of the young generation that takes the writes, as of now; for who has leased a writer, until the lease
  /// ends (W5).
  [[nodiscard, gnu::always_inline]] std::uint64_t generation() const noexcept {
    // acquire: who sees the number sees what was prepared for it; seq_cst: who looks behind the clock (E3)
    return shared_->generation.load(std::memory_order_seq_cst);
  }
  /// The number of this process among those that ever shared the store.
  [[nodiscard]] unsigned process() const noexcept { return process_; }
  /// Whether no other process shares the store now. Call after marking the store closed, so that a process that
  /// attaches later finds it closed.
  [[nodiscard]] bool is_alone() const noexcept;
  /// Uses `segments` in place of scanned(), and `recovery` instead of poisoning the store after a kill, as long as the
  /// young generation of this number takes the writes. Call before the first write. The caller says the number, of the
  /// generation that both were made for: while a process attaches, the one that takes the writes may change (W6).
  void use(segment_source& segments, dead_writer_recovery& recovery, std::uint64_t in) noexcept {
    use(segments, in);
    recovery_ = &recovery;
  }
  void use(segment_source& segments, std::uint64_t in) noexcept {
    segments_ = &segments;
    used_in_ = in;
  }
  /// Called under the gate when its last holder was killed there, before anything else: completes what that one left.
  void when_gate_holder_died(std::function<void()> complete) { complete_ = std::move(complete); }
  /// For a thread that waits for who has shut the gate: opens it if that process was killed. errc::poisoned.
  void open_gate_of_dead();
  /// Recovers all dead writers (W4). errc::poisoned, for all processes, if there are any and use() was not called.
  /// Cost: a look at each writer, and a system call for each that is leased.
  void recover_dead_writers();
  /// Rolls back all dead writers. The caller holds the lock of the leaf that `never_shown` asks about.
  void roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown);
  /// Gives a writer a segment to continue. Call before the first write.
  void set_tail(unsigned number, const segment_tail& tail) noexcept {
    shared_->slots[number].tail = tail;
    shared_->slots[number].filled.begin(tail.position);
  }
  /// Visits each writer that has a segment. Call while the gate is closed.
  template <typename Visit>
  void for_each_writer(Visit visit) const {
    for (unsigned i = 0; i < writers_max; ++i) {
      const writer_slot& s = shared_->slots[i];
      // relaxed: the gate orders it
      if (s.tail.in.size != 0) visit(i, s.tail, s.totals, s.last_version.load(std::memory_order_relaxed));
    }
  }

  /// The generation that follows will begin with these segments. Nobody sees them yet. Call under the gate. Throws
  /// std::bad_alloc.
  void prepare_generation(std::span<const segment_tail> with);
  /// The prepared generation, of this number, takes the writes from now on, and nothing of the one before counts: each
  /// writer takes segments anew. What was written up to `newest` is not found by ranges any more. Call under the gate.
  /// If the process is killed amid it, it may be called again by another one.
  void begin_generation(std::uint64_t number, version newest) noexcept;

  /// How many leases have ended or are under way: none of them wrote more than one key, but for batches, which count
  /// their keys. From any thread, at any time; O(writers).
  [[nodiscard]] std::uint64_t operations() const noexcept;
  /// How often the gate was shut since the store was opened.
  [[nodiscard]] std::uint64_t gates_shut() const noexcept {
    return shared_->gates_shut.load(std::memory_order_relaxed);  // relaxed: a count
  }

  // ---- For who packs what writers write (packed/compacting/slow_writers.hpp) ----
  /// From now on a lease begins only while operations() is less than this; a thread that has none naps for up to 1 ms
  /// and looks again, without a lease. It naps naps_max times at most: so nobody waits for ever for who has stopped.
  void slow_down(std::uint64_t operations_max) noexcept;
  /// Leases begin at once again.
  void end_slow() noexcept;
  [[nodiscard]] bool are_slow() const noexcept {
    return (shared_->gate_closed.load(std::memory_order_relaxed) & is_slow) != 0;  // relaxed: a hint
  }
  static constexpr unsigned naps_max = 256;
  /// How often a writer has napped since the store was opened.
  [[nodiscard]] std::uint64_t naps() const noexcept {
    return shared_->naps.load(std::memory_order_relaxed);  // relaxed: a count
  }
  /// For who shuts the gate to write: waits as a lease would.
  void await_turn();

  // ---- For feeds: what was written, and is being written ----
  template <typename Visit>
  void for_each_slot(Visit visit) const {
    for (unsigned i = 0; i < writers_max; ++i) visit(i, shared_->slots[i]);
  }
  [[nodiscard]] const writer_slot& slot(unsigned number) const noexcept { return shared_->slots[number]; }
  [[nodiscard]] const filled_ranges& filled() const noexcept { return shared_->filled; }

  /// Advances the committed heads that the writers' last writes left pending. Call under the gate (W3).
  void commit_last(const durable_heads& heads) noexcept;
  /// Sum of what all writers have written since opening. Call under the gate (W3).
  [[nodiscard]] record_totals totals() const noexcept;
  /// The same counts for statistics(). Call under the gate (W3).
  [[nodiscard]] write_counts counts() const noexcept;
  /// What all writers have written and were given since the store was opened, in earlier young generations, too. Call
  /// under the gate (W3).
  struct traffic {
    std::uint64_t given_bytes;   ///< keys and values
    std::uint64_t record_bytes;  ///< as record_totals has them
  };
  [[nodiscard]] traffic since_opening() const noexcept;
  /// Whether no write since opening that the caller can know of has taken effect in a version >= `open`: none has
  /// completed, and none is under way.
  [[nodiscard]] bool none_since(version open) const noexcept;
  /// Call before the lease.
  void note_first_lease(unsigned number) noexcept {
    // relaxed: the exchange that leases the writer orders it (W7)
    shared_->ever_leased[number / 64].fetch_or(std::uint64_t{1} << (number % 64), std::memory_order_relaxed);
  }

  /// Stops all writers between two operations, for as long as it lives (W3).
  /// errc::poisoned if another process was killed during a write and the index is not persistent.
  class gate {
   public:
    explicit gate(writer_set& set);
    ~gate();
    gate(const gate&) = delete;
    gate& operator=(const gate&) = delete;

   private:
    friend class writer_set;
    void wait_for(const writer_slot& slot);
    static void open(state& of) noexcept;

    writer_set* set_;
    recovering_lock only_one_;
  };

  /// Every segment of the store that has records, with its fill end. Call under the gate (W3). O(segments).
  [[nodiscard]] std::vector<segment_tail> segment_tails() const;

 private:
  friend class writer_lease;

  /// Without a persistent index nothing is known of a dead writer's last operation, so all processes must stop.
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

  /// For a thread that waits long for a writer that `process` has leased: recovers the dead writers if the process was
  /// killed. errc::poisoned, for all processes, if that is impossible.
  void look_after(unsigned process);
  [[nodiscard]] bool is_of_dead(std::uint64_t sequence) const noexcept {
    return writer_slot::leased(sequence) && !memory_->is_held(writer_slot::process(sequence));
  }

  friend class writer;
  [[nodiscard]] scanned_segments& scanned_of(std::uint64_t generation) noexcept { return scanned_[generation % 2]; }
  /// Where writers get their segments from, and who recovers them, in the generation of now.
  [[nodiscard]] segment_source& source() noexcept {
    const std::uint64_t now = generation();
    return now == used_in_ ? *segments_ : scanned_of(now);
  }
  [[nodiscard]] const segment_source& source() const noexcept { return const_cast<writer_set*>(this)->source(); }
  [[nodiscard]] dead_writer_recovery& recovery() noexcept {
    if (generation() == used_in_ && recovery_ != nullptr) return *recovery_;
    return poisoner_;
  }

  pool_set* pool_;
  state* shared_;
  std::array<scanned_segments, 2> scanned_;
  poisoner poisoner_;
  std::uint64_t used_in_ = 0;  ///< the generation that has the next two; 0: none has
  segment_source* segments_ = nullptr;
  dead_writer_recovery* recovery_ = nullptr;
  std::function<void()> complete_;
  index::arena* memory_;
  unsigned process_;  ///< the number of this process among those that ever shared the store
  unsigned first_;    ///< the slot of this process's first thread: two processes rarely use the same one
};

/// A borrowed writer.
class writer_lease {
 public:
  /// `through_gate`: the caller itself holds the gate.
  [[gnu::always_inline]] explicit writer_lease(writer_set& set, bool through_gate = false)
      : writer_lease(set, lease(set, through_gate)) {}
  ~writer_lease() {
    // release: the next holder, and the gate, see everything that this operation did (W1)
    auto& sequence = writer_.slot_->sequence;
    writer_.slot_->filled.publish(writer_.slot_->tail.position);
    assert(writer_slot::leased(sequence.load(std::memory_order_relaxed)));  // W1; relaxed: this thread wrote it
    sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  writer_lease(const writer_lease&) = delete;
  writer_lease& operator=(const writer_lease&) = delete;

  [[nodiscard]] const writer* operator->() const noexcept { return &writer_; }
  [[nodiscard]] const writer& operator*() const noexcept { return writer_; }

 private:
  /// The writer of this number is leased.
  [[gnu::always_inline]] writer_lease(writer_set& set, unsigned number) noexcept
      : writer_(set.shared_->slots[number], number, *set.pool_, set, set.shared_->filled) {}

  /// Returns the number of the writer that it has leased.
  [[nodiscard, gnu::always_inline]] static unsigned lease(writer_set& set, bool through_gate) {
    // try the thread's own writer first: its line is in this core's cache and no other thread uses it
    const unsigned own = (set.first_ + thread_number()) % writer_set::writers_max;
    if (try_lease(set, own, through_gate ? anything : std::uint8_t{0})) [[likely]]
      return own;
    return lease_any(set, own, through_gate);
  }
  static constexpr std::uint8_t anything = 0xff;
  /// False if the writer is leased already, or the gate has a bit that is not in `passes`.
  [[nodiscard, gnu::always_inline]] static bool try_lease(writer_set& set, unsigned number,
                                                          std::uint8_t passes) noexcept {
    writer_slot& slot = set.shared_->slots[number];
    std::uint64_t sequence = slot.sequence.load(std::memory_order_relaxed);  // relaxed: the exchange decides
    if (writer_slot::leased(sequence)) return false;
    if (sequence == 0) [[unlikely]]
      set.note_first_lease(number);
    const std::uint64_t mine = ((sequence + 1) & writer_slot::count_mask) | std::uint64_t{set.process_}
                                                                                << writer_slot::process_shift;
    // seq_cst against the gate's store: either the gate sees this writer leased or we see the gate closed
    if (!slot.sequence.compare_exchange_strong(sequence, mine, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      return false;
    }
    if ((set.shared_->gate_closed.load(std::memory_order_seq_cst) & ~passes) == 0) return true;
    // Nothing was done, and operations() does not count it. release: who leases it next has what this thread acquired.
    slot.sequence.store(sequence, std::memory_order_release);
    return false;
  }
  [[nodiscard]] static unsigned lease_any(writer_set& set, unsigned own, bool through_gate);
  /// Looks whether the gate lets a lease begin.
  [[nodiscard]] static bool may_begin(writer_set& set, unsigned& naps) noexcept;
  friend class writer_set;

  writer writer_;
};

}  // namespace icecore

// An open store: what all of its engines have in common, and which of them is the current one.
//
//   opened_store& store = ...;
//   const held_engine now = store.hold();              // the current engine, with a pin: for reading
//   with_writer(store, [&](auto& engine, const writer& w) { return engine.put(w, key, value); });      // engine.hpp
//
// An engine (engine.hpp) reads and writes one stack: a young generation over strata. Opening makes the first one. A
// compaction of the open store makes another one, whose young generation is empty, and replaces the current one by it
// (packed/live_compaction.cpp). Who holds a pin on the engine of before goes on reading there; nobody writes there.
//
// Threads: any, but for begin(), end() and the destructor, which run alone, and replace(), of which one runs at a time.
// Invariants:
//   E1. The current engine changes only while the gate is shut and no writer is leased. So who has leased a writer, and
//       asks for the engine behind that, has the current one until the lease ends.
//   E2. An engine lives as long as a pin that was taken on it. A pin is taken on the engine that is current when it is
//       counted (current_pins.hpp); so who takes the pin first and asks it for the engine never meets one that is gone.
//   E3. A reader's version is closed before the reader takes its pin. So all records of that version lie in the stack
//   of
//       the engine that it holds: what is written later, in another stack, belongs to later versions.
//   E4. Tags, the clock, writers, syncs and certificates belong to the store and not to an engine: any engine that a
//       pin holds may be asked for them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/locks/group_commit.hpp"
#include "base/threads.hpp"
#include "history/clock.hpp"
#include "history/durable_point.hpp"
#include "icecore/compaction.hpp"
#include "icecore/pin.hpp"
#include "icecore/version_ranges.hpp"
#include "index/arena.hpp"
#include "pool/pool_set.hpp"
#include "store/beside/settled_point.hpp"
#include "store/companion.hpp"
#include "store/packed/compacting/automatic.hpp"
#include "store/packed/current_pins.hpp"
#include "store/read/checked_values.hpp"
#include "store/shared_state.hpp"
#include "store/write/tags.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

class pace;
class store_core;

/// The engine that was current when it was made, as long as this lives.
class held_engine {
 public:
  held_engine(pin holds, store_core& of) noexcept : holds_(std::move(holds)), of_(&of) {}
  [[nodiscard]] store_core* operator->() const noexcept { return of_; }
  [[nodiscard]] store_core& operator*() const noexcept { return *of_; }
  [[nodiscard]] const pin& holds() const& noexcept { return holds_; }
  [[nodiscard]] pin holds() && noexcept { return std::move(holds_); }

 private:
  pin holds_;
  store_core* of_;
};

class [[gnu::visibility("hidden")]] opened_store {
 public:
  opened_store() = default;
  ~opened_store();
  opened_store(const opened_store&) = delete;
  opened_store& operator=(const opened_store&) = delete;

  /// Opening is complete: the first engine.
  void begin(std::unique_ptr<store_core> first);
  /// store::compact()
  [[nodiscard]] compaction_report compact(const compaction_options& how);
  /// The same at this pace.
  [[nodiscard]] compaction_report compact(const compaction_options& how, pace& slow);
  /// Ends the session: store_core::close(). Nothing else runs.
  void close();
  /// A pin on the current engine.
  [[nodiscard, gnu::always_inline]] pin take_pin() const noexcept { return pins.take(); }
  [[nodiscard, gnu::always_inline]] held_engine hold() const;
  /// The current engine: for who has leased a writer (E1), or knows that nothing replaces it.
  [[nodiscard]] store_core& current() const noexcept {
    return *current_.load(std::memory_order_acquire);  // acquire: the engine is complete
  }
  /// store_core::check_usable(), before a lock is taken that a forked child would wait for.
  void check_usable() const;
  [[nodiscard]] bool reads_only() const noexcept { return reads_only_; }
  /// What a write checks before it leases a writer: errc::read_only, errc::forked. With the writer,
  /// store_core::check_still_usable() follows.
  [[gnu::always_inline]] void check_may_lease() const {
    if (reads_only_ || made_in_ != fork_generation()) [[unlikely]]
      refuse_lease();
  }
  /// Makes `next` the current engine. The gate is shut.
  void replace(std::unique_ptr<store_core> next);
  /// Ends the engines of before on which no pin is left. Returns whether there is none of them any more.
  bool drop_replaced();

  // ---- What the engines share. Opening sets it, and then it stays, but for what the pointers lead to. ----
  std::unique_ptr<pool_set> pool;
  std::shared_ptr<index::arena> memory;  ///< holds what processes share
  shared_state* shared = nullptr;        ///< in `memory`
  std::unique_ptr<version_clock> clock;
  std::unique_ptr<writer_set> writers;
  std::unique_ptr<checked_values> checked;
  std::unique_ptr<tag_index> tags;
  /// What each engine is made with: as in the options of the opening.
  struct {
    std::uint64_t lookup_cache_bytes = 0;
    std::uint64_t block_cache_bytes = 0;
    bool huge_pages = true;
    bool grow_in_background = false;
  } as_asked;
  std::unique_ptr<durable_point> synced;   ///< null unless durability is deferred
  std::unique_ptr<settled_point> settled;  ///< null unless readers beside this process learn what is settled
  version_ranges lost;                     ///< changes only while no other thread uses the store
  group_commit deferred_syncs;
  std::mutex tag_mutex;  ///< held by each tag that writes a record or syncs, and by who takes in what others wrote
  /// Held by who compares an engine with what writers have written: alone by who replaces the engine.
  mutable std::shared_mutex replacing;
  std::mutex compacting;  ///< by who replaces the engine, or its manifest, from the decision to the end
  /// What a compaction has replaced, and views of this process, or readers beside it, may still look at; under
  /// `compacting`. The next compaction, or the next opening, gives it back.
  std::vector<segment> replaced_space;
  std::atomic<std::uint32_t> extents_made{0};  ///< by compactions of this session: each has a seed of its own
  std::mutex companion_mutex;
  std::unique_ptr<store_companion> companion;
  std::unique_ptr<automatic_compaction> automatic;  ///< null unless options::compaction says so
  mutable current_pins pins;  ///< its tables live as long as their pins, which may be longer than the store

 private:
  [[noreturn]] void refuse_lease() const;

  std::atomic<store_core*> current_{nullptr};
  bool reads_only_ = false;
  std::uint64_t made_in_ = fork_generation();
  std::mutex engines_mutex_;  // of what follows
  struct numbered {
    std::uint64_t until;  // the table of pins behind which nobody takes one on it
    std::unique_ptr<store_core> engine;
  };
  std::vector<numbered> replaced_;
  std::unique_ptr<store_core> last_;  // the current one
};

}  // namespace icecore::detail

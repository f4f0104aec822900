// An open store: what all of its engines have in common, and which of them is the current one.
//
//   opened_store& store = ...;
//   const held_engine now = store.hold();              // the current engine, with a pin: for reading
//   with_writer(store, [&](auto& engine, const writer& w) { return engine.put(w, key, hash, value); });  // engine.hpp
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
//       of the engine that it holds: what is written later, in another stack, belongs to later versions. Who knows the
//       version only by its number looks at the engine behind the clock: hold_for().
//       In a process that is attached, another process replaces the engine, and this one follows: a call takes the pin,
//       or leases a writer, and then looks whether the engine's generation is the current one (store/sharing/). So E1
//       to E3 hold there, too. Beside the writer refresh() replaces the engine, and moves the clock behind that: who
//       sees the clock sees the engine that has its versions.
//   E4. Tags, the clock, writers, syncs and certificates belong to the store and not to an engine: any engine that a
//       pin holds may be asked for them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/background/ticker.hpp"
#include "base/locks/group_commit.hpp"
#include "base/locks/lock_descriptor.hpp"
#include "base/threads.hpp"
#include "history/clock.hpp"
#include "history/durable_point.hpp"
#include "icecore/compaction.hpp"
#include "icecore/pin.hpp"
#include "icecore/store.hpp"
#include "icecore/version_ranges.hpp"
#include "index/arena.hpp"
#include "index/lookup_place.hpp"
#include "pool/pool_set.hpp"
#include "store/beside/settled_point.hpp"
#include "store/companion.hpp"
#include "store/packed/compacting/automatic.hpp"
#include "store/packed/current_pins.hpp"
#include "store/read/checked_values.hpp"
#include "store/shared_state.hpp"
#include "store/sharing/query_users.hpp"
#include "store/write/tags.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

class compaction_answerer;
class compaction_asker;
class forgetting;
class pace;
class store_core;

/// Why a compaction of an open store begins.
enum class compacts : std::uint8_t { by_call, by_itself };

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
  opened_store();
  ~opened_store();
  opened_store(const opened_store&) = delete;
  opened_store& operator=(const opened_store&) = delete;

  /// Opening is complete: the first engine.
  void begin(std::unique_ptr<store_core> first);
  /// store::compact(): here, or in the process that opened the store.
  [[nodiscard]] compaction_report compact(const compaction_options& how);
  /// The same at this pace, in the process that opened the store.
  [[nodiscard]] compaction_report compact(const compaction_options& how, pace& slow, compacts why);
  /// store_core::tag() of the engine that is current then.
  version tag(const tag_options& label);
  /// Ends the session: store_core::close(). Nothing else runs.
  void close();
  /// A pin on the current engine.
  [[nodiscard, gnu::always_inline]] pin take_pin() const;
  [[nodiscard, gnu::always_inline]] held_engine hold() const;
  /// An engine that has all of the versions that `check` closes or finds closed in an engine. `check` is called until
  /// that engine was not replaced meanwhile; it throws if a version cannot be read (E3).
  template <class Check>
  [[nodiscard, gnu::always_inline]] held_engine hold_for(const Check& check) const;
  /// The current engine: for who has leased a writer (E1) and found that it is not behind, or knows that nothing
  /// replaces it.
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
  /// For who has leased a writer: whether this process has to follow() before it writes, without the writer.
  [[nodiscard, gnu::always_inline]] bool is_behind() const noexcept {
    // acquire: the engine of that number is current()
    return follows_ && followed_.load(std::memory_order_acquire) != writers->generation();
  }
  /// Makes the engine of the generation that takes the writes the current one.
  void follow();
  /// store::refresh()
  version refresh();
  /// In a process that is attached, whose first engine is of this generation.
  void begin_following(std::uint64_t number);
  /// For the next holder of the gate whose last one was killed.
  void complete_change_of_dead();
  /// What of statistics() is not an engine's: pins, and what was written since the store was opened.
  void add_to(statistics& s);
  /// An engine that is to become the current one, with all that this takes.
  struct replacement {
    std::unique_ptr<store_core> engine;
    current_pins::next_table pins;
  };
  [[nodiscard]] replacement prepare_replacing(std::unique_ptr<store_core> next);
  /// Makes it the current engine. The gate is shut, or this process follows another one.
  void replace(replacement by) noexcept;
  /// Ends the engines of before on which no pin is left. Returns whether there is none of them any more.
  bool drop_replaced();
  /// At the engines before the current one, in whatever process that shares the store.
  [[nodiscard]] bool nobody_looks();
  /// Gives back what compactions have replaced, and forgets what they were to forget, if nobody looks at it any more.
  /// Returns whether nothing is left to give back. Under `compacting`. errc::io
  bool give_back_replaced();

  // ---- What the engines share. Opening sets it, and then it stays, but for what the pointers lead to. ----
  std::unique_ptr<pool_set> pool;
  std::shared_ptr<index::arena> memory;          ///< holds what processes share
  shared_state* shared = nullptr;                ///< in `memory`
  std::atomic<std::uint64_t> observed_clock{0};  ///< beside the writer: the clock's word
  std::unique_ptr<version_clock> clock;
  std::unique_ptr<writer_set> writers;
  std::unique_ptr<checked_values> checked;
  std::unique_ptr<tag_index> tags;
  index::lookup_place lookups;  ///< of the current engine, mostly: for who has no pin and no writer yet
  /// What each engine is made with: as in the options of the opening.
  struct {
    std::uint64_t lookup_cache_bytes = 0;
    std::uint64_t block_cache_bytes = 0;
    bool huge_pages = true;
    bool grow_in_background = false;
    unsigned recovery_threads = 0;
  } as_asked;
  std::unique_ptr<durable_point> synced;   ///< null unless durability is deferred
  std::unique_ptr<settled_point> settled;  ///< null unless readers beside this process learn what is settled
  version_ranges lost;                     ///< changes only while no other thread uses the store
  group_commit deferred_syncs;
  std::mutex told_tags_mutex;  ///< held by who appends to the tags that processes tell each other
  /// For generation_view, in a process that is attached: the shared file's, opened once more.
  std::shared_ptr<const lock_descriptor> view_locks;
  std::mutex tag_mutex;  ///< held by each tag that writes a record or syncs, and by who takes in what others wrote
  /// Held by who compares an engine with what writers have written: alone by who replaces the engine.
  mutable std::shared_mutex replacing;
  std::mutex compacting;  ///< by who replaces the engine, or its manifest, or asks for it, from the decision to the end
  /// What a compaction has replaced, and views of this process, or readers beside it, may still look at; under
  /// `compacting`. Automatic compaction, the next compaction or the next opening gives it back.
  std::vector<segment> replaced_space;
  /// The arenas in the shared file that hold indexes of generations before the current one; under `compacting`.
  std::vector<std::uint32_t> replaced_arenas;
  /// What the last compaction was to forget, until it is done; under `compacting`.
  std::unique_ptr<forgetting> forgets;
  std::atomic<std::uint64_t> replaced_bytes{0};  ///< in it, or in what an opening could not give back
  std::atomic<std::uint64_t> packing_bytes{0};   ///< extents, tags and manifests that compactions of this session wrote
  std::atomic<std::uint32_t> extents_made{0};    ///< by compactions of this session: each has a seed of its own
  /// Records of the last compaction of this session; under `compacting`.
  struct {
    std::uint64_t young = 0;       ///< when it began
    std::uint64_t merged = 0;      ///< in step 2, with those of strata
    std::uint64_t written = 0;     ///< while it ran
    std::uint64_t last_round = 0;  ///< of these, packed while writers were stopped
    std::uint64_t rounds = 0;      ///< of step 3
  } last_compaction;
  runs_here runs;  ///< of kept queries
  std::mutex companion_mutex;
  std::unique_ptr<store_companion> companion;
  std::unique_ptr<automatic_compaction> automatic;  ///< null unless options::compaction says so
  std::unique_ptr<compaction_answerer> answers;     ///< null unless this process shares the store
  std::unique_ptr<compaction_asker> asks;           ///< null unless this process is attached
  mutable current_pins pins;  ///< its tables live as long as their pins, which may be longer than the store

 private:
  [[noreturn]] void refuse_lease() const;
  void follow_in_background();
  void drop_replaced_in_time() noexcept;
  void end_threads();
  [[nodiscard, gnu::always_inline]] bool is_behind(const store_core& engine) const noexcept;

  std::atomic<store_core*> current_{nullptr};
  bool reads_only_ = false;
  bool follows_ = false;                    // this process is attached
  std::atomic<std::uint64_t> followed_{0};  // the generation of current_, or of one before it
  std::mutex following_;                    // held by who follows, or refreshes
  std::uint64_t made_in_ = fork_generation();
  std::mutex engines_mutex_;  // of what follows
  struct numbered {
    std::uint64_t until;  // the table of pins behind which nobody takes one on it
    std::unique_ptr<store_core> engine;
  };
  std::vector<numbered> replaced_;
  std::unique_ptr<store_core> last_;                     // the current one
  std::optional<ticking_task> following_in_background_;  // or drops what it has followed from
};

/// Of who certifies what was written, or takes in what others wrote: one at a time, in all processes that share the
/// store. A process that is killed while it has its turn leaves nothing half done: a root counts as a whole.
class certifying_turn {
 public:
  explicit certifying_turn(opened_store& store)
      : here_(store.tag_mutex), among_processes_(store.shared->tagging, [] {}) {}

 private:
  std::scoped_lock<std::mutex> here_;
  recovering_lock among_processes_;
};

/// Thrown under the gate by who finds that its engine is not the current one.
struct engine_is_behind {};

}  // namespace icecore::detail

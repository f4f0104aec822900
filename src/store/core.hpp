// The part of the store behind the public classes that does not depend on the kind of heads: versions, tags, syncs,
// closing, and statistics. engine.hpp has the rest: reading and writing keys.
//
// The main path:  insert: store.cpp -> engine.cpp (put) -> index/ -> history/history.cpp -> pool/file/persist.cpp
//                 find:   store.cpp -> engine.hpp (visible_at) -> index/ -> history/history.hpp
//                 open:   store.cpp -> opening.cpp -> recovery.cpp -> index/ (build), or instant_recovery.cpp
//
// Threads: any thread may call any function, except construction, close() and destruction, which run alone.
// Invariants: those of pool (P), history (H), clock (C), writers (W), and
//   S1. An entry is in the index before its first record is stamped, or finds of its key wait until it is (H3);
//       it never leaves the index.
//   S2. A tag's record is stamped with the version it tags, and is written before that tag is acknowledged.
//   S3. The certificate in the root (durable_version, certified_records, certified_sum) counts exactly the records that
//       lie before their segment's fill end or are stamped <= durable_version; all of them were durable before it was
//       written, or are by the same sync (a joint certificate, P2).
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/threads.hpp"
#include "history/clock.hpp"
#include "history/heads/history_base.hpp"
#include "icecore/forgetting.hpp"
#include "icecore/store.hpp"
#include "icecore/version_ranges.hpp"
#include "index/index.hpp"
#include "index/list/key_hash.hpp"
#include "index/lookup_cache.hpp"
#include "pool/pool_set.hpp"
#include "store/check/salvage.hpp"
#include "store/opened.hpp"
#include "store/packed/open_strata.hpp"
#include "store/packed/ordered.hpp"
#include "store/read/entry_keys.hpp"
#include "store/write/tag_catalog.hpp"

namespace icecore::detail {

struct checkpoint_cut;
class record_scan;

/// What opening makes from a store's files, for each kind of heads. The pointers that do not own lead into `opened`.
struct store_parts {
  std::unique_ptr<opened_store> opened;  ///< until it has its first engine
  opened_store* store = nullptr;
  pool_set* pool = nullptr;
  std::shared_ptr<index::arena> memory;        ///< holds what processes share
  std::shared_ptr<index::arena> index_memory;  ///< holds an index in memory
  shared_state* shared = nullptr;              ///< in `memory`
  version_clock* clock = nullptr;
  writer_set* writers = nullptr;
  checked_values* checked = nullptr;
  tag_index* tags = nullptr;
  durable_point* synced = nullptr;               ///< of a deferred store, else null; complete when the store is
  std::unique_ptr<index::lookup_cache> lookups;  ///< in front of the index
  index_kind kind{};                             ///< the index it is opened with
  index::hash_seed hash_seed{};                  ///< zero if the store never had the index `hash`
  version_ranges lost;
  double recovery_seconds = 0;
  bool recovered_from_crash = false;
  bool recovered_instantly = false;
  std::vector<finding> findings;           ///< damage that was accepted
  std::shared_ptr<std::byte[]> stand_ins;  ///< stand for lost records: histories link into them
  bool accepts_damage = false;
  bool attached = false;              ///< another process has opened the store and shares it
  std::filesystem::path shared_as;    ///< where this process shares it; empty if it does not
  std::uint64_t generation = 1;       ///< the young generation's number
  std::shared_ptr<const void> views;  ///< keeps it from another process, if that one gives space back
  bool beside_writer = false;         ///< another process writes the store, and waits for nothing of this one
  manifest packing;                   ///< which extents are part of the store
  std::unique_ptr<const stratum::strata> packed;  ///< these; null if there are none

  [[nodiscard]] bool read_only() const noexcept { return !pool->shared(); }
  [[nodiscard]] address_space space() const { return address_space(pool->bases()); }
};

/// Who finds the newest record of an entry (history/heads/).
enum class heads_kind : std::uint8_t {
  rebuilt,
  durable,
  observed,
  layered_rebuilt,  ///< these three: in a store that was packed
  layered_durable,
  layered_observed
};

class [[gnu::visibility("hidden")]] store_core {
 public:
  virtual ~store_core();
  store_core(const store_core&) = delete;
  store_core& operator=(const store_core&) = delete;

  /// Makes everything durable, certifies it and marks the store clean. Nothing else may run.
  void close();
  /// The same, if it is not closed yet. An error only leaves the store as a crash would: call close() to learn of it.
  void close_in_destructor() noexcept;
  /// Closes a store whose root has led to a new manifest since it was opened (packed/compaction.cpp): of what this
  /// object knows nothing counts. `left` is what the segments of the new era hold, durably.
  void close_replaced(const record_totals& left);
  /// Lets other processes attach. Call when the store is complete.
  void share(const std::filesystem::path& as);
  /// From now on tags are told to the processes that share the store, and taken from them.
  void share_tags();

  // ---- Versions and tags ----
  /// A tag without name, note and time.
  version tag() {
    check_writable();
    return pool_->durability().mode == durability::tag ? tag_durably(nullptr, 0, nullptr) : close_open();
  }
  version tag(const tag_options& label);
  void sync();
  /// Closes all versions below `open` in one step. No other thread may write meanwhile.
  void skip_to(version open) {
    check_writable();
    if (clock_->now() >= open) return;
    clock_->advance_to(open);
    shared_->closed_versions.ring();
  }
  /// Of the current engine, which the caller holds: takes in what was settled since, if another process writes the
  /// store, or makes an engine that has it the current one. Returns the newest version that is shown. One at a time
  /// (opened_store::refresh()).
  virtual version refresh() { return newest_readable(); }
  /// Notes durably that the state of these closed versions is unknown. No other thread or process may use the store.
  void lose(const version_ranges& versions);
  /// Closes the open version if anything was written in it. Returns the newest closed version.
  version close_version();
  /// What close_version() would return, if nobody writes before.
  [[nodiscard]] version version_to_close() const;
  /// The same; no write can be stamped with that version any more.
  version settle_version();
  /// The same for who has shut the gate.
  version settle_version(const writer_set::gate& shut);
  /// For an engine that is to follow this one: what they have in common.
  [[nodiscard]] store_parts parts_of_next() const;

  /// The store's present state, for writing it to a file of its own (copy/checkpoint.cpp).
  [[nodiscard]] std::shared_ptr<const checkpoint_cut> cut();

  /// Throws unless version `v` is immutable here and known: it must be closed, or be the open version of a store opened
  /// for reading, no power cut may have taken it, and it must not have expired.
  void check_readable(version v) const {
    check_usable();
    const version open = clock_->now();
    const bool is_closed = v < open || (read_only_ && v <= newest_readable());
    if (is_closed && v >= all_known_from_) [[likely]]
      return;
    is_closed ? check_known(v) : raise_not_closed(v);
  }
  /// The same for both ends, and throws if a version between them has expired: what was written there is not known.
  void check_all_readable(version from, version to) const {
    check_readable(from);
    check_readable(to);
    check_none_expired(from, to);
  }
  /// errc::version_expired if one of these versions has.
  void check_none_expired(version from, version to) const {
    if (from < all_known_from_) [[unlikely]]
      refuse_expired(from, to);
  }
  /// Versions that compactions gave up: ascending, with gaps between them.
  [[nodiscard]] std::span<const version_range> expired() const noexcept { return packing_.expired; }
  /// Notes durably that these closed versions have expired. No other thread or process may use the store.
  void expire(std::span<const version_range> versions);
  /// packed/retention/forgetting.cpp
  [[nodiscard]] forget_report forget(const forget_request& what);
  [[nodiscard]] retention kept() const {
    check_usable();
    return retention_of(*pool_);
  }
  /// Durable when it returns.
  void set_retention(const retention& which);
  /// Closed versions whose state power cuts took. Changes only while no other thread uses the store.
  [[nodiscard]] const version_ranges& lost() const noexcept { return opened_->lost; }

  // ---- Reading ----
  /// The key's entry; null_link if it never had one.
  [[nodiscard, gnu::always_inline]] link entry_of(std::string_view key) const {
    return entry_of(key, index::lookup_cache::hash_of(key));
  }
  /// `hash` is the key's, for the lookup cache.
  [[nodiscard, gnu::always_inline]] link entry_of(std::string_view key, std::uint64_t hash) const {
    if (const link known = known_entry_of(key, hash); known != null_link) return known;
    const link found = index_->find(key);
    if (found != null_link) lookups_->put(hash, found);
    return found;
  }
  /// The entries of up to `find_group` keys; null_link for a key that never had one. Their waits for memory overlap:
  /// for the lines of the lookup cache, for the entries, and in the index for the keys that the cache does not know.
  static constexpr std::size_t find_group = 64;
  void find_entries(std::span<const std::string_view> keys, std::span<link> out) const;
  /// Whether the young generation has a key. If it has none, its records show nothing in any version that is closed by
  /// now. It is asked as a walk asks it: the index counts a key only after a record of such a version may have been
  /// stamped (S1, H3).
  [[nodiscard]] bool has_young_keys() const {
    index::block young;
    index_->seek_first(young);
    return young.size > 0;
  }
  /// The value of a visible record. Checks a large value that has not been checked yet: errc::damaged names it.
  [[nodiscard, gnu::always_inline]] std::string_view value_of(link l) const {
    const record r = records_->at(l);
    if (r.value_unverified()) checked_->require_intact(*pool_, *records_, l);
    return r.value();
  }

  // ---- The parts ----
  /// What views of keys and values lead into.
  [[nodiscard]] pin_table::memory memory_of_views() const;
  /// The number of its young generation.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  /// Under the gate: throws engine_is_behind if another process has replaced this engine.
  void require_current() const {
    if (attached_ && generation_ != writers_->generation()) throw engine_is_behind();
  }
  /// Which engine this is. Only with_engine() and with_writer() call it.
  [[nodiscard]] heads_kind heads() const noexcept { return heads_; }
  [[nodiscard]] const history_base& records() const noexcept { return *records_; }
  /// Of the keys of the young generation.
  [[nodiscard]] index::ordered_index& index() const noexcept { return *index_; }
  /// What is packed; null if nothing is.
  [[nodiscard]] const stratum::strata* packed() const noexcept { return packed_.get(); }
  [[nodiscard]] const manifest& packing() const noexcept { return packing_; }
  /// All keys in order, if the index orders keys: packed ones, too.
  [[nodiscard]] const index::ordered_links& ordered() const noexcept {
    return packed_links_ ? static_cast<const index::ordered_links&>(*packed_links_) : *index_;
  }
  /// No fewer keys than there are: one that is packed and was written since counts twice.
  [[nodiscard]] std::uint64_t keys_at_most() const noexcept {
    return index_->size() + (packed_ != nullptr ? packed_->keys() : 0);
  }
  [[nodiscard]] const version_clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] const tag_index& tags() const {
    catalog_->load(*tags_);
    return *tags_;
  }
  [[nodiscard]] opened_store& opened() const noexcept { return *opened_; }
  /// A pin on the store's current engine, without a call. Whoever reads what is packed holds one, even if no view is
  /// left afterwards. It is for who knows that this engine is the current one; others: opened_store::hold().
  [[nodiscard, gnu::always_inline]] pin take_pin() const noexcept { return opened_->pins.take(); }
  [[nodiscard]] pool_set& the_pool() const noexcept { return *pool_; }
  /// As options::grow_in_background says. Before any other thread uses the store.
  void grow_in_background();
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  /// Whether the store is open for reading while another process may write it.
  [[nodiscard]] bool beside_writer() const noexcept { return beside_writer_; }
  /// Whether the open version is final, too: this process reads, and has locked out all that would write.
  [[nodiscard]] bool nobody_writes() const noexcept { return read_only_ && !beside_writer_; }
  /// The newest version that is closed, or final.
  [[nodiscard]] version newest_readable() const noexcept {
    // acquire: who learns of the version sees its records
    if (beside_writer_) return newest_observed_.load(std::memory_order_acquire);
    return nobody_writes() ? clock_->now() : clock_->now() - 1;
  }
  /// Before it looks at kept queries or feeds. Beside a writer: from now on the space of those that are dropped is not
  /// used again while this process has the files open. errc::read_only if the file system cannot tell the writer.
  void keep_queries() const;
  /// From now on readers beside this process learn what is settled, if a thread looks. When opening is complete, before
  /// the first write.
  void publish_settled();
  /// What another layer keeps beside this store; `make` makes it at the first call. It ends before the store does.
  template <typename Make>
  [[nodiscard]] store_companion& companion(Make make) const {
    const std::scoped_lock one_at_a_time(opened_->companion_mutex);
    if (opened_->companion == nullptr) opened_->companion = make();
    return *opened_->companion;
  }
  [[nodiscard]] writer_set& writers() const noexcept { return *writers_; }
  /// No power cut can take this version any more, nor one before it. Under operation durability that is any version,
  /// once its records are made durable as for a reader; in a deferred store those that a sync covered.
  [[nodiscard]] version durable_up_to() const;
  /// State that all processes sharing the store have in common.
  [[nodiscard]] shared_state& shared() const noexcept { return *shared_; }
  /// The number of this process among those that ever shared the store, and whether another one still lives.
  [[nodiscard]] unsigned process() const noexcept { return writers_->process(); }
  [[nodiscard]] bool is_alive(unsigned process) const noexcept { return opened_->memory->is_held(process); }
  /// Whether other processes may attach.
  [[nodiscard]] bool shares() const noexcept { return !shared_as_.empty(); }
  /// Whether another process has opened the store and shares it.
  [[nodiscard]] bool attached() const noexcept { return attached_; }
  /// Throws unless this process is the one that opened the store: some functions are left to that one.
  void check_first() const {
    if (attached_) [[unlikely]]
      raise_attached();
  }
  [[nodiscard]] statistics stats() const;
  /// What the young generation has. Under the gate (W3).
  [[nodiscard]] record_totals young_totals() const noexcept {
    record_totals all = shared_->recovered;
    all.add(writers_->totals());
    return all;
  }
  [[nodiscard]] bool accepts_damage() const noexcept { return accepts_damage_; }
  /// Damage that was accepted at opening.
  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  /// What verify() compares its records with. Under `opened_store::replacing`.
  [[nodiscard]] std::vector<segment_tail> filled_segments() const;
  [[nodiscard]] verify_report verify(std::vector<segment_tail> filled, const progress_function& on_progress) const;
  [[noreturn]] void raise_read_only() const;
  /// errc::forked after a fork (the child shares the file's lock and would write beside its parent), errc::poisoned
  /// after a failed sync, errc::closed if the process that shared the store has closed it.
  [[gnu::always_inline]] void check_usable() const {
    check_not_forked();
    check_still_usable();
  }
  /// The part of check_usable() that other threads and processes may change, also while a write waits for its writer.
  [[gnu::always_inline]] void check_still_usable() const {
    // relaxed: no data depends on these flags
    if (persist_->poisoned() || shared_->is.load(std::memory_order_relaxed) == shared_state::phase::closed) [[unlikely]]
      raise_unusable();
  }
  [[gnu::always_inline]] void check_writable() const {
    if (read_only()) [[unlikely]]
      raise_read_only();
    check_usable();
  }

 protected:
  /// The derived class owns what the references refer to.
  store_core(store_parts&& parts, heads_kind heads, const history_base& records, const entry_keys& keys,
             index::ordered_index& index, tag_catalog& catalog);
  [[gnu::always_inline]] void check_not_forked() const {
    if (fork_generation_ != fork_generation()) [[unlikely]]
      raise_unusable();
  }
  /// The key's entry, if the lookup cache has it.
  [[nodiscard, gnu::always_inline]] link known_entry_of(std::string_view key, std::uint64_t hash) const noexcept {
    const link l = lookups_->candidate(hash);
    return l != null_link && keys_->is_of(l, key) ? l : null_link;
  }

  opened_store* opened_;
  std::uint64_t generation_;
  std::shared_ptr<const void> views_;  // before what it keeps, which so ends first
  // What it owns, for all engines:
  pool_set* pool_;
  persistence* persist_;  // the pool's
  version_clock* clock_;
  shared_state* shared_;
  writer_set* writers_;
  checked_values* checked_;
  tag_index* tags_;
  durable_point* synced_;  // null unless durability is deferred
  // Of this engine:
  std::shared_ptr<index::arena> index_memory_;
  std::unique_ptr<index::lookup_cache> lookups_;  // in front of the index
  manifest packing_;
  std::unique_ptr<const stratum::strata> packed_;
  const history_base* records_;
  const entry_keys* keys_;
  index::ordered_index* index_;
  std::optional<layered_links> packed_links_;  // if something is packed
  tag_catalog* catalog_;
  std::unique_ptr<shared_tags> shared_tags_;  // if processes share the store: what catalog_ is then
  heads_kind heads_;
  bool read_only_;
  bool beside_writer_;
  std::atomic<version> newest_observed_{0};  // beside a writer: the newest version that is shown
  bool no_writeback_stalls_;  // memory or persistent memory: no store waits for the kernel to write a page back

 private:
  // Steps of closing and checking that depend on the kind of heads.
  /// close() calls it before it takes the last certificate.
  virtual void commit_pending_writes() = 0;
  /// Writes what an instant recovery needs. Returns whether evidence of this epoch counts.
  [[nodiscard]] virtual bool leave_for_opening() = 0;
  /// Reports entries that the index does not lead to, and faults in the heads and in the list of tags.
  virtual void check_index(const record_scan& found, verify_report& report) const = 0;

  [[noreturn]] void raise_attached() const;
  [[noreturn]] void raise_unusable() const;
  [[noreturn]] void raise_not_closed(version v) const;
  [[noreturn]] void raise_lost(version v) const;
  /// Throws if it was lost or has expired.
  void check_known(version v) const;
  void refuse_expired(version from, version to) const;
  void note_unknown_versions() noexcept;

  // tag.cpp
  /// Closes the open version and returns it.
  version close_open() {
    const version closed = clock_->tick();
    shared_->closed_versions.ring();
    return closed;
  }
  version tag_quickly(const tag_options& label, std::int64_t time_ns, tag_index::prepared& known);
  version tag_durably(const tag_options* label, std::int64_t time_ns, tag_index::prepared* known);
  version close_with_record(const writer& w, const tag_options* label, std::int64_t time_ns);
  /// Whether no write has taken effect in the open version `open` that the caller can know of.
  [[nodiscard]] bool untouched(version open) const noexcept;
  /// Whether the version before `open` shows every write.
  [[nodiscard]] bool shown_by_newest_closed(version open) const noexcept {
    return untouched(open) && !opened_->lost.contains(open - 1);
  }
  /// Everything up to a closed version that no write can be stamped with any more.
  struct settled_content {
    version up_to = 0;
    record_totals totals;
  };
  /// Closes the open version if anything was written in it.
  [[nodiscard]] settled_content settle();
  [[nodiscard]] settled_content settle_behind_gate();
  /// Makes all data, and the root that certifies it (S3), durable: one after the other, or with one sync (P2).
  void certify(const settled_content& what, format::certificate_kind kind);
  void sync_deferred();

  index_kind kind_;  // the index it is open with
  std::uint64_t fork_generation_;
  version all_known_from_ = 0;  // no version from it on was lost or has expired
  double recovery_seconds_;
  bool recovered_from_crash_;
  bool took_index_over_;
  std::vector<finding> findings_;           // damage that was accepted
  std::shared_ptr<std::byte[]> stand_ins_;  // stand for lost records: histories link into them
  bool accepts_damage_;
  bool is_closed_ = false;
  bool attached_;                    // another process has opened the store and shares it
  std::filesystem::path shared_as_;  // where this process shares it; empty if it does not
};

inline bool opened_store::is_behind(const store_core& engine) const noexcept {
  return follows_ && engine.generation() != writers->generation();
}

inline held_engine opened_store::hold() const {
  for (;;) {
    {
      pin holds = pins.take();
      // E2. The engines are this store's own, and not const
      auto& engine = const_cast<store_core&>(holds.core());
      if (!is_behind(engine)) [[likely]]
        return {std::move(holds), engine};
    }
    const_cast<opened_store*>(this)->follow();  // its engines follow what others do; the store is the same
  }
}

// Argument. `check` reads or moves the clock, and the version is closed then. A record of it was stamped with a clock
// that was read before, while its writer was leased. So the engine in which it was written was the current one before
// the version was closed (E1). If `found` still is the current one behind that, it is this engine or a later one: its
// stack has the record. All these loads and stores are sequentially consistent. If it was replaced, records of the
// version may lie in the next one alone; or the version may have expired there, when later ones were closed, so that
// its engine lacks what no kept version shows. Then all begins anew.
template <class Check>
inline held_engine opened_store::hold_for(const Check& check) const {
  for (;;) {
    held_engine found = hold();
    check(*found);
    if (pins.are_on(*found) && !is_behind(*found)) [[likely]]
      return found;
  }
}

inline pin opened_store::take_pin() const { return hold().holds(); }

}  // namespace icecore::detail

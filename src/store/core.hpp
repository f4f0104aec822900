// The store behind the public classes: pool, clock, histories, index, writers and tags put together.
//
// The main path:  insert: store.cpp -> core.cpp (put) -> index/ -> history/history.cpp -> pool/persist.cpp
//                 find:   store.cpp -> core.cpp (visible_at) -> index/ -> history/history.cpp
//                 open:   store.cpp -> sharing.cpp -> recovery.cpp -> index/ (build), or opening_at_once.cpp
//
// Threads: everything from any thread, but construction, close() and destruction.
// Invariants: those of pool (P), history (H), clock (C), writers (W), and
//   S1. An entry is in the index before its first record is stamped, or finds of its key wait until it is (H3); it
//       never leaves it.
//   S2. A tag's record is stamped with the version it tags, and is written before that tag is acknowledged.
//   S3. The certificate in the root (durable_version, certified_records, certified_sum) counts exactly the records that
//       lie below their segment's fill or are stamped <= durable_version; all of them were durable before it was
//       written.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/threads.hpp"
#include "history/clock.hpp"
#include "history/history.hpp"
#include "icecore/store.hpp"
#include "icecore/version_ranges.hpp"
#include "index/index.hpp"
#include "index/lookup_cache.hpp"
#include "pool/pool_set.hpp"
#include "store/checked_values.hpp"
#include "store/lasting_media.hpp"
#include "store/salvage.hpp"
#include "store/shared_state.hpp"
#include "store/tag_list.hpp"
#include "store/tags.hpp"
#include "store/writer.hpp"

namespace icecore::detail {

struct checkpoint_cut;
class killed_writers;
class survey;

/// Keys for the index, read from the entries.
class entry_keys final : public index::key_source {
 public:
  entry_keys(address_space space, persistence& persist) noexcept : space_(space), persist_(&persist) {}
  [[nodiscard]] std::string_view key_of(link entry) const noexcept override { return space_.record_at(entry).key(); }
  [[nodiscard]] bool is_readable(link entry) const noexcept override {
    if (media_ == nullptr) return true;
    // Most entries lie so far from the end that any key they could have ends before it: these need not be read.
    constexpr std::uint64_t reach_max = sizeof(format::entry_header) + 16 + format::round_up(key_size_max, 8);
    if (media_->leads_into_pool(entry, reach_max)) return true;
    return media_->leads_into_pool(entry, sizeof(format::entry_header)) &&
           media_->leads_into_pool(entry, space_.record_at(entry).layout().value_offset());
  }
  void prefetch(link entry) const noexcept override { __builtin_prefetch(space_.at(entry)); }
  void distrust(link entry) const override {
    if (media_ == nullptr) return;
    std::atomic<link>& known = sound_[entry * 0x9e3779b97f4a7c15U >> (64 - sound_bits)];
    if (known.load(std::memory_order_relaxed) == entry) return;  // relaxed: an entry's key never changes
    if (!media_->is_whole(entry)) media_->raise_damaged(entry, "the entry fails its checksum");
    known.store(entry, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t state_of(link entry) const noexcept override {
    const auto& e = space_.record_at(entry).as_entry();
    // relaxed, both: whoever finds that they differ has a fence before it looks at the leaf again
    // (index/persistent/evidence.cpp, E1)
    const std::uint64_t head = e.head.load(std::memory_order_relaxed);
    return mix64(mix64(entry + mix64(head)) + e.second_version.load(std::memory_order_relaxed));
  }
  void flush_state(link entry) const noexcept override {
    persist_->flush(&space_.record_at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
  }
  [[noreturn]] void raise_killed() const override {
    persist_->poison("another process that shared it was killed while it changed the index");
    persist_->raise_poisoned();
  }
  /// Whether the entry is this key's.
  [[nodiscard]] bool is_of(link entry, std::string_view key) const noexcept {
    // its header tells where the key is, which is in the next line as often as in this one
    __builtin_prefetch(space_.at(entry) + format::cache_line_size);
    return space_.record_at(entry).key() == key;
  }
  /// Entries are read from media that nobody has read before. Before any other thread is there.
  void check_with(const lasting_media& media) {
    sound_ = std::make_unique<std::atomic<link>[]>(std::size_t{1} << sound_bits);
    media_ = &media;
  }

 private:
  static constexpr unsigned sound_bits = 12;

  address_space space_;
  persistence* persist_;
  const lasting_media* media_ = nullptr;
  /// Entries that were found sound lately. Those that lead to many keys are asked for with each search.
  std::unique_ptr<std::atomic<link>[]> sound_;
};

class [[gnu::visibility("hidden")]] store_core {
 public:
  store_core(const std::filesystem::path& path, const options& opening);
  ~store_core();
  store_core(const store_core&) = delete;
  store_core& operator=(const store_core&) = delete;

  /// Makes everything durable, certifies it and marks the store clean. Nothing else may run.
  void close();

  // ---- Writing ----
  version put(std::string_view key, std::string_view value);
  std::optional<version> remove(std::string_view key);
  version apply(const batch& operations);
  /// A tag without name, note and time.
  version tag() {
    check_writable();
    return pool_->durability().mode == durability::tag ? tag_durably(nullptr, 0) : clock_->tick();
  }
  version tag(const tag_options& label);
  void sync();
  /// Closes all versions below `open` at once. Nobody else may write meanwhile.
  void skip_to(version open) {
    check_writable();
    if (clock_->now() < open) clock_->advance_to(open);
  }
  /// Notes, durably, that the state of these closed versions is not known. Nobody else may be there.
  void lose(const version_ranges& versions);
  /// Closes the open version if anything was written in it; the newest closed version after that.
  version close_version();

  /// The store as it is now, to be written to a file of its own (checkpoint.cpp).
  [[nodiscard]] std::shared_ptr<const checkpoint_cut> cut();

  // ---- Reading ----
  /// Throws unless version `v` is immutable here, and known: closed, or, in a store opened for reading, the one left
  /// open; and no power cut took it.
  void check_readable(version v) const {
    check_usable();
    const version open = clock_->now();
    const bool is_closed = v < open || (v == open && read_only());
    if (is_closed && (lost_.empty() || !lost_.contains(v))) [[likely]]
      return;
    if (is_closed) raise_lost(v);
    raise_not_closed(v);
  }
  /// Closed versions whose state power cuts took. Changed while nobody else is there.
  [[nodiscard]] const version_ranges& lost() const noexcept { return lost_; }
  /// The record that shows `key` in version `v` (not a removal), durable as a reader needs it; null_link if none.
  [[nodiscard]] link visible_at(std::string_view key, version v) const {
    const link entry = entry_of(key);
    return entry == null_link ? null_link : entry_visible_at(entry, v);
  }
  /// The key's entry; null_link if it never had one.
  [[nodiscard, gnu::always_inline]] link entry_of(std::string_view key) const {
    const std::uint64_t hash = index::lookup_cache::hash_of(key);
    if (const link known = known_entry_of(key, hash); known != null_link) return known;
    const link found = index_->find(key);
    if (found != null_link) lookups_->put(hash, found);
    return found;
  }
  [[nodiscard]] link visible_latest(std::string_view key) const;
  /// The same for an entry that was already found.
  [[nodiscard]] link entry_visible_at(link entry, version v) const {
    const link start = histories_->start_of(entry, v);
    return start == null_link ? null_link : visible_from(start, v);
  }
  /// The same, starting from a record of the entry.
  [[nodiscard]] link visible_from(link newest, version v) const {
    const link l = histories_->find_from(newest, v);
    return l == null_link ? null_link : returned(l);
  }
  void find_many(std::span<const std::string_view> keys, const version* at, std::size_t at_stride,
                 std::span<std::optional<std::string_view>> out) const;

  /// The value of a record found visible: checks a large value that nobody has read yet. errc::damaged names it.
  [[nodiscard]] std::string_view value_of(link l) const {
    const record r = histories_->at(l);
    if (r.value_in_doubt()) checked_->require_intact(*pool_, *histories_, l);
    return r.value();
  }
  /// errc::damaged where the entry was there before the store was opened at once and is not whole.
  [[nodiscard]] std::string_view key_of(link entry) const {
    histories_->require_whole(entry);
    return histories_->at(entry).key();
  }
  [[nodiscard]] std::vector<std::string_view> keys(const key_bounds& bounds) const;

  // ---- The parts ----
  [[nodiscard]] const histories& past() const noexcept { return *histories_; }
  [[nodiscard]] index::ordered_index& index() const noexcept { return *index_; }
  [[nodiscard]] const version_clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] const tag_index& tags() const {
    check_first();
    load_tags();
    return tags_;
  }
  [[nodiscard]] pool_set& the_pool() const noexcept { return *pool_; }
  /// Precondition: the index lasts.
  [[nodiscard]] const lasting_segments& lasting_space() const noexcept { return media_->segments(); }
  [[nodiscard]] bool read_only() const noexcept { return !pool_->shared(); }
  /// For what is left to the process that opened the store first.
  void check_first() const {
    if (attached_) [[unlikely]]
      raise_attached();
  }
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] bool accepts_damage() const noexcept { return accepts_damage_; }
  /// Damage that was accepted at opening.
  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] verify_report verify(const progress_function& on_progress) const;
  /// errc::forked after a fork (the child shares the file's lock and would write beside its parent), errc::poisoned
  /// after a failed sync, errc::closed if the process that shared the store has closed it.
  [[gnu::always_inline]] void check_usable() const {
    // relaxed: flags that no data goes with
    if (fork_generation_ != fork_generation() || pool_->persist().poisoned() ||
        shared_->is.load(std::memory_order_relaxed) == shared_state::phase::closed) [[unlikely]]
      raise_unusable();
  }

 private:
  void check_writable() const {
    if (read_only()) [[unlikely]]
      raise_read_only();
    check_usable();
  }
  // sharing.cpp
  void open(const std::filesystem::path& path, const options& opening);
  void attach(const std::filesystem::path& path, const options& opening);
  void assemble(std::shared_ptr<index::arena> memory, const options& opening);
  void recover(const options& opening);
  void share(const options& opening);
  void use_lasting_index(const format::root& root, std::uint64_t epoch, bool is_new);
  [[noreturn]] void raise_attached() const;

  [[noreturn]] void raise_unusable() const;
  [[noreturn]] void raise_read_only() const;
  [[noreturn]] void raise_not_closed(version v) const;
  [[noreturn]] void raise_lost(version v) const;
  /// Persist-on-read, then null_link if the record is a removal.
  [[nodiscard]] link returned(link l) const {
    histories_->require_whole(l);
    histories_->persist_before_return(l);
    return histories_->at(l).is_removal() ? null_link : l;
  }

  // core.cpp: single writes
  struct fresh_record {
    link at;
    record_layout layout;
    bool flushed = false;  ///< stamped, and its lines are on their way
  };
  struct new_entry {
    record_layout layout;
    link batch;
    std::string_view key;
    std::string_view value;
    std::uint64_t hash;  ///< of the key, for the table of entries found lately
  };
  struct entered {
    link entry;
    std::optional<fresh_record> fresh;  ///< if the entry is the new one
  };
  class entry_filler;
  /// The key's entry, if it was found lately.
  [[nodiscard]] link known_entry_of(std::string_view key, std::uint64_t hash) const noexcept {
    const link l = lookups_->candidate(hash);
    return l != null_link && keys_->is_of(l, key) ? l : null_link;
  }
  [[nodiscard]] link enter_key(const writer& w, std::string_view key) const;
  /// The key's entry: the one there is, or `what`, published in the index.
  [[nodiscard]] entered enter(const writer& w, const new_entry& what) const;
  [[nodiscard]] bool link_single(const writer& w, link entry, const fresh_record& fresh, bool unless_removed) const;
  version finish(const writer& w, const fresh_record& fresh);

  // batch.cpp
  struct batch_run;
  void require_room_in_histories(std::span<const batch::operation* const> todo) const;
  void link_batched(batch_run& run, const batch::operation& operation);
  /// Where each segment is filled to, under the gate. O(segments).
  [[nodiscard]] std::vector<partial_segments::place> places() const;

  // verify.cpp
  void check_index(const survey& found, verify_report& report) const;

  // tag.cpp
  void load_tags() const;
  [[nodiscard]] bool leave_evidence() const;
  version tag_quickly(const tag_options& label, std::int64_t time_ns);
  version tag_durably(const tag_options* label, std::int64_t time_ns);
  version close_with_record(const writer& w, const tag_options* label, std::int64_t time_ns);
  /// Whether no write has completed in the open version `open`.
  [[nodiscard]] bool untouched(version open) const noexcept;
  /// Whether the version before `open` shows all there is.
  [[nodiscard]] bool shown_by_newest_closed(version open) const noexcept {
    return untouched(open) && !lost_.contains(open - 1);
  }
  /// Syncs all data, then writes the root that certifies it (S3).
  void certify(version durable_version, const record_totals& totals);

  std::unique_ptr<pool_set> pool_;
  std::unique_ptr<version_clock> clock_;
  std::unique_ptr<histories> histories_;
  std::unique_ptr<entry_keys> keys_;
  index_kind index_kind_{};                         // what it is open with
  std::shared_ptr<index::arena> memory_;            // where what processes share lies
  std::unique_ptr<lasting_media> media_;            // of an index that lasts
  std::unique_ptr<index::ordered_index> index_;     // null until it is built, if it lasts
  std::unique_ptr<index::lookup_cache> lookups_;    // in front of it
  std::unique_ptr<tag_list> tag_list_;              // beside an index that lasts
  std::unique_ptr<killed_writers> killed_writers_;  // beside an index that lasts
  shared_state* shared_ = nullptr;                  // in the index's arena
  std::unique_ptr<writer_set> writers_;
  std::unique_ptr<checked_values> checked_;
  mutable tag_index tags_;
  mutable std::atomic<bool> tags_loaded_{false};  // of a store that was opened at once
  std::mutex tag_mutex_;                          // one tag with a record or with a sync at a time
  mutable std::mutex tag_list_mutex_;
  bool opened_at_once_ = false;
  std::uint64_t fork_generation_;
  version_ranges lost_;
  double recovery_seconds_ = 0;
  bool recovered_from_crash_ = false;
  std::vector<finding> findings_;           // damage that was accepted
  std::unique_ptr<std::byte[]> stand_ins_;  // for what is lost: histories link into them
  bool accepts_damage_ = false;
  bool is_closed_ = false;
  bool attached_ = false;            // another process has opened the store, and shares it
  std::filesystem::path shared_as_;  // if this one shares it
  bool stores_never_wait_ = false;   // for the kernel to write a page back: so on memory and persistent memory

  friend class recovery;
  friend class opening_at_once;
  friend class killed_writers;
};

}  // namespace icecore::detail

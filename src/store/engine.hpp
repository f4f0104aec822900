// Reads and writes a store's keys. Opening decides which kind of heads a store has. Each kind is a class of its own;
// with_engine() selects it once per call or once per scan.
//
//   const auto found = with_engine(core, [&](const auto& engine) { return engine.find(key, hash); });
//   with_writer(store, [&](auto& engine, const writer& w) { return engine.put(w, key, hash, value); });
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "history/history.hpp"
#include "index/persistent/persistent_index.hpp"
#include "store/beside/settled_records.hpp"
#include "store/core.hpp"
#include "store/packed/layered_heads.hpp"
#include "store/persistent/dead_writers.hpp"

namespace icecore::detail {

/// The part of an engine that reads.
template <class Heads>
class [[gnu::visibility("hidden")]] reading_engine : public store_core {
 public:
  using histories_type = typename histories_of<Heads>::all;
  using young_histories = typename histories_of<Heads>::young;
  /// Whether histories may go on in strata.
  static constexpr bool is_layered = histories_of<Heads>::are_layered;

  /// The key's value as of now. `hash` is that of the key for the lookup cache, here and below.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key, std::uint64_t hash) const {
    if constexpr (Heads::run_ahead_of_clock) return find(key, hash, newest_shown());
    return found(key, hash, version_max, [this](link entry) { return entry_latest(entry); });
  }
  /// The key's value in version `v`, which is readable.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key, std::uint64_t hash, version v) const {
    return found(key, hash, v, [this, v](link entry) { return entry_visible_at(entry, v); });
  }
  void find_many(std::span<const std::string_view> keys, const version* at, std::size_t at_stride,
                 std::span<std::optional<std::string_view>> out) const;
  [[nodiscard]] std::vector<std::string_view> keys(const key_bounds& bounds) const;

  /// What stands for the key in scans and histories: its entry or, if it has none, its newest packed record; null_link
  /// if the key never had a record.
  [[nodiscard]] link standing_for(std::string_view key) const {
    const link entry = entry_of(key);
    if constexpr (is_layered) {
      if (entry == null_link) return histories_->packed_at(key, version_max);
    }
    return entry;
  }
  /// Records of greater versions may be in the index and the histories, and are not shown.
  [[nodiscard]] version newest_shown() const noexcept {
    return Heads::run_ahead_of_clock ? newest_readable() : version_max;
  }
  /// The record that shows the entry's key in version `v` (not a removal), made durable if a reader needs that;
  /// null_link if none.
  [[nodiscard]] link entry_visible_at(link entry, version v) const {
    const link start = histories_->start_of(entry, v);
    return start == null_link ? null_link : visible_from_start({entry, start}, v);
  }
  /// The same for what is shown now.
  [[nodiscard]] link entry_latest(link entry) const;
  /// An entry, and what start_of() returned for it.
  struct search_start {
    link entry;
    link start;
  };
  [[nodiscard]] link visible_from_start(const search_start& from, version v) const {
    histories_->check_start(from.entry, from.start);
    return visible_from(from.start, v);
  }
  /// The same, starting from a record of the entry.
  [[nodiscard]] link visible_from(link newest, version v) const {
    const link l = histories_->find_from(newest, v);
    return l == null_link ? null_link : returned(l);
  }
  /// errc::damaged if the entry is older than the instant recovery that opened the store, and is not intact.
  [[nodiscard]] std::string_view key_of(link entry) const {
    histories_->verify_checksum(entry);
    if constexpr (is_layered) return histories_->key_of_record(entry);
    return histories_->at(entry).key();
  }
  /// As store_core::value_of().
  [[nodiscard, gnu::always_inline]] std::string_view value_of(link l) const {
    if constexpr (is_layered) {
      const stratum::strata& packed = histories_->packed();
      if (is_packed(l)) return packed.value_of(packed.record(place_of(l)));
    }
    return store_core::value_of(l);
  }
  [[nodiscard]] const histories_type& histories() const noexcept { return *histories_; }
  /// Those of the young generation alone.
  [[nodiscard]] const young_histories& young() const noexcept { return *young_; }

 protected:
  reading_engine(store_parts&& parts, heads_kind kind, const young_histories& histories, const entry_keys& keys,
                 index::ordered_index& index, tag_catalog& catalog)
      : store_core(std::move(parts), kind, histories, keys, index, catalog),
        young_(&histories),
        histories_(histories, packed()) {}

  [[nodiscard, gnu::always_inline]] std::optional<std::string_view> shown_value(link l) const {
    if (l == null_link) return std::nullopt;
    return value_of(l);
  }
  /// Applies persist-on-read, then returns null_link if the record is a removal.
  [[nodiscard, gnu::always_inline]] link returned(link l) const {
    histories_->verify_checksum(l);
    histories_->persist_before_return(l);
    return histories_->is_removal(l) ? null_link : l;
  }
  const young_histories* young_;
  histories_of<Heads> histories_;

 private:
  /// The value that is shown in version `v`: by the record that `shown_by()` finds for the key's entry or, if it has
  /// none, by packed records.
  template <class ShownBy>
  [[nodiscard, gnu::always_inline]] std::optional<std::string_view> found(std::string_view key, std::uint64_t hash,
                                                                          version v, ShownBy shown_by) const {
    if constexpr (is_layered) {
      if (lookups_->is_small()) {  // few keys are young: this one is looked for while the memory of packed ones answers
        const stratum::strata& packed = histories_->packed();
        const stratum::strata::search expected = packed.expect_find(key, v);
        const link entry = entry_of(key, hash);
        return entry == null_link ? packed.shown(packed.arrive(expected, key, v)) : shown_value(shown_by(entry));
      }
    }
    const link entry = entry_of(key, hash);
    if (entry != null_link) return shown_value(shown_by(entry));
    if constexpr (is_layered) return histories_->packed_value(key, v);
    return std::nullopt;
  }
  /// find_many() of the keys that have no entry.
  template <class Wanted>
  void find_many_packed(std::span<const std::string_view> keys, const version* at, std::size_t at_stride,
                        const Wanted& wanted, std::span<std::optional<std::string_view>> out) const;
  // verify.cpp
  void check_index(const record_scan& found, verify_report& report) const override;
};

/// An engine that reads and writes.
template <class Heads>
class [[gnu::visibility("hidden")]] engine : public reading_engine<Heads> {
 public:
  using typename reading_engine<Heads>::histories_type;
  using typename reading_engine<Heads>::young_histories;
  using reading_engine<Heads>::is_layered;

  // With a leased writer: so this is the current engine, and stays it (opened_store, E1).
  version put(const writer& w, std::string_view key, std::uint64_t hash, std::string_view value);
  version put(const writer& w, std::string_view key, std::uint64_t hash, const value_parts& value);
  /// Empty, and nothing has changed, unless the key's newest record is as demanded. A key without an entry has no
  /// value.
  std::optional<version> put_if(const writer& w, std::string_view key, std::string_view value, newest_condition wanted);
  std::optional<version> remove(const writer& w, std::string_view key, std::uint64_t hash);
  /// `todo`: at most one operation on each key, ascending by key.
  version apply(const writer& w, std::span<const batch::operation* const> todo);
  /// Whether the operation's condition, if it has one, holds: for good only while the gate is shut.
  [[nodiscard]] bool holds(const batch::operation& operation) const;

 protected:
  engine(store_parts&& parts, const young_histories& histories, const entry_keys& keys, index::ordered_index& index,
         tag_catalog& catalog)
      : reading_engine<Heads>(std::move(parts), kind, histories, keys, index, catalog) {}

  using store_core::catalog_;
  using store_core::checked_;
  using store_core::clock_;
  using store_core::entry_of;
  using store_core::index_;
  using store_core::known_entry_of;
  using store_core::lookups_;
  using store_core::no_writeback_stalls_;
  using store_core::pool_;
  using store_core::shared_;
  using store_core::writers_;
  using reading_engine<Heads>::histories_;
  using reading_engine<Heads>::young_;

 private:
  static constexpr heads_kind kind = Heads::are_durable
                                         ? (is_layered ? heads_kind::layered_durable : heads_kind::durable)
                                         : (is_layered ? heads_kind::layered_rebuilt : heads_kind::rebuilt);
  /// The condition, with what packed records show for the key where the young generation shows nothing.
  [[nodiscard]] newest_condition over_packed(std::string_view key, newest_condition wanted) const {
    if constexpr (is_layered) {
      const pin holds = this->take_pin();
      wanted.below = histories_->packed_value_version(key);
    }
    return wanted;
  }
  struct fresh_record {
    link at;
    record_layout layout;
    bool flushed = false;  ///< stamped, and its flush has begun
  };
  template <class Value = std::string_view>  // or value_parts
  struct new_entry {
    record_layout layout;
    link batch;
    std::string_view key;
    Value value;
    std::uint64_t hash;  ///< of the key, for the lookup cache
  };
  enum class entered_as : std::uint8_t { known, made, flushed };  ///< flushed: made, and as fresh_record says
  struct entered {
    link entry;
    entered_as as = entered_as::known;
    [[nodiscard]] bool is_new() const noexcept { return as != entered_as::known; }
    [[nodiscard]] bool flushed() const noexcept { return as == entered_as::flushed; }
  };
  template <class Value>
  class entry_filler;
  // Inlined, since most callers know the kind of record when they are compiled.
  /// The key's entry: the existing one, or else `what`, which is then published in the index.
  template <class Value>
  [[nodiscard, gnu::always_inline]] entered enter(const writer& w, const new_entry<Value>& what) const;
  template <class Value>
  [[gnu::always_inline]] version put_value(const writer& w, std::string_view key, std::uint64_t hash,
                                           const Value& value);
  [[nodiscard, gnu::always_inline]] bool link_single(const writer& w, link entry, fresh_record fresh,
                                                     newest_condition wanted) const;
  [[gnu::always_inline]] version finish(const writer& w, fresh_record fresh);
  [[gnu::always_inline]] version finish_entry(const writer& w, fresh_record fresh, std::uint64_t hash);
  template <class Value>
  std::optional<version> update(const writer& w, link entry, Value value, newest_condition wanted);
  [[nodiscard]] link enter_alone(const writer& w, std::string_view key, std::uint64_t hash);

  // batch.cpp
  [[nodiscard]] entered enter_batched(const writer& w, const new_entry<>& what) const;
  void finish_batched(const writer& w, const fresh_record& fresh);
  struct batch_run;
  void require_room_in_histories(std::span<const batch::operation* const> todo) const;
  [[nodiscard]] link enter_key(const writer& w, std::string_view key) const;
  void enter_keys(const writer& w, std::span<const batch::operation* const> todo) const;
  void link_batched(batch_run& run, const batch::operation& operation);
};

// ---- Heads computed at opening, and an index in memory ----

struct rebuilt_parts {
  std::unique_ptr<entry_keys> keys;
  std::unique_ptr<rebuilt_histories> histories;
  std::unique_ptr<index::ordered_index> index;
  std::unique_ptr<scanned_tags> tags;
};

template <class Heads>
class [[gnu::visibility("hidden")]] rebuilt_engine final : public engine<Heads> {
 public:
  rebuilt_engine(store_parts&& parts, rebuilt_parts&& own)
      : engine<Heads>(std::move(parts), *own.histories, *own.keys, *own.index, *own.tags), own_(std::move(own)) {}

 private:
  void commit_pending_writes() override {}
  [[nodiscard]] bool leave_for_opening() override { return true; }

  rebuilt_parts own_;
};

// ---- Durable heads, and an index that lies beside the records ----

struct durable_parts {
  std::unique_ptr<durable_media> media;
  std::unique_ptr<checked_entry_keys> keys;
  std::unique_ptr<durable_histories> histories;
  std::unique_ptr<index::persistent_index> index;
  std::unique_ptr<listed_tags> tags;
  std::unique_ptr<dead_writers> killed;
};

template <class Heads>
class [[gnu::visibility("hidden")]] durable_engine final : public engine<Heads> {
 public:
  durable_engine(store_parts&& parts, durable_parts&& own)
      : engine<Heads>(std::move(parts), *own.histories, *own.keys, *own.index, *own.tags), own_(std::move(own)) {}

  [[nodiscard]] const logged_segments& segments() const noexcept { return own_.media->segments(); }

 private:
  void commit_pending_writes() override { this->writers_->commit_last(*own_.histories); }
  [[nodiscard]] bool leave_for_opening() override;

  durable_parts own_;
};

// ---- Heads of what was read, and an index in memory, beside the process that writes ----

struct observed_parts {
  version newest = 0;  ///< that is shown
  std::unique_ptr<settled_records> records;
  std::unique_ptr<entry_keys> keys;
  std::unique_ptr<observed_histories> histories;
  std::unique_ptr<index::ordered_index> index;
  std::unique_ptr<scanned_tags> tags;
};

template <class Heads>
class [[gnu::visibility("hidden")]] observed_engine final : public reading_engine<Heads> {
 public:
  observed_engine(store_parts&& parts, observed_parts&& own)
      : reading_engine<Heads>(std::move(parts), kind, *own.histories, *own.keys, *own.index, *own.tags),
        own_(std::move(own)) {
    this->newest_observed_.store(own_.newest, std::memory_order_relaxed);  // relaxed: no other thread is there yet
  }

  version refresh() override;

 private:
  void commit_pending_writes() override {}
  [[nodiscard]] bool leave_for_opening() override { return false; }

  static constexpr heads_kind kind =
      reading_engine<Heads>::is_layered ? heads_kind::layered_observed : heads_kind::observed;
  version go_on_with_packed();

  observed_parts own_;
};

/// The engine that is made of these parts: one whose histories go on in strata, if there are any.
template <template <class> class Engine, class Heads, class Own>
[[nodiscard]] std::unique_ptr<store_core> make_engine(store_parts&& parts, Own&& own) {
  if (parts.packed != nullptr)
    return std::make_unique<Engine<layered<Heads>>>(std::move(parts), std::forward<Own>(own));
  return std::make_unique<Engine<Heads>>(std::move(parts), std::forward<Own>(own));
}
/// The open store, whose first engine it is.
template <template <class> class Engine, class Heads, class Own>
[[nodiscard]] std::unique_ptr<opened_store> make_store(store_parts&& parts, Own&& own) {
  auto opened = std::move(parts.opened);
  opened->lost = std::move(parts.lost);
  auto engine = make_engine<Engine, Heads>(std::move(parts), std::forward<Own>(own));
  opened->begin(std::move(engine));
  return opened;
}

/// Opens the store that the path names, or creates it, or attaches to it.
[[nodiscard]] std::unique_ptr<opened_store> open_store(const std::filesystem::path& path, const options& opening);

/// Opens it for writing, and readers that come meanwhile wait until it is closed, for up to 30 s.
[[nodiscard]] std::unique_ptr<opened_store> open_store_briefly(const std::filesystem::path& path,
                                                               const options& opening);

/// Opens what was written since the store was packed, for reading: what is packed is left out, and may be damaged. The
/// store is an engine<rebuilt_heads> if `opening` accepts damage.
[[nodiscard]] std::unique_ptr<opened_store> open_young_generation(const std::filesystem::path& path,
                                                                  const options& opening);

/// Calls `f` with `core` as the engine it is.
template <class F>
decltype(auto) with_engine(const store_core& core, F&& f) {
  switch (core.heads()) {
    case heads_kind::durable:
      return f(static_cast<const reading_engine<durable_heads>&>(core));
    case heads_kind::observed:
      return f(static_cast<const reading_engine<observed_heads>&>(core));
    case heads_kind::layered_rebuilt:
      return f(static_cast<const reading_engine<layered<rebuilt_heads>>&>(core));
    case heads_kind::layered_durable:
      return f(static_cast<const reading_engine<layered<durable_heads>>&>(core));
    case heads_kind::layered_observed:
      return f(static_cast<const reading_engine<layered<observed_heads>>&>(core));
    [[likely]] case heads_kind::rebuilt:
      break;
  }
  return f(static_cast<const reading_engine<rebuilt_heads>&>(core));
}
/// The same, for writing: the current engine, with a leased writer. errc::read_only of a store that is open beside its
/// writer.
template <class F>
decltype(auto) with_writer(store_core& core, const writer& w, F&& f) {
  switch (core.heads()) {
    case heads_kind::durable:
      return f(static_cast<engine<durable_heads>&>(core), w);
    case heads_kind::layered_rebuilt:
      return f(static_cast<engine<layered<rebuilt_heads>>&>(core), w);
    case heads_kind::layered_durable:
      return f(static_cast<engine<layered<durable_heads>>&>(core), w);
    case heads_kind::observed:
    case heads_kind::layered_observed:
      core.raise_read_only();
    [[likely]] case heads_kind::rebuilt:
      break;
  }
  return f(static_cast<engine<rebuilt_heads>&>(core), w);
}
/// Leases a writer for one operation.
//
// Checked when the writer is leased: a write that met a failed sync may have left an unfinished record in this writer's
// segment, and no record may follow that one. That write poisoned the store before it returned the writer.
template <class F>
decltype(auto) with_writer(opened_store& store, F&& f) {
  store.check_may_lease();
  for (;;) {
    {
      const writer_lease w(*store.writers);
      if (!store.is_behind()) [[likely]] {
        store_core& core = store.current();  // E1
        core.check_still_usable();
        return with_writer(core, *w, std::forward<F>(f));
      }
    }
    store.follow();
  }
}

version apply(opened_store& store, const batch& operations);
std::optional<version> apply_if(opened_store& store, const batch& operations);

}  // namespace icecore::detail

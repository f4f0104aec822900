#include "store/engine.hpp"

#include <array>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "base/raise.hpp"
#include "store/read/scan.hpp"

namespace icecore::detail {
namespace {

[[gnu::always_inline]] inline void check_sizes(std::string_view key, std::uint64_t value_size) {
  if (key.size() > key_size_max) {
    raise(errc::key_too_long, "a key of {} bytes: keys have at most {}", key.size(), key_size_max);
  }
  if (value_size > value_size_max) {
    raise(errc::value_too_large, "a value of {} bytes: values have at most {}", value_size, value_size_max);
  }
}

}  // namespace

// ---- Single writes ----

template <class Heads>
inline version engine<Heads>::finish(const writer& w, fresh_record fresh) {
  if ((fresh.layout.flags & format::flag_large_value) != 0) checked_->mark(fresh.at);
  // Read everything needed of the record, and do all other work, before the flush: a load from a line that is being
  // flushed waits until the medium has it, and after the fence the processor runs ahead into the next operation only as
  // far as its window reaches.
  const record r = young_->at(fresh.at);
  const version v = young_->stamp_of_own(r, fresh.at, fresh.layout.batched());
  assert(v != 0 && v <= clock_->now());  // C2: the clock never falls below a stamp
  young_->sample(r, fresh.at);
  w.count(fresh.layout, fresh.layout.is_removal(), fresh.at, r.header().crc, v);
  if (fresh.layout.is_update()) {
    const link older = r.as_update().older;  // its line is here: the record was linked on it
    if (young_->stamp_of(older) == v) w.count_superseded(young_->at(older).layout());
  }
  const written_record done = young_histories::written_of(r, fresh.at, fresh.layout.is_update());
  young_->commit_pending(w.pending());
  if (fresh.layout.batched()) {  // it was flushed with its batch
    young_->persist_before_link(fresh.at);
  } else {
    if (!fresh.flushed) young_->flush_fresh(fresh.at, fresh.layout.size());
    young_->await_flushed(done);
  }
  young_->commit(done, v, w.pending());
  return v;
}

template <class Heads>
void engine<Heads>::finish_batched(const writer& w, const fresh_record& fresh) {
  static_cast<void>(finish(w, fresh));
}

template <class Heads>
version engine<Heads>::put(const writer& w, std::string_view key, std::uint64_t hash, std::string_view value) {
  return put_value(w, key, hash, value);
}

template <class Heads>
version engine<Heads>::put(const writer& w, std::string_view key, std::uint64_t hash, const value_parts& value) {
  assert(value.size() >= pool::written_value_size);
  return put_value(w, key, hash, value);
}

template <class Heads>
template <class Value>
inline version engine<Heads>::put_value(const writer& w, std::string_view key, std::uint64_t hash, const Value& value) {
  check_sizes(key, value.size());
  const record_layout as_entry = record_layout::of_entry(key.size(), value.size(), false);
  const entered there = enter(w, new_entry<Value>{as_entry, null_link, key, value, hash});
  const version v = there.is_new() ? finish_entry(w, {there.entry, as_entry, there.flushed()}, hash)
                                   : *update(w, there.entry, value, {});
  w.count_given(key.size());
  return v;
}

template <class Heads>
inline version engine<Heads>::finish_entry(const writer& w, fresh_record fresh, std::uint64_t hash) {
  const version v = finish(w, fresh);
  // after the fence in finish(), which would have to wait for this store's cache line
  lookups_->put(hash, fresh.at, true);
  return v;
}

template <class Heads>
std::optional<version> engine<Heads>::put_if(const writer& w, std::string_view key, std::string_view value,
                                             newest_condition wanted) {
  check_sizes(key, value.size());
  const std::uint64_t hash = index::lookup_cache::hash_of(key);
  link entry = entry_of(key, hash);
  wanted = over_packed(key, wanted);
  if (entry == null_link) {
    if (!wanted.holds_for(wanted.below)) return std::nullopt;
    const record_layout as_entry = record_layout::of_entry(key.size(), value.size(), false);
    const entered there = enter(w, new_entry<>{as_entry, null_link, key, value, hash});
    if (there.is_new()) {
      const version v = finish_entry(w, {there.entry, as_entry, there.flushed()}, hash);
      w.count_given(key.size());
      return v;
    }
    entry = there.entry;
  }
  // Check before making a useless record. link_on_top() detects what other threads change meanwhile.
  if (!young_->newest_is(entry, wanted)) return std::nullopt;
  const std::optional<version> written = update(w, entry, value, wanted);
  if (written) w.count_given(key.size());
  return written;
}

template <class Heads>
template <class Value>
std::optional<version> engine<Heads>::update(const writer& w, link entry, Value value, newest_condition wanted) {
  young_->prefetch_newest(entry);
  const record_layout layout = record_layout::of_insert(value.size(), false);
  const fresh_record fresh{w.allocate(layout), layout};
  w.fill(fresh.at, layout, null_link, {}, value);
  if (!link_single(w, entry, fresh, wanted)) return std::nullopt;
  return finish(w, fresh);
}

template <class Heads>
std::optional<version> engine<Heads>::remove(const writer& w, std::string_view key, std::uint64_t hash) {
  check_sizes(key, 0);
  link entry = entry_of(key, hash);
  const newest_condition is_there = over_packed(key, {newest_condition::what::a_value});
  if (entry == null_link) {
    if (is_there.below == 0) return std::nullopt;
    entry = enter_alone(w, key, hash);
  }
  // Check before making a useless record. link_on_top() detects that another thread removes the key meanwhile.
  if constexpr (is_layered) {
    if (!young_->newest_is(entry, is_there)) return std::nullopt;
  } else {
    if (young_->is_removed(entry)) return std::nullopt;
  }
  const record_layout layout = record_layout::of_remove(false);
  const fresh_record fresh{w.allocate(layout), layout};
  young_->at(fresh.at).fill(layout, null_link, {}, {});
  if (!link_single(w, entry, fresh, is_there)) return std::nullopt;
  w.count_given(key.size());
  return finish(w, fresh);
}

/// The key's entry; a new one has no value, so that what is packed of the key goes on to show. A removal of that is
/// linked on it.
template <class Heads>
link engine<Heads>::enter_alone(const writer& w, std::string_view key, std::uint64_t hash) {
  const record_layout layout = record_layout::of_key(key.size());
  const entered there = enter(w, new_entry<>{layout, null_link, key, {}, hash});
  if (there.is_new()) static_cast<void>(finish_entry(w, {there.entry, layout, there.flushed()}, hash));
  return there.entry;
}

/// Links a filled record that is in no batch on top of its entry's history. If that fails, or the record is not to be
/// linked, gives the record's memory back: no valid record may lie behind one that does not count.
template <class Heads>
inline bool engine<Heads>::link_single(const writer& w, link entry, fresh_record fresh, newest_condition wanted) const {
  bool linked = false;
  try {
    linked = young_->link_on_top(entry, fresh.at, fresh.layout, w.seed_of(fresh.at), wanted);
  } catch (...) {  // damage: thrown before the head is changed
    w.rewind(fresh.at, fresh.layout);
    throw;
  }
  if (!linked) w.rewind(fresh.at, fresh.layout);
  return linked;
}

/// Fills a new entry when the index asks for it. Gives its memory back unless the entry is kept.
template <class Heads>
template <class Value>
class engine<Heads>::entry_filler final : public index::entry_factory {
 public:
  entry_filler(const writer& w, const young_histories& histories, const new_entry<Value>& what,
               bool no_writeback_stalls)
      : writer_(w), histories_(histories), what_(what), no_writeback_stalls_(no_writeback_stalls) {}
  ~entry_filler() {
    // another thread was faster, or the index had no memory: no other thread has seen the entry
    if (made_ != null_link && !kept_) writer_.rewind(made_, what_.layout);
  }
  entry_filler(const entry_filler&) = delete;
  entry_filler& operator=(const entry_filler&) = delete;

  [[nodiscard]] link make() override {
    // its kind and, for most entries, its flags are known here, so its sizes are computed with fewer instructions
    assert(what_.layout.kind == format::record_kind::entry);
    return what_.layout.flags == 0 ? make_with(0) : make_with(what_.layout.flags);
  }
  /// Stamps and flushes the record here, so that its flush proceeds while the index makes room for it.
  void before_publish() noexcept override {
    // On a block device the kernel may be writing the page back: a store to it would fault and wait, and readers would
    // wait with it. The records of a batch take the batch's stamp, which does not exist yet.
    // The persistent index may only point to durable, stamped entries, so do both now although readers wait.
    if (!Heads::are_durable && (!no_writeback_stalls_ || what_.batch != null_link)) return;
    histories_.stamp_unseen(made_);
    stamped_ = true;
    constexpr std::uint64_t bytes_max = 4 * format::cache_line_size;  // readers wait: longer ones are flushed later
    if (size_ > bytes_max && !Heads::are_durable) return;
    flushed_ = true;
    histories_.flush_fresh(made_, size_);
  }
  [[nodiscard]] bool stamped() const noexcept { return stamped_; }
  [[nodiscard]] bool flushed() const noexcept { return flushed_; }
  /// Whether the key's entry is the one made here; if so, keeps it.
  [[nodiscard]] bool keep_if(link entry) noexcept { return kept_ = made_ != null_link && made_ == entry; }

 private:
  [[gnu::always_inline]] link make_with(std::uint8_t flags) {
    const record_layout layout{format::record_kind::entry, flags, what_.layout.key_size, what_.layout.value_size};
    size_ = layout.size();
    const link made = writer_.allocate(layout);
    writer_.fill(made, layout, what_.batch, what_.key, what_.value);
    made_ = made;
    histories_.at(made).seal(layout, writer_.seed_of(made));
    return made;
  }

  const writer& writer_;
  const young_histories& histories_;
  new_entry<Value> what_;
  bool no_writeback_stalls_;
  link made_ = null_link;
  std::uint64_t size_ = 0;  ///< of what was made
  bool kept_ = false;
  bool stamped_ = false;
  bool flushed_ = false;
};

template <class Heads>
template <class Value>
inline typename engine<Heads>::entered engine<Heads>::enter(const writer& w, const new_entry<Value>& what) const {
  // The lookup cache has nothing of a new key, and its line is in no cache of the processor. A writer that expects a
  // new key does not wait for that line: the index has to be searched in any case, and the line arrives meanwhile.
  if (!w.expects_new_keys()) {
    if (const link known = known_entry_of(what.key, what.hash); known != null_link) {
      w.note_key(false);
      return {known};
    }
  }
  entry_filler<Value> filler(w, *young_, what, no_writeback_stalls_);
  const link entry = index_->insert(what.key, filler);
  const bool is_new = filler.keep_if(entry);
  w.note_key(is_new);
  if (!is_new) {
    lookups_->put(what.hash, entry);
    return {entry};
  }
  if (!filler.stamped()) young_histories::fence_after_index_publish();
  return {entry, filler.flushed() ? entered_as::flushed : entered_as::made};
}

template <class Heads>
typename engine<Heads>::entered engine<Heads>::enter_batched(const writer& w, const new_entry<>& what) const {
  return enter(w, what);
}

// ---- Reading ----

template <class Heads>
link reading_engine<Heads>::entry_latest(link entry) const {
  // start_of() returns null_link for a removal that the entry alone shows: that was the newest record when the head was
  // read, and it has taken effect.
  const link start = histories_->start_of(entry, version_max);
  if (start == null_link) return null_link;
  histories_->check_start(entry, start);
  const link l = histories_->find_latest_from(start);
  return l == null_link ? null_link : returned(l);
}

void store_core::find_entries(std::span<const std::string_view> keys, std::span<link> out) const {
  std::array<std::uint64_t, find_group> hashes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = index::lookup_cache::hash_of(keys[i]);
    lookups_->prefetch_for_reading(hashes[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out[i] = lookups_->candidate(hashes[i]);
    if (out[i] != null_link) keys_->prefetch(out[i]);
  }
  std::array<std::string_view, find_group> unknown;
  std::array<std::size_t, find_group> places;
  std::size_t count = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (out[i] != null_link && keys_->is_of(out[i], keys[i])) continue;
    unknown[count] = keys[i];
    places[count++] = i;
  }
  if (count == 0) return;
  std::array<link, find_group> found;
  index_->find_many(std::span(unknown).first(count), std::span(found).first(count));
  for (std::size_t j = 0; j < count; ++j) {
    out[places[j]] = found[j];
    if (found[j] != null_link) lookups_->put(hashes[places[j]], found[j]);
  }
}

template <class Heads>
template <class Wanted>
void reading_engine<Heads>::find_many_packed(std::span<const std::string_view> keys, const version* at,
                                             std::size_t at_stride, const Wanted& wanted,
                                             std::span<std::optional<std::string_view>> out) const {
  const stratum::strata& packed = histories_->packed();
  packed.find_many(keys, at, at_stride, wanted,
                   [&](std::size_t i, const auto& found) { out[i] = packed.shown(found); });
}

template <class Heads>
void reading_engine<Heads>::find_many(std::span<const std::string_view> keys, const version* at, std::size_t at_stride,
                                      std::span<std::optional<std::string_view>> out) const {
  if constexpr (is_layered) {
    if (!has_young_keys())
      return find_many_packed(
          keys, at, at_stride, [](std::size_t) { return true; }, out);
  }
  const auto version_of = [&](std::size_t i) { return at[i * at_stride]; };
  std::array<link, find_group> entries;
  std::array<link, find_group> starts;
  for (std::size_t first = 0; first < keys.size(); first += find_group) {
    const std::size_t count = std::min(find_group, keys.size() - first);
    // three passes over the whole group, so that its cache misses overlap: entries, first records to look at, answers
    find_entries(keys.subspan(first, count), std::span(entries).first(count));
    if constexpr (is_layered) {
      find_many_packed(
          keys.subspan(first, count), at + first * at_stride, at_stride,
          [&](std::size_t i) { return entries[i] == null_link; }, out.subspan(first, count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      starts[i] = entries[i] == null_link ? null_link : histories_->start_of(entries[i], version_of(first + i));
      if (starts[i] != entries[i] && starts[i] != null_link) histories_->prefetch(starts[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (is_layered) {
        if (entries[i] == null_link) continue;
      }
      const link l =
          starts[i] == null_link ? null_link : visible_from_start({entries[i], starts[i]}, version_of(first + i));
      if (l == null_link) {
        out[first + i].reset();
      } else {
        out[first + i] = value_of(l);
      }
    }
  }
}

template <class Heads>
std::vector<std::string_view> reading_engine<Heads>::keys(const key_bounds& bounds) const {
  check_usable();
  const version shown = newest_shown();
  std::vector<std::string_view> found;
  std::shared_ptr<const sorted_keys> kept;
  for_each_block(*this, in_key_order(*this, kept), scan_bounds(bounds), [&](const walked_entries& entries) {
    for (const link entry : entries) {
      if (Heads::run_ahead_of_clock && histories_->stamp_of(entry) > shown) continue;
      found.push_back(key_of(entry));
    }
    return true;
  });
  return found;
}

// ---- Closing ----

/// Evidence does not count if another process may still be in a call.
template <class Heads>
bool durable_engine<Heads>::leave_for_opening() {
  logged_segments& segments = own_.media->segments();
  this->writers_->for_each_writer([&](unsigned w, const segment_tail& p, const record_totals& filled, version newest) {
    logged_segments::log log{p.in, p.position, std::max(newest, this->shared_->newest_recovered), segments.before(w)};
    log.totals.add(filled);
    segments.write_log(w, log);
  });
  if (!this->writers_->is_alone()) return false;
  own_.media->for_each_met([&](link granule) { own_.index->leave_evidence(granule); });
  own_.tags->leave_evidence();
  return true;
}

template class reading_engine<rebuilt_heads>;
template class reading_engine<durable_heads>;
template class reading_engine<observed_heads>;
template class reading_engine<layered<rebuilt_heads>>;
template class reading_engine<layered<durable_heads>>;
template class reading_engine<layered<observed_heads>>;
template class engine<rebuilt_heads>;
template class engine<durable_heads>;
template class engine<layered<rebuilt_heads>>;
template class engine<layered<durable_heads>>;
template class durable_engine<durable_heads>;
template class durable_engine<layered<durable_heads>>;

}  // namespace icecore::detail

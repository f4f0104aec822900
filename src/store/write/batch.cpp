// Atomic batches: all records are linked, then one stamp makes all of them take effect.
//
// The batch record is placed first, so that the others can link to it, and filled last. Keys are linked in ascending
// order: a writer that meets a record of an unready batch waits for that batch, so a batch only waits for one that is
// further along the keys, and waits never form a circle.
//
// What a crash leaves: before the batch's stamp is durable, nothing (recovery drops every record whose batch record is
// invalid or unstamped); after it, everything, because all records were durable before the batch became ready.
#include <algorithm>

#include "base/raise.hpp"
#include "store/engine.hpp"

namespace icecore {

void batch::insert(std::string_view key, std::string_view value) {
  if (key.size() > key_size_max) {
    raise(errc::key_too_long, "a key of {} bytes: keys have at most {}", key.size(), key_size_max);
  }
  if (value.size() > value_size_max) {
    raise(errc::value_too_large, "a value of {} bytes: values have at most {}", value.size(), value_size_max);
  }
  operations_.push_back({std::string(key), std::string(value)});
}

void batch::insert_new(std::string_view key, std::string_view value) {
  insert(key, value);
  operations_.back().expected = 0;
}

void batch::replace(std::string_view key, std::string_view value, version expected) {
  if (expected == 0) raise(errc::invalid_argument, "no record has version 0; insert_new() demands that there is none");
  insert(key, value);
  operations_.back().expected = expected;
}

bool batch::has_conditions() const noexcept {
  return std::ranges::any_of(operations_, [](const operation& o) { return o.expected.has_value(); });
}

void batch::remove(std::string_view key) {
  if (key.size() > key_size_max) {
    raise(errc::key_too_long, "a key of {} bytes: keys have at most {}", key.size(), key_size_max);
  }
  operations_.push_back({std::string(key), std::nullopt, std::nullopt});
}

namespace detail {
namespace {

/// The last operation on each key, ascending by key.
std::vector<const batch::operation*> last_of_each_key(const batch& operations) {
  std::vector<const batch::operation*> sorted;
  sorted.reserve(operations.size());
  for (const auto& o : operations.operations()) sorted.push_back(&o);
  std::ranges::stable_sort(sorted, {}, [](const auto* o) -> std::string_view { return o->key; });
  std::vector<const batch::operation*> last;
  last.reserve(sorted.size());
  for (const auto* o : sorted) {
    if (!last.empty() && last.back()->key == o->key) {
      last.back() = o;
    } else {
      last.push_back(o);
    }
  }
  return last;
}

/// Enough space for the operation, whichever kind of record it needs.
std::uint64_t space_for(const batch::operation& o, bool with_durable_heads) noexcept {
  const std::size_t value_size = o.value ? o.value->size() : 0;
  const auto as_entry = record_layout::of_entry(o.key.size(), value_size, true, !o.value);
  const auto as_update = o.value ? record_layout::of_insert(value_size, true) : record_layout::of_remove(true);
  const std::uint64_t space = std::max(as_entry.size(), as_update.size()) + format::record_padding_max;
  return with_durable_heads ? space + record_layout::of_key(o.key.size()).size() + format::record_padding_max : space;
}

/// Of an operation that has one.
newest_condition condition_of(const batch::operation& o) noexcept {
  using what = newest_condition::what;
  return {*o.expected == 0 ? what::no_value : what::of_version, *o.expected};
}

}  // namespace

/// Call before anything is linked, because no link can be undone.
template <class Heads>
void engine<Heads>::require_room_in_histories(std::span<const batch::operation* const> todo) const {
  std::vector<std::string_view> keys;
  keys.reserve(todo.size());
  for (const auto* o : todo) keys.push_back(o->key);
  std::vector<link> entries(todo.size());
  // the searches overlap, and the later ones that link the keys find their nodes in the caches
  index_->find_many(keys, entries);
  for (const link entry : entries) {
    if (entry != null_link) young_->require_room_above(entry);
  }
}

/// Returns the entry if it is new. It is durable, with the pair that leads to it, after the next sync.
template <class Heads>
link engine<Heads>::enter_key(const writer& w, std::string_view key) const {
  const record_layout layout = record_layout::of_key(key.size());
  const entered there = enter_batched(w, {layout, null_link, key, {}, index::lookup_cache::hash_of(key)});
  if (there.is_new()) {
    const record r = young_->at(there.entry);
    w.count(layout, false, there.entry, r.header().crc, young_->stamp_of(there.entry));
    return there.entry;
  }
  return null_link;
}

/// A persistent index may only lead to stamped entries, whether the batch succeeds or not. So the keys are entered
/// first, without values. They show nothing, and they lie before the batch, so that it is the last of its segment (W2).
template <class Heads>
void engine<Heads>::enter_keys(const writer& w, std::span<const batch::operation* const> todo) const {
  std::vector<link> fresh;
  fresh.reserve(todo.size());
  try {
    for (const auto* o : todo) {
      const link entry = enter_key(w, o->key);
      if (entry == null_link) continue;
      fresh.push_back(entry);
      // pages reach a device in any order: the next key must not become durable without this one (W2)
      if (young_->persists_on_read() && pool_->persist().by_pages()) pool_->persist().sync();
    }
  } catch (...) {
    // the keys entered so far stay. The writer's next record may be another thread's, whose fence orders no flush of
    // this thread (W2)
    young_->await_flushed(fresh);
    throw;
  }
  young_->await_flushed(fresh);
}

template <class Heads>
struct engine<Heads>::batch_run {
  const writer& w;
  link batch_link;
  std::vector<fresh_record> records;
};

version apply(opened_store& store, const batch& operations) {
  if (operations.has_conditions()) {
    store.check_may_lease();
    raise(errc::invalid_argument, "the batch has conditions (insert_new, replace), which may fail: use apply_if");
  }
  const auto todo = last_of_each_key(operations);
  if (todo.empty()) {
    store.hold()->check_writable();
    return store.clock->now();
  }
  return with_writer(store, [&](auto& engine, const writer& w) { return engine.apply(w, todo); });
}

template <class Heads>
bool engine<Heads>::holds(const batch::operation& o) const {
  if (!o.expected) return true;
  const link entry = entry_of(o.key);
  const newest_condition wanted = over_packed(o.key, condition_of(o));
  return entry == null_link ? wanted.holds_for(wanted.below) : young_->newest_is(entry, wanted);
}

/// What a batch has linked cannot be unlinked, so all conditions must hold before the first record is linked, and go on
/// to hold until the last one is. The gate stops the other writers meanwhile. If this process is killed, the batch is
/// not ready and never will be, as without conditions.
std::optional<version> apply_if(opened_store& store, const batch& operations) {
  if (!operations.has_conditions()) return apply(store, operations);
  if (operations.size() == 1) {  // needs no gate
    const batch::operation& only = operations.operations().front();
    return with_writer(store, [&](auto& engine, const writer& w) {
      return engine.put_if(w, only.key, *only.value, condition_of(only));
    });
  }
  store.check_may_lease();
  const auto todo = last_of_each_key(operations);
  store.writers->await_turn();
  for (;;) {
    {
      const writer_set::gate stopped(*store.writers);
      const writer_lease w(*store.writers, /*through_gate=*/true);
      if (!store.is_behind()) [[likely]] {
        store_core& core = store.current();  // E1
        core.check_usable();                 // see with_writer()
        return with_writer(core, *w, [&](auto& engine, const writer& leased) -> std::optional<version> {
          for (const auto& o : operations.operations()) {
            if (!engine.holds(o)) return std::nullopt;
          }
          return engine.apply(leased, todo);
        });
      }
    }
    store.follow();
  }
}

template <class Heads>
version engine<Heads>::apply(const writer& w, std::span<const batch::operation* const> todo) {
  const record_layout batch_layout = record_layout::of_batch();
  std::uint64_t space = batch_layout.size() + format::record_padding_max;
  for (const auto* o : todo) space += space_for(*o, Heads::are_durable);

  batch_run run{w, null_link, {}};
  run.records.reserve(todo.size());
  w.count_batched(todo.size() - 1);
  require_room_in_histories(todo);
  w.reserve(space);  // the last step that may fail before anything is linked, unless the index is persistent
  if constexpr (Heads::are_durable) enter_keys(w, todo);
  run.batch_link = w.allocate(batch_layout);
  try {
    for (const auto* o : todo) link_batched(run, *o);
  } catch (...) {
    // what is linked cannot be unlinked: the batch stays unready, no reader ever sees it, and reopening drops it
    pool_->persist().poison("a batch was cut off in the middle, by damage, the device or a lack of memory");
    throw;
  }
  for (const auto& fresh : run.records) young_->flush_fresh(fresh.at, fresh.layout.size());
  if (young_->persists_on_read()) pool_->persist().sync();
  const record b = young_->at(run.batch_link);
  b.fill(batch_layout, null_link, {}, {});
  b.header().depth = static_cast<std::uint32_t>(run.records.size());
  b.seal(w.seed_of(run.batch_link));
  const version v = young_->complete_batch(run.batch_link);
  w.count(batch_layout, false, run.batch_link, b.header().crc, v);
  for (const auto& fresh : run.records) finish_batched(w, fresh);
  return v;
}

template <class Heads>
void engine<Heads>::link_batched(batch_run& run, const batch::operation& o) {
  const std::string_view value = o.value ? std::string_view(*o.value) : std::string_view();
  // a removal of an absent key is recorded too: another thread may insert the key between here and the batch's instant,
  // and that insert must then come before the removal
  const auto as_entry = record_layout::of_entry(o.key.size(), value.size(), true, !o.value);
  const entered there =
      enter_batched(run.w, {as_entry, run.batch_link, o.key, value, index::lookup_cache::hash_of(o.key)});
  run.w.count_given(o.key.size());
  if (there.is_new()) {
    run.records.push_back({there.entry, as_entry, there.flushed()});
    return;
  }
  const auto layout = o.value ? record_layout::of_insert(value.size(), true) : record_layout::of_remove(true);
  const fresh_record fresh{run.w.allocate(layout), layout};
  run.w.fill(fresh.at, layout, run.batch_link, {}, value);
  static_cast<void>(young_->link_on_top(there.entry, fresh.at, run.w.seed_of(fresh.at), {}));
  run.records.push_back(fresh);
}

template version engine<rebuilt_heads>::apply(const writer& w, std::span<const batch::operation* const> todo);
template version engine<durable_heads>::apply(const writer& w, std::span<const batch::operation* const> todo);
template version engine<layered<rebuilt_heads>>::apply(const writer& w, std::span<const batch::operation* const> todo);
template version engine<layered<durable_heads>>::apply(const writer& w, std::span<const batch::operation* const> todo);
template bool engine<rebuilt_heads>::holds(const batch::operation& o) const;
template bool engine<durable_heads>::holds(const batch::operation& o) const;
template bool engine<layered<rebuilt_heads>>::holds(const batch::operation& o) const;
template bool engine<layered<durable_heads>>::holds(const batch::operation& o) const;

}  // namespace detail
}  // namespace icecore

#include "icecore/snapshot.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/raise.hpp"
#include "icecore/history.hpp"
#include "store/engine.hpp"
#include "store/read/layered_walk.hpp"
#include "store/read/scan.hpp"

namespace icecore {

key_bounds key_bounds::of_prefix(std::string_view prefix) {
  key_bounds bounds{std::string(prefix), std::nullopt};
  std::string after(prefix);
  while (!after.empty() && after.back() == '\xff') after.pop_back();
  if (!after.empty()) {
    after.back() = static_cast<char>(static_cast<unsigned char>(after.back()) + 1);
    bounds.to = std::move(after);
  }
  return bounds;
}

// ---- Cursor ----

/// Loads index blocks into a cursor. Keeps the block's first entry even if none of the block is visible, because the
/// walk back continues from it.
template <class Engine>
struct [[gnu::visibility("hidden")]] cursor::index_access {
  const Engine& core;
  cursor& c;

  void seek_first() const {
    index::block b;
    links().seek_first(b);
    first_of(b, [](std::string_view) { return true; });
  }
  void seek_last() const {
    index::block b;
    links().seek_last(b);
    if (b.size == 0) return;
    detail::prefetch_entries(core, detail::entries_of(b));
    take(b);
    if (c.visible_.empty()) return backward(core.key_of(c.first_entry_));
    show(c.visible_.size() - 1);
  }
  void seek(std::string_view key) const {
    index::block b;
    links().seek(key, b);
    first_of(b, [key](std::string_view k) { return k >= key; });
  }
  void seek_after(std::string_view key) const {
    index::block b;
    links().seek(key, b);
    first_of(b, [key](std::string_view k) { return k > key; });
  }
  void seek_before(std::string_view key) const { backward(key); }
  void next() const { c.position_ + 1 < c.visible_.size() ? show(c.position_ + 1) : forward(); }
  void previous() const { c.position_ > 0 ? show(c.position_ - 1) : backward(core.key_of(c.first_entry_)); }

 private:
  [[nodiscard]] const index::ordered_links& links() const { return detail::in_key_order(core, c.sorted_); }

  /// `coming` is the block that the walk probably comes to next.
  void take(const index::block& b, std::span<const link> coming = {}) const {
    c.visible_.resize(index::block::capacity);
    const auto entries = detail::entries_of(b);
    c.visible_.resize(
        detail::visible_records(core, {core, entries, coming}, c.at_,
                                std::span<link, index::block::capacity>(c.visible_.data(), index::block::capacity)));
    c.next_block_ = b.next;
    if (b.size > 0) c.first_entry_ = entries.front();
  }

  void show(std::size_t position) const {
    c.position_ = position;
    c.current_ = detail::item_of(core, c.visible_[position]);
    c.valid_ = true;
  }

  /// Moves to the first item of the blocks behind the current one.
  void forward() const {
    constexpr unsigned looks_ahead_from = 8;  // short scans end before
    index::block b;
    index::block after;
    do {
      c.valid_ = false;
      b.next = c.next_block_;
      if (!links().next_block(b)) return;
      if (c.prefetched_ != c.next_block_) detail::prefetch_entries(core, detail::entries_of(b));
      after.size = 0;
      after.next = b.next;
      if (c.forward_ < looks_ahead_from) {
        ++c.forward_;
      } else if (links().next_block(after)) {
        c.prefetched_ = b.next;
      }
      take(b, detail::entries_of(after));
    } while (c.visible_.empty());
    show(0);
  }

  /// Moves to the last item with a key below `key`, going back as far as needed.
  void backward(std::string_view key) const {
    index::block b;
    for (;;) {
      c.valid_ = false;
      if (!links().block_before(key, b)) return;
      detail::prefetch_entries(core, detail::entries_of(b));
      take(b);
      if (!c.visible_.empty()) return show(c.visible_.size() - 1);
      key = core.key_of(c.first_entry_);
    }
  }

  /// Moves to the first item that satisfies `wanted` in block `b` or, if there is none, in the blocks behind it.
  template <typename Wanted>
  void first_of(const index::block& b, Wanted wanted) const {
    c.valid_ = false;
    c.forward_ = 0;
    if (b.size == 0) return;
    detail::prefetch_entries(core, detail::entries_of(b));
    take(b);
    const auto found = std::ranges::find_if(c.visible_, [&](link l) { return wanted(detail::key_of_record(core, l)); });
    if (found == c.visible_.end()) return forward();
    show(static_cast<std::size_t>(found - c.visible_.begin()));
  }
};

/// Reads items into a cursor: forward by a walk, backward by the links of a block.
template <class Engine>
struct [[gnu::visibility("hidden")]] cursor::layered_access {
  const Engine& core;
  cursor& c;

  void seek_first() const { seek({}); }
  void seek_last() const {
    index::block b;
    links().seek_last(b);
    if (b.size > 0 && !last_of(b)) seek_before(core.key_of(b.entries.front()));
  }
  void seek(std::string_view key) const {
    constexpr unsigned of_a_find = 4;  // a reader that wants one item reads few in vain
    walk().seek(key);
    c.forward_ = of_a_find;
    read_on();
  }
  void seek_after(std::string_view key) const {
    std::string behind(key);
    behind.push_back('\0');
    seek(behind);
  }
  void seek_before(std::string_view key) const {
    index::block b;
    do {
      if (!links().block_before(key, b)) return;
      key = core.key_of(b.entries.front());
    } while (!last_of(b));
  }
  /// Behind the items ahead.
  void next() const {
    if (*c.ahead_ == nullptr || c.forward_ == 0) return seek_after(c.current_.key);
    read_on();
  }
  void previous() const {
    if (*c.ahead_ == nullptr || c.position_ == 0) return seek_before(c.current_.key);
    show(c.position_ - 1);
  }

 private:
  using walk_type = detail::layered_walk<Engine>;

  [[nodiscard]] const index::ordered_links& links() const { return detail::in_key_order(core, c.sorted_); }
  /// A cursor's engine, and so its type, is always the same.
  [[nodiscard]] walk_type& walk() const {
    auto& kept = *c.ahead_;
    if (kept == nullptr) {
      static_cast<void>(links());  // makes what is sorted
      kept = std::make_shared<walk_type>(core, c.sorted_, c.at_);
    }
    return static_cast<walk_type&>(*kept);
  }
  void show(std::size_t position) const {
    const auto items = (*c.ahead_)->items();
    c.position_ = position;
    c.current_ = items[position];
    c.ahead_.set(items.data() + position + 1, items.data() + items.size());
    c.valid_ = true;
  }
  void read_on() const {
    constexpr unsigned grows = 2;
    if (!walk().read(c.forward_)) return;
    c.forward_ = std::min(grows * c.forward_, static_cast<unsigned>(walk_type::capacity));
    show(0);
  }
  [[nodiscard]] bool last_of(const index::block& b) const {
    detail::prefetch_entries(core, detail::entries_of(b));
    walk().take(detail::entries_of(b));
    c.forward_ = 0;
    const std::size_t count = walk().items().size();
    if (count > 0) show(count - 1);
    return count > 0;
  }
};

/// The store, for a move. The cursor is invalid until the move succeeds, so it is invalid if the move throws.
const detail::store_core& cursor::begin_move() {
  valid_ = false;
  ahead_.set(nullptr, nullptr);
  return detail::usable_core(holds_);
}

/// Calls `move` with the cursor's access to the store.
template <typename Move>
void cursor::go(const detail::store_core& core, Move move) {
  detail::with_engine(core, [&]<class Engine>(const Engine& engine) {
    if constexpr (Engine::is_layered) {
      move(layered_access<Engine>{engine, *this});
    } else {
      move(index_access<Engine>{engine, *this});
    }
  });
}

void cursor::seek_first() {
  go(begin_move(), [](const auto& a) { a.seek_first(); });
}

void cursor::seek_last() {
  go(begin_move(), [](const auto& a) { a.seek_last(); });
}

void cursor::seek(std::string_view key) {
  go(begin_move(), [key](const auto& a) { a.seek(key); });
}

void cursor::seek_after(std::string_view key) {
  go(begin_move(), [key](const auto& a) { a.seek_after(key); });
}

void cursor::seek_before(std::string_view key) {
  go(begin_move(), [key](const auto& a) { a.seek_before(key); });
}

void cursor::read_next() {
  go(begin_move(), [](const auto& a) { a.next(); });
}

void cursor::previous() {
  go(begin_move(), [](const auto& a) { a.previous(); });
}

// ---- Range ----

item_range::item_range(icecore::cursor cursor, key_bounds bounds, bool reverse)
    : cursor_(std::move(cursor)), bounds_(std::move(bounds)), reverse_(reverse) {}

item_range item_range::reversed() const { return {cursor_, bounds_, !reverse_}; }

item_range::iterator item_range::begin() & {
  if (!reverse_) {
    if (bounds_.from) {
      cursor_.seek(*bounds_.from);
    } else {
      cursor_.seek_first();
    }
  } else if (bounds_.to) {
    cursor_.seek_before(*bounds_.to);
  } else {
    cursor_.seek_last();
  }
  return iterator(this);
}

void item_range::step() {
  if (reverse_) {
    cursor_.previous();
  } else {
    cursor_.next();
  }
}

bool item_range::at_end() const noexcept {
  if (!cursor_.valid()) return true;
  if (reverse_) return bounds_.from && cursor_->key < *bounds_.from;
  return bounds_.to && cursor_->key >= *bounds_.to;
}

// ---- Snapshot ----

std::optional<std::string_view> snapshot::find(std::string_view key) const& {
  const std::uint64_t hash = index::lookup_cache::hash_of(key);
  return detail::with_engine(detail::usable_core(holds_),
                             [&](const auto& engine) { return engine.find(key, hash, at_); });
}

std::optional<value> snapshot::find(std::string_view key) const&& {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return std::optional<value>(std::in_place, *found, holds_);
}

void snapshot::find_many(std::span<const std::string_view> keys,
                         std::span<std::optional<std::string_view>> out) const& {
  const auto& core = detail::usable_core(holds_);
  if (keys.size() != out.size()) {
    raise(errc::invalid_argument, "find_many: {} keys but room for {} answers", keys.size(), out.size());
  }
  detail::with_engine(core, [&](const auto& engine) { engine.find_many(keys, &at_, 0, out); });
}

namespace {

std::optional<item> item_at(const cursor& c) {
  if (!c.valid()) return std::nullopt;
  return *c;
}

}  // namespace

std::optional<item> snapshot::lower_bound(std::string_view key) const& {
  auto c = cursor();
  c.seek(key);
  return item_at(c);
}

std::optional<item> snapshot::upper_bound(std::string_view key) const& {
  auto c = cursor();
  c.seek_after(key);
  return item_at(c);
}

std::optional<item> snapshot::first() const& {
  auto c = cursor();
  c.seek_first();
  return item_at(c);
}

std::optional<item> snapshot::last() const& {
  auto c = cursor();
  c.seek_last();
  return item_at(c);
}

item_range snapshot::range(std::string_view from, std::string_view to) const {
  return range(key_bounds{std::string(from), std::string(to)});
}

std::size_t snapshot::size_bound() const { return detail::usable_core(holds_).keys_at_most(); }

pinned_list<change> snapshot::history(std::string_view key) const {
  return key_history(holds_, key, at_).newest_first();
}

// ---- History ----

key_history::key_history(pin holds, std::string_view key, icecore::version up_to)
    : holds_(std::move(holds)), key_(key), up_to_(up_to) {}

/// Tells the change that the record `from` or one behind it shows, and returns that record; null_link if none does.
/// Skips removals of absent keys, which batches may record.
template <class Engine>
link key_history::show(const Engine& engine, link from, change& to) {
  const auto& histories = engine.histories();
  for (; from != null_link; from = histories.older(from)) {
    histories.verify_checksum(from);
    const bool is_removal = histories.is_removal(from);
    if (is_removal) {
      const link before = histories.older(from);
      if (before == null_link) continue;
      histories.verify_checksum(before);
      if (histories.is_removal(before)) continue;
    }
    const version stamped = histories.stamp_of(from);
    histories.persist_before_return(from);
    if (is_removal) {
      to = {stamped, std::nullopt};
    } else {
      to = {stamped, engine.value_of(from)};
    }
    return from;
  }
  return null_link;
}

/// Tells the changes behind the one at record_, which is packed, as far as its block has them, and returns where the
/// last one ends. Stops before a removal that ends the block: what lies behind tells whether it shows.
template <class Engine>
change* key_history::read_ahead(const Engine& engine, change* to, const change* end) {
  stratum::record_place last = detail::place_of(record_);
  version removed = 0;  // a removal, which shows on top of a value only
  std::uint64_t removal_row = 0;
  for (auto rows = engine.histories().packed().rows_after(last); to != end;) {
    if (removed == 0) {
      const bool some = rows.take_values(static_cast<std::size_t>(end - to), [&](version stamped, std::string_view v) {
        to->version = stamped;
        to->value.emplace(v);
        ++to;
      });
      if (some) last.in.row = rows.row();
      if (to == end) break;
    }
    if (!rows.next()) break;
    if (rows.is_removal()) [[unlikely]] {
      if (removed != 0) last.in.row = removal_row;
      removed = rows.stamped();
      removal_row = rows.row();
      continue;
    }
    if (removed != 0) [[unlikely]] {
      last.in.row = removal_row;
      *to = {std::exchange(removed, 0), std::nullopt};
      if (++to == end) break;
    }
    if (rows.is_elsewhere()) [[unlikely]]
      break;
    to->version = rows.stamped();
    to->value.emplace(rows.value());
    ++to;
    last.in.row = rows.row();
  }
  record_ = detail::packed_link(last);
  return to;
}

/// The change that begins at the record `from`, and of a long history that is packed those behind it. If it throws,
/// what was read before stays.
template <class Engine>
key_history::iterator key_history::read(const Engine& engine, link from) {
  if constexpr (Engine::is_layered) {
    constexpr std::size_t short_ones = 4;  // those who read few changes read none in vain
    constexpr std::size_t at_least = 16;
    constexpr std::size_t at_most = 256;
    if (detail::is_packed(from) && ++packed_read_ > short_ones) {
      const std::size_t ahead = std::min(at_most, at_least << std::min<std::size_t>(packed_read_ - short_ones - 1, 4));
      std::vector<change> larger;
      // two sizes, since a vector fills all of it
      if (several_.size() <= ahead) larger.resize(1 + (ahead == at_least ? at_least : at_most));
      change* const first = larger.empty() ? several_.data() : larger.data();
      record_ = show(engine, from, *first);
      if (record_ == null_link) return {this, {}};
      if (!larger.empty()) several_ = std::move(larger);
      return {this, {first, read_ahead(engine, first + 1, first + 1 + ahead)}};
    }
  }
  record_ = show(engine, from, one_);
  if (record_ == null_link) return {this, {}};
  return {this, {&one_, 1}};
}

key_history::iterator key_history::begin() & {
  const auto& core = detail::usable_core(holds_);
  record_ = null_link;
  record_is_next_ = false;
  packed_read_ = 0;
  return detail::with_engine(core, [&](const auto& engine) -> iterator {
    const link entry = engine.standing_for(key_);
    if (entry == null_link) return {this, {}};
    const auto& histories = engine.histories();
    // of a key that was inserted and removed, the removal's record is a cache miss that says nothing more
    if (const version removed = histories.removal_after_first(entry, up_to_); removed != 0) {
      record_ = entry;
      record_is_next_ = true;
      one_ = {removed, std::nullopt};
      return {this, {&one_, 1}};
    }
    return read(engine, up_to_ == version_max ? histories.find_latest(entry) : histories.find_at(entry, up_to_));
  });
}

key_history::iterator key_history::go_on() {
  const auto& core = detail::usable_core(holds_);
  return detail::with_engine(core, [&](const auto& engine) {
    const bool is_read = !record_is_next_ && record_ != null_link;
    const iterator next = read(engine, is_read ? engine.histories().older(record_) : record_);
    record_is_next_ = false;
    return next;
  });
}

std::vector<change> key_history::collect() {
  std::vector<change> changes;
  for (const auto& c : *this) changes.push_back(c);
  return changes;
}

bool key_history::thinned() const {
  const auto expired = detail::usable_core(holds_).expired();
  return !expired.empty() && expired.front().first <= up_to_;
}
pinned_list<change> key_history::newest_first() { return {collect(), holds_}; }

pinned_list<change> key_history::oldest_first() {
  auto changes = collect();
  std::ranges::reverse(changes);
  return {std::move(changes), holds_};
}

}  // namespace icecore

// Extracts whole snapshots with several threads: each thread takes parts of the key space and collects their items, and
// the parts are joined in key order (IPDPS 2022, extract_snapshot; its multi-threaded merge has nothing to merge within
// a node).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "icecore/snapshot.hpp"
#include "store/engine.hpp"
#include "store/read/layered_walk.hpp"
#include "store/read/scan.hpp"

namespace icecore {
namespace {

using detail::scan_bounds;

/// Average number of parts for each thread: with several, uneven parts balance out.
constexpr unsigned parts_per_thread = 8;

/// Approximate number of entries in a part when extracting to fixed columns: a part's rows stay in a core's cache until
/// they are copied.
constexpr std::size_t entries_per_part = 8192;

/// Splits the bounds into at least `parts_min` parts if there are several threads and enough keys.
template <class Engine>
class parts_in_key_order {
 public:
  parts_in_key_order(const Engine& core, const scan_bounds& all, unsigned threads, std::size_t parts_min = 0)
      : core_(&core), links_(&detail::in_key_order(core, kept_, threads)) {
    scan_bounds remaining = all;
    if (threads > 1) {
      for (const link l : links_->split_points(std::max(parts_min, std::size_t{threads} * parts_per_thread))) {
        const std::string_view key = core.key_of(l);
        if (key <= all.from) continue;
        if (all.beyond(key)) break;
        scan_bounds part = remaining;
        part.to = key;
        part.bounded_above = true;
        parts_.push_back(part);
        remaining.from = key;
      }
    }
    parts_.push_back(remaining);
  }

  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  template <typename Visit>
  void for_each_block(std::size_t part, Visit visit) const {
    detail::for_each_block(*core_, *links_, parts_[part], std::move(visit));
  }
  [[nodiscard]] const scan_bounds& bounds(std::size_t part) const noexcept { return parts_[part]; }
  /// Precondition: the store has strata.
  [[nodiscard]] auto walk(version at) const { return detail::layered_walk<Engine>(*core_, kept_, at); }

 private:
  const Engine* core_;
  std::shared_ptr<const detail::sorted_keys> kept_;
  const index::ordered_links* links_;
  std::vector<scan_bounds> parts_;
};

/// Splits the whole index, in its own order, into several parts if there are several threads.
template <class Engine>
class parts_in_any_order {
 public:
  parts_in_any_order(const Engine& core, unsigned threads) : core_(&core), cuts_{null_link} {
    if (threads > 1) {
      for (const link l : core.index().split_points(std::size_t{threads} * parts_per_thread)) cuts_.push_back(l);
    }
    cuts_.push_back(null_link);
  }

  [[nodiscard]] std::size_t size() const noexcept { return cuts_.size() - 1; }
  template <typename Visit>
  void for_each_block(std::size_t part, Visit visit) const {
    detail::for_each_block(*core_, detail::index_part{cuts_[part], cuts_[part + 1]}, std::move(visit));
  }

 private:
  const Engine* core_;
  std::vector<link> cuts_;
};

/// Some neighbouring items of a version. Those of a store without packed versions are read when they are asked for.
template <class Engine>
class shown_block {
 public:
  shown_block(const Engine& core, std::span<const link> records) noexcept : core_(&core), records_(records) {}
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard, gnu::always_inline]] std::string_view key(std::size_t i) const {
    return detail::key_of_record(*core_, records_[i]);
  }
  [[nodiscard, gnu::always_inline]] std::string_view value(std::size_t i) const { return core_->value_of(records_[i]); }
  /// Its value is not known: it may be a removal.
  [[nodiscard]] bool is_lost(std::size_t i) const { return core_->histories().is_lost(records_[i]); }

 private:
  const Engine* core_;
  std::span<const link> records_;
};

/// Items that a walk through a store with packed versions has read.
class walked_items {
 public:
  explicit walked_items(std::span<const item> items) noexcept : items_(items) {}
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept { return items_[i].key; }
  [[nodiscard]] std::string_view value(std::size_t i) const noexcept { return items_[i].value; }
  [[nodiscard]] static bool is_lost(std::size_t /*i*/) noexcept { return false; }  // the walk has read its value

 private:
  std::span<const item> items_;
};

/// Items of a block. A value that lies elsewhere is read when it is asked for: who wants keys alone reads none.
class packed_items {
 public:
  explicit packed_items(const stratum::strata& of) noexcept : of_(&of) {}
  void add(std::string_view key, const stratum::packed_record& r) noexcept {
    keys_[size_] = key;
    records_[size_++] = r;
  }
  void clear() noexcept { size_ = 0; }
  [[nodiscard]] bool is_full() const noexcept { return size_ == capacity; }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept { return keys_[i]; }
  [[nodiscard]] std::string_view value(std::size_t i) const { return of_->value_of(records_[i]); }
  [[nodiscard]] static bool is_lost(std::size_t /*i*/) noexcept { return false; }

 private:
  static constexpr std::size_t capacity = detail::items_ahead::capacity;

  const stratum::strata* of_;
  std::array<std::string_view, capacity> keys_;
  std::array<stratum::packed_record, capacity> records_;
  std::size_t size_ = 0;
};

/// Calls visit(items) for what these keys of a block of `of` show, until it returns false; whether it never did.
template <class Visit>
bool visit_items(const stratum::strata& of, const stratum::block& b, std::uint32_t first, std::uint32_t end, version at,
                 Visit& visit) {
  packed_items items(of);
  const bool goes_on = b.for_each_at(at, first, end, [&](std::string_view key, const stratum::packed_record& r) {
    if (r.is_removal()) return true;
    items.add(key, r);
    if (!items.is_full()) return true;
    const bool more = visit(items);
    items.clear();
    return more;
  });
  return goes_on && (items.size() == 0 || visit(items));
}

/// Goes through one part of a store with packed versions, in order: calls visit_run(block, first, end) for keys from
/// `first` to before `end` of a block that nothing else has, and visit(items) for others, until one returns false.
template <class Engine, class Parts, class VisitRun, class Visit>
void visit_layered(const Engine& core, version at, const Parts& parts, std::size_t part, VisitRun visit_run,
                   Visit visit) {
  const scan_bounds& bounds = parts.bounds(part);
  if (core.packed()->all().size() == 1 && !core.has_young_keys()) {  // blocks that show nothing are not read
    core.packed()->for_each_run(at, bounds.from, [&](const stratum::block& b, std::uint32_t first) {
      const std::uint32_t end = bounds.bounded_above ? b.end_before(bounds.to, first) : b.keys();
      return (first >= end || visit_run(b, first, end)) && end == b.keys();
    });
    return;
  }
  auto walk = parts.walk(at);
  walk.seek(bounds.from);
  while (walk.visit_or_read(bounds.bounded_above ? std::optional(bounds.to) : std::nullopt, visit_run)) {
    std::span<const item> items = walk.items();
    while (!items.empty() && bounds.beyond(items.back().key)) items = items.first(items.size() - 1);
    if (!items.empty() && !visit(walked_items(items))) return;
  }
}

/// Calls visit(items) for consecutive items of one part in version `at`, until it returns false.
template <class Engine, class Parts, typename Visit>
void visit_part(const Engine& core, version at, const Parts& parts, std::size_t part, Visit visit) {
  if constexpr (Engine::is_layered) {
    visit_layered(
        core, at, parts, part,
        [&](const stratum::block& b, std::uint32_t first, std::uint32_t end) {
          return visit_items(*core.packed(), b, first, end, at, visit);
        },
        visit);
  } else {
    parts.for_each_block(part, [&](const detail::walked_entries& entries) {
      std::array<link, index::block::capacity> visible;
      return visit(
          shown_block(core, std::span<const link>(visible).first(detail::visible_records(core, entries, at, visible))));
    });
  }
}

/// Adds the items of one part in version `at` to `rows`, as long as goes_on(). Packed keys of a block are copied at
/// once where they can be.
template <class Engine, class Parts, class Rows, class GoesOn>
void add_part(const Engine& core, version at, const Parts& parts, std::size_t part, Rows& rows, GoesOn goes_on) {
  const auto add = [&](const auto& items) {
    rows.add(items);
    return goes_on();
  };
  if constexpr (Engine::is_layered) {
    visit_layered(
        core, at, parts, part,
        [&](const stratum::block& b, std::uint32_t first, std::uint32_t end) {
          return rows.add_shown(b, first, end, at) ? goes_on() : visit_items(*core.packed(), b, first, end, at, add);
        },
        add);
  } else {
    visit_part(core, at, parts, part, add);
  }
}

/// Calls visit(part, items) for the items of the version, part by part. The items of one part come in order and from
/// one thread. `visit` returns false to stop.
template <class Engine, class Parts, typename Visit>
void visit_parts(const Engine& core, version at, const Parts& parts, unsigned threads, Visit visit) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(threads, static_cast<unsigned>(parts.size())), [&](unsigned) {
    // relaxed: only a work counter and a hint; joining the threads orders what they hand over
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts.size();) {
      visit_part(core, at, parts, i, [&](const auto& items) {
        bool go_on = false;
        try {
          go_on = visit(i, items);
        } catch (...) {
          stopped.store(true, std::memory_order_relaxed);
          throw;
        }
        if (!go_on) stopped.store(true, std::memory_order_relaxed);
        return !stopped.load(std::memory_order_relaxed);
      });
      if (stopped.load(std::memory_order_relaxed)) return;
    }
  });
}

/// A copy whose size is known to be 8 is one load and one store.
void copy_sized(std::byte* to, const char* from, std::size_t size) noexcept {
  if (size == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, size);
  }
}

/// Writes records into fixed columns.
class fixed_writer {
 public:
  explicit fixed_writer(const fixed_columns& shape) : shape_(&shape) {}

  /// Writes the first `count` items to the rows from `row` on of `keys` and `values`.
  template <class Items>
  void write(const Items& items, std::size_t count, std::byte* keys, std::byte* values, std::size_t row) const {
    // local: bytes are written, which the compiler must take for a part of the shape otherwise
    const std::size_t key_size = shape_->key_size;
    const std::size_t value_size = shape_->value_size;
    if (keys != nullptr) keys += row * key_size;
    if (values != nullptr) values += row * value_size;
    for (std::size_t i = 0; i < count; ++i) {
      if (keys != nullptr) {
        const std::string_view key = items.key(i);
        if (key.size() != key_size) raise_size("key", key.size(), key_size, key);
        copy_sized(keys, key.data(), key_size);
        keys += key_size;
      }
      if (values != nullptr) {
        const std::string_view value = items.value(i);
        if (value.size() != value_size) raise_size("value", value.size(), value_size, items.key(i));
        copy_sized(values, value.data(), value_size);
        values += value_size;
      }
    }
  }
  /// Writes what these keys of the block show in version `at` to the rows from `row` on; how many. std::nullopt, and
  /// nothing is written, if they have to be written as items. Precondition: there is room for end - first rows.
  [[nodiscard]] std::optional<std::size_t> write_shown(const stratum::block& b, std::uint32_t first, std::uint32_t end,
                                                       version at, std::byte* keys, std::byte* values,
                                                       std::size_t row) const {
    if (keys == nullptr || values == nullptr || !b.copies_to_columns(shape_->key_size, shape_->value_size)) return {};
    return b.copy_shown(at, first, end, {keys + row * shape_->key_size, values + row * shape_->value_size});
  }

 private:
  [[noreturn]] static void raise_size(const char* what, std::size_t is, std::size_t wanted, std::string_view key) {
    raise(errc::invalid_argument, "extract: the {} of key '{}' has {} bytes, but each item of the column has {}", what,
          key, is, wanted);
  }

  const fixed_columns* shape_;
};

[[noreturn]] void raise_capacity(std::size_t capacity) {
  raise(errc::invalid_argument, "extract: the columns have room for {} items, but the snapshot has more", capacity);
}

/// What happens to items for which there is no room.
enum class without_room : std::uint8_t { fails, is_left_out };

/// The rows of fixed columns, filled from the first one on.
template <without_room beyond>
class filled_rows {
 public:
  explicit filled_rows(const fixed_columns& out) : writer_(out), out_(&out) {}
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t room() const noexcept { return out_->capacity - rows_; }

  template <class Items>
  void add(const Items& items) {
    if (beyond == without_room::fails && items.size() > room()) raise_capacity(out_->capacity);
    const std::size_t count = std::min(items.size(), room());
    writer_.write(items, count, keys(), values(), rows_);
    rows_ += count;
  }
  /// Whether it could; nothing is added if not.
  [[nodiscard]] bool add_shown(const stratum::block& b, std::uint32_t first, std::uint32_t end, version at) {
    if (beyond == without_room::fails && end - first > room()) return false;
    while (first < end && room() > 0) {  // not all keys are shown
      const auto part_end = first + static_cast<std::uint32_t>(std::min<std::size_t>(end - first, room()));
      const auto count = writer_.write_shown(b, first, part_end, at, keys(), values(), rows_);
      if (!count) return false;
      rows_ += *count;
      first = part_end;
    }
    return true;
  }

 private:
  [[nodiscard]] std::byte* keys() const noexcept { return static_cast<std::byte*>(out_->keys); }
  [[nodiscard]] std::byte* values() const noexcept { return static_cast<std::byte*>(out_->values); }

  fixed_writer writer_;
  const fixed_columns* out_;
  std::size_t rows_ = 0;
};

/// Rows of fixed columns that a thread collects before it knows where they go. The memory is reused for each part.
class collected_rows {
 public:
  collected_rows(const fixed_writer& writer, const fixed_columns& shape) : writer_(&writer), shape_(&shape) {}

  void clear() noexcept { rows_ = 0; }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }

  template <class Items>
  void add(const Items& items) {
    grow_to(rows_ + items.size());
    writer_->write(items, items.size(), keys_.data(), values_.data(), rows_);
    rows_ += items.size();
  }
  /// Whether it could; nothing is added if not.
  [[nodiscard]] bool add_shown(const stratum::block& b, std::uint32_t first, std::uint32_t end, version at) {
    grow_to(rows_ + (end - first));
    const auto count = writer_->write_shown(b, first, end, at, keys_.data(), values_.data(), rows_);
    rows_ += count.value_or(0);
    return count.has_value();
  }
  void copy_to(std::size_t row) const noexcept {
    copy(shape_->keys, keys_, shape_->key_size, row);
    copy(shape_->values, values_, shape_->value_size, row);
  }

 private:
  void grow_to(std::size_t rows) {
    if (rows <= room_) return;
    room_ = 2 * rows;
    // one byte more: data() of a column of empty items must differ from nullptr, which stands for an unwanted column
    if (shape_->keys != nullptr) keys_.resize(room_ * shape_->key_size + 1);
    if (shape_->values != nullptr) values_.resize(room_ * shape_->value_size + 1);
  }
  void copy(void* column, const std::vector<std::byte>& from, std::size_t size, std::size_t row) const noexcept {
    if (column != nullptr && rows_ != 0) {
      std::memcpy(static_cast<std::byte*>(column) + row * size, from.data(), rows_ * size);
    }
  }

  const fixed_writer* writer_;
  const fixed_columns* shape_;
  std::size_t rows_ = 0;
  std::size_t room_ = 0;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
};

/// Extraction by several threads. Parts are taken in order. A thread that has collected its part waits until the parts
/// before it are collected too, because only then does it know where its rows go. No thread waits for another one to
/// copy.
template <class Engine>
class ordered_extraction {
 public:
  ordered_extraction(const Engine& core, version at, const parts_in_key_order<Engine>& parts, const fixed_columns& out)
      : core_(&core), at_(at), parts_(&parts), out_(&out), writer_(out), first_rows_(parts.size() + 1) {
    for (auto& row : first_rows_) row.store(unknown, std::memory_order_relaxed);  // relaxed: no thread has started
    first_rows_[0].store(0, std::memory_order_relaxed);
  }

  /// The number of rows.
  [[nodiscard]] std::size_t run(unsigned threads) {
    run_on_threads(std::min(threads, static_cast<unsigned>(parts_->size())), [&](unsigned) {
      try {
        work();
      } catch (...) {
        stopped_.store(true, std::memory_order_relaxed);  // or threads that wait for this part would wait for ever
        throw;
      }
    });
    return first_rows_.back().load(std::memory_order_relaxed);  // relaxed: the threads have ended
  }

 private:
  static constexpr std::size_t unknown = ~std::size_t{0};

  // Relaxed in all of the following: these are numbers and a hint, and each thread copies to rows of its own.
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  void work() {
    collected_rows mine(writer_, *out_);
    for (std::size_t i; !stopped() && (i = next_.fetch_add(1, std::memory_order_relaxed)) < parts_->size();) {
      mine.clear();
      add_part(*core_, at_, *parts_, i, mine, [this] { return !stopped(); });
      const std::size_t row = await_first_row(i);
      if (row == unknown) return;
      if (row + mine.rows() > out_->capacity) raise_capacity(out_->capacity);
      first_rows_[i + 1].store(row + mine.rows(), std::memory_order_relaxed);
      mine.copy_to(row);
    }
  }

  /// The first row of the part; `unknown` if another thread has failed.
  [[nodiscard]] std::size_t await_first_row(std::size_t part) const noexcept {
    for (backoff wait;; wait.pause()) {
      const std::size_t row = first_rows_[part].load(std::memory_order_relaxed);
      if (row != unknown || stopped()) return row;
    }
  }

  const Engine* core_;
  version at_;
  const parts_in_key_order<Engine>* parts_;
  const fixed_columns* out_;
  fixed_writer writer_;
  std::vector<std::atomic<std::size_t>> first_rows_;  // of each part; the last is the number of all rows
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
};

void append(byte_column& column, std::string_view bytes) {
  column.bytes.insert(column.bytes.end(), bytes.begin(), bytes.end());
  column.offsets.push_back(column.bytes.size());
}

void append(byte_column& column, const byte_column& more) {
  const std::uint64_t base = column.bytes.size();
  column.bytes.insert(column.bytes.end(), more.bytes.begin(), more.bytes.end());
  for (std::size_t i = 1; i < more.offsets.size(); ++i) column.offsets.push_back(base + more.offsets[i]);
}

/// Parts of all keys, in the order in which they are read soonest.
template <class Engine>
[[nodiscard]] auto parts_of_all(const Engine& core, unsigned threads) {
  if constexpr (Engine::is_layered) {
    return parts_in_key_order<Engine>(core, scan_bounds(), threads);
  } else {
    return parts_in_any_order<Engine>(core, threads);
  }
}

template <class Engine>
std::size_t count_present(const Engine& core, version at, unsigned threads) {
  const auto parts = parts_of_all(core, threads);
  std::vector<std::size_t> counts(parts.size(), 0);
  visit_parts(core, at, parts, threads, [&](std::size_t part, const auto& items) {
    counts[part] += items.size();
    if (core.accepts_damage()) {  // the lost record may be a removal: value() throws
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (items.is_lost(i)) static_cast<void>(items.value(i));
      }
    }
    return true;
  });
  std::size_t sum = 0;
  for (const std::size_t c : counts) sum += c;
  return sum;
}

template <class Engine>
std::size_t extract_fixed(const Engine& core, version at, const fixed_columns& out, unsigned threads) {
  const parts_in_key_order parts(core, scan_bounds(), threads, core.keys_at_most() / entries_per_part);
  if (parts.size() == 1) {
    filled_rows<without_room::fails> rows(out);
    add_part(core, at, parts, 0, rows, [] { return true; });
    return rows.rows();
  }
  return ordered_extraction(core, at, parts, out).run(threads);
}

template <class Engine>
std::size_t extract_page(const Engine& core, version at, std::string_view from, const fixed_columns& out) {
  if (out.capacity == 0) return 0;
  scan_bounds bounds;
  bounds.from = from;
  const parts_in_key_order parts(core, bounds, 1);
  filled_rows<without_room::is_left_out> rows(out);
  add_part(core, at, parts, 0, rows, [&] { return rows.room() > 0; });
  return rows.rows();
}

template <class Engine>
columns extract_columns(const Engine& core, version at, const key_bounds& bounds, unsigned threads) {
  const parts_in_key_order parts(core, scan_bounds(bounds), threads);
  std::vector<columns> own(parts.size());
  for (auto& c : own) {
    c.keys.offsets.push_back(0);
    c.values.offsets.push_back(0);
  }
  visit_parts(core, at, parts, threads, [&](std::size_t part, const auto& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      append(own[part].keys, items.key(i));
      append(own[part].values, items.value(i));
    }
    return true;
  });
  columns all = std::move(own.front());
  for (std::size_t i = 1; i < own.size(); ++i) {
    append(all.keys, own[i].keys);
    append(all.values, own[i].values);
    own[i] = {};
  }
  return all;
}

template <class Engine>
std::vector<item> extract_items(const Engine& core, version at, const key_bounds& bounds, unsigned threads) {
  const parts_in_key_order parts(core, scan_bounds(bounds), threads);
  std::vector<std::vector<item>> own(parts.size());
  visit_parts(core, at, parts, threads, [&](std::size_t part, const auto& items) {
    for (std::size_t i = 0; i < items.size(); ++i) own[part].push_back({items.key(i), items.value(i)});
    return true;
  });
  std::vector<item> all = std::move(own.front());
  for (std::size_t i = 1; i < own.size(); ++i) {
    all.insert(all.end(), own[i].begin(), own[i].end());
    own[i] = {};
  }
  return all;
}

}  // namespace

std::size_t snapshot::size(unsigned threads) const {
  return detail::with_engine(detail::usable_core(holds_),
                             [&](const auto& core) { return count_present(core, at_, thread_count(threads)); });
}

std::size_t snapshot::extract(const fixed_columns& out, unsigned threads) const {
  return detail::with_engine(detail::usable_core(holds_),
                             [&](const auto& core) { return extract_fixed(core, at_, out, thread_count(threads)); });
}

std::size_t snapshot::extract_page(std::string_view from, const fixed_columns& out) const {
  return detail::with_engine(detail::usable_core(holds_),
                             [&](const auto& core) { return icecore::extract_page(core, at_, from, out); });
}

columns snapshot::extract(unsigned threads, const key_bounds& bounds) const {
  return detail::with_engine(detail::usable_core(holds_), [&](const auto& core) {
    return extract_columns(core, at_, bounds, thread_count(threads));
  });
}

pinned_list<item> snapshot::items(unsigned threads, const key_bounds& bounds) const {
  auto items = detail::with_engine(detail::usable_core(holds_), [&](const auto& core) {
    return extract_items(core, at_, bounds, thread_count(threads));
  });
  return {std::move(items), holds_};
}

void snapshot::for_each(const std::function<void(const item&)>& visit, unsigned threads) const {
  const unsigned n = thread_count(threads);
  detail::with_engine(detail::usable_core(holds_), [&](const auto& core) {
    visit_parts(core, at_, parts_of_all(core, n), n, [&](std::size_t, const auto& items) {
      for (std::size_t i = 0; i < items.size(); ++i) visit({items.key(i), items.value(i)});
      return true;
    });
  });
}

}  // namespace icecore

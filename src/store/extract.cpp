// Whole snapshots at once, on several threads: each takes parts of the key space, collects them, and the parts are put
// together in key order (IPDPS 2022, extract_snapshot; the multi-threaded merge has nothing to merge within a node).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "icecore/snapshot.hpp"
#include "store/core.hpp"
#include "store/scan.hpp"

namespace icecore {
namespace {

using detail::scan_bounds;
using detail::store_core;

/// Parts a thread gets on average, so that uneven ones even out.
constexpr unsigned parts_per_thread = 8;

std::vector<scan_bounds> split(const store_core& core, const scan_bounds& all, unsigned threads) {
  std::vector<scan_bounds> parts;
  scan_bounds rest = all;
  if (threads > 1) {
    for (const link l : core.index().split_points(std::size_t{threads} * parts_per_thread)) {
      const std::string_view key = core.key_of(l);
      if (key <= all.from) continue;
      if (all.beyond(key)) break;
      scan_bounds part = rest;
      part.to = key;
      part.bounded_above = true;
      parts.push_back(part);
      rest.from = key;
    }
  }
  parts.push_back(rest);
  return parts;
}

/// Calls visit(part, records) for the records that show a value, part by part; records of one part come in key order
/// and from one thread. `visit` returns false to stop.
template <typename Visit>
void visit_parts(const store_core& core, version at, const std::vector<scan_bounds>& parts, unsigned threads,
                 Visit visit) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(threads, static_cast<unsigned>(parts.size())), [&](unsigned) {
    // relaxed: only a work counter and a hint; what threads hand over is ordered by their end
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts.size();) {
      detail::for_each_block(core, parts[i], [&](std::span<const link> entries) {
        std::array<link, index::block::capacity> visible;
        const std::size_t n = detail::visible_records(core, entries, at, visible);
        bool go_on = false;
        try {
          go_on = visit(i, std::span<const link>(visible.data(), n));
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

/// Copies of a size known to be 8 are one load and one store.
void copy_sized(std::byte* to, const char* from, std::size_t size) noexcept {
  if (size == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, size);
  }
}

/// One part's share of fixed columns.
class fixed_part {
 public:
  fixed_part(const store_core& core, const fixed_columns& shape) : core_(&core), shape_(&shape) {}

  /// Writes a record to row `row` of `keys` and `values`.
  void write(link l, std::byte* keys, std::byte* values, std::size_t row) const {
    if (keys != nullptr) {
      const std::string_view key = detail::key_of_record(*core_, l);
      require(key.size() == shape_->key_size, "key", key.size(), shape_->key_size, l);
      copy_sized(keys + row * shape_->key_size, key.data(), key.size());
    }
    if (values != nullptr) {
      const std::string_view value = core_->value_of(l);
      require(value.size() == shape_->value_size, "value", value.size(), shape_->value_size, l);
      copy_sized(values + row * shape_->value_size, value.data(), value.size());
    }
  }

 private:
  void require(bool fits, const char* what, std::size_t is, std::size_t wanted, link l) const {
    if (fits) return;
    raise(errc::invalid_argument, "extract: the {} of key '{}' has {} bytes, the column is for {}", what,
          detail::key_of_record(*core_, l), is, wanted);
  }

  const store_core* core_;
  const fixed_columns* shape_;
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

[[noreturn]] void raise_capacity(std::size_t capacity) {
  raise(errc::invalid_argument, "extract: the columns have room for {} items, the snapshot has more", capacity);
}

}  // namespace

std::size_t snapshot::size(unsigned threads) const {
  core_->check_usable();
  const unsigned n = thread_count(threads);
  const auto parts = split(*core_, scan_bounds(), n);
  std::vector<std::size_t> counts(parts.size(), 0);
  visit_parts(*core_, at_, parts, n, [&](std::size_t part, std::span<const link> records) {
    counts[part] += records.size();
    return true;
  });
  std::size_t sum = 0;
  for (const std::size_t c : counts) sum += c;
  return sum;
}

std::size_t snapshot::extract(const fixed_columns& out, unsigned threads) const {
  core_->check_usable();
  const fixed_part writer(*core_, out);
  auto* keys = static_cast<std::byte*>(out.keys);
  auto* values = static_cast<std::byte*>(out.values);
  const unsigned n = thread_count(threads);
  const auto parts = split(*core_, scan_bounds(), n);
  if (parts.size() == 1) {
    std::size_t rows = 0;
    visit_parts(*core_, at_, parts, 1, [&](std::size_t, std::span<const link> records) {
      if (rows + records.size() > out.capacity) raise_capacity(out.capacity);
      for (const link l : records) writer.write(l, keys, values, rows++);
      return true;
    });
    return rows;
  }
  // rows of a part are known only once it is read: read into columns of its own, then copy those into place
  struct own_columns {
    std::vector<std::byte> keys;
    std::vector<std::byte> values;
    std::size_t rows = 0;
  };
  std::vector<own_columns> own(parts.size());
  visit_parts(*core_, at_, parts, n, [&](std::size_t part, std::span<const link> records) {
    auto& o = own[part];
    const std::size_t before = o.rows;
    o.rows += records.size();
    // one byte more, so that a column of empty items is not taken for one that is not wanted
    if (keys != nullptr) o.keys.resize(o.rows * out.key_size + 1);
    if (values != nullptr) o.values.resize(o.rows * out.value_size + 1);
    for (std::size_t i = 0; i < records.size(); ++i) {
      writer.write(records[i], keys != nullptr ? o.keys.data() : nullptr, values != nullptr ? o.values.data() : nullptr,
                   before + i);
    }
    return true;
  });
  std::vector<std::size_t> first_row(parts.size() + 1, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) first_row[i + 1] = first_row[i] + own[i].rows;
  if (first_row.back() > out.capacity) raise_capacity(out.capacity);
  run_on_threads(n, [&](unsigned t) {
    for (std::size_t i = t; i < parts.size(); i += n) {
      const auto& o = own[i];
      if (!o.keys.empty()) std::memcpy(keys + first_row[i] * out.key_size, o.keys.data(), o.rows * out.key_size);
      if (!o.values.empty()) {
        std::memcpy(values + first_row[i] * out.value_size, o.values.data(), o.rows * out.value_size);
      }
    }
  });
  return first_row.back();
}

columns snapshot::extract(unsigned threads, const key_bounds& bounds) const {
  core_->check_usable();
  const unsigned n = thread_count(threads);
  const auto parts = split(*core_, scan_bounds(bounds), n);
  std::vector<columns> own(parts.size());
  for (auto& c : own) {
    c.keys.offsets.push_back(0);
    c.values.offsets.push_back(0);
  }
  visit_parts(*core_, at_, parts, n, [&](std::size_t part, std::span<const link> records) {
    for (const link l : records) {
      append(own[part].keys, detail::key_of_record(*core_, l));
      append(own[part].values, core_->value_of(l));
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

std::vector<item> snapshot::items(unsigned threads, const key_bounds& bounds) const {
  core_->check_usable();
  const unsigned n = thread_count(threads);
  const auto parts = split(*core_, scan_bounds(bounds), n);
  std::vector<std::vector<item>> own(parts.size());
  visit_parts(*core_, at_, parts, n, [&](std::size_t part, std::span<const link> records) {
    for (const link l : records) own[part].push_back({detail::key_of_record(*core_, l), core_->value_of(l)});
    return true;
  });
  std::vector<item> all = std::move(own.front());
  for (std::size_t i = 1; i < own.size(); ++i) {
    all.insert(all.end(), own[i].begin(), own[i].end());
    own[i] = {};
  }
  return all;
}

void snapshot::for_each(const std::function<void(const item&)>& visit, unsigned threads) const {
  core_->check_usable();
  const unsigned n = thread_count(threads);
  visit_parts(*core_, at_, split(*core_, scan_bounds(), n), n, [&](std::size_t, std::span<const link> records) {
    for (const link l : records) visit({detail::key_of_record(*core_, l), core_->value_of(l)});
    return true;
  });
}

}  // namespace icecore

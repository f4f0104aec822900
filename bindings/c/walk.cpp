// Cursors, histories and differences.
#include <iterator>
#include <memory>

#include "support.hpp"

using namespace icecore::c;

/// A C++ cursor that stays within bounds.
struct icecore_cursor {
  icecore_cursor(const icecore::snapshot& snapshot, icecore::key_bounds bounds)
      : cursor_(snapshot.cursor()), bounds_(std::move(bounds)) {}

  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] const icecore::item& item() const noexcept { return *cursor_; }

  /// Runs a seek or a step; afterwards the cursor is at an item within the bounds, or invalid.
  template <class Move>
  int move(Move&& move) noexcept {
    valid_ = false;
    status_ = guarded([&] {
      move(cursor_);
      valid_ = cursor_.valid() && within_bounds(cursor_->key);
    });
    return status_;
  }

  /// Neither seek leaves the bounds if there is an item within them.
  void seek_first(icecore::cursor& cursor) const {
    if (bounds_.from) return cursor.seek(*bounds_.from);
    cursor.seek_first();
  }
  void seek_last(icecore::cursor& cursor) const {
    if (bounds_.to) return cursor.seek_before(*bounds_.to);
    cursor.seek_last();
  }
  [[nodiscard]] bool before_bounds(std::string_view key) const { return bounds_.from && key < *bounds_.from; }
  [[nodiscard]] bool behind_bounds(std::string_view key) const { return bounds_.to && key >= *bounds_.to; }

 private:
  [[nodiscard]] bool within_bounds(std::string_view key) const { return !before_bounds(key) && !behind_bounds(key); }

  icecore::cursor cursor_;
  icecore::key_bounds bounds_;
  bool valid_ = false;
  int status_ = ICECORE_OK;
};

namespace {

[[noreturn]] void throw_nowhere(const char* function) {
  throw icecore::error(icecore::errc::invalid_argument,
                       std::string(function) + ": the cursor is not at an item; seek it to one first");
}

int null_cursor(const char* function) noexcept {
  return guarded([&] { throw_null(function, "cursor"); });
}

}  // namespace

struct icecore_history {
  // Newest first reads the store as it goes; oldest first has collected all records.
  std::optional<icecore::key_history> walk;
  std::optional<icecore::key_history::iterator> place;
  icecore::pinned_list<icecore::change> collected;
  std::size_t next = 0;
};

struct icecore_diff {
  explicit icecore_diff(icecore::diff_range from) : range(std::move(from)) {}
  icecore::diff_range range;
  std::optional<icecore::diff_range::iterator> place;  // empty before the first call
};

extern "C" {

int icecore_cursor_open(const icecore_snapshot* snapshot, const void* from, size_t from_size, const void* to,
                        size_t to_size, icecore_cursor** cursor) {
  if (cursor != nullptr) *cursor = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_cursor_open", "snapshot");
    require(cursor, "icecore_cursor_open", "cursor");
    *cursor = new icecore_cursor(snapshot->snapshot, bounds(from, from_size, to, to_size, "icecore_cursor_open"));
  });
}

int icecore_cursor_open_prefix(const icecore_snapshot* snapshot, const void* prefix, size_t prefix_size,
                               icecore_cursor** cursor) {
  if (cursor != nullptr) *cursor = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_cursor_open_prefix", "snapshot");
    require(cursor, "icecore_cursor_open_prefix", "cursor");
    const auto start = view(prefix, prefix_size, "icecore_cursor_open_prefix", "prefix");
    *cursor = new icecore_cursor(snapshot->snapshot, icecore::key_bounds::of_prefix(start));
  });
}

void icecore_cursor_close(icecore_cursor* cursor) { delete cursor; }

int icecore_cursor_seek_first(icecore_cursor* cursor) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_seek_first");
  return cursor->move([&](icecore::cursor& place) { cursor->seek_first(place); });
}

int icecore_cursor_seek_last(icecore_cursor* cursor) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_seek_last");
  return cursor->move([&](icecore::cursor& place) { cursor->seek_last(place); });
}

int icecore_cursor_seek(icecore_cursor* cursor, const void* key, size_t key_size) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_seek");
  return cursor->move([&](icecore::cursor& place) {
    const auto wanted = view(key, key_size, "icecore_cursor_seek", "key");
    if (cursor->before_bounds(wanted)) return cursor->seek_first(place);
    place.seek(wanted);
  });
}

int icecore_cursor_seek_after(icecore_cursor* cursor, const void* key, size_t key_size) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_seek_after");
  return cursor->move([&](icecore::cursor& place) {
    const auto wanted = view(key, key_size, "icecore_cursor_seek_after", "key");
    if (cursor->before_bounds(wanted)) return cursor->seek_first(place);
    place.seek_after(wanted);
  });
}

int icecore_cursor_seek_before(icecore_cursor* cursor, const void* key, size_t key_size) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_seek_before");
  return cursor->move([&](icecore::cursor& place) {
    const auto wanted = view(key, key_size, "icecore_cursor_seek_before", "key");
    if (cursor->behind_bounds(wanted)) return cursor->seek_last(place);
    place.seek_before(wanted);
  });
}

int icecore_cursor_next(icecore_cursor* cursor) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_next");
  if (!cursor->valid()) return guarded([] { throw_nowhere("icecore_cursor_next"); });
  return cursor->move([](icecore::cursor& place) { place.next(); });
}

int icecore_cursor_previous(icecore_cursor* cursor) {
  if (cursor == nullptr) return null_cursor("icecore_cursor_previous");
  if (!cursor->valid()) return guarded([] { throw_nowhere("icecore_cursor_previous"); });
  return cursor->move([](icecore::cursor& place) { place.previous(); });
}

int icecore_cursor_valid(const icecore_cursor* cursor) { return cursor != nullptr && cursor->valid() ? 1 : 0; }

int icecore_cursor_status(const icecore_cursor* cursor) {
  return cursor == nullptr ? static_cast<int>(ICECORE_INVALID_ARGUMENT) : cursor->status();
}

icecore_bytes icecore_cursor_key(const icecore_cursor* cursor) {
  if (cursor == nullptr || !cursor->valid()) return {nullptr, 0};
  return bytes(cursor->item().key);
}

icecore_bytes icecore_cursor_value(const icecore_cursor* cursor) {
  if (cursor == nullptr || !cursor->valid()) return {nullptr, 0};
  return bytes(cursor->item().value);
}

int icecore_history_open(const icecore_store* store, const void* key, size_t key_size, int order,
                         icecore_history** history) {
  if (history != nullptr) *history = nullptr;
  return guarded([&] {
    require(store, "icecore_history_open", "store");
    require(history, "icecore_history_open", "history");
    if (order != ICECORE_NEWEST_FIRST && order != ICECORE_OLDEST_FIRST) {
      throw icecore::error(icecore::errc::invalid_argument,
                           "icecore_history_open: order is " + std::to_string(order) +
                               "; it must be ICECORE_NEWEST_FIRST or ICECORE_OLDEST_FIRST");
    }
    auto opened = std::make_unique<icecore_history>();
    auto records = store->store.history(view(key, key_size, "icecore_history_open", "key"));
    if (order == ICECORE_OLDEST_FIRST) {
      opened->collected = records.oldest_first();
    } else {
      opened->walk.emplace(std::move(records));
      opened->place.emplace(opened->walk->begin());
    }
    *history = opened.release();
  });
}

int icecore_history_next(icecore_history* history, icecore_change* change) {
  if (change != nullptr) *change = {0, {nullptr, 0}};
  return guarded([&] {
    require(history, "icecore_history_next", "history");
    require(change, "icecore_history_next", "change");
    if (history->walk) {
      if (*history->place == std::default_sentinel) return;
      const icecore::change& record = **history->place;
      const icecore_change answer{record.version, bytes(record.value)};
      ++*history->place;
      *change = answer;
    } else if (history->next < history->collected.size()) {
      const icecore::change& record = history->collected[history->next++];
      *change = {record.version, bytes(record.value)};
    }
  });
}

void icecore_history_close(icecore_history* history) { delete history; }

int icecore_diff_open(const icecore_store* store, icecore_version before, icecore_version after, const void* from,
                      size_t from_size, const void* to, size_t to_size, icecore_diff** diff) {
  if (diff != nullptr) *diff = nullptr;
  return guarded([&] {
    require(store, "icecore_diff_open", "store");
    require(diff, "icecore_diff_open", "diff");
    auto between = bounds(from, from_size, to, to_size, "icecore_diff_open");
    *diff = new icecore_diff(store->store.diff(before, after, std::move(between)));
  });
}

int icecore_diff_next(icecore_diff* diff, icecore_difference* difference) {
  if (difference != nullptr) *difference = {{nullptr, 0}, {nullptr, 0}, {nullptr, 0}};
  return guarded([&] {
    require(diff, "icecore_diff_next", "diff");
    require(difference, "icecore_diff_next", "difference");
    if (!diff->place) {
      diff->place.emplace(diff->range.begin());
    } else if (*diff->place != std::default_sentinel) {
      ++*diff->place;
    }
    if (*diff->place == std::default_sentinel) return;
    const icecore::difference& found = **diff->place;
    *difference = {bytes(found.key), bytes(found.before), bytes(found.after)};
  });
}

void icecore_diff_close(icecore_diff* diff) { delete diff; }

}  // extern "C"

// Reading one version of a store: finds, bounds, cursors, ranges, extraction.
//
//   icecore::snapshot then = store.at("epoch-3");
//   for (const auto& [key, value] : then.prefix("layer1/")) use(key, value);
//   for (const auto& [key, value] : then.range("a", "m").reversed()) ...
//
// Threads: a snapshot is a value of two words; copy it freely, and read it from any number of threads. A cursor belongs
//   to one thread at a time.
// Lifetime: views are valid as long as the object that returned them, or the one it was moved to: the snapshot, the
//   cursor or range (its current item and all before), the list. Each of these holds a pin (pin.hpp), so the store may
//   be closed before them; then calls that would read more throw errc::closed. Functions that return views cannot be
//   called on a temporary snapshot: name it first. A range must stay in its place while it is iterated.
// Guarantee (G2, docs/guarantees.md): every reader of a version gets the same answer, at any time.
// Source: extract_snapshot, "Scalable Multi-Versioning Ordered Key-Value Stores", IPDPS 2022, sections II and IV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/pin.hpp"
#include "icecore/range_iterator.hpp"
#include "icecore/value.hpp"

namespace [[gnu::visibility("default")]] icecore {

class filter;                // filter.hpp
class filtered_differences;  // changes.hpp
class filtered_items;        // filtered.hpp
struct page;
struct page_limits;
struct result_values;

/// A key and its value in one version: views into the pool.
struct item {
  std::string_view key;
  std::string_view value;
  friend bool operator==(const item&, const item&) = default;
};

/// One record of a key's history.
struct change {
  icecore::version version;
  std::optional<std::string_view> value;  ///< empty: the key was removed
  friend bool operator==(const change&, const change&) = default;
};

/// A key whose value differs between two versions.
struct difference {
  std::string_view key;
  std::optional<std::string_view> before;  ///< empty: not there before
  std::optional<std::string_view> after;   ///< empty: not there after
  friend bool operator==(const difference&, const difference&) = default;
};

/// A half-open range of keys: from <= key < to. An empty optional means no bound on that side.
struct key_bounds {
  std::optional<std::string> from;
  std::optional<std::string> to;

  /// The bounds of all keys that start with `prefix`.
  [[nodiscard]] static key_bounds of_prefix(std::string_view prefix);
};

namespace detail {
class items_ahead;
class sorted_keys;

/// What a cursor has read ahead: items behind its current one. A copy of the cursor has nothing of it: it reads for
/// itself.
class own_items_ahead {
 public:
  own_items_ahead() = default;
  own_items_ahead(const own_items_ahead& /*other*/) noexcept {}
  own_items_ahead(own_items_ahead&& other) noexcept
      : read_(std::move(other.read_)),
        next_(std::exchange(other.next_, nullptr)),
        end_(std::exchange(other.end_, nullptr)) {}
  own_items_ahead& operator=(const own_items_ahead& other) noexcept {
    if (this != &other) *this = own_items_ahead();
    return *this;
  }
  own_items_ahead& operator=(own_items_ahead&& other) noexcept {
    read_ = std::move(other.read_);
    next_ = std::exchange(other.next_, nullptr);
    end_ = std::exchange(other.end_, nullptr);
    return *this;
  }
  ~own_items_ahead() = default;

  [[nodiscard]] std::shared_ptr<items_ahead>& operator*() noexcept { return read_; }
  /// The next item; null if none is left.
  [[nodiscard]] const item* take() noexcept { return next_ == end_ ? nullptr : next_++; }
  /// From now on those between.
  void set(const item* next, const item* end) noexcept {
    next_ = next;
    end_ = end;
  }

 private:
  std::shared_ptr<items_ahead> read_;
  const item* next_ = nullptr;
  const item* end_ = nullptr;
};
}  // namespace detail

/// A position among the keys that are present in one version. Moves in both directions: O(log keys) to seek, amortised
/// O(1) to step. Copies are independent of each other. After a move that throws, the cursor is invalid.
/// With the index `hash`, the first move sorts all keys of the store: O(n log n), and 8 bytes a key while the cursor or
/// a copy of it lives. With the index `list`, seeking and stepping back are O(keys).
class cursor {
 public:
  /// The new cursor has no position: seek first.
  cursor(pin holds, icecore::version at) noexcept : holds_(std::move(holds)), at_(at) {}

  void seek_first();                       ///< to the first key
  void seek_last();                        ///< to the last key
  void seek(std::string_view key);         ///< to the first key >= `key` (lower bound)
  void seek_after(std::string_view key);   ///< to the first key > `key` (upper bound)
  void seek_before(std::string_view key);  ///< to the last key < `key`

  [[nodiscard]] bool valid() const noexcept { return valid_ && holds_; }
  explicit operator bool() const noexcept { return valid(); }

  /// The current item. Precondition: valid().
  [[nodiscard]] const item& operator*() const noexcept { return current_; }
  [[nodiscard]] const item* operator->() const noexcept { return &current_; }

  /// Moves one step; past either end the cursor becomes invalid. Precondition: valid().
  void next() {
    if (const item* const ahead = ahead_.take()) {
      current_ = *ahead;
      ++position_;
    } else {
      read_next();
    }
  }
  void previous();

 private:
  template <class Engine>
  struct index_access;  // reads index blocks into a cursor
  template <class Engine>
  struct layered_access;  // the same of a store that has strata: reads items into it
  void read_next();       // behind the items ahead
  const detail::store_core& begin_move();
  template <typename Move>
  void go(const detail::store_core& core, Move move);

  pin holds_;
  icecore::version at_;
  bool valid_ = false;
  item current_{};
  std::size_t position_ = 0;            // in visible_, or in the items ahead
  std::vector<std::uint64_t> visible_;  // records of the current index block that hold a value, in key order
  std::uint64_t first_entry_ = 0;       // of the block
  std::uint64_t next_block_ = 0;
  unsigned forward_ = 0;  // blocks in a row that a walk forward went to; with strata, how many items it reads next
  std::uint64_t prefetched_ = 0;                       // the block whose entries were asked for
  std::shared_ptr<const detail::sorted_keys> sorted_;  // if the index is in another order
  detail::own_items_ahead ahead_;                      // if the store has strata
};

/// The items of a snapshot between bounds, in key order: a C++ input range.
class item_range : public std::ranges::view_interface<item_range> {
 public:
  using iterator = range_iterator<item_range, item>;

  item_range(icecore::cursor cursor, key_bounds bounds, bool reverse = false);

  /// The same items from last to first.
  [[nodiscard]] item_range reversed() const;

  /// Starts or restarts at the first item. O(log keys).
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const item& current() const noexcept { return *cursor_; }

  icecore::cursor cursor_;
  key_bounds bounds_;
  bool reverse_;
};

/// A column of variable-length data: item i is bytes[offsets[i] .. offsets[i + 1]).
struct byte_column {
  std::vector<std::uint64_t> offsets;  ///< count + 1 elements
  std::vector<char> bytes;
};
struct columns {
  byte_column keys;
  byte_column values;
};

/// Where `snapshot::extract` writes fixed-size keys and values.
struct fixed_columns {
  void* keys = nullptr;        ///< capacity * key_size bytes; null: do not extract keys
  std::size_t key_size = 0;    ///< every key must have this size
  void* values = nullptr;      ///< capacity * value_size bytes; null: do not extract values
  std::size_t value_size = 0;  ///< every value must have this size
  std::size_t capacity = 0;    ///< room, in items; snapshot::size() is the exact number, size_bound() is O(1)
};

class snapshot {
 public:
  snapshot(pin holds, icecore::version at) noexcept : holds_(std::move(holds)), at_(at) {}

  [[nodiscard]] icecore::version version() const noexcept { return at_; }

  /// O(log keys + log records of the key).
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const&;
  /// On a temporary snapshot, as in s.at(v).find(key): a handle that keeps the value valid itself.
  [[nodiscard]] std::optional<value> find(std::string_view key) const&&;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }

  /// Finds many keys at once and overlaps their memory accesses. out[i] is the answer for keys[i]; the sizes must be
  /// equal.
  void find_many(std::span<const std::string_view> keys, std::span<std::optional<std::string_view>> out) const&;
  void find_many(std::span<const std::string_view> keys,
                 std::span<std::optional<std::string_view>> out) const&& = delete;

  // With the index `hash`, each of these four sorts all keys: O(n log n). Use one cursor for several.
  [[nodiscard]] std::optional<item> lower_bound(std::string_view key) const&;  ///< first item with key >= `key`
  [[nodiscard]] std::optional<item> upper_bound(std::string_view key) const&;  ///< first item with key > `key`
  [[nodiscard]] std::optional<item> first() const&;
  [[nodiscard]] std::optional<item> last() const&;
  std::optional<item> lower_bound(std::string_view key) const&& = delete;
  std::optional<item> upper_bound(std::string_view key) const&& = delete;
  std::optional<item> first() const&& = delete;
  std::optional<item> last() const&& = delete;

  /// A cursor without a position: seek first.
  [[nodiscard]] icecore::cursor cursor() const { return {holds_, at_}; }

  [[nodiscard]] item_range range() const { return range(key_bounds{}); }
  [[nodiscard]] item_range range(std::string_view from, std::string_view to) const;
  [[nodiscard]] item_range range(key_bounds bounds) const { return item_range(cursor(), std::move(bounds)); }
  [[nodiscard]] item_range prefix(std::string_view prefix) const { return range(key_bounds::of_prefix(prefix)); }

  /// The number of keys present in this version. O(keys of the store), because versions keep no counts; `threads`
  /// threads share the work (0: all cores).
  [[nodiscard]] std::size_t size(unsigned threads = 0) const;
  /// The number of keys ever inserted, never less than size(). O(1).
  [[nodiscard]] std::size_t size_bound() const;

  /// Copies all items in key order into the caller's columns and returns their number.
  /// errc::invalid_argument if a key or value does not have the column's size, or if the capacity is too small.
  /// `threads`: 0 for all cores.
  std::size_t extract(const fixed_columns& out, unsigned threads = 1) const;
  /// Copies the items from the first key >= `from` on, until the columns are full, and returns their number: less than
  /// the capacity at the snapshot's end. For short scans, and for pages: the next one begins at the last key with a NUL
  /// byte behind it. One thread; faster than a cursor. errc::invalid_argument if a key or value does not have the
  /// column's size. With the index `hash` each call sorts all keys.
  [[nodiscard]] std::size_t extract_page(std::string_view from, const fixed_columns& out) const;
  /// Copies all items between the bounds, of any sizes, in key order.
  [[nodiscard]] columns extract(unsigned threads = 1, const key_bounds& bounds = {}) const;
  /// All items between the bounds, in key order, as views that the list keeps valid; no key or value is copied.
  [[nodiscard]] pinned_list<item> items(unsigned threads = 1, const key_bounds& bounds = {}) const;

  /// Calls `visit` for each item. `threads` threads (0: all cores) call it concurrently, each for its own part of the
  /// keys in the index's order: that of the keys, but with `hash` that of their hashes. The first exception that
  /// `visit` throws stops all threads and is rethrown.
  void for_each(const std::function<void(const item&)>& visit, unsigned threads = 0) const;

  // ---- By a filter: include icecore/filtered.hpp ----
  /// The items that match, lazily, in key order.
  [[nodiscard]] filtered_items where(const filter& condition) const;
  /// filter::explain(), and how this store goes through the keys: whether it sorts them first. Reads no keys. O(1).
  [[nodiscard]] std::string explain(const filter& condition) const;
  /// How many match. `threads`: 0 for all cores. Totals go through the keys in the order of the index, so they sort
  /// none.
  [[nodiscard]] std::uint64_t count(const filter& condition, unsigned threads = 1) const;
  /// The sum, the least and the greatest value of an expression over the matches; empty if it is null everywhere, or if
  /// the sum of whole numbers is none from -2^63 to 2^64 - 1. The expression may name the columns of the filter's
  /// layout. errc::bad_input: position and what was expected. Doubles are added part by part of the keys, with the
  /// index `hash` in the order of the hashes.
  [[nodiscard]] std::optional<std::variant<std::int64_t, std::uint64_t, double>> sum(const filter& condition,
                                                                                     std::string_view expression,
                                                                                     unsigned threads = 1) const;
  [[nodiscard]] std::optional<std::variant<std::int64_t, std::uint64_t, double>> min(const filter& condition,
                                                                                     std::string_view expression,
                                                                                     unsigned threads = 1) const;
  [[nodiscard]] std::optional<std::variant<std::int64_t, std::uint64_t, double>> max(const filter& condition,
                                                                                     std::string_view expression,
                                                                                     unsigned threads = 1) const;
  /// A column for each expression ("key", "price * qty as total"), with a value for each match, in key order.
  [[nodiscard]] std::vector<result_values> extract(const filter& condition, const std::vector<std::string>& select,
                                                   unsigned threads = 1) const;
  /// The matches behind a token's place; an empty token begins at the first key (`reverse`: the last).
  /// errc::bad_token, saying why, if the token is damaged, or another store's, version's, filter's or direction's.
  [[nodiscard]] icecore::page page(const filter& condition, const page_limits& limits,
                                   std::string_view token = {}) const;

  /// Records of `key` up to this version, newest first.
  [[nodiscard]] pinned_list<change> history(std::string_view key) const;

  /// What keeps this snapshot's views valid.
  [[nodiscard]] const pin& holds() const noexcept { return holds_; }

 private:
  pin holds_;
  icecore::version at_;
};

/// The differences between two versions in key order: a C++ input range. What iterating costs: changes.hpp. For a key
/// that did not change, it reads only the newest record.
class diff_range : public std::ranges::view_interface<diff_range> {
 public:
  using iterator = range_iterator<diff_range, difference>;

  diff_range(pin holds, icecore::version before, icecore::version after, key_bounds bounds);
  ~diff_range();
  diff_range(diff_range&&) noexcept;
  diff_range& operator=(diff_range&&) noexcept;

  // ---- By a filter: include icecore/changes.hpp, which says what its operands mean ----
  /// The differences that match, lazily.
  [[nodiscard]] filtered_differences where(const filter& condition) const;
  /// How many match. One thread.
  [[nodiscard]] std::uint64_t count(const filter& condition) const;

  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept { return position_ >= block_.size(); }
  [[nodiscard]] const difference& current() const noexcept { return block_[position_]; }
  void load();
  // What it was made of; errc::closed if it was moved from.
  [[nodiscard]] const pin& holds() const;
  [[nodiscard]] icecore::version before() const;
  [[nodiscard]] icecore::version after() const;
  [[nodiscard]] const key_bounds& bounds() const;

  struct walk;
  std::unique_ptr<walk> walk_;
  std::vector<difference> block_;
  std::size_t position_ = 0;
};

}  // namespace icecore

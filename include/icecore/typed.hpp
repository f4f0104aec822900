// icecore::map<K, V>: a store whose keys and values have types.
//
//   icecore::store s("particles.ice");
//   icecore::map<std::int64_t, particle> particles(s);      // particle: any trivially copyable struct
//   particles.insert(-7, p);
//   icecore::version v = s.tag("step-1");
//   for (const auto& [id, then] : particles.at(v).range(-10, 10)) ...   // in the order of the integers
//   std::size_t count = particles.at(v).extract(ids, structs, 4);       // into columns, with 4 threads
//
// Keys: integers, enumerations, float, double, std::string, and std::array, std::pair and std::tuple of fixed-size
//   keys; other types by specialising key_codec (codec.hpp). The order of the store is the order of the type.
// Values: trivially copyable types, stored as their bytes in memory, and std::string.
// Threads, durability: those of the store. The store object must outlive the map and stay in its place; what the map
//   returned may outlive both.
// Lifetime: plain values are copied, so their alignment in the pool does not matter. Strings are views: those that a
//   snapshot, range or history returns are valid as long as it lives; find() on a map or on a temporary snapshot
//   returns an icecore::value, which keeps its bytes valid itself. A view of a caller's codec comes as held_view.
// Errors: those of the store, and errc::invalid_argument for a key or value that cannot be a K or V because the store
//   was written with other types.
// Cost: that of the store. Keys are encoded on the stack; the map allocates no memory of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "icecore/codec.hpp"
#include "icecore/error.hpp"
#include "icecore/history.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// A value in the form of a caller's codec, and what keeps the bytes behind it valid.
template <class View>
class held_view {
 public:
  held_view(View view, value bytes) noexcept : view_(std::move(view)), bytes_(std::move(bytes)) {}
  [[nodiscard]] const View& operator*() const& noexcept { return view_; }
  [[nodiscard]] const View* operator->() const noexcept { return &view_; }
  const View& operator*() const&& = delete;  // the view would outlive the handle: name it first

 private:
  View view_;
  value bytes_;
};

namespace detail {

template <class K>
struct key_types {
  using argument = typename key_codec<K>::argument;
  using view = typename key_codec<K>::view;
};
template <fixed_size_key K>
struct key_types<K> {
  using argument = K;
  using view = K;
};

[[noreturn]] inline void throw_wrong_size(const char* what, std::size_t found_bytes, std::size_t expected_bytes) {
  throw error(errc::invalid_argument, std::string("a ") + what + " in the store has " + std::to_string(found_bytes) +
                                          " bytes but this map's have " + std::to_string(expected_bytes) +
                                          "; open the store with the types it was written with");
}

/// A key as bytes: on the stack if its size is fixed, else a view of the caller's key.
template <class K>
class encoded_key {
 public:
  explicit encoded_key(const typename key_types<K>::argument& key) noexcept : bytes_(key_codec<K>::bytes(key)) {}
  [[nodiscard]] std::string_view view() const noexcept { return bytes_; }

 private:
  std::string_view bytes_;
};
template <fixed_size_key K>
class encoded_key<K> {
 public:
  explicit encoded_key(const K& key) noexcept { key_codec<K>::encode(key, bytes_.data()); }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, key_codec<K>::size> bytes_;
};

template <class K>
[[nodiscard]] typename key_types<K>::view decode_key(std::string_view bytes) {
  if constexpr (fixed_size_key<K>) {
    if (bytes.size() != key_codec<K>::size) throw_wrong_size("key", bytes.size(), key_codec<K>::size);
    return key_codec<K>::decode(bytes.data());
  } else {
    return key_codec<K>::decode(bytes);
  }
}

template <class V>
[[nodiscard]] typename value_codec<V>::view decode_value(std::string_view bytes) {
  if constexpr (requires { value_codec<V>::size; }) {
    if (bytes.size() != value_codec<V>::size) throw_wrong_size("value", bytes.size(), value_codec<V>::size);
  }
  return value_codec<V>::decode(bytes);
}

template <class V>
[[nodiscard]] std::optional<typename value_codec<V>::view> decode_value(const std::optional<std::string_view>& bytes) {
  if (!bytes) return std::nullopt;
  return decode_value<V>(*bytes);
}

/// What a direct find of a V returns: the view if it owns its bytes, else a handle that keeps them valid.
template <class V>
struct held {
  using type = held_view<typename value_codec<V>::view>;
  [[nodiscard]] static type of(value&& bytes) {
    auto view = decode_value<V>(bytes.bytes());
    return {std::move(view), std::move(bytes)};
  }
};
template <class V>
  requires std::same_as<typename value_codec<V>::view, V>
struct held<V> {
  using type = V;
  [[nodiscard]] static type of(value&& bytes) { return decode_value<V>(bytes.bytes()); }
};
template <>
struct held<std::string> {
  using type = value;
  [[nodiscard]] static type of(value&& bytes) noexcept { return std::move(bytes); }
};

template <class V>
[[nodiscard]] std::optional<typename held<V>::type> hold_value(std::optional<value>&& bytes) {
  if (!bytes) return std::nullopt;
  return held<V>::of(std::move(*bytes));
}

/// A range of the store that decodes each element when it is dereferenced.
template <class Range, class Decode>
class decoded_range : public std::ranges::view_interface<decoded_range<Range, Decode>> {
  using source_iterator = decltype(std::declval<Range&>().begin());

 public:
  class iterator {
   public:
    using value_type = decltype(Decode{}(*std::declval<source_iterator&>()));
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit iterator(source_iterator place) : place_(std::move(place)) {}
    [[nodiscard]] value_type operator*() const { return Decode{}(*place_); }
    iterator& operator++() {
      ++place_;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) { return it.place_ == std::default_sentinel; }

   private:
    source_iterator place_;
  };

  explicit decoded_range(Range range) : range_(std::move(range)) {}

  [[nodiscard]] iterator begin() { return iterator(range_.begin()); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// The same elements from last to first, if the source range can be reversed.
  [[nodiscard]] decoded_range reversed() const
    requires requires(const Range& range) { range.reversed(); }
  {
    return decoded_range(range_.reversed());
  }

 private:
  Range range_;
};

/// Runs body(first, last) over parts of [0, count), in at most `threads` threads (0: all cores); a part is large enough
/// to be worth a thread.
template <class Body>
void in_parallel(std::size_t count, unsigned threads, const Body& body) {
  constexpr std::size_t part_size_min = 65'536;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(count / part_size_min, 1, threads);
  std::vector<std::jthread> helpers;
  helpers.reserve(parts - 1);
  for (std::size_t part = 1; part < parts; ++part) {
    helpers.emplace_back([&body, part, parts, count] { body(count * part / parts, count * (part + 1) / parts); });
  }
  body(0, count / parts);
}

}  // namespace detail

/// A key and its value in one version.
template <class K, class V>
struct typed_item {
  typename detail::key_types<K>::view key;
  typename value_codec<V>::view value;
  friend bool operator==(const typed_item&, const typed_item&) = default;
};

/// One record of a key's history.
template <class V>
struct typed_change {
  icecore::version version;
  std::optional<typename value_codec<V>::view> value;  ///< empty: the key was removed
  friend bool operator==(const typed_change&, const typed_change&) = default;
};

/// A key whose value differs between two versions.
template <class K, class V>
struct typed_difference {
  typename detail::key_types<K>::view key;
  std::optional<typename value_codec<V>::view> before;  ///< empty: not there before
  std::optional<typename value_codec<V>::view> after;   ///< empty: not there after
  friend bool operator==(const typed_difference&, const typed_difference&) = default;
};

template <class K, class V>
struct typed_columns {
  std::vector<K> keys;
  std::vector<V> values;
};

namespace detail {

template <class K, class V>
struct decode_item {
  typed_item<K, V> operator()(const item& from) const { return {decode_key<K>(from.key), decode_value<V>(from.value)}; }
};
template <class V>
struct decode_change {
  typed_change<V> operator()(const change& from) const { return {from.version, decode_value<V>(from.value)}; }
};
template <class K, class V>
struct decode_difference {
  typed_difference<K, V> operator()(const difference& from) const {
    return {decode_key<K>(from.key), decode_value<V>(from.before), decode_value<V>(from.after)};
  }
};

/// Finds keys in groups, so that encodings and views fit on the stack. `find(first, views, answers)` finds the group
/// whose first key is keys[first].
template <class K, class V, class Find>
void find_in_groups(std::span<const K> keys, std::span<std::optional<typename value_codec<V>::view>> out,
                    const Find& find) {
  if (keys.size() != out.size()) {
    throw error(errc::invalid_argument, "find_many: " + std::to_string(keys.size()) + " keys but room for " +
                                            std::to_string(out.size()) + " answers; pass spans of one size");
  }
  constexpr std::size_t group_size_max = 128;
  std::array<std::optional<encoded_key<K>>, group_size_max> encoded;
  std::array<std::string_view, group_size_max> views;
  std::array<std::optional<std::string_view>, group_size_max> answers;
  for (std::size_t first = 0; first < keys.size(); first += group_size_max) {
    const std::size_t size = std::min(group_size_max, keys.size() - first);
    for (std::size_t i = 0; i < size; ++i) views[i] = encoded[i].emplace(keys[first + i]).view();
    find(first, std::span<const std::string_view>(views.data(), size), std::span(answers.data(), size));
    for (std::size_t i = 0; i < size; ++i) out[first + i] = decode_value<V>(answers[i]);
  }
}

}  // namespace detail

/// One version of a map: a value of two words.
template <typed_key K, typed_value V>
class typed_snapshot {
 public:
  using key_argument = typename detail::key_types<K>::argument;
  using value_view = typename value_codec<V>::view;
  using found_value = typename detail::held<V>::type;  ///< keeps itself valid
  /// Values are copies, and so are whole items: nothing in them is a view.
  static constexpr bool copies_values = std::same_as<value_view, V>;
  static constexpr bool copies = copies_values && std::same_as<typename detail::key_types<K>::view, K>;
  using item = typed_item<K, V>;
  using item_range = detail::decoded_range<icecore::item_range, detail::decode_item<K, V>>;

  explicit typed_snapshot(const snapshot& at) noexcept : snapshot_(at) {}

  [[nodiscard]] icecore::version version() const noexcept { return snapshot_.version(); }
  /// The same version as bytes.
  [[nodiscard]] const snapshot& bytes() const& noexcept { return snapshot_; }
  [[nodiscard]] snapshot bytes() const&& noexcept { return snapshot_; }

  [[nodiscard]] std::optional<value_view> find(const key_argument& key) const& {
    return detail::decode_value<V>(snapshot_.find(detail::encoded_key<K>(key).view()));
  }
  /// On a temporary snapshot, as in particles.at(v).find(id).
  [[nodiscard]] std::optional<found_value> find(const key_argument& key) const&& {
    return detail::hold_value<V>(std::move(snapshot_).find(detail::encoded_key<K>(key).view()));
  }
  [[nodiscard]] bool contains(const key_argument& key) const {
    return snapshot_.contains(detail::encoded_key<K>(key).view());
  }
  /// out[i] is the answer for keys[i]; the sizes must be equal.
  void find_many(std::span<const K> keys, std::span<std::optional<value_view>> out) const& {
    detail::find_in_groups<K, V>(
        keys, out, [this](std::size_t, auto group, auto answers) { snapshot_.find_many(group, answers); });
  }
  void find_many(std::span<const K> keys, std::span<std::optional<value_view>> out) const&&
    requires(!copies_values)
  = delete;

  /// lower_bound: the first item with key >= `key`; upper_bound: the first with key > `key`; first: the least; last:
  /// the greatest.
  [[nodiscard]] std::optional<item> lower_bound(const key_argument& key) const& {
    return decode(snapshot_.lower_bound(detail::encoded_key<K>(key).view()));
  }
  [[nodiscard]] std::optional<item> upper_bound(const key_argument& key) const& {
    return decode(snapshot_.upper_bound(detail::encoded_key<K>(key).view()));
  }
  [[nodiscard]] std::optional<item> first() const& { return decode(snapshot_.first()); }
  [[nodiscard]] std::optional<item> last() const& { return decode(snapshot_.last()); }
  // A temporary snapshot would take the views with it: name it first.
  std::optional<item> lower_bound(const key_argument& key) const&&
    requires(!copies)
  = delete;
  std::optional<item> upper_bound(const key_argument& key) const&&
    requires(!copies)
  = delete;
  std::optional<item> first() const&&
    requires(!copies)
  = delete;
  std::optional<item> last() const&&
    requires(!copies)
  = delete;

  /// All items, or those with from <= key < to (std::nullopt: no bound), in the order of K.
  [[nodiscard]] item_range range() const { return item_range(snapshot_.range()); }
  [[nodiscard]] item_range range(const std::optional<key_argument>& from, const std::optional<key_argument>& to) const {
    key_bounds bounds;
    if (from) bounds.from = detail::encoded_key<K>(*from).view();
    if (to) bounds.to = detail::encoded_key<K>(*to).view();
    return item_range(snapshot_.range(std::move(bounds)));
  }

  /// As the functions of snapshot.
  [[nodiscard]] std::size_t size(unsigned threads = 0) const { return snapshot_.size(threads); }
  [[nodiscard]] std::size_t size_bound() const noexcept { return snapshot_.size_bound(); }

  /// Copies all items in key order into the caller's columns and returns their number; `threads`: 0 for all cores. An
  /// empty span means that this column is not extracted. Otherwise errc::invalid_argument unless both spans have the
  /// same size and room for all items. After an error the columns' contents are unspecified.
  std::size_t extract(std::span<K> keys, std::span<V> values, unsigned threads = 1) const
    requires(fixed_size_key<K> && plain_value<V> && !std::same_as<V, bool>)
  {
    if (!keys.empty() && !values.empty() && keys.size() != values.size()) {
      throw error(errc::invalid_argument, "extract: room for " + std::to_string(keys.size()) + " keys but for " +
                                              std::to_string(values.size()) + " values; pass spans of one size");
    }
    fixed_columns out;
    out.capacity = std::max(keys.size(), values.size());
    out.key_size = key_codec<K>::size;
    out.value_size = sizeof(V);
    if (!values.empty()) out.values = values.data();
    if (keys.empty()) return snapshot_.extract(out, threads);
    if constexpr (key_codec<K>::size == sizeof(K)) {
      out.keys = keys.data();
      const std::size_t count = snapshot_.extract(out, threads);
      decode_keys(reinterpret_cast<const char*>(keys.data()), keys.first(count), threads);
      return count;
    } else {
      const auto encoded = std::make_unique_for_overwrite<char[]>(out.capacity * key_codec<K>::size);
      out.keys = encoded.get();
      const std::size_t count = snapshot_.extract(out, threads);
      decode_keys(encoded.get(), keys.first(count), threads);
      return count;
    }
  }

  /// The same, into new columns.
  [[nodiscard]] typed_columns<K, V> columns(unsigned threads = 1) const
    requires(fixed_size_key<K> && plain_value<V> && !std::same_as<V, bool>)
  {
    typed_columns<K, V> result;
    result.keys.resize(snapshot_.size_bound());
    result.values.resize(snapshot_.size_bound());
    const std::size_t count = extract(result.keys, result.values, threads);
    result.keys.resize(count);
    result.values.resize(count);
    return result;
  }

  /// Calls visit(key, value) for each item. `threads` threads (0: all cores) call it concurrently, each for its own
  /// part of the keys in key order. The first exception that `visit` throws stops all threads and is rethrown.
  template <class Visit>
  void for_each(const Visit& visit, unsigned threads = 0) const {
    snapshot_.for_each(
        [&visit](const icecore::item& from) {
          const item decoded = detail::decode_item<K, V>{}(from);
          visit(decoded.key, decoded.value);
        },
        threads);
  }

 private:
  static std::optional<item> decode(const std::optional<icecore::item>& from) {
    if (!from) return std::nullopt;
    return detail::decode_item<K, V>{}(*from);
  }

  /// Each encoding is read before its key is constructed, possibly in the same memory.
  static void decode_keys(const char* encoded, std::span<K> keys, unsigned threads) {
    detail::in_parallel(keys.size(), threads, [encoded, keys](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        std::construct_at(&keys[i], key_codec<K>::decode(encoded + i * key_codec<K>::size));
      }
    });
  }

  snapshot snapshot_;
};

/// Typed inserts and removes that take effect at one instant: see icecore::batch.
template <typed_key K, typed_value V>
class typed_batch {
 public:
  using key_argument = typename detail::key_types<K>::argument;
  using value_argument = typename value_codec<V>::argument;

  void insert(const key_argument& key, const value_argument& value) {
    batch_.insert(detail::encoded_key<K>(key).view(), value_codec<V>::bytes(value));
  }
  void remove(const key_argument& key) { batch_.remove(detail::encoded_key<K>(key).view()); }
  void clear() noexcept { batch_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return batch_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return batch_.size(); }
  [[nodiscard]] const icecore::batch& bytes() const noexcept { return batch_; }

 private:
  icecore::batch batch_;
};

/// A typed view of a store: a value of one word. Each function does what the store's function of the same name does.
template <typed_key K, typed_value V>
class map {
 public:
  using key_argument = typename detail::key_types<K>::argument;
  using value_argument = typename value_codec<V>::argument;
  using value_view = typename value_codec<V>::view;
  using found_value = typename detail::held<V>::type;  ///< keeps itself valid
  using item = typed_item<K, V>;
  using change = typed_change<V>;
  using difference = typed_difference<K, V>;
  using snapshot = typed_snapshot<K, V>;
  using batch = typed_batch<K, V>;
  using history_range = detail::decoded_range<key_history, detail::decode_change<V>>;
  using difference_range = detail::decoded_range<diff_range, detail::decode_difference<K, V>>;

  explicit map(icecore::store& store) noexcept : store_(&store) {}

  [[nodiscard]] icecore::store& store() const noexcept { return *store_; }

  icecore::version insert(const key_argument& key, const value_argument& value) {
    return store_->insert(detail::encoded_key<K>(key).view(), value_codec<V>::bytes(value));
  }
  std::optional<icecore::version> remove(const key_argument& key) {
    return store_->remove(detail::encoded_key<K>(key).view());
  }
  icecore::version apply(const batch& operations) { return store_->apply(operations.bytes()); }

  [[nodiscard]] std::optional<found_value> find(const key_argument& key) const {
    return detail::hold_value<V>(store_->find(detail::encoded_key<K>(key).view()));
  }
  [[nodiscard]] std::optional<found_value> find(const key_argument& key, icecore::version at) const {
    return detail::hold_value<V>(store_->find(detail::encoded_key<K>(key).view(), at));
  }
  [[nodiscard]] bool contains(const key_argument& key) const {
    return store_->contains(detail::encoded_key<K>(key).view());
  }
  [[nodiscard]] bool contains(const key_argument& key, icecore::version at) const {
    return store_->contains(detail::encoded_key<K>(key).view(), at);
  }
  /// out[i] is the answer for keys[i], in one version or in one version per key; the sizes must be equal. If answers
  /// are views, both return a pin, and the views are valid as long as it lives.
  auto find_many(std::span<const K> keys, icecore::version at, std::span<std::optional<value_view>> out) const {
    const snapshot then = this->at(at);
    then.find_many(keys, out);
    if constexpr (!snapshot::copies_values) return then.bytes().holds();
  }
  auto find_many(std::span<const K> keys, std::span<const icecore::version> at,
                 std::span<std::optional<value_view>> out) const {
    if (at.size() != keys.size()) {
      throw error(errc::invalid_argument, "find_many: " + std::to_string(keys.size()) + " keys but " +
                                              std::to_string(at.size()) + " versions; pass spans of one size");
    }
    pin holds = store_->hold();
    detail::find_in_groups<K, V>(keys, out, [this, at](std::size_t first, auto group, auto answers) {
      static_cast<void>(store_->find_many(group, at.subspan(first, group.size()), answers));
    });
    if constexpr (!snapshot::copies_values) return holds;
  }

  /// at: a closed version, by number, by tag name (anything that converts to a string view) or by time. latest: the
  /// present.
  template <class Which>
  [[nodiscard]] snapshot at(const Which& which) const {
    return snapshot(store_->at(which));
  }
  [[nodiscard]] snapshot latest() const { return snapshot(store_->latest()); }

  /// All records of the key, newest first. history_oldest_first() collects all records before it returns; the list
  /// keeps views valid.
  [[nodiscard]] history_range history(const key_argument& key) const {
    return history_range(store_->history(detail::encoded_key<K>(key).view()));
  }
  [[nodiscard]] pinned_list<change> history_oldest_first(const key_argument& key) const {
    pin holds = store_->hold();
    std::vector<change> records;
    for (const auto& record : store_->history(detail::encoded_key<K>(key).view()).oldest_first()) {
      records.push_back(detail::decode_change<V>{}(record));
    }
    return {std::move(records), std::move(holds)};
  }

  /// What changed from one closed version to another, in the order of K.
  [[nodiscard]] difference_range diff(icecore::version before, icecore::version after) const {
    return difference_range(store_->diff(before, after));
  }

 private:
  icecore::store* store_;
};

}  // namespace icecore

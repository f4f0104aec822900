// icecore::map<K, V>: a store, or a named part of one, whose keys and values have types. More: containers.hpp.
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
// Cost: that of the store. Keys are encoded on the stack; a map of the whole store allocates no memory of its own. The
//   keys of a named one are longer by its name and one byte: where that makes more than 15 bytes, each call allocates.
// Names in the store: a named container's keys begin with one byte, the length of its name, and the name (a stable
//   format).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/codec.hpp"
#include "icecore/error.hpp"
#include "icecore/history.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "icecore/typed_parts.hpp"

namespace [[gnu::visibility("default")]] icecore {

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
  std::size_t prefix_size = 0;
  typed_item<K, V> operator()(const item& from) const {
    return {decode_key<K>(from.key.substr(prefix_size)), decode_value<V>(from.value)};
  }
};
template <class V>
struct decode_change {
  typed_change<V> operator()(const change& from) const { return {from.version, decode_value<V>(from.value)}; }
};
template <class K, class V>
struct decode_difference {
  std::size_t prefix_size = 0;
  typed_difference<K, V> operator()(const difference& from) const {
    return {decode_key<K>(from.key.substr(prefix_size)), decode_value<V>(from.before), decode_value<V>(from.after)};
  }
};

}  // namespace detail

/// One version of a map: a cheap value.
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
  typed_snapshot(const snapshot& at, detail::container_prefix prefix) : snapshot_(at), prefix_(std::move(prefix)) {}

  [[nodiscard]] icecore::version version() const noexcept { return snapshot_.version(); }
  /// The same version as bytes.
  [[nodiscard]] const snapshot& bytes() const& noexcept { return snapshot_; }
  [[nodiscard]] snapshot bytes() const&& noexcept { return snapshot_; }

  [[nodiscard]] std::optional<value_view> find(const key_argument& key) const& {
    return detail::decode_value<V>(snapshot_.find(key_of(key).view()));
  }
  /// On a temporary snapshot, as in particles.at(v).find(id).
  [[nodiscard]] std::optional<found_value> find(const key_argument& key) const&& {
    return detail::hold_value<V>(std::move(snapshot_).find(key_of(key).view()));
  }
  [[nodiscard]] bool contains(const key_argument& key) const { return snapshot_.contains(key_of(key).view()); }
  /// out[i] is the answer for keys[i]; the sizes must be equal.
  void find_many(std::span<const K> keys, std::span<std::optional<value_view>> out) const& {
    detail::find_in_groups<K, V>(
        prefix_, keys, out, [this](std::size_t, auto group, auto answers) { snapshot_.find_many(group, answers); });
  }
  void find_many(std::span<const K> keys, std::span<std::optional<value_view>> out) const&&
    requires(!copies_values)
  = delete;

  /// lower_bound: the first item with key >= `key`; upper_bound: the first with key > `key`; first: the least; last:
  /// the greatest.
  [[nodiscard]] std::optional<item> lower_bound(const key_argument& key) const& {
    return decode(snapshot_.lower_bound(key_of(key).view()));
  }
  [[nodiscard]] std::optional<item> upper_bound(const key_argument& key) const& {
    return decode(snapshot_.upper_bound(key_of(key).view()));
  }
  [[nodiscard]] std::optional<item> first() const& { return decode(snapshot_.lower_bound(prefix_.bytes())); }
  [[nodiscard]] std::optional<item> last() const& {
    auto all = snapshot_.range(prefix_.bounds()).reversed();
    const auto it = all.begin();
    return it == all.end() ? std::nullopt : decode(*it);
  }
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
  [[nodiscard]] item_range range() const { return range_of(prefix_.bounds()); }
  [[nodiscard]] item_range range(const std::optional<key_argument>& from, const std::optional<key_argument>& to) const {
    key_bounds bounds = prefix_.bounds();
    if (from) bounds.from = key_of(*from).view();
    if (to) bounds.to = key_of(*to).view();
    return range_of(std::move(bounds));
  }

  /// As the functions of snapshot. A named container's size_bound() is that of the whole store.
  [[nodiscard]] std::size_t size(unsigned threads = 0) const {
    return prefix_.empty() ? snapshot_.size(threads) : snapshot_.items(threads, prefix_.bounds()).size();
  }
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
    if (!prefix_.empty()) return extract_named(keys, values, threads);
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
    const std::size_t bound = prefix_.empty() ? snapshot_.size_bound() : size(threads);
    result.keys.resize(bound);
    result.values.resize(bound);
    const std::size_t count = extract(result.keys, result.values, threads);
    result.keys.resize(count);
    result.values.resize(count);
    return result;
  }

  /// Calls visit(key, value) for each item. `threads` threads (0: all cores) call it concurrently, each for its own
  /// part of the keys in key order. The first exception that `visit` throws stops all threads and is rethrown.
  /// The keys of other containers in the store are passed over.
  template <class Visit>
  void for_each(const Visit& visit, unsigned threads = 0) const {
    snapshot_.for_each(
        [this, &visit](const icecore::item& from) {
          if (!prefix_.is_of(from.key)) return;
          const item decoded = decoder()(from);
          visit(decoded.key, decoded.value);
        },
        threads);
  }

 private:
  [[nodiscard]] detail::prefixed_key<K> key_of(const key_argument& key) const { return {prefix_, key}; }
  [[nodiscard]] detail::decode_item<K, V> decoder() const noexcept { return {prefix_.size()}; }
  [[nodiscard]] item_range range_of(key_bounds bounds) const {
    return item_range(snapshot_.range(std::move(bounds)), decoder());
  }
  /// Empty also if the item is another container's.
  [[nodiscard]] std::optional<item> decode(const std::optional<icecore::item>& from) const {
    if (!from || !prefix_.is_of(from->key)) return std::nullopt;
    return decoder()(*from);
  }

  std::size_t extract_named(std::span<K> keys, std::span<V> values, unsigned threads) const {
    const auto items = snapshot_.items(threads, prefix_.bounds());
    if (const std::size_t room = std::max(keys.size(), values.size()); items.size() > room) {
      throw error(errc::invalid_argument, "extract: the columns have room for " + std::to_string(room) +
                                              " items, but the snapshot has " + std::to_string(items.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const item one = decoder()(items[i]);
      if (!keys.empty()) keys[i] = one.key;
      if (!values.empty()) values[i] = one.value;
    }
    return items.size();
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
  detail::container_prefix prefix_;
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
  void insert_new(const key_argument& key, const value_argument& value) {
    batch_.insert_new(detail::encoded_key<K>(key).view(), value_codec<V>::bytes(value));
  }
  void replace(const key_argument& key, const value_argument& value, icecore::version expected) {
    batch_.replace(detail::encoded_key<K>(key).view(), value_codec<V>::bytes(value), expected);
  }
  void remove(const key_argument& key) { batch_.remove(detail::encoded_key<K>(key).view()); }
  void clear() noexcept { batch_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return batch_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return batch_.size(); }
  [[nodiscard]] const icecore::batch& bytes() const noexcept { return batch_; }

 private:
  icecore::batch batch_;
};

/// A typed view of a store, or of a container in it that has a name: a cheap value. Each function does what the store's
/// function of the same name does.
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

  /// The whole store.
  explicit map(icecore::store& store) noexcept : store_(&store) {}
  /// The container of this name, which has 1 to 255 bytes. Any number of containers, of any types, share a store, its
  /// versions, tags and batches. Use no map of the whole store beside them. errc::invalid_argument: the name's size.
  map(icecore::store& store, std::string_view name) : store_(&store), prefix_(name) {}

  [[nodiscard]] icecore::store& store() const noexcept { return *store_; }
  /// Empty: the whole store.
  [[nodiscard]] std::string_view name() const noexcept { return prefix_.name(); }

  icecore::version insert(const key_argument& key, const value_argument& value) {
    return store_->insert(key_of(key).view(), value_codec<V>::bytes(value));
  }
  std::optional<icecore::version> remove(const key_argument& key) { return store_->remove(key_of(key).view()); }
  std::optional<icecore::version> insert_new(const key_argument& key, const value_argument& value) {
    return store_->insert_new(key_of(key).view(), value_codec<V>::bytes(value));
  }
  std::optional<icecore::version> replace(const key_argument& key, const value_argument& value,
                                          icecore::version expected) {
    return store_->replace(key_of(key).view(), value_codec<V>::bytes(value), expected);
  }
  icecore::version apply(const batch& operations) {
    return prefix_.empty() ? store_->apply(operations.bytes()) : store_->apply(in_store(operations));
  }
  std::optional<icecore::version> apply_if(const batch& operations) { return store_->apply_if(in_store(operations)); }

  /// Adds an operation on this container to a batch for the store, which may have others on other containers:
  ///   icecore::batch both; orders.insert(both, 7, o); stock.remove(both, "apple"); store.apply(both);
  void insert(icecore::batch& to, const key_argument& key, const value_argument& value) const {
    to.insert(key_of(key).view(), value_codec<V>::bytes(value));
  }
  void insert_new(icecore::batch& to, const key_argument& key, const value_argument& value) const {
    to.insert_new(key_of(key).view(), value_codec<V>::bytes(value));
  }
  void replace(icecore::batch& to, const key_argument& key, const value_argument& value,
               icecore::version expected) const {
    to.replace(key_of(key).view(), value_codec<V>::bytes(value), expected);
  }
  void remove(icecore::batch& to, const key_argument& key) const { to.remove(key_of(key).view()); }

  [[nodiscard]] std::optional<found_value> find(const key_argument& key) const {
    return detail::hold_value<V>(store_->find(key_of(key).view()));
  }
  [[nodiscard]] std::optional<found_value> find(const key_argument& key, icecore::version at) const {
    return detail::hold_value<V>(store_->find(key_of(key).view(), at));
  }
  [[nodiscard]] bool contains(const key_argument& key) const { return store_->contains(key_of(key).view()); }
  [[nodiscard]] bool contains(const key_argument& key, icecore::version at) const {
    return store_->contains(key_of(key).view(), at);
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
    detail::find_in_groups<K, V>(prefix_, keys, out, [this, at](std::size_t first, auto group, auto answers) {
      static_cast<void>(store_->find_many(group, at.subspan(first, group.size()), answers));
    });
    if constexpr (!snapshot::copies_values) return holds;
  }

  /// at: a closed version, by number, by tag name (anything that converts to a string view) or by time. latest: the
  /// present.
  template <class Which>
  [[nodiscard]] snapshot at(const Which& which) const {
    return {store_->at(which), prefix_};
  }
  [[nodiscard]] snapshot latest() const { return {store_->latest(), prefix_}; }

  /// All records of the key, newest first. history_oldest_first() collects all records before it returns; the list
  /// keeps views valid.
  [[nodiscard]] history_range history(const key_argument& key) const {
    return history_range(store_->history(key_of(key).view()));
  }
  [[nodiscard]] pinned_list<change> history_oldest_first(const key_argument& key) const {
    pin holds = store_->hold();
    std::vector<change> records;
    for (const auto& record : store_->history(key_of(key).view()).oldest_first()) {
      records.push_back(detail::decode_change<V>{}(record));
    }
    return {std::move(records), std::move(holds)};
  }

  /// What changed from one closed version to another, in the order of K.
  [[nodiscard]] difference_range diff(icecore::version before, icecore::version after) const {
    return difference_range(store_->diff(before, after, prefix_.bounds()), {prefix_.size()});
  }

 private:
  [[nodiscard]] detail::prefixed_key<K> key_of(const key_argument& key) const { return {prefix_, key}; }
  /// The batch with the keys that they have in the store.
  [[nodiscard]] icecore::batch in_store(const batch& operations) const {
    if (prefix_.empty()) return operations.bytes();
    icecore::batch prefixed;
    for (const auto& [key, value, expected] : operations.bytes().operations()) {
      const std::string with_prefix = prefix_.bytes() + key;
      if (!value) {
        prefixed.remove(with_prefix);
      } else if (!expected) {
        prefixed.insert(with_prefix, *value);
      } else if (*expected == 0) {
        prefixed.insert_new(with_prefix, *value);
      } else {
        prefixed.replace(with_prefix, *value, *expected);
      }
    }
    return prefixed;
  }

  icecore::store* store_;
  detail::container_prefix prefix_;
};

}  // namespace icecore

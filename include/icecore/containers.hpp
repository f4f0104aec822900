// Containers with types in a store, beside map<K, V> (typed.hpp): set<K>, list<K, V> and hash_map<K, V>.
//
//   icecore::options o;
//   o.index = icecore::hash_map<std::string, account>::index;
//   icecore::store s("bank.ice", o);
//   icecore::hash_map<std::string, account> accounts(s, "accounts");
//   icecore::set<std::uint64_t> blocked(s, "blocked");                  // shares versions, tags and batches
//   if (!blocked.contains(7)) accounts.insert("alice", a);
//   icecore::version v = s.tag("monday");
//   accounts.at(v).for_each([](std::string_view name, const account& a) { ... });
//
// All of them are views of a store, as map is, with its keys, values, versions, durability and errors. A container may
// have a name (1 to 255 bytes); several with names share a store.
//
//   set       keys alone, on any index
//   list      as map, for stores with the index `list`: all is O(keys), and nothing takes less memory
//   hash_map  as map without what goes by order, for stores with the index `hash`: finds are O(1)
//
// The store's index decides about costs; each container works on every index.
// Threads: those of the store.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "icecore/typed.hpp"
#include "icecore/typed_parts.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// A map for a store with the index `list`.
template <typed_key K, typed_value V>
class list : public map<K, V> {
 public:
  /// What options::index should be.
  static constexpr index_kind index = index_kind::list;
  using map<K, V>::map;
};

/// One version of a hash_map. for_each() is in no order that a program should rely on.
template <typed_key K, typed_value V>
class hash_snapshot : private typed_snapshot<K, V> {
  using base = typed_snapshot<K, V>;

 public:
  using typename base::found_value;
  using typename base::item;
  using typename base::key_argument;
  using typename base::value_view;
  explicit hash_snapshot(base at) : base(std::move(at)) {}

  using base::bytes;
  using base::contains;
  using base::find;
  using base::find_many;
  using base::for_each;
  using base::size;
  using base::size_bound;
  using base::version;
  /// The same version with all that goes by order. On a store with the index `hash` that sorts all keys first.
  [[nodiscard]] const base& sorted() const& noexcept { return *this; }
  [[nodiscard]] base sorted() const&& { return *this; }
};

/// A map for a store with the index `hash`: what needs an order of keys is at(v).sorted().
template <typed_key K, typed_value V>
class hash_map : private map<K, V> {
  using base = map<K, V>;

 public:
  /// What options::index should be.
  static constexpr index_kind index = index_kind::hash;
  using typename base::batch;
  using typename base::change;
  using typename base::found_value;
  using typename base::history_range;
  using typename base::item;
  using typename base::key_argument;
  using typename base::value_argument;
  using typename base::value_view;
  using snapshot = hash_snapshot<K, V>;
  using base::base;

  using base::apply;
  using base::apply_if;
  using base::contains;
  using base::find;
  using base::find_many;
  using base::history;
  using base::history_oldest_first;
  using base::insert;
  using base::insert_new;
  using base::name;
  using base::remove;
  using base::replace;
  using base::store;
  template <class Which>
  [[nodiscard]] snapshot at(const Which& which) const {
    return snapshot(base::at(which));
  }
  [[nodiscard]] snapshot latest() const { return snapshot(base::latest()); }
};

namespace detail {

template <class K>
struct decode_only_key {
  std::size_t prefix_size = 0;
  typename key_types<K>::view operator()(const item& from) const { return decode_key<K>(from.key.substr(prefix_size)); }
};

}  // namespace detail

/// One version of a set.
template <typed_key K>
class set_snapshot {
 public:
  using key_argument = typename detail::key_types<K>::argument;
  using key_view = typename detail::key_types<K>::view;
  using key_range = detail::decoded_range<icecore::item_range, detail::decode_only_key<K>>;

  set_snapshot(const snapshot& at, const detail::container_prefix& prefix) : snapshot_(at, prefix), prefix_(prefix) {}

  [[nodiscard]] icecore::version version() const noexcept { return snapshot_.version(); }
  [[nodiscard]] bool contains(const key_argument& key) const { return snapshot_.contains(key); }
  [[nodiscard]] std::size_t size(unsigned threads = 0) const { return snapshot_.size(threads); }
  /// All keys, or those with from <= key < to (std::nullopt: no bound), in the order of K.
  [[nodiscard]] key_range range() const { return range_of(prefix_.bounds()); }
  [[nodiscard]] key_range range(const std::optional<key_argument>& from, const std::optional<key_argument>& to) const {
    key_bounds bounds = prefix_.bounds();
    if (from) bounds.from = detail::prefixed_key<K>(prefix_, *from).view();
    if (to) bounds.to = detail::prefixed_key<K>(prefix_, *to).view();
    return range_of(std::move(bounds));
  }
  /// Calls visit(key) for each key, as snapshot::for_each.
  template <class Visit>
  void for_each(const Visit& visit, unsigned threads = 0) const {
    snapshot_.for_each([&visit](const key_view& key, std::string_view) { visit(key); }, threads);
  }

 private:
  [[nodiscard]] key_range range_of(key_bounds bounds) const {
    return key_range(snapshot_.bytes().range(std::move(bounds)), {prefix_.size()});
  }

  typed_snapshot<K, std::string> snapshot_;
  detail::container_prefix prefix_;
};

/// Keys without values, which the store keeps as keys with empty values.
template <typed_key K>
class set {
 public:
  using key_argument = typename detail::key_types<K>::argument;
  using snapshot = set_snapshot<K>;

  /// As of map.
  explicit set(icecore::store& store) noexcept : keys_(store) {}
  set(icecore::store& store, std::string_view name) : keys_(store, name), prefix_(name) {}

  [[nodiscard]] icecore::store& store() const noexcept { return keys_.store(); }
  [[nodiscard]] std::string_view name() const noexcept { return prefix_.name(); }

  /// The version of the insert; empty if the key was there.
  std::optional<icecore::version> insert(const key_argument& key) { return keys_.insert_new(key, {}); }
  /// The version of the removal; empty if the key was not there.
  std::optional<icecore::version> remove(const key_argument& key) { return keys_.remove(key); }
  /// Adds an operation on this set to a batch for the store.
  void insert(icecore::batch& to, const key_argument& key) const { keys_.insert(to, key, {}); }
  /// The same, on the condition that the key is not there.
  void insert_new(icecore::batch& to, const key_argument& key) const { keys_.insert_new(to, key, {}); }
  void remove(icecore::batch& to, const key_argument& key) const { keys_.remove(to, key); }

  [[nodiscard]] bool contains(const key_argument& key) const { return keys_.contains(key); }
  [[nodiscard]] bool contains(const key_argument& key, icecore::version at) const { return keys_.contains(key, at); }
  /// As of map.
  template <class Which>
  [[nodiscard]] snapshot at(const Which& which) const {
    return {store().at(which), prefix_};
  }
  [[nodiscard]] snapshot latest() const { return {store().latest(), prefix_}; }

 private:
  map<K, std::string> keys_;
  detail::container_prefix prefix_;
};

}  // namespace icecore

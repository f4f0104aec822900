// An ordered map in memory with a vector of versions for each key, behind one lock: what a program uses without a
// multi-version store. The adaptor chooses the map, the vector and the lock.
#pragma once

#include <algorithm>
#include <bit>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <type_traits>
#include <variant>

#include "store.hpp"

namespace icecore::bench {

/// One change of a key: a value, or a remove.
template <class Value>
struct versioned_value {
  version at;
  bool removed;
  Value value;
};

/// Keys of 8 bytes become numbers with the same order as the bytes; all other keys are strings.
template <class Key>
[[nodiscard]] Key map_key(std::string_view bytes) {
  if constexpr (std::is_same_v<Key, std::uint64_t>) {
    static_assert(std::endian::native == std::endian::little);
    return __builtin_bswap64(number_of(bytes));
  } else {
    return Key(bytes);
  }
}

/// Values of 8 bytes are in the vector, larger ones outside, where they never move.
template <class Value>
[[nodiscard]] Value map_value(std::string_view bytes) {
  if constexpr (std::is_same_v<Value, std::uint64_t>) {
    return number_of(bytes);
  } else {
    return Value(bytes);
  }
}

/// `Map` maps keys to vectors of versioned_value, oldest first. Writers lock `Mutex`, and readers lock it with
/// `ReadLock`. Values that are too large for a std::string's internal buffer do not move when a vector grows, so a
/// reader may use them after it has unlocked.
template <class Map, class Mutex, class ReadLock>
class versioned_map final : public store {
 public:
  std::unique_ptr<bench::session> new_session() override { return std::make_unique<session>(*this); }
  [[nodiscard]] version clock() const override { return clock_.now(); }

 private:
  using key_type = typename Map::key_type;
  using history_type = typename Map::mapped_type;
  using change_type = typename history_type::value_type;
  using value_type = decltype(change_type::value);
  static constexpr bool holds_numbers = std::is_same_v<value_type, std::uint64_t>;

  [[nodiscard]] static const change_type* newest_at(const history_type& history, version at) {
    auto above = std::upper_bound(history.begin(), history.end(), at,
                                  [](version v, const change_type& change) { return v < change.at; });
    if (above == history.begin()) return nullptr;
    --above;
    return above->removed ? nullptr : &*above;
  }

  [[nodiscard]] static std::string_view view_of(const value_type& value) {
    if constexpr (holds_numbers) {
      return {reinterpret_cast<const char*>(&value), sizeof value};
    } else {
      return value;
    }
  }

  class session final : public bench::session {
   public:
    explicit session(versioned_map& map) : map_(map) {}

    version insert(std::string_view key, std::string_view value) override {
      const std::lock_guard lock(map_.mutex_);
      const version now = map_.clock_.now();
      map_.changes_[map_key<key_type>(key)].push_back({now, false, map_value<value_type>(value)});
      return now;
    }

    version remove(std::string_view key) override {
      const std::lock_guard lock(map_.mutex_);
      const version now = map_.clock_.now();
      map_.changes_[map_key<key_type>(key)].push_back({now, true, {}});
      return now;
    }

    void tag() override { map_.clock_.tag(); }

    std::optional<std::string_view> find(std::string_view key, version at) override {
      const ReadLock lock(map_.mutex_);
      const auto found = map_.changes_.find(map_key<key_type>(key));
      if (found == map_.changes_.end()) return std::nullopt;
      const auto* change = newest_at(found->second, at);
      if (change == nullptr) return std::nullopt;
      if constexpr (holds_numbers) {
        copy_ = change->value;
        return view_of(copy_);
      } else {
        return view_of(change->value);
      }
    }

    void history(std::string_view key, std::vector<recorded_change>& out) override {
      const ReadLock lock(map_.mutex_);
      const auto found = map_.changes_.find(map_key<key_type>(key));
      if (found == map_.changes_.end()) return;
      for (auto change = found->second.rbegin(); change != found->second.rend(); ++change) {
        out.push_back({change->at, change->removed ? std::nullopt : std::optional(number_of(view_of(change->value)))});
      }
    }

    void extract(version at, pair_columns& out, unsigned /*threads*/) override {
      const ReadLock lock(map_.mutex_);
      for (const auto& [key, history] : map_.changes_) {
        const auto* change = newest_at(history, at);
        if (change == nullptr) continue;
        if constexpr (std::is_same_v<key_type, std::uint64_t>) {
          const std::uint64_t bytes = __builtin_bswap64(key);
          out.add({reinterpret_cast<const char*>(&bytes), sizeof bytes}, view_of(change->value));
        } else {
          out.add(key, view_of(change->value));
        }
      }
    }

   private:
    versioned_map& map_;
    [[no_unique_address]] std::conditional_t<holds_numbers, std::uint64_t, std::monostate> copy_{};
  };

  Mutex mutex_;
  Map changes_;
  version_clock clock_;
};

/// Opens `Store<Key, Value>` for the requested sizes.
template <template <class, class> class Store>
[[nodiscard]] std::unique_ptr<store> open_for_sizes(const opening& how) {
  const bool numbers = how.value_size == sizeof(std::uint64_t);
  if (how.key_size == sizeof(std::uint64_t)) {
    if (numbers) return std::make_unique<Store<std::uint64_t, std::uint64_t>>();
    return std::make_unique<Store<std::uint64_t, std::string>>();
  }
  if (numbers) return std::make_unique<Store<std::string, std::uint64_t>>();
  return std::make_unique<Store<std::string, std::string>>();
}

}  // namespace icecore::bench

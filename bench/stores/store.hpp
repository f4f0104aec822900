// What the benchmark asks of a store: the operations of the papers' multi-version ordered map, as bytes.
//
// An adaptor is one file, <store>.cpp, that implements `store` and `session` and adds a `store_kind` to the list in
// kinds.hpp. Versions begin at 1; a write belongs to the version that is current when it happens, and tag() makes the
// next one current. Stores without versions of their own keep (key, version) pairs: see composite_key.hpp.
//
// Threads: a store is shared by all, a session belongs to one thread. Errors: any exception; it ends the run of this
// store and is shown. Lifetime: sessions end before their store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::bench {

using version = std::uint64_t;

/// One change of a key, as history() returns it. Histories are only read from stores whose values have 8 bytes.
struct recorded_change {
  bench::version version;
  std::optional<std::uint64_t> value;  ///< empty: removed
  friend bool operator==(const recorded_change&, const recorded_change&) = default;
};

/// The pairs of a snapshot in key order, copied into columns of fixed-size keys and values.
class pair_columns {
 public:
  pair_columns(std::size_t capacity, std::size_t key_size, std::size_t value_size)
      : key_size_(key_size),
        value_size_(value_size),
        capacity_(capacity),
        keys_(capacity * key_size),
        values_(capacity * value_size) {}

  void clear() noexcept { count_ = 0; }
  void add(std::string_view key, std::string_view value) {
    if (count_ == capacity_ || key.size() != key_size_ || value.size() != value_size_) {
      throw std::runtime_error("a snapshot with too many pairs, or with sizes nobody wrote");
    }
    std::memcpy(&keys_[count_ * key_size_], key.data(), key_size_);
    std::memcpy(&values_[count_ * value_size_], value.data(), value_size_);
    ++count_;
  }
  void set_count(std::size_t count) noexcept { count_ = count; }  ///< for stores that wrote into the columns directly

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t key_size() const noexcept { return key_size_; }
  [[nodiscard]] std::size_t value_size() const noexcept { return value_size_; }
  [[nodiscard]] char* keys() noexcept { return keys_.data(); }
  [[nodiscard]] char* values() noexcept { return values_.data(); }
  [[nodiscard]] std::string_view key(std::size_t i) const { return {&keys_[i * key_size_], key_size_}; }
  [[nodiscard]] std::string_view value(std::size_t i) const { return {&values_[i * value_size_], value_size_}; }

 private:
  std::size_t key_size_, value_size_, capacity_, count_ = 0;
  std::vector<char> keys_, values_;
};

/// A value of 8 bytes as a number, in the machine's byte order.
[[nodiscard]] inline std::uint64_t number_of(std::string_view value) {
  if (value.size() != sizeof(std::uint64_t)) throw std::runtime_error("a value of another size than was written");
  std::uint64_t number = 0;
  std::memcpy(&number, value.data(), sizeof(number));
  return number;
}

/// The operations of one thread on a store.
class session {
 public:
  session() = default;
  virtual ~session() = default;
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Each returns the version it belongs to. A removed key is always there.
  virtual version insert(std::string_view key, std::string_view value) = 0;
  virtual version remove(std::string_view key) = 0;
  /// Closes the current version, for all threads.
  virtual void tag() = 0;
  /// Called after the last write of a phase: commits what was collected. Timed.
  virtual void commit() {}

  /// The value of `key` at `at`. The view is valid until the next call.
  virtual std::optional<std::string_view> find(std::string_view key, version at) = 0;

  /// For values of 8 bytes; `out` has as many elements as `keys` and `at`.
  virtual void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                         std::span<std::optional<std::uint64_t>> out) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = find(keys[i], at[i]);
      out[i] = value ? std::optional(number_of(*value)) : std::nullopt;
    }
  }

  /// Appends all changes of `key` to `out`, newest first.
  virtual void history(std::string_view key, std::vector<recorded_change>& out) = 0;

  /// Fills `out`, which is empty, with all pairs at `at`. `threads` is more than 1 only if this kind can use several.
  virtual void extract(version at, pair_columns& out, unsigned threads) = 0;

  /// The number of keys that differ between two versions, of stores that can tell without reading both.
  virtual std::uint64_t count_differences(version before, version after) {
    throw std::logic_error("this store cannot tell what differs between " + std::to_string(before) + " and " +
                           std::to_string(after));
  }
};

class store {
 public:
  store() = default;
  virtual ~store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  /// Called in the thread that will use the session; other threads may call it at the same time.
  virtual std::unique_ptr<session> new_session() = 0;
  /// The version a write now belongs to.
  [[nodiscard]] virtual version clock() const = 0;
  /// For an open store, for the report; 0: not known.
  [[nodiscard]] virtual std::uint64_t index_bytes() const { return 0; }
};

/// The clock of stores without one of their own, counted in memory; a real store would have to store it.
class version_clock {
 public:
  [[nodiscard]] version now() const noexcept { return now_.load(std::memory_order_acquire); }
  void tag() noexcept { now_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::atomic<version> now_{1};
};

/// How to make a store.
struct opening {
  std::filesystem::path folder;  ///< of this store alone; empty for a new store, else with what a killed process left
  unsigned threads = 1;          ///< number that will use it, or recover it
  std::uint64_t records = 0;     ///< approximate number that will be written
  std::uint64_t keys = 0;        ///< number of these that are the first of their key; only maps use it
  std::size_t key_size = 8;      ///< of every key
  std::size_t value_size = 8;    ///< of every value
  /// Of the machine, if the store has less of it than data; 0: ample. Only maps use it.
  std::uint64_t memory_bytes = 0;
  /// With memory_bytes: whether more is read than was asked for, as the kernel does for mapped files and for files that
  /// are read through its cache.
  bool reads_ahead = true;

  [[nodiscard]] std::uint64_t record_bytes() const noexcept { return key_size + value_size; }
};

class map;
class filtered_store;

/// A multi-version store, a map, or a store that filters: one of the three functions is there.
struct store_kind {
  std::string name;                ///< its name in the papers and the figures
  std::string configuration;       ///< its configuration in one sentence, for the documentation
  bool survives_kill;              ///< a process that opens the same folder finds what a killed one left
  bool parallel_extract;           ///< extract() uses more threads than one
  bool tells_differences = false;  ///< has count_differences()
  std::function<std::unique_ptr<store>(const opening&)> open = {};                    ///< makes it, or opens it again
  std::function<std::unique_ptr<map>(const opening&)> open_map = {};                  ///< the same; map.hpp
  std::function<std::unique_ptr<filtered_store>(const opening&)> open_filtered = {};  ///< the same; filtered.hpp
};

}  // namespace icecore::bench

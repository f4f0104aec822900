// Sorted pairs of keys and values as columns: what ranks send each other to extract a snapshot of all of them.
//
//   icecore::columns own = store.at(v).extract();
//   ranks::pairs all = ranks::opt_merge(comm, ranks::view_of(own));     // gather.hpp
//   for (std::size_t i = 0; i < all.count(); ++i) use(all.view().keys[i], all.view().values[i]);
//
// Threads: views and their functions are pure; pairs is a plain container.
// Lifetime: a view is valid as long as what it was made from.
// Cost: a column is one or two allocations, whatever its number of items; views and slices allocate nothing.
//
// Invariants of a column:
//   C1. If `width` is not 0, item i is the `width` bytes at bytes + i * width, and there are no offsets.
//   C2. Otherwise item i is [offsets[i] - offsets[0], offsets[i + 1] - offsets[0]) of bytes. So a slice of a column is
//       a column and needs no new offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "icecore/snapshot.hpp"

namespace icecore::ranks {

namespace detail {
/// Uninitialised memory, in huge pages if it is large. std::bad_alloc if there is none.
[[nodiscard]] void* allocate(std::size_t bytes);
struct release {
  void operator()(void* memory) const noexcept;
};
}  // namespace detail

/// From now on buffers never free their memory: abandoned MPI requests may still use it.
void keep_all_buffers() noexcept;

/// A fixed number of uninitialised elements.
template <class T>
class buffer {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  explicit buffer(std::size_t size)
      : memory_(size == 0 ? nullptr : static_cast<T*>(detail::allocate(size * sizeof(T)))), size_(size) {}

  [[nodiscard]] T* data() noexcept { return memory_.get(); }
  [[nodiscard]] const T* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return memory_.get()[i]; }

 private:
  std::unique_ptr<T, detail::release> memory_;
  std::size_t size_ = 0;
};

/// A column that another object owns (C1, C2).
struct column_view {
  std::size_t width = 0;
  const std::uint64_t* offsets = nullptr;
  const char* bytes = nullptr;

  [[nodiscard]] std::uint64_t begin_of(std::size_t i) const noexcept {
    return width != 0 ? i * width : offsets == nullptr ? 0 : offsets[i] - offsets[0];
  }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    const std::uint64_t from = begin_of(i);
    return {bytes + from, begin_of(i + 1) - from};
  }
  /// The column without its first `from` items.
  [[nodiscard]] column_view without(std::size_t from) const noexcept {
    return {width, offsets == nullptr ? nullptr : offsets + from, bytes + begin_of(from)};
  }
};

/// Pairs that another object owns, in ascending order of keys, each key once.
struct pairs_view {
  std::size_t count = 0;
  column_view keys;
  column_view values;

  /// The pairs [from, to).
  [[nodiscard]] pairs_view slice(std::size_t from, std::size_t to) const noexcept {
    return {to - from, keys.without(from), values.without(from)};
  }
  /// The first index whose key is not less than `key`. O(log count).
  [[nodiscard]] std::size_t lower_bound(std::string_view key) const noexcept;
  /// The first index whose key is greater than `key`. Precondition: no two keys are equal. O(log count).
  [[nodiscard]] std::size_t upper_bound(std::string_view key) const noexcept {
    const std::size_t place = lower_bound(key);
    return place < count && keys[place] == key ? place + 1 : place;
  }
};

/// The sizes of pairs, which determine the memory they need. Plain numbers that can be sent as bytes.
struct extent {
  std::uint64_t count = 0;
  std::uint64_t key_width = 0;  ///< 0: keys of any size
  std::uint64_t key_bytes = 0;
  std::uint64_t value_width = 0;  ///< 0: values of any size
  std::uint64_t value_bytes = 0;

  friend bool operator==(const extent&, const extent&) = default;
  /// The extent of both together. Precondition: equal widths.
  [[nodiscard]] extent plus(const extent& other) const noexcept {
    return {count + other.count, key_width, key_bytes + other.key_bytes, value_width, value_bytes + other.value_bytes};
  }
};
[[nodiscard]] extent extent_of(const pairs_view& of) noexcept;
/// The bytes that the columns take.
[[nodiscard]] std::uint64_t bytes_of(const extent& of) noexcept;

/// A column that owns its memory.
struct column {
  std::size_t width = 0;
  buffer<std::uint64_t> offsets;  ///< count + 1 of them if width is 0, the first is 0
  buffer<char> bytes;

  [[nodiscard]] column_view view() const noexcept { return {width, offsets.data(), bytes.data()}; }
};

/// Pairs that own their memory. They can be moved, not copied.
class pairs {
 public:
  pairs() = default;
  /// Room for pairs of this extent. Only the first and last offsets are initialised.
  explicit pairs(const extent& size);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] pairs_view view() const noexcept { return {count_, keys.view(), values.view()}; }

  column keys;
  column values;

 private:
  std::size_t count_ = 0;
};

/// The result of snapshot::extract, without a copy.
[[nodiscard]] pairs_view view_of(const columns& extracted) noexcept;

/// The same pairs, with fixed-width columns where all items of a column have the same size: less to send, faster to
/// merge. O(count).
[[nodiscard]] pairs_view narrowed(const pairs_view& from) noexcept;

/// Fixed-size columns as snapshot::extract fills them. `count` is its return value.
[[nodiscard]] pairs_view view_of(const fixed_columns& filled, std::size_t count) noexcept;

/// A copy of the pairs that owns its memory. O(bytes).
[[nodiscard]] pairs copy_of(const pairs_view& from);

}  // namespace icecore::ranks

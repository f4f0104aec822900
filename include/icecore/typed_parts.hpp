// What the typed containers are made of: keys and values as bytes and back, and ranges that decode. Included by
// typed.hpp; a program uses held_view alone.
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

/// With what the keys of a container in the store begin: nothing, or its name behind a byte that holds the name's
/// length. So the keys of two containers never begin alike, whatever their names and keys are.
class container_prefix {
 public:
  container_prefix() = default;
  explicit container_prefix(std::string_view name) {
    if (name.empty() || name.size() > name_size_max) {
      throw error(errc::invalid_argument, "a container's name of " + std::to_string(name.size()) +
                                              " bytes: names have 1 to " + std::to_string(name_size_max));
    }
    bytes_ = static_cast<char>(static_cast<unsigned char>(name.size()));
    bytes_ += name;
  }

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view name() const noexcept { return std::string_view(bytes_).substr(empty() ? 0 : 1); }
  /// Of the container's keys.
  [[nodiscard]] key_bounds bounds() const { return empty() ? key_bounds{} : key_bounds::of_prefix(bytes_); }
  [[nodiscard]] bool is_of(std::string_view key) const noexcept { return key.starts_with(bytes_); }

  static constexpr std::size_t name_size_max = 255;

 private:
  std::string bytes_;
};

/// A key of a container as bytes in the store.
template <class K>
class prefixed_key {
 public:
  prefixed_key(const container_prefix& prefix, const typename key_types<K>::argument& key)
      : encoded_(key), view_(encoded_.view()) {
    if (prefix.empty()) return;
    joined_.reserve(prefix.size() + view_.size());
    joined_ += prefix.bytes();
    joined_ += view_;
    view_ = joined_;
  }
  prefixed_key(const prefixed_key&) = delete;
  prefixed_key& operator=(const prefixed_key&) = delete;

  [[nodiscard]] std::string_view view() const noexcept { return view_; }

 private:
  encoded_key<K> encoded_;
  std::string joined_;
  std::string_view view_;
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
    using value_type = decltype(std::declval<const Decode&>()(*std::declval<source_iterator&>()));
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    iterator(source_iterator place, Decode decode) : place_(std::move(place)), decode_(decode) {}
    [[nodiscard]] value_type operator*() const { return decode_(*place_); }
    iterator& operator++() {
      ++place_;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) { return it.place_ == std::default_sentinel; }

   private:
    source_iterator place_;
    Decode decode_;
  };

  explicit decoded_range(Range range, Decode decode = {}) : range_(std::move(range)), decode_(decode) {}

  [[nodiscard]] iterator begin() { return iterator(range_.begin(), decode_); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// The same elements from last to first, if the source range can be reversed.
  [[nodiscard]] decoded_range reversed() const
    requires requires(const Range& range) { range.reversed(); }
  {
    return decoded_range(range_.reversed(), decode_);
  }

 private:
  Range range_;
  Decode decode_;
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

/// Finds keys in groups, so that encodings and views fit on the stack. `find(first, views, answers)` finds the group
/// whose first key is keys[first].
template <class K, class V, class Find>
void find_in_groups(const container_prefix& prefix, std::span<const K> keys,
                    std::span<std::optional<typename value_codec<V>::view>> out, const Find& find) {
  if (keys.size() != out.size()) {
    throw error(errc::invalid_argument, "find_many: " + std::to_string(keys.size()) + " keys but room for " +
                                            std::to_string(out.size()) + " answers; pass spans of one size");
  }
  constexpr std::size_t group_size_max = 128;
  std::array<std::optional<prefixed_key<K>>, group_size_max> encoded;
  std::array<std::string_view, group_size_max> views;
  std::array<std::optional<std::string_view>, group_size_max> answers;
  for (std::size_t first = 0; first < keys.size(); first += group_size_max) {
    const std::size_t size = std::min(group_size_max, keys.size() - first);
    for (std::size_t i = 0; i < size; ++i) views[i] = encoded[i].emplace(prefix, keys[first + i]).view();
    find(first, std::span<const std::string_view>(views.data(), size), std::span(answers.data(), size));
    for (std::size_t i = 0; i < size; ++i) out[first + i] = decode_value<V>(answers[i]);
  }
}

}  // namespace detail

}  // namespace icecore

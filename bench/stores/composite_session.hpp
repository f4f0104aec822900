// The operations of a session, for libraries that offer an ordered map of bytes: writes as puts of composite keys,
// reads over a cursor of the library. See composite_key.hpp for the order.
//
// Cost: find is one seek; history is one seek and one step per change; extract visits every change in order, but seeks
// past the rest of a history that has become long.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "composite_key.hpp"
#include "store.hpp"

namespace icecore::bench {

/// A position in the library's order. Each move returns whether there is an entry; views are valid until the next move.
template <class T>
concept ordered_cursor = requires(T cursor, std::string_view composite) {
  { cursor.seek_first() } -> std::same_as<bool>;
  { cursor.seek(composite) } -> std::same_as<bool>;  // to the first entry that is not less
  { cursor.next() } -> std::same_as<bool>;
  { cursor.key() } -> std::same_as<std::string_view>;
  { cursor.value() } -> std::same_as<std::string_view>;
};

[[nodiscard]] std::optional<std::string_view> find_at(ordered_cursor auto& cursor, std::string_view key, version at) {
  if (!cursor.seek(composite_key(key, at).bytes()) || !written_for(key, cursor.key())) return std::nullopt;
  const std::string_view value = cursor.value();
  return value.empty() ? std::nullopt : std::optional(value);
}

void append_history(ordered_cursor auto& cursor, std::string_view key, std::vector<recorded_change>& out) {
  bool there = cursor.seek(composite_key(key, ~version{0}).bytes());
  for (; there && written_for(key, cursor.key()); there = cursor.next()) {
    const std::string_view value = cursor.value();
    out.push_back({version_of(cursor.key()), value.empty() ? std::nullopt : std::optional(number_of(value))});
  }
}

void extract_at(ordered_cursor auto& cursor, version at, pair_columns& out) {
  constexpr unsigned steps_before_seek = 16;  // in all these libraries a seek costs about as much as this many steps
  std::string key;
  bool decided = false;  // the newest visible change of `key` has been seen
  unsigned steps = 0;
  for (bool there = cursor.seek_first(); there;) {
    const std::string_view composite = cursor.key();
    if (key_of(composite) != key) {
      key = key_of(composite);
      decided = false;
      steps = 0;
    }
    if (!decided && version_of(composite) <= at) {
      decided = true;
      if (const std::string_view value = cursor.value(); !value.empty()) out.add(key, value);
    }
    // Version 0 is never written, so a seek to it leads past the oldest change.
    there = ++steps < steps_before_seek ? cursor.next() : cursor.seek(composite_key(key, decided ? 0 : at).bytes());
  }
}

/// Shared by the sessions of a store of composite keys.
struct composite_state {
  version_clock clock;
  one_key_size key_size;
};

/// A session that writes with put(); its reads are the functions above.
class composite_session : public session {
 public:
  explicit composite_session(composite_state& state) : state_(state) {}

  version insert(std::string_view key, std::string_view value) final {
    require_not_empty(value);
    return write(key, value);
  }
  version remove(std::string_view key) final { return write(key, removed_value); }
  void tag() final { state_.clock.tag(); }

 protected:
  /// Adds or replaces the entry: the last write of a key in a version counts.
  virtual void put(std::string_view composite, std::string_view value) = 0;

 private:
  version write(std::string_view key, std::string_view value) {
    state_.key_size.require(key.size());
    const version at = state_.clock.now();
    put(composite_key(key, at).bytes(), value);
    return at;
  }

  composite_state& state_;
};

}  // namespace icecore::bench

// Numbers that clients know things of the server by, such that a number which was given back is not mistaken for a
// later one.
//
//   handle_table<std::shared_ptr<database>> open(1024);
//   std::uint32_t handle = open.add(db);                  // errc::limit_reached
//   if (auto* found = open.find(handle)) ...              // null: never given, or given back
//
// A handle is a place in the table, and above it 16 bits that change each time the place is given anew. So a stale
// handle is noticed until its place was given 65,535 times more. 0 is never a handle.
// Threads: one at a time. Cost: O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "icecore/error.hpp"

namespace icecore::doors {

template <typename Value>
class handle_table {
 public:
  /// `most`: at most 65,536. `what` names the things in errors.
  handle_table(std::uint32_t most, const char* what) : most_(most), what_(what) {}

  [[nodiscard]] std::uint32_t add(Value value) {
    std::uint32_t place = 0;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else if (places_.size() < most_) {
      place = static_cast<std::uint32_t>(places_.size());
      places_.emplace_back();
    } else {
      throw error(errc::limit_reached, "a connection has at most " + std::to_string(most_) + " " + what_ +
                                           " open; close some, or connect once more");
    }
    slot& made = places_[place];
    if (++made.generation == 0) made.generation = 1;
    made.value.emplace(std::move(value));
    return place | (std::uint32_t{made.generation} << 16);
  }

  [[nodiscard]] Value* find(std::uint32_t handle) noexcept {
    slot* const at = slot_of(handle);
    return at != nullptr && at->value ? &*at->value : nullptr;
  }
  /// Whether the handle was given once, was given back, and its place was not given anew.
  [[nodiscard]] bool was_last(std::uint32_t handle) noexcept {
    slot* const at = slot_of(handle);
    return at != nullptr && !at->value;
  }

  /// What the handle stood for; empty if it stands for nothing.
  std::optional<Value> take(std::uint32_t handle) {
    slot* const at = slot_of(handle);
    if (at == nullptr || !at->value) return std::nullopt;
    std::optional<Value> taken = std::exchange(at->value, std::nullopt);
    free_.push_back(handle & 0xFFFFU);
    return taken;
  }
  /// Whether add() would fail.
  [[nodiscard]] bool is_full() const noexcept { return free_.empty() && places_.size() >= most_; }
  /// Takes what fulfils the condition. O(handles).
  template <typename Condition>
  void remove_if(const Condition& holds) {
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      slot& one = places_[place];
      if (!one.value || !holds(*one.value)) continue;
      one.value.reset();
      free_.push_back(place);
    }
  }
  void clear() { static_cast<void>(take_all()); }
  [[nodiscard]] std::vector<Value> take_all() {
    std::vector<Value> all;
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      if (auto one = take(place | (std::uint32_t{places_[place].generation} << 16))) all.push_back(std::move(*one));
    }
    return all;
  }

 private:
  struct slot {
    std::uint16_t generation = 0;
    std::optional<Value> value{};
  };
  [[nodiscard]] slot* slot_of(std::uint32_t handle) noexcept {
    const std::uint32_t place = handle & 0xFFFFU;
    if (place >= places_.size() || places_[place].generation != handle >> 16) return nullptr;
    return &places_[place];
  }

  std::uint32_t most_;
  const char* what_;
  std::vector<slot> places_;
  std::vector<std::uint32_t> free_;
};

}  // namespace icecore::doors

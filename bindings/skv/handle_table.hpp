// Handles that programs get: numbers that look like addresses, never dereferenced.
//
//   handle_table<cursor> cursors;
//   void* handle = cursors.add(std::make_shared<cursor>(...));
//   if (auto open = cursors.find(handle)) open->next();          // null: never given, or closed
//
// A handle is a place and how often the place was used, so a closed one is not mistaken for a later one: only after
// 2^43 uses of one place. Never NULL. Threads: any number. Cost: O(1), a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace icecore::skv {

template <class Object>
class handle_table {
 public:
  [[nodiscard]] void* add(std::shared_ptr<Object> object) {
    const std::lock_guard held(mutex_);
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(places_.size()));
      places_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    place_of& at = places_[place];
    at.object = std::move(object);
    free_.pop_back();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in a pointer's type, as SKV's interface has it
    return reinterpret_cast<void*>((at.uses << place_bits | place) << 1 | 1U);
  }
  [[nodiscard]] std::shared_ptr<Object> find(void* handle) const {
    const std::lock_guard held(mutex_);
    const std::size_t place = place_of_handle(handle);
    return place < places_.size() ? places_[place].object : nullptr;
  }
  /// Takes the object out: the handle is closed. Null if it was already.
  std::shared_ptr<Object> remove(void* handle) {
    const std::lock_guard held(mutex_);
    const std::size_t place = place_of_handle(handle);
    if (place >= places_.size()) return nullptr;
    free_.push_back(static_cast<std::uint32_t>(place));
    ++places_[place].uses;
    return std::exchange(places_[place].object, nullptr);
  }
  /// All objects that are left; their handles are closed.
  std::vector<std::shared_ptr<Object>> remove_all() {
    const std::lock_guard held(mutex_);
    std::vector<std::shared_ptr<Object>> all;
    for (std::size_t place = 0; place < places_.size(); ++place) {
      if (places_[place].object == nullptr) continue;
      all.push_back(std::exchange(places_[place].object, nullptr));
      free_.push_back(static_cast<std::uint32_t>(place));
      ++places_[place].uses;
    }
    return all;
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard held(mutex_);
    return places_.size() - free_.size();
  }

 private:
  static constexpr unsigned place_bits = 20;
  struct place_of {
    std::shared_ptr<Object> object;
    std::uintptr_t uses = 0;
  };
  /// Beyond the places if the handle is not open.
  [[nodiscard]] std::size_t place_of_handle(void* handle) const {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t place = (number >> 1) & ((std::uintptr_t{1} << place_bits) - 1);
    if ((number & 1U) == 0 || place >= places_.size()) return SIZE_MAX;
    const bool open = places_[place].object != nullptr && places_[place].uses == number >> (place_bits + 1);
    return open ? place : SIZE_MAX;
  }

  mutable std::mutex mutex_;
  std::vector<place_of> places_;
  std::vector<std::uint32_t> free_;
};

}  // namespace icecore::skv

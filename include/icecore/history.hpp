// The history of one key: every insert and removal of it, each with its version.
//
//   for (const auto& [version, value] : store.history("layer1/weight")) ...       // newest first
//   for (const auto& [version, value] : store.history("layer1/weight").oldest_first()) ...
//
// Threads: many threads may read one key's history, each with its own key_history object.
// Lifetime: values are views, valid as long as the key_history or the list they came from. Closing the store does not
//   end them; reading on then fails with errc::closed. Records written after begin() are not included.
// Cost: newest first, O(1) per record; oldest first, the call collects all records before it returns.
// Source: extract_history, IPDPS 2022, section II.
#pragma once

#include <cstddef>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

class key_history : public std::ranges::view_interface<key_history> {
 public:
  class iterator {
   public:
    using value_type = change;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit iterator(key_history* range) noexcept : range_(range) {}
    [[nodiscard]] const change& operator*() const noexcept { return range_->current_; }
    [[nodiscard]] const change* operator->() const noexcept { return &range_->current_; }
    iterator& operator++() {
      range_->step();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.at_end(); }

   private:
    [[nodiscard]] bool at_end() const noexcept { return range_->record_ == 0; }

    key_history* range_;
  };

  key_history(pin holds, std::string_view key, icecore::version up_to = version_max);

  /// Iterates newest first, from the record that is the newest when begin() is called.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  [[nodiscard]] pinned_list<change> newest_first();
  [[nodiscard]] pinned_list<change> oldest_first();

 private:
  void step();
  template <class Engine>
  [[gnu::visibility("hidden")]] void show(const Engine& engine);

  [[nodiscard]] std::vector<change> collect();

  pin holds_;
  std::string key_;
  icecore::version up_to_;
  std::uint64_t record_ = 0;  // link to the current record; 0 at the end
  change current_{};
};

}  // namespace icecore

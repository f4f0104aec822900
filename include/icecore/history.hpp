// The history of one key: every insert and removal of it, each with its version.
//
//   for (const auto& [version, value] : store.history("layer1/weight")) ...       // newest first
//   for (const auto& [version, value] : store.history("layer1/weight").oldest_first()) ...
//
// Threads: many threads may read one key's history, each with its own key_history object.
// Lifetime: values are views, valid as long as the key_history or the list they came from. Closing the store does not
//   end them; reading on then fails with errc::closed, once what was read ahead (of a long history that is packed, up
//   to 256 changes) has been told. Records written after begin() are not included.
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
  using iterator = range_iterator<key_history, change>;

  key_history(pin holds, std::string_view key, icecore::version up_to = version_max);

  /// Iterates newest first, from the record that is the newest when begin() is called.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Whether records may be missing, because versions up to the newest that this shows have expired.
  [[nodiscard]] bool thinned() const;
  [[nodiscard]] pinned_list<change> newest_first();
  [[nodiscard]] pinned_list<change> oldest_first();

 private:
  friend iterator;
  void step() {
    if (told_ < ahead_size_) {
      ++told_;
    } else {
      go_on();
    }
  }
  void go_on();  // behind what was read ahead
  [[nodiscard]] bool at_end() const noexcept { return record_ == 0; }
  [[nodiscard]] const change& current() const noexcept { return told_ == 0 ? current_ : ahead_[told_ - 1]; }
  template <class Engine>
  [[gnu::visibility("hidden")]] void show(const Engine& engine);
  template <class Engine>
  [[gnu::visibility("hidden")]] void read_ahead(const Engine& engine);

  [[nodiscard]] std::vector<change> collect();

  pin holds_;
  std::string key_;
  icecore::version up_to_;
  std::uint64_t record_ = 0;     // link to the last record that was read; 0 at the end
  bool record_is_next_ = false;  // current_ is a removal on top of it, which need not be read
  change current_{};
  std::vector<change> ahead_;  // of a long history, packed: the `ahead_size_` changes behind current_, up to record_
  std::size_t ahead_size_ = 0;
  std::size_t told_ = 0;   // of these; the last one told is the current change. 0: it is current_
  std::size_t steps_ = 0;  // go_on() since begin()
};

}  // namespace icecore

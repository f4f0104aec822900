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
  void step();
  [[nodiscard]] bool at_end() const noexcept { return record_ == 0; }
  [[nodiscard]] const change& current() const noexcept { return current_; }
  template <class Engine>
  [[gnu::visibility("hidden")]] void show(const Engine& engine);
  template <class Engine>
  [[gnu::visibility("hidden")]] void read_ahead(const Engine& engine);

  [[nodiscard]] std::vector<change> collect();

  pin holds_;
  std::string key_;
  icecore::version up_to_;
  std::uint64_t record_ = 0;     // link to the current record; 0 at the end
  bool record_is_next_ = false;  // the current change is a removal on top of it, which need not be read
  change current_{};
  std::vector<change> ahead_;  // of a long history, packed: `ahead_size_` changes up to record_; `told_` were current
  std::size_t ahead_size_ = 0;
  std::size_t told_ = 0;
  std::size_t steps_ = 0;  // since begin(), without those that are told from ahead_
};

}  // namespace icecore

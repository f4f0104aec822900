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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

class key_history : public std::ranges::view_interface<key_history> {
 public:
  /// A C++ input iterator. It goes over what was read ahead; whichever iterator of a history reads on behind that, what
  /// the others show is no longer valid.
  class iterator {
   public:
    using value_type = change;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    [[nodiscard]] const change& operator*() const noexcept { return *now_; }
    [[nodiscard]] const change* operator->() const noexcept { return now_; }
    iterator& operator++() {
      if (++now_ == end_) *this = history_->go_on();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.now_ == it.end_; }

   private:
    friend key_history;
    iterator(key_history* of, std::span<const change> read) noexcept
        : history_(of), now_(read.data()), end_(read.data() + read.size()) {}

    key_history* history_;
    const change* now_;  // in key_history::read_; end_ behind the last change
    const change* end_;
  };

  key_history(pin holds, std::string_view key, icecore::version up_to = version_max);

  /// Iterates newest first, from the record that is the newest when begin() is called.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Whether records may be missing, because versions up to the newest that this shows have expired.
  [[nodiscard]] bool thinned() const;
  [[nodiscard]] pinned_list<change> newest_first();
  [[nodiscard]] pinned_list<change> oldest_first();

 private:
  [[nodiscard]] iterator go_on();  // behind what was read
  template <class Engine>
  [[gnu::visibility("hidden")]] iterator read(const Engine& engine);
  template <class Engine>
  [[nodiscard, gnu::visibility("hidden")]] bool show(const Engine& engine);
  template <class Engine>
  [[gnu::visibility("hidden")]] std::size_t read_ahead(const Engine& engine);

  [[nodiscard]] std::vector<change> collect();

  pin holds_;
  std::string key_;
  icecore::version up_to_;
  std::uint64_t record_ = 0;      // link to the last record that was read; 0 at the end
  bool record_is_next_ = false;   // read_ is a removal on top of it, which need not be read
  std::vector<change> read_{{}};  // what iterators show: a change, and of a long history, packed, those behind it
  std::size_t times_read_ = 0;    // since begin()
};

}  // namespace icecore

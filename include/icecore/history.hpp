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
    /// If it throws, the iterator stays where it is, and is not at the end.
    iterator& operator++() {
      if (now_ + 1 != end_) {
        ++now_;
      } else {
        *this = history_->go_on();
      }
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.now_ == it.end_; }
    /// The same place in a copy of the history, made since this iterator last moved: for who looks ahead.
    [[nodiscard]] iterator in(key_history& copy) const noexcept;

   private:
    friend key_history;
    iterator(key_history* of, std::span<const change> read) noexcept
        : history_(of), now_(read.data()), end_(read.data() + read.size()) {}

    key_history* history_;
    const change* now_;  // one_, or in several_; end_ is behind the last change
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
  [[gnu::visibility("hidden")]] iterator read(const Engine& engine, std::uint64_t from);
  template <class Engine>
  [[nodiscard, gnu::visibility("hidden")]] std::uint64_t show(const Engine& engine, std::uint64_t from, change& to);
  template <class Engine>
  [[gnu::visibility("hidden")]] change* read_ahead(const Engine& engine, change* to, const change* end);

  [[nodiscard]] std::vector<change> collect();

  pin holds_;
  std::string key_;
  icecore::version up_to_;
  std::uint64_t record_ = 0;     // link to the last record that was read; 0 at the end
  bool record_is_next_ = false;  // what is shown is a removal on top of it, which need not be read
  std::size_t packed_read_ = 0;  // how often read() was called for a packed record, since begin()
  change one_{};                 // what iterators show, one change after the other
  std::vector<change> several_;  // or, of a long history that is packed, one and those behind it
};

inline key_history::iterator key_history::iterator::in(key_history& copy) const noexcept {
  if (now_ == end_) return {&copy, {}};
  if (now_ == &history_->one_) return {&copy, {&copy.one_, 1}};
  const auto told = static_cast<std::size_t>(now_ - history_->several_.data());
  return {&copy, {copy.several_.data() + told, static_cast<std::size_t>(end_ - now_)}};
}

}  // namespace icecore

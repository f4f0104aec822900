// The iterator of ranges that are read as they are walked: a C++ input iterator.
//
// It is the range's place: all iterators of a range stand at the same element, and the range must stay where it is
// while it is iterated. What it refers to is valid until it goes on.
#pragma once

#include <cstddef>
#include <iterator>

namespace [[gnu::visibility("default")]] icecore {

/// `Range` has current(), step() and at_end(), and this as its friend.
template <class Range, class Value>
class range_iterator {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit range_iterator(Range* range) noexcept : range_(range) {}
  [[nodiscard]] const Value& operator*() const noexcept { return range_->current(); }
  [[nodiscard]] const Value* operator->() const noexcept { return &range_->current(); }
  range_iterator& operator++() {
    range_->step();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const range_iterator& it, std::default_sentinel_t) noexcept { return it.is_at_end(); }

 private:
  [[nodiscard]] bool is_at_end() const noexcept { return range_->at_end(); }

  Range* range_;
};

}  // namespace icecore

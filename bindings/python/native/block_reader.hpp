// What Python iterators have in common. Each fetches a block of views from C++ without the GIL, and makes Python
// objects from them one by one on request.
//
// Threads: an iterator that two threads use at once raises ValueError, as a generator does, instead of mixing blocks.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "objects.hpp"

namespace icecore::python {

// Blocks start small, so that the first item comes quickly, and grow, so that a long loop rarely takes and releases the
// GIL.
inline constexpr std::size_t block_size_first = 16;
inline constexpr std::size_t block_size_max = 1024;

/// Reads through `Range` block by block. `Range` must not move, because its iterators point to it.
template <typename Range, typename Element>
class block_reader {
 public:
  block_reader(const std::shared_ptr<session>& owner, pin holds, Range range, std::uint64_t limit)
      : owner_(owner), opening_(owner->openings()), holds_(std::move(holds)), range_(std::move(range)), left_(limit) {}
  block_reader(const block_reader&) = delete;
  block_reader& operator=(const block_reader&) = delete;

  /// The next element, or null at the end. errc::closed, also while elements are left in the block: where an iteration
  /// ends does not depend on the sizes of blocks.
  [[nodiscard]] const Element* next() {
    owner_->use();
    if (opening_ != owner_->openings()) owner_->refuse_what_was_inherited();
    if (position_ == block_.size() && !fetch()) return nullptr;
    return &block_[position_++];
  }

  /// new_bytes of a view in an element; None if there is none.
  [[nodiscard]] PyObject* copied(const std::optional<std::string_view>& bytes) const {
    return bytes ? new_bytes(*owner_, *bytes) : Py_NewRef(Py_None);
  }
  /// The same, or a memoryview.
  [[nodiscard]] PyObject* shown(const std::optional<std::string_view>& bytes, bool as_view) const {
    return bytes && as_view ? new_view({*bytes, holds_}).release().ptr() : copied(bytes);
  }

 private:
  bool fetch() {
    if (fetching_) {
      PyErr_SetString(PyExc_ValueError, "another thread is advancing this iterator: give each thread its own");
      throw nb::python_error();
    }
    if (left_ == 0) return false;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(block_size_, left_));
    std::vector<Element> block;
    block.reserve(wanted);
    fetching_ = true;
    struct at_end {
      bool& flag;
      ~at_end() { flag = false; }
    } const fetched{fetching_};
    {
      const without_gil released(*owner_);
      if (!at_) {
        at_.emplace(range_.begin());
      } else if (*at_ != range_.end()) {
        ++*at_;
      }
      while (*at_ != range_.end()) {
        block.push_back(**at_);
        if (block.size() == wanted) break;
        ++*at_;
      }
    }
    left_ = block.size() < wanted ? 0 : left_ - wanted;
    block_size_ = std::min(2 * block_size_, block_size_max);
    block_ = std::move(block);
    position_ = 0;
    return !block_.empty();
  }

  std::shared_ptr<session> owner_;
  std::uint64_t opening_;  // from which the range is
  pin holds_;              // of all elements
  Range range_;
  std::optional<typename Range::iterator> at_;  // at the last element fetched
  std::vector<Element> block_;
  std::size_t position_ = 0;
  std::size_t block_size_ = block_size_first;
  std::uint64_t left_;
  bool fetching_ = false;
};

template <std::size_t Size>
PyObject* tuple_of(const std::array<PyObject*, Size>& parts) {
  PyObject* tuple = nullptr;
  if (std::none_of(parts.begin(), parts.end(), [](PyObject* p) { return p == nullptr; })) {
    tuple = PyTuple_New(static_cast<Py_ssize_t>(Size));
  }
  for (std::size_t i = 0; i < Size; ++i) {
    if (tuple != nullptr) {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), parts[i]);
    } else {
      Py_XDECREF(parts[i]);
    }
  }
  return tuple;
}

template <typename Iterator>
PyObject* iterator_next(PyObject* self) noexcept {
  return slot<PyObject*>(nullptr, [&] { return self_of<Iterator>(self).next(); });
}

template <typename Iterator>
const PyType_Slot* iterator_slots() {
  static const PyType_Slot slots[] = {
      {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
      {Py_tp_iternext, reinterpret_cast<void*>(iterator_next<Iterator>)},
      {0, nullptr},
  };
  return slots;
}

}  // namespace icecore::python

// Python iterators over items, histories and differences. Each fetches a block of views from C++ without the GIL, and
// makes Python objects from them one by one on request.
//
// Threads: an iterator that two threads use at once raises ValueError, as a generator does, instead of mixing blocks.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "objects.hpp"

namespace icecore::python {
namespace {

// Blocks start small, so that the first item comes quickly, and grow, so that a long loop rarely takes and releases the
// GIL.
constexpr std::size_t block_size_first = 16;
constexpr std::size_t block_size_max = 1024;

/// Reads through `Range` block by block. `Range` must not move, because its iterators point to it.
template <typename Range, typename Element>
class block_reader {
 public:
  block_reader(std::shared_ptr<session> owner, pin holds, Range range, std::uint64_t limit)
      : owner_(std::move(owner)), holds_(std::move(holds)), range_(std::move(range)), left_(limit) {}
  block_reader(const block_reader&) = delete;
  block_reader& operator=(const block_reader&) = delete;

  /// The next element, or null at the end. errc::closed, also while elements are left in the block: where an iteration
  /// ends does not depend on the sizes of blocks.
  [[nodiscard]] const Element* next() {
    owner_->use();
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
  pin holds_;  // of all elements
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

/// icecore._native.ItemIterator
struct item_iterator {
  block_reader<item_range, item> reader;
  part wanted;

  PyObject* next() {
    const item* found = reader.next();
    if (found == nullptr) return nullptr;
    const item now = *found;  // the block may be replaced while the GIL is released to copy a large value
    if (wanted == part::key) return reader.copied(now.key);
    if (wanted == part::value) return reader.copied(now.value);
    PyObject* const key = reader.copied(now.key);
    return tuple_of<2>({key, reader.copied(now.value)});
  }
};

/// icecore._native.HistoryIterator: newest first record by record; oldest first from a list made at the start.
struct history_iterator {
  std::optional<block_reader<key_history, change>> newest_first;
  std::optional<block_reader<pinned_list<change>, change>> oldest_first;
  bool as_views;

  PyObject* next() { return newest_first ? next_of(*newest_first) : next_of(*oldest_first); }

 private:
  template <typename Reader>
  PyObject* next_of(Reader& reader) const {
    const change* found = reader.next();
    if (found == nullptr) return nullptr;
    const change now = *found;
    PyObject* const version = PyLong_FromUnsignedLongLong(now.version);
    return tuple_of<2>({version, reader.shown(now.value, as_views)});
  }
};

/// icecore._native.DiffIterator
struct diff_iterator {
  block_reader<diff_range, difference> reader;
  bool as_views;

  PyObject* next() {
    const difference* found = reader.next();
    if (found == nullptr) return nullptr;
    const difference now = *found;
    PyObject* const key = reader.copied(now.key);
    PyObject* const before = reader.shown(now.before, as_views);
    return tuple_of<3>({key, before, reader.shown(now.after, as_views)});
  }
};

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

void make_history_iterator(history_iterator* self, const std::shared_ptr<session>& owner, const pin& holds,
                           bytes_like key, icecore::version up_to, bool oldest_first, bool as_views) {
  key_history history(holds, bytes_argument(key.ptr(), "a key").bytes(), up_to);
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  if (!oldest_first) {
    new (self) history_iterator{{}, {}, as_views};
    self->newest_first.emplace(owner, holds, std::move(history), all);
    return;
  }
  pinned_list<change> changes;
  {
    const without_gil released(*owner);
    changes = history.oldest_first();
  }
  new (self) history_iterator{{}, {}, as_views};
  self->oldest_first.emplace(owner, holds, std::move(changes), all);
}

}  // namespace

void bind_iterators(nb::module_& m) {
  nb::class_<item_iterator>(m, "ItemIterator", nb::type_slots(iterator_slots<item_iterator>()))
      .def(
          "__init__",
          [](item_iterator* self, const snapshot_object& snapshot, int wanted, bool reverse, std::uint64_t limit) {
            snapshot.owner->use();
            item_range range(snapshot.at.cursor(), snapshot.bounds, reverse);
            new (self) item_iterator{
                {snapshot.owner, snapshot.at.holds(), std::move(range), empty(snapshot.bounds) ? 0 : limit},
                static_cast<part>(wanted)};
          },
          nb::arg("snapshot"), nb::arg("part"), nb::arg("reverse"), nb::arg("limit"));
  nb::class_<history_iterator>(m, "HistoryIterator", nb::type_slots(iterator_slots<history_iterator>()))
      .def(
          "__init__",
          [](history_iterator* self, const store_object& store, bytes_like key, bool oldest_first, bool as_views) {
            make_history_iterator(self, store.owner, store.owner->use().hold(), key, version_max, oldest_first,
                                  as_views);
          },
          nb::arg("source"), nb::arg("key"), nb::arg("oldest_first"), nb::arg("as_views"))
      .def(
          "__init__",
          [](history_iterator* self, const snapshot_object& snapshot, bytes_like key, bool oldest_first,
             bool as_views) {
            snapshot.owner->use();
            make_history_iterator(self, snapshot.owner, snapshot.at.holds(), key, snapshot.at.version(), oldest_first,
                                  as_views);
          },
          nb::arg("source"), nb::arg("key"), nb::arg("oldest_first"), nb::arg("as_views"));
  nb::class_<diff_iterator>(m, "DiffIterator", nb::type_slots(iterator_slots<diff_iterator>()))
      .def(
          "__init__",
          [](diff_iterator* self, const store_object& store, icecore::version before, icecore::version after,
             bytes_like start, bytes_like stop, bytes_like prefix, bool as_views) {
            key_bounds bounds = bounds_from(start, stop, prefix);
            const std::uint64_t limit = empty(bounds) ? 0 : std::numeric_limits<std::uint64_t>::max();
            const icecore::store& used = store.owner->use();
            new (self)
                diff_iterator{{store.owner, used.hold(), used.diff(before, after, std::move(bounds)), limit}, as_views};
          },
          nb::arg("store"), nb::arg("before"), nb::arg("after"), nb::arg("start").none(), nb::arg("stop").none(),
          nb::arg("prefix").none(), nb::arg("as_views"));
}

}  // namespace icecore::python

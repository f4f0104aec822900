// Python iterators over items, histories and differences.
#include <nanobind/stl/optional.h>

#include <limits>

#include "block_reader.hpp"

namespace icecore::python {
namespace {

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
            const icecore::snapshot& then = snapshot.then();
            item_range range(then.cursor(), snapshot.bounds, reverse);
            new (self)
                item_iterator{{snapshot.owner, then.holds(), std::move(range), empty(snapshot.bounds) ? 0 : limit},
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
          nb::arg("source"), nb::arg("key").none(), nb::arg("oldest_first"), nb::arg("as_views"))
      .def(
          "__init__",
          [](history_iterator* self, const snapshot_object& snapshot, bytes_like key, bool oldest_first,
             bool as_views) {
            make_history_iterator(self, snapshot.owner, snapshot.then().holds(), key, snapshot.number, oldest_first,
                                  as_views);
          },
          nb::arg("source"), nb::arg("key").none(), nb::arg("oldest_first"), nb::arg("as_views"));
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

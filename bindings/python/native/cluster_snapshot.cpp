// One version of a cluster: finding, iterating and counting.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <vector>

#include "cluster_objects.hpp"

namespace icecore::python {
namespace {

// Blocks start small, so that the first item comes quickly, and grow, so that a long loop rarely takes and releases the
// GIL.
constexpr std::size_t block_size_first = 16;
constexpr std::size_t block_size_max = 1024;

std::optional<std::string> find(const cluster_snapshot_object& self, PyObject* key) {
  const bytes_argument bytes(key, "a key");
  icecore::cluster& used = self.owner->use();
  if (!contains(self.bounds, bytes.bytes())) return std::nullopt;
  const without_gil released(*self.owner);
  return used.find(bytes.bytes(), self.at);
}

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return slot<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PySlice_Check(key)) return subscript_slice(self, key);
    if (const auto value = find(self_of<cluster_snapshot_object>(self), key)) return new_value(value).release().ptr();
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  });
}

int contains_key(PyObject* self, PyObject* key) noexcept {
  return slot(-1, [&] {
    const auto& snapshot = self_of<cluster_snapshot_object>(self);
    const bytes_argument bytes(key, "a key");
    icecore::cluster& used = snapshot.owner->use();
    if (!contains(snapshot.bounds, bytes.bytes())) return 0;
    const without_gil released(*snapshot.owner);
    return used.contains(bytes.bytes(), snapshot.at) ? 1 : 0;
  });
}

const PyType_Slot snapshot_slots[] = {
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_sq_contains, reinterpret_cast<void*>(contains_key)},
    {0, nullptr},
};

std::uint64_t count(const cluster_snapshot_object& self) {
  icecore::cluster& used = self.owner->use();
  if (empty(self.bounds)) return 0;
  const without_gil released(*self.owner);
  if (!self.bounded()) return used.at(self.at).size();
  std::uint64_t counted = 0;
  icecore::cluster_cursor cursor = used.at(self.at).cursor(self.bounds);
  for (cursor.seek_first(); cursor.valid(); cursor.next()) ++counted;
  return counted;
}

/// icecore._native_mpi.ItemIterator: fetches blocks without the GIL and makes Python objects from them one by one. If
/// two threads use it at once, it raises ValueError, as a generator does.
class item_walk {
 public:
  item_walk(const cluster_snapshot_object& snapshot, part wanted, std::uint64_t limit)
      : owner_(snapshot.owner),
        cursor_(owner_->use().at(snapshot.at).cursor(snapshot.bounds)),
        wanted_(wanted),
        left_(empty(snapshot.bounds) ? 0 : limit) {}

  /// The next key, value or pair; null at the end.
  PyObject* next() {
    owner_->use();
    if (position_ == block_.size() && !fetch()) return nullptr;
    const auto& [key, value] = block_[position_++];
    const std::string& one = wanted_ == part::value ? value : key;
    if (wanted_ != part::both) return nb::bytes(one.data(), one.size()).release().ptr();
    return nb::make_tuple(nb::bytes(key.data(), key.size()), nb::bytes(value.data(), value.size())).release().ptr();
  }

 private:
  using pair = std::pair<std::string, std::string>;

  bool fetch() {
    if (fetching_) {
      PyErr_SetString(PyExc_ValueError, "another thread is advancing this iterator: give each thread its own");
      throw nb::python_error();
    }
    if (left_ == 0) return false;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(block_size_, left_));
    std::vector<pair> block;
    block.reserve(wanted);
    fetching_ = true;
    struct at_end {
      bool& flag;
      ~at_end() { flag = false; }
    } const fetched{fetching_};
    {
      const without_gil released(*owner_);
      started_ ? cursor_.next() : cursor_.seek_first();
      started_ = true;
      while (cursor_.valid()) {
        block.emplace_back(wanted_ == part::value ? std::string_view() : cursor_->key,
                           wanted_ == part::key ? std::string_view() : cursor_->value);
        if (block.size() == wanted) break;
        cursor_.next();
      }
    }
    left_ = block.size() < wanted ? 0 : left_ - wanted;
    block_size_ = std::min(2 * block_size_, block_size_max);
    block_ = std::move(block);
    position_ = 0;
    return !block_.empty();
  }

  std::shared_ptr<cluster_session> owner_;
  icecore::cluster_cursor cursor_;  // at the last item fetched, once started_
  const part wanted_;
  std::vector<pair> block_;
  std::size_t position_ = 0;
  std::size_t block_size_ = block_size_first;
  std::uint64_t left_;
  bool started_ = false;
  bool fetching_ = false;
};

PyObject* walk_next(PyObject* self) noexcept {
  return slot<PyObject*>(nullptr, [&] { return self_of<item_walk>(self).next(); });
}

const PyType_Slot walk_slots[] = {
    {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_tp_iternext, reinterpret_cast<void*>(walk_next)},
    {0, nullptr},
};

}  // namespace

cluster_snapshot_class bind_cluster_snapshot(nb::module_& m) {
  nb::class_<item_walk>(m, "ItemIterator", nb::type_slots(walk_slots))
      .def(
          "__init__",
          [](item_walk* self, const cluster_snapshot_object& snapshot, int wanted, std::uint64_t limit) {
            new (self) item_walk(snapshot, static_cast<part>(wanted), limit);
          },
          nb::arg("snapshot"), nb::arg("part"), nb::arg("limit"));
  cluster_snapshot_class c(m, "Snapshot", nb::type_slots(snapshot_slots),
                           "One closed version of a cluster; icecore.mpi.Snapshot adds the rest.");
  c.def(
       "__init__",
       [](cluster_snapshot_object* self, const cluster_object& cluster, icecore::version at) {
         new (self) cluster_snapshot_object{cluster.owner, cluster.owner->use().at(at).version(), {}};
       },
       nb::arg("cluster"), nb::arg("version"))
      .def(
          "__init__",
          [](cluster_snapshot_object* self, const cluster_snapshot_object& whole, bytes_like start, bytes_like stop,
             bytes_like prefix) {
            new (self) cluster_snapshot_object{whole.owner, whole.at,
                                               intersection(bounds_from(start, stop, prefix), whole.bounds)};
          },
          nb::arg("snapshot"), nb::arg("start").none(), nb::arg("stop").none(), nb::arg("prefix").none())
      .def(
          "find", [](const cluster_snapshot_object& self, bytes_like key) { return new_value(find(self, key.ptr())); },
          nb::arg("key").none(), "The value; None if the key is not there.")
      .def("__len__", &count)
      .def_prop_ro(
          "version", [](const cluster_snapshot_object& self) { return self.at; }, "The version's number.")
      .def_prop_ro(
          "bounds",
          [](const cluster_snapshot_object& self) -> bounds_tuple {
            return nb::object(nb::make_tuple(new_value(self.bounds.from), new_value(self.bounds.to)));
          },
          "The first key and the one after the last; None where there is no bound.")
      .def_prop_ro(
          "path",
          [](const cluster_snapshot_object& self) -> text_object {
            const std::string& path = self.owner->path();
            return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
          },
          "The folder of this rank's store.");
  return c;
}

}  // namespace icecore::python

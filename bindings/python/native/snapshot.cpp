// One version of the store: subscription, views, narrowing, counting.
#include <nanobind/stl/optional.h>

#include "objects.hpp"

namespace icecore::python {
namespace {

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return slot<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PySlice_Check(key)) return subscript_slice(self, key);
    const auto& snapshot = self_of<snapshot_object>(self);
    const bytes_argument bytes(key, "a key");
    if (const auto value = snapshot.find(bytes.bytes())) return new_bytes(*snapshot.owner, value->bytes());
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  });
}

int contains_key(PyObject* self, PyObject* key) noexcept {
  return slot(-1, [&] {
    const auto& snapshot = self_of<snapshot_object>(self);
    const bytes_argument bytes(key, "a key");
    return snapshot.find(bytes.bytes()) ? 1 : 0;
  });
}

const PyType_Slot snapshot_slots[] = {
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_sq_contains, reinterpret_cast<void*>(contains_key)},
    {0, nullptr},
};

std::size_t count(const snapshot_object& self) {
  const icecore::snapshot& then = self.then();
  if (empty(self.bounds)) return 0;
  const without_gil released(*self.owner);
  if (!self.bounded()) return then.size();
  std::size_t counted = 0;
  icecore::item_range range = then.range(self.bounds);
  for (auto it = range.begin(); it != range.end(); ++it) ++counted;
  return counted;
}

}  // namespace

void snapshot_object::open_here() const {
  owner->await_settled(number);
  icecore::store& store = owner->use();
  if (at_ && opening_ == owner->openings()) return;  // another thread came first, while this one waited
  at_.emplace(store.at(number));
  opening_ = owner->openings();
}

snapshot_class bind_snapshot(nb::module_& m) {
  snapshot_class c(m, "Snapshot", nb::type_slots(snapshot_slots),
                   "One closed version of a store; icecore.Snapshot adds the rest.");
  c.def(
       "__init__",
       [](snapshot_object* self, const store_object& store, icecore::version at) {
         new (self) snapshot_object(store.owner, at);
       },
       nb::arg("store"), nb::arg("version"))
      .def(
          "__init__",
          [](snapshot_object* self, const store_object& store, icecore::version at, bytes_like start, bytes_like stop) {
            new (self) snapshot_object(store.owner, at, bounds_from(start, stop, nb::none()));
          },
          nb::arg("store"), nb::arg("version"), nb::arg("start").none(), nb::arg("stop").none())
      .def(
          "__init__",
          [](snapshot_object* self, const snapshot_object& whole, bytes_like start, bytes_like stop,
             bytes_like prefix) {
            new (self) snapshot_object(whole, intersection(bounds_from(start, stop, prefix), whole.bounds));
          },
          nb::arg("snapshot"), nb::arg("start").none(), nb::arg("stop").none(), nb::arg("prefix").none())
      .def(
          "_find",
          [](const snapshot_object& self, bytes_like key) -> bytes_or_none {
            const bytes_argument bytes(key.ptr(), "a key");
            const auto value = self.find(bytes.bytes());
            if (!value) return nb::none();
            PyObject* const made = new_bytes(*self.owner, value->bytes());
            if (made == nullptr) throw nb::python_error();
            return nb::steal(made);
          },
          nb::arg("key").none(), "The value; None if the key is not there.")
      .def(
          "_find_view",
          [](const snapshot_object& self, bytes_like key) -> view_or_none {
            const bytes_argument bytes(key.ptr(), "a key");
            auto value = self.find(bytes.bytes());
            return value ? new_view(*std::move(value)) : nb::none();
          },
          nb::arg("key").none())
      .def("_tag_tuple",
           [](const snapshot_object& self) -> tag_tuple_or_none {
             static_cast<void>(self.then());  // the owner is now one that this process may use
             const auto tag = self.owner->use().find_tag(self.number);
             if (!tag) return nb::none();
             return nb::make_tuple(tag->version, tag->time_ns, new_text(tag->name), new_text(tag->note));
           })
      .def("__len__", &count)
      .def(
          "_size_bound", [](const snapshot_object& self) { return self.then().size_bound(); },
          "The number of keys ever inserted into the store, never less than ``len()``. O(1).")
      .def_prop_ro(
          "_version", [](const snapshot_object& self) { return self.number; }, "The version's number.")
      .def_prop_ro(
          "_bounds",
          [](const snapshot_object& self) -> bounds_tuple {
            const auto bound = [](const std::optional<std::string>& key) -> nb::object {
              if (!key) return nb::none();
              return nb::bytes(key->data(), key->size());
            };
            return nb::make_tuple(bound(self.bounds.from), bound(self.bounds.to));
          },
          "The first key and the one after the last; None where there is no bound.")
      .def_prop_ro(
          "_path",
          [](const snapshot_object& self) -> text_object {
            const std::string& path = self.owner->path().native();
            return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
          },
          "The path of the store.");
  return c;
}

}  // namespace icecore::python

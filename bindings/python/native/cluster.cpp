// The cluster: reading and writing one key, tags, and synchronising ranks. All of it runs without the GIL, because any
// call may wait for another rank, which may wait for a thread of this process.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "cluster_objects.hpp"

namespace icecore::python {
namespace {

using optional_version = std::optional<icecore::version>;

std::optional<std::string> find(cluster_session& owner, PyObject* key, optional_version at = std::nullopt) {
  const bytes_argument bytes(key, "a key");
  return run(owner, [&](icecore::cluster& c) { return at ? c.find(bytes.bytes(), *at) : c.find(bytes.bytes()); });
}

icecore::version insert(cluster_session& owner, PyObject* key, PyObject* value) {
  const bytes_argument key_bytes(key, "a key");
  const value_argument value_bytes(value);
  return run(owner, [&](icecore::cluster& c) { return c.insert(key_bytes.bytes(), value_bytes.bytes()); });
}

icecore::version remove(cluster_session& owner, PyObject* key) {
  const bytes_argument bytes(key, "a key");
  return run(owner, [&](icecore::cluster& c) { return c.remove(bytes.bytes()); });
}

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return slot<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PySlice_Check(key)) return subscript_slice(self, key);
    const std::shared_ptr<cluster_session> owner = self_of<cluster_object>(self).owner;
    if (const auto value = find(*owner, key)) return new_value(value).release().ptr();
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) noexcept {
  return slot(-1, [&] {
    if (PySlice_Check(key)) throw nb::type_error("a slice of a cluster cannot be assigned or deleted");
    const std::shared_ptr<cluster_session> owner = self_of<cluster_object>(self).owner;
    static_cast<void>(value != nullptr ? insert(*owner, key, value) : remove(*owner, key));
    return 0;
  });
}

int contains_key(PyObject* self, PyObject* key) noexcept {
  return slot(-1, [&] {
    const std::shared_ptr<cluster_session> owner = self_of<cluster_object>(self).owner;
    const bytes_argument bytes(key, "a key");
    return run(*owner, [&](icecore::cluster& c) { return c.contains(bytes.bytes()); }) ? 1 : 0;
  });
}

const PyType_Slot cluster_slots[] = {
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)},
    {Py_sq_contains, reinterpret_cast<void*>(contains_key)},
    {0, nullptr},
};

void bind_data(cluster_class& c) {
  c.def(
       "insert",
       [](cluster_object& self, bytes_like key, bytes_like value) {
         return insert(*self.owner, key.ptr(), value.ptr());
       },
       nb::arg("key").none(), nb::arg("value").none(),
       "Sets the key's value in the open version and returns that version.")
      .def(
          "insert_new",
          [](cluster_object& self, bytes_like key, bytes_like value) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const value_argument value_bytes(value.ptr());
            return run(*self.owner,
                       [&](icecore::cluster& in) { return in.insert_new(key_bytes.bytes(), value_bytes.bytes()); });
          },
          nb::arg("key").none(), nb::arg("value").none(), "As ``icecore.Store.insert_new``; the key's owner decides.")
      .def(
          "replace",
          [](cluster_object& self, bytes_like key, bytes_like value, icecore::version expected) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const value_argument value_bytes(value.ptr());
            return run(*self.owner, [&](icecore::cluster& in) {
              return in.replace(key_bytes.bytes(), value_bytes.bytes(), expected);
            });
          },
          nb::arg("key").none(), nb::arg("value").none(), nb::arg("expected_version"),
          "As ``icecore.Store.replace``; the key's owner decides.")
      .def(
          "remove", [](cluster_object& self, bytes_like key) { return remove(*self.owner, key.ptr()); },
          nb::arg("key").none(),
          "Removes the key in the open version and returns that version, whether or not the key was there: with\n"
          "relaxed consistency only its owner finds this out, and only later.")
      .def(
          "_apply",
          [](cluster_object& self, batch_object& batch) {
            icecore::batch operations;
            {
              const std::scoped_lock lock(batch.mutex);
              operations = std::exchange(batch.operations, {});  // other threads may continue to fill it
            }
            return run(*self.owner, [&](icecore::cluster& used) { return used.apply_if(operations); });
          },
          nb::arg("batch"))
      .def(
          "_find",
          [](cluster_object& self, bytes_like key, optional_version at) {
            return new_value(find(*self.owner, key.ptr(), at));
          },
          nb::arg("key").none(), nb::arg("at").none() = nb::none(),
          "The newest value, or that of the closed version ``at``; None if the key is not there.")
      .def(
          "_history",
          [](cluster_object& self, bytes_like key) -> change_list {
            const bytes_argument bytes(key.ptr(), "a key");
            nb::list records;
            for (const versioned_value& record :
                 run(*self.owner, [&](icecore::cluster& used) { return used.history(bytes.bytes()); })) {
              records.append(nb::make_tuple(record.version, new_value(record.value)));
            }
            return records;
          },
          nb::arg("key").none());
}

icecore::version tag(cluster_object& self, bytes_like name, bytes_like note, std::optional<std::int64_t> time_ns) {
  std::optional<bytes_argument> name_bytes;
  std::optional<bytes_argument> note_bytes;
  tag_options label{.time_ns = time_ns};
  if (!name.is_none()) label.name = name_bytes.emplace(name.ptr(), "name").bytes();
  if (!note.is_none()) label.note = note_bytes.emplace(note.ptr(), "note").bytes();
  return run(*self.owner, [&](icecore::cluster& used) { return used.tag(label); });
}

void bind_tags(cluster_class& c) {
  c.def("_tag", &tag, nb::arg("name").none(), nb::arg("note").none(), nb::arg("time_ns").none())
      .def("_tag_tuples",
           [](cluster_object& self) -> tag_tuples {
             nb::list tags;
             for (const tag_info& found : run(*self.owner, [](icecore::cluster& used) { return used.tags(); })) {
               tags.append(new_tag(found));
             }
             return tags;
           })
      .def(
          "_tag_by_name",
          [](cluster_object& self, bytes_like name) -> tag_tuple_or_none {
            const bytes_argument bytes(name.ptr(), "name");
            const auto found = run(*self.owner, [&](icecore::cluster& used) { return used.find_tag(bytes.bytes()); });
            return found ? nb::object(new_tag(*found)) : nb::none();
          },
          nb::arg("name"))
      .def_prop_ro(
          "clock", [](cluster_object& self) { return self.owner->use().clock(); },
          "The version that a write now belongs to, the same on all ranks between two collective calls.");
}

void bind_synchronising(cluster_class& c) {
  c.def(
       "fence", [](cluster_object& self) { run(*self.owner, [](icecore::cluster& used) { used.fence(); }); },
       "Returns when the owners have made all writes that this rank has staged. Not collective.")
      .def(
          "_barrier",
          [](cluster_object& self, int level) {
            run(*self.owner, [&](icecore::cluster& used) { used.barrier(static_cast<barrier_level>(level)); });
          },
          nb::arg("level"))
      .def(
          "_set_consistency",
          [](cluster_object& self, int mode) {
            run(*self.owner,
                [&](icecore::cluster& used) { used.consistency(static_cast<icecore::consistency>(mode)); });
          },
          nb::arg("mode"))
      .def(
          "_protect",
          [](cluster_object& self, int mode) {
            run(*self.owner, [&](icecore::cluster& used) { used.protect(static_cast<icecore::protection>(mode)); });
          },
          nb::arg("mode"))
      .def("_consistency", [](cluster_object& self) { return static_cast<int>(self.owner->use().consistency()); })
      .def("_protection", [](cluster_object& self) { return static_cast<int>(self.owner->use().protection()); })
      .def(
          "_signal_notify",
          [](cluster_object& self, int signum, const std::vector<int>& ranks) {
            run(*self.owner, [&](icecore::cluster& used) { used.signal_notify(signum, ranks); });
          },
          nb::arg("signum"), nb::arg("ranks"))
      .def(
          "_signal_wait",
          [](cluster_object& self, int signum, const std::vector<int>& ranks) {
            run(*self.owner, [&](icecore::cluster& used) { used.signal_wait(signum, ranks); });
          },
          nb::arg("signum"), nb::arg("ranks"));
}

void bind_self(cluster_class& c) {
  c.def(
       "close", [](cluster_object& self) { std::shared_ptr(self.owner)->close(); },
       "Makes a fence, makes everything durable and closes every rank's store. Collective. Waits for calls running\n"
       "in other threads of this rank. Closing twice does nothing.")
      .def(
          "owner_of",
          [](cluster_object& self, bytes_like key) {
            const bytes_argument bytes(key.ptr(), "a key");
            return run(*self.owner, [&](icecore::cluster& used) { return used.owner_of(bytes.bytes()); });
          },
          nb::arg("key").none(), "The rank that holds the key.")
      .def(
          "group_of", [](cluster_object& self, int rank) { return self.owner->use().group_of(rank); }, nb::arg("rank"),
          "The storage group of a rank, counted from 0.")
      .def(
          "reaches_directly", [](cluster_object& self, int rank) { return self.owner->use().reaches_directly(rank); },
          nb::arg("rank"),
          "Whether this rank reads and writes that rank's keys directly in its memory, without its help.")
      .def_prop_ro(
          "rank", [](cluster_object& self) { return self.owner->use().rank(); }, "This rank.")
      .def_prop_ro(
          "size", [](cluster_object& self) { return self.owner->use().size(); },
          "The number of ranks; for the number of keys, ``len(c.latest())``.")
      .def_prop_ro(
          "has_progress_thread", [](cluster_object& self) { return self.owner->use().has_progress_thread(); },
          "Whether a thread answers other ranks while this rank is outside the cluster's calls.")
      .def_prop_ro(
          "closed", [](const cluster_object& self) { return self.owner->closed(); }, "Whether close() was called.")
      .def_prop_ro(
          "path",
          [](const cluster_object& self) -> text_object {
            const std::string& path = self.owner->path();
            return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
          },
          "The folder of this rank's store.");
}

}  // namespace

cluster_class bind_cluster(nb::module_& m) {
  cluster_class c(m, "Cluster", nb::type_slots(cluster_slots), "An open cluster; icecore.mpi.Cluster adds the rest.");
  bind_opening(c);
  bind_data(c);
  bind_tags(c);
  bind_synchronising(c);
  bind_self(c);
  return c;
}

}  // namespace icecore::python

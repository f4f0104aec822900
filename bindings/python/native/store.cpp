// The store: opening, reading and writing one key, tags, batches.
//
// Subscription (store[key], store[key] = value, del store[key], key in store) uses slots of the type instead of bound
// methods. The call then takes a quarter of the time, which matters beside a find of some 200 ns.
//
// The GIL: a find or an insert of a small value keeps it. Releasing it would cost a third of the operation without any
// benefit, because the interpreter around it needs the GIL anyway (docs/python.md has the figures). Calls that wait for
// a device, copy much or visit many keys release it. If a find in a store may take long, all its finds release the GIL
// (session.hpp, finds_block), because only afterwards is it known which one did.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <filesystem>
#include <string>

#include "objects.hpp"

namespace icecore::python {
namespace {

std::optional<value> find(session& owner, std::string_view key, std::optional<icecore::version> at = std::nullopt) {
  return find_value(owner, [&](const icecore::store& store) { return at ? store.find(key, *at) : store.find(key); });
}

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return slot<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PySlice_Check(key)) return subscript_slice(self, key);
    session& owner = *self_of<store_object>(self).owner;
    const bytes_argument bytes(key, "a key");
    if (const auto value = find(owner, bytes.bytes())) return new_bytes(owner, value->bytes());
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  });
}

icecore::version insert(session& owner, PyObject* key, PyObject* value) {
  const bytes_argument key_bytes(key, "a key");
  const value_argument value_bytes(value);
  icecore::store& store = owner.use();
  return maybe_without_gil(owner, owner.writes_block() || value_bytes.bytes().size() >= gil_bytes_min,
                           [&] { return store.insert(key_bytes.bytes(), value_bytes.bytes()); });
}

/// The value is `head` and then `body`.
icecore::version insert_parts(session& owner, PyObject* key, PyObject* head, PyObject* body) {
  const bytes_argument key_bytes(key, "a key");
  const value_argument head_bytes(head);
  const value_argument body_bytes(body);
  const std::array<std::string_view, 2> parts = {head_bytes.bytes(), body_bytes.bytes()};
  icecore::store& store = owner.use();
  return maybe_without_gil(owner, true, [&] { return store.insert_parts(key_bytes.bytes(), parts); });
}

std::optional<icecore::version> insert_new(session& owner, PyObject* key, PyObject* value) {
  const bytes_argument key_bytes(key, "a key");
  const value_argument value_bytes(value);
  icecore::store& store = owner.use();
  return maybe_without_gil(owner, owner.writes_block() || value_bytes.bytes().size() >= gil_bytes_min,
                           [&] { return store.insert_new(key_bytes.bytes(), value_bytes.bytes()); });
}

std::optional<icecore::version> replace(session& owner, PyObject* key, PyObject* value, icecore::version expected) {
  const bytes_argument key_bytes(key, "a key");
  const value_argument value_bytes(value);
  icecore::store& store = owner.use();
  return maybe_without_gil(owner, owner.writes_block() || value_bytes.bytes().size() >= gil_bytes_min,
                           [&] { return store.replace(key_bytes.bytes(), value_bytes.bytes(), expected); });
}

std::optional<icecore::version> remove(session& owner, PyObject* key) {
  const bytes_argument key_bytes(key, "a key");
  icecore::store& store = owner.use();
  return maybe_without_gil(owner, owner.writes_block(), [&] { return store.remove(key_bytes.bytes()); });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) noexcept {
  return slot(-1, [&] {
    if (PySlice_Check(key)) throw nb::type_error("a slice of a store cannot be assigned or deleted: use a batch");
    session& owner = *self_of<store_object>(self).owner;
    if (value != nullptr) {
      insert(owner, key, value);
      return 0;
    }
    if (remove(owner, key)) return 0;
    PyErr_SetObject(PyExc_KeyError, key);
    return -1;
  });
}

int contains_key(PyObject* self, PyObject* key) noexcept {
  return slot(-1, [&] {
    session& owner = *self_of<store_object>(self).owner;
    const bytes_argument bytes(key, "a key");
    return find(owner, bytes.bytes()) ? 1 : 0;
  });
}

const PyType_Slot store_slots[] = {
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)},
    {Py_sq_contains, reinterpret_cast<void*>(contains_key)},
    {0, nullptr},
};

/// The arguments of icecore.open, which the Python layer has checked and translated.
struct opening {
  std::string path;
  int access;
  int creation;
  int durability;
  bool emulate_durability;
  bool deferred_durability;
  bool accept_copy;
  bool accept_damage;
  int crash;
  bool huge_pages;
  int index;
  bool change_index;
  std::uint64_t lookup_cache_bytes;
  std::uint64_t block_cache_bytes;
  bool grow_in_background;
  bool beside_writer;
  bool never_locks;
  bool publish_settled;
  bool compacts;
  compaction_limits limits;
  unsigned recovery_threads;
  std::vector<placement> placements;
  std::string shared_as;
  bool at_first_use;  // not now
};

store_object open_store(const opening& asked, progress_like on_progress) {
  options o;
  o.access = static_cast<icecore::access>(asked.access);
  o.creation = static_cast<icecore::creation>(asked.creation);
  o.durability = static_cast<icecore::durability>(asked.durability);
  o.emulate_durability = asked.emulate_durability;
  o.deferred_durability = asked.deferred_durability;
  o.accept_copy = asked.accept_copy;
  o.accept_damage = asked.accept_damage;
  o.crash = static_cast<icecore::crash_kind>(asked.crash);
  o.huge_pages = asked.huge_pages;
  o.index = static_cast<icecore::index_kind>(asked.index);
  o.change_index = asked.change_index;
  o.lookup_cache_bytes = asked.lookup_cache_bytes;
  o.block_cache_bytes = asked.block_cache_bytes;
  o.grow_in_background = asked.grow_in_background;
  o.beside_writer = asked.beside_writer;
  o.never_locks = asked.never_locks;
  o.publish_settled = asked.publish_settled;
  o.compaction = asked.compacts ? compaction_mode::automatic : compaction_mode::by_call;
  o.compaction_limits = asked.limits;
  o.recovery_threads = asked.recovery_threads;
  o.placements = asked.placements;
  o.shared_as = asked.shared_as;
  progress_adapter progress(on_progress);
  o.on_progress = progress.function();
  store_object made;
  if (asked.at_first_use) {
    made.owner = std::make_shared<session>(std::filesystem::path(asked.path), o, session::at_first_use{});
  } else {
    const nb::gil_scoped_release released;
    made.owner = std::make_shared<session>(std::filesystem::path(asked.path), o);
  }
  progress.finish();
  return made;
}

icecore::version tag(store_object& self, bytes_like name, bytes_like note, std::optional<std::int64_t> time_ns) {
  session& owner = *self.owner;
  icecore::store& store = owner.use();
  if (name.is_none() && note.is_none() && !time_ns) {
    const without_gil released(owner);
    return store.tag();
  }
  std::optional<bytes_argument> name_bytes;
  std::optional<bytes_argument> note_bytes;
  tag_options label{.time_ns = time_ns};
  if (!name.is_none()) label.name = name_bytes.emplace(name.ptr(), "name").bytes();
  if (!note.is_none()) label.note = note_bytes.emplace(note.ptr(), "note").bytes();
  const without_gil released(owner);
  return store.tag(label);
}

/// Returns the newest version in the file.
icecore::version write_checkpoint(store_object& self, const nb::bytes& path, progress_like on_progress) {
  const icecore::store& store = self.owner->use();
  const std::filesystem::path to(std::string(path.c_str(), path.size()));
  progress_adapter progress(on_progress);
  const progress_function function = progress.function();
  icecore::version newest = 0;
  {
    const without_gil released(*self.owner);
    const checkpoint now = store.checkpoint();
    now.write(to, function);
    newest = now.version();
  }
  progress.finish();
  return newest;
}

void bind_writing(store_class& c) {
  c.def(
       "_insert",
       [](store_object& self, bytes_like key, bytes_like value) { return insert(*self.owner, key.ptr(), value.ptr()); },
       nb::arg("key").none(), nb::arg("value").none(),
       "Sets the key's value in the open version and returns that version.")
      .def(
          "_insert_parts",
          [](store_object& self, bytes_like key, bytes_like head, bytes_like body) {
            return insert_parts(*self.owner, key.ptr(), head.ptr(), body.ptr());
          },
          nb::arg("key").none(), nb::arg("head").none(), nb::arg("body").none(),
          "Sets the key's value to these two, one behind the other, without joining them before.")
      .def(
          "_insert_new",
          [](store_object& self, bytes_like key, bytes_like value) {
            return insert_new(*self.owner, key.ptr(), value.ptr());
          },
          nb::arg("key").none(), nb::arg("value").none(),
          "Inserts the key if it is not there, and returns the version; None if it is there: then nothing has "
          "changed.\n"
          "Of several threads that insert one key, one succeeds.")
      .def(
          "_replace",
          [](store_object& self, bytes_like key, bytes_like value, icecore::version expected) {
            return replace(*self.owner, key.ptr(), value.ptr(), expected);
          },
          nb::arg("key").none(), nb::arg("value").none(), nb::arg("expected_version"),
          "Sets the key's value if its newest record has this version, and returns the new version; None, and nothing\n"
          "has changed, if the key is not there or its newest record is of another version. Writes to the open "
          "version\n"
          "all have the same version.")
      .def(
          "_remove", [](store_object& self, bytes_like key) { return remove(*self.owner, key.ptr()); },
          nb::arg("key").none(),
          "Removes the key in the open version and returns that version; None if the key was not there.")
      .def(
          "_apply",
          [](store_object& self, batch_object& batch) {
            icecore::store& store = self.owner->use();
            icecore::batch operations;
            {
              const std::scoped_lock lock(batch.mutex);
              operations = std::exchange(batch.operations, {});  // other threads may continue to fill it
            }
            const without_gil released(*self.owner);
            return store.apply_if(operations);
          },
          nb::arg("batch"))
      .def("_tag", &tag, nb::arg("name").none(), nb::arg("note").none(), nb::arg("time_ns").none())
      .def("_checkpoint", &write_checkpoint, nb::arg("path"), nb::arg("on_progress").none())
      .def(
          "_sync",
          [](store_object& self) {
            icecore::store& store = self.owner->use();
            const without_gil released(*self.owner);
            store.sync();
          },
          "Returns when all completed writes survive a power cut, as far as the medium allows. In modes other than\n"
          "operation durability it closes the open version if anything was written in it.")
      .def(
          "_refresh",
          [](store_object& self) {
            icecore::store& store = self.owner->use();
            const without_gil released(*self.owner);
            return store.refresh();
          },
          "Of a store that is open beside the process that writes it: shows the versions that were settled since it\n"
          "was opened or last refreshed. Snapshots stay what they were. Returns the newest version that can be read;\n"
          "for any other store that is all it does.");
}

void bind_reading(store_class& c) {
  c.def(
       "_find",
       [](store_object& self, bytes_like key, std::optional<icecore::version> at) -> bytes_or_none {
         const bytes_argument bytes(key.ptr(), "a key");
         const auto value = find(*self.owner, bytes.bytes(), at);
         if (!value) return nb::none();
         PyObject* const made = new_bytes(*self.owner, value->bytes());
         if (made == nullptr) throw nb::python_error();
         return nb::steal(made);
       },
       nb::arg("key").none(), nb::arg("at").none() = nb::none(),
       "The newest value, or that of the closed version ``at``; None if the key is not there.")
      .def(
          "_find_view",
          [](store_object& self, bytes_like key, std::optional<icecore::version> at) -> view_or_none {
            const bytes_argument bytes(key.ptr(), "a key");
            auto value = find(*self.owner, bytes.bytes(), at);
            return value ? new_view(*std::move(value)) : nb::none();
          },
          nb::arg("key").none(), nb::arg("at").none() = nb::none())
      .def("_latest_version", [](store_object& self) { return self.owner->use().latest().version(); });
}

}  // namespace

void bind_batch(nb::module_& m) {
  nb::class_<batch_object>(m, "Batch", "Writes collected to take effect at one instant.")
      .def(nb::init<>())
      .def(
          "insert",
          [](batch_object& self, bytes_like key, bytes_like value) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const value_argument value_bytes(value.ptr());
            std::optional<nb::gil_scoped_release> released;
            if (value_bytes.bytes().size() >= gil_bytes_min) released.emplace();
            const std::scoped_lock lock(self.mutex);
            self.operations.insert(key_bytes.bytes(), value_bytes.bytes());
          },
          nb::arg("key").none(), nb::arg("value").none())
      .def(
          "insert_new",
          [](batch_object& self, bytes_like key, bytes_like value) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const value_argument value_bytes(value.ptr());
            const std::scoped_lock lock(self.mutex);
            self.operations.insert_new(key_bytes.bytes(), value_bytes.bytes());
          },
          nb::arg("key").none(), nb::arg("value").none())
      .def(
          "replace",
          [](batch_object& self, bytes_like key, bytes_like value, icecore::version expected) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const value_argument value_bytes(value.ptr());
            const std::scoped_lock lock(self.mutex);
            self.operations.replace(key_bytes.bytes(), value_bytes.bytes(), expected);
          },
          nb::arg("key").none(), nb::arg("value").none(), nb::arg("expected_version"))
      .def(
          "remove",
          [](batch_object& self, bytes_like key) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const std::scoped_lock lock(self.mutex);
            self.operations.remove(key_bytes.bytes());
          },
          nb::arg("key").none())
      .def(
          "insert_many",
          [](batch_object& self, const column& keys, const column& values) {
            const nb::gil_scoped_release released;
            const std::scoped_lock lock(self.mutex);
            for (std::size_t i = 0; i < keys.size(); ++i) self.operations.insert(keys[i], values[i]);
          },
          nb::arg("keys"), nb::arg("values"))
      .def("clear",
           [](batch_object& self) {
             const std::scoped_lock lock(self.mutex);
             self.operations.clear();
           })
      .def("__len__", [](batch_object& self) {
        const std::scoped_lock lock(self.mutex);
        return self.operations.size();
      });
}

store_class bind_store(nb::module_& m) {
  store_class c(m, "Store", nb::type_slots(store_slots), "An open store; icecore.Store adds the rest.");
  c.def(
      "__init__",
      [](store_object* self, const nb::bytes& path, int access, int creation, int durability, bool emulate_durability,
         bool deferred_durability, bool accept_copy, bool accept_damage, int crash, bool huge_pages, int index,
         bool change_index, std::uint64_t lookup_cache_bytes, std::uint64_t block_cache_bytes, bool grow_in_background,
         bool beside_writer, bool never_locks, bool publish_settled, bool compacts, unsigned compaction_threads,
         std::uint64_t compaction_bytes_per_second, std::uint64_t compaction_young_bytes, bool compaction_compress,
         unsigned recovery_threads, const placement_pairs& placements, const nb::bytes& shared_as, bool at_first_use,
         progress_like on_progress) {
        new (self) store_object(open_store(opening{{path.c_str(), path.size()},
                                                   access,
                                                   creation,
                                                   durability,
                                                   emulate_durability,
                                                   deferred_durability,
                                                   accept_copy,
                                                   accept_damage,
                                                   crash,
                                                   huge_pages,
                                                   index,
                                                   change_index,
                                                   lookup_cache_bytes,
                                                   block_cache_bytes,
                                                   grow_in_background,
                                                   beside_writer,
                                                   never_locks,
                                                   publish_settled,
                                                   compacts,
                                                   {.threads = compaction_threads,
                                                    .bytes_per_second = compaction_bytes_per_second,
                                                    .young_bytes = compaction_young_bytes,
                                                    .compress = compaction_compress},
                                                   recovery_threads,
                                                   placements_of(placements),
                                                   {shared_as.c_str(), shared_as.size()},
                                                   at_first_use},
                                           on_progress));
      },
      nb::arg("path"), nb::arg("access"), nb::arg("creation"), nb::arg("durability"), nb::arg("emulate_durability"),
      nb::arg("deferred_durability"), nb::arg("accept_copy"), nb::arg("accept_damage"), nb::arg("crash"),
      nb::arg("huge_pages"), nb::arg("index"), nb::arg("change_index"), nb::arg("lookup_cache_bytes"),
      nb::arg("block_cache_bytes"), nb::arg("grow_in_background"), nb::arg("beside_writer"), nb::arg("never_locks"),
      nb::arg("publish_settled"), nb::arg("compacts"), nb::arg("compaction_threads"),
      nb::arg("compaction_bytes_per_second"), nb::arg("compaction_young_bytes"), nb::arg("compaction_compress"),
      nb::arg("recovery_threads"), nb::arg("placements"), nb::arg("shared_as"), nb::arg("at_first_use"),
      nb::arg("on_progress").none());
  c.def(
      "_close", [](store_object& self) { std::shared_ptr(self.owner)->close(); },
      "Makes everything durable, as far as the device can, and releases the file and its locks. Waits for calls\n"
      "running in other threads. Views of values stay valid; snapshots and iterators can read no more. Closing\n"
      "twice does nothing.");
  bind_writing(c);
  bind_reading(c);
  return c;
}

}  // namespace icecore::python

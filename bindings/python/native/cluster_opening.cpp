// Opening or restoring a cluster on a communicator of mpi4py.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <vector>

#include "cluster_objects.hpp"

namespace icecore::python {
namespace {

/// A Python object that any thread may release; the destructor takes the GIL.
[[nodiscard]] std::shared_ptr<PyObject> shared_object(nb::handle object) {
  return {Py_NewRef(object.ptr()), [](PyObject* held) {
            if (!Py_IsInitialized()) return;  // the interpreter and its objects no longer exist
            const nb::gil_scoped_acquire locked;
            Py_DECREF(held);
          }};
}

/// Wraps owner(key, ranks) of Python as an ownership function. Any thread may call it, and it throws no Python
/// exceptions.
[[nodiscard]] ownership by_python_function(const std::string& name, nb::handle function) {
  return ownership::by_function(name, [held = shared_object(function)](std::string_view key, int ranks) {
    const nb::gil_scoped_acquire locked;
    try {
      return nb::cast<int>(nb::handle(held.get())(nb::bytes(key.data(), key.size()), ranks));
    } catch (const std::exception& failure) {  // also if the result is not an int
      throw error(errc::invalid_argument, std::string("the ownership function failed: ") + failure.what());
    }
  });
}

/// The MPI_Comm at the address of an mpi4py object.
[[nodiscard]] MPI_Comm communicator_at(std::uintptr_t address) {
  return *reinterpret_cast<const MPI_Comm*>(address);  // NOLINT: mpi4py passes the address as a number
}

/// The Python options of stores and ownership, which the Python layer has checked and converted to numbers.
struct asked_opening {
  int access;
  int creation;
  int durability;
  bool emulate_durability;
  bool accept_copy;
  int crash;
  bool huge_pages;
  int index;
  unsigned recovery_threads;
  int consistency;
  int group_size;
  std::size_t staging_bytes;
  std::size_t cache_bytes;
  bool progress_thread;
};

[[nodiscard]] cluster_options options_of(const asked_opening& asked) {
  cluster_options o;
  o.store.access = static_cast<icecore::access>(asked.access);
  o.store.creation = static_cast<icecore::creation>(asked.creation);
  o.store.durability = static_cast<icecore::durability>(asked.durability);
  o.store.emulate_durability = asked.emulate_durability;
  o.store.accept_copy = asked.accept_copy;
  o.store.crash = static_cast<icecore::crash_kind>(asked.crash);
  o.store.huge_pages = asked.huge_pages;
  o.store.index = static_cast<icecore::index_kind>(asked.index);
  o.store.recovery_threads = asked.recovery_threads;
  o.consistency = static_cast<icecore::consistency>(asked.consistency);
  o.group_size = asked.group_size;
  o.staging_bytes = asked.staging_bytes;
  o.cache_bytes = asked.cache_bytes;
  o.progress_thread = asked.progress_thread;
  return o;
}

/// By a hash, unless a function or splits are given.
[[nodiscard]] ownership ownership_of(const std::optional<std::string>& name, nb::handle function,
                                     const std::optional<std::vector<nb::bytes>>& splits) {
  if (name) return by_python_function(*name, function);
  if (!splits) return ownership::by_hash();
  std::vector<std::string> keys;
  keys.reserve(splits->size());
  for (const nb::bytes& split : *splits) keys.emplace_back(split.c_str(), split.size());
  return ownership::by_ranges(std::move(keys));
}

}  // namespace

void bind_opening(cluster_class& cluster) {
  cluster.def(
      "__init__",
      [](cluster_object* self, std::uintptr_t communicator, const nb::bytes& path, int access, int creation,
         int durability, bool emulate_durability, bool accept_copy, int crash, bool huge_pages, int index,
         unsigned recovery_threads, int consistency, int group_size, std::size_t staging_bytes, std::size_t cache_bytes,
         bool progress_thread, const std::optional<std::string>& owner_name, owner_function owner,
         const std::optional<std::vector<nb::bytes>>& splits, const std::optional<nb::bytes>& restored_from,
         bool redistribute) {
        cluster_options o =
            options_of({access, creation, durability, emulate_durability, accept_copy, crash, huge_pages, index,
                        recovery_threads, consistency, group_size, staging_bytes, cache_bytes, progress_thread});
        o.ownership = ownership_of(owner_name, owner, splits);
        const std::filesystem::path folder(std::string(path.c_str(), path.size()));
        std::optional<checkpoint_source> from;
        if (restored_from) from = {std::string(restored_from->c_str(), restored_from->size()), redistribute};
        const MPI_Comm on = communicator_at(communicator);
        std::shared_ptr<cluster_session> made;
        {
          const nb::gil_scoped_release released;
          made = std::make_shared<cluster_session>(from ? icecore::cluster::restore(on, *from, folder, o)
                                                        : icecore::cluster(on, folder, o));
        }
        new (self) cluster_object{std::move(made)};
      },
      nb::arg("communicator"), nb::arg("path"), nb::arg("access"), nb::arg("creation"), nb::arg("durability"),
      nb::arg("emulate_durability"), nb::arg("accept_copy"), nb::arg("crash"), nb::arg("huge_pages"), nb::arg("index"),
      nb::arg("recovery_threads"), nb::arg("consistency"), nb::arg("group_size"), nb::arg("staging_bytes"),
      nb::arg("cache_bytes"), nb::arg("progress_thread"), nb::arg("owner_name").none(), nb::arg("owner").none(),
      nb::arg("splits").none(), nb::arg("restored_from").none(), nb::arg("redistribute"));
}

}  // namespace icecore::python

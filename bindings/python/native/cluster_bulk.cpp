// put_many and find_many of clusters: whole columns of keys in few messages, without the GIL.
#include <algorithm>
#include <vector>

#include "cluster_objects.hpp"
#include "fixed_output.hpp"

namespace icecore::python {
namespace {

// Keys per call of the core. Each call sends one message per owner, and the code checks for Ctrl-C between calls.
constexpr std::size_t chunk_size = 64 * 1024;

using found_values = std::vector<std::optional<std::string>>;

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void put_many(cluster_object& self, const column& keys, const column& values) {
  std::vector<item> chunk;
  for (std::size_t from = 0; from < keys.size(); from += chunk_size) {
    run(*self.owner, [&](icecore::cluster& used) {
      chunk.resize(std::min(chunk_size, keys.size() - from));
      for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = {keys[from + i], values[from + i]};
      used.insert_many(chunk);
    });
    check_signals();
  }
}

/// Finds keys of a column: the newest values, or those of one version, within bounds.
struct cluster_find_job {
  const column& keys;
  std::optional<icecore::version> at;
  const key_bounds* bounds;  // may be null

  [[nodiscard]] found_values run_chunk(icecore::cluster& used, std::size_t from) const {
    std::vector<std::string_view> chunk(std::min(chunk_size, keys.size() - from));
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = keys[from + i];
    found_values found = at ? used.find_many(chunk, *at) : used.find_many(chunk);
    for (std::size_t i = 0; bounds != nullptr && i < chunk.size(); ++i) {
      if (!contains(*bounds, chunk[i])) found[i].reset();
    }
    return found;
  }
};

any_list find_objects(cluster_session& owner, const cluster_find_job& job, any_object missing) {
  const nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(job.keys.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t from = 0; from < job.keys.size(); from += chunk_size) {
    const found_values found = run(owner, [&](icecore::cluster& used) { return job.run_chunk(used, from); });
    for (std::size_t i = 0; i < found.size(); ++i) {
      nb::object value = found[i] ? new_value(found[i]) : nb::borrow(missing);
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(from + i), value.release().ptr());
    }
    check_signals();
  }
  return list;
}

void find_fixed(cluster_session& owner, const cluster_find_job& job, const fixed_output& to) {
  for (std::size_t from = 0; from < job.keys.size(); from += chunk_size) {
    run(owner, [&](icecore::cluster& used) {
      const found_values found = job.run_chunk(used, from);
      for (std::size_t i = 0; i < found.size(); ++i) to.put(from + i, found[i] ? answer(*found[i]) : std::nullopt);
    });
    check_signals();
  }
}

cluster_find_job job_of(const cluster_snapshot_object& self, const column& keys) {
  return {keys, self.at, self.bounded() ? &self.bounds : nullptr};
}

}  // namespace

void bind_cluster_bulk(cluster_class& cluster, cluster_snapshot_class& snapshot) {
  cluster.def("_insert_many", &put_many, nb::arg("keys"), nb::arg("values"))
      .def(
          "_find_many_objects",
          [](cluster_object& self, const column& keys, any_object missing) {
            return find_objects(*self.owner, {keys, std::nullopt, nullptr}, missing);
          },
          nb::arg("keys"), nb::arg("missing").none())
      .def(
          "_find_many_fixed",
          [](cluster_object& self, const column& keys, buffer_like values, buffer_like found, std::size_t size,
             bool pad) {
            const output_buffer value_buffer(values, keys.size() * size);
            const output_buffer found_buffer(found, keys.size());
            find_fixed(*self.owner, {keys, std::nullopt, nullptr},
                       {value_buffer.data(), found_buffer.data(), size, pad});
          },
          nb::arg("keys"), nb::arg("values"), nb::arg("found"), nb::arg("size"), nb::arg("pad"));
  snapshot
      .def(
          "_find_many_objects",
          [](cluster_snapshot_object& self, const column& keys, any_object missing) {
            return find_objects(*self.owner, job_of(self, keys), missing);
          },
          nb::arg("keys"), nb::arg("missing").none())
      .def(
          "_find_many_fixed",
          [](cluster_snapshot_object& self, const column& keys, buffer_like values, buffer_like found, std::size_t size,
             bool pad) {
            const output_buffer value_buffer(values, keys.size() * size);
            const output_buffer found_buffer(found, keys.size());
            find_fixed(*self.owner, job_of(self, keys), {value_buffer.data(), found_buffer.data(), size, pad});
          },
          nb::arg("keys"), nb::arg("values"), nb::arg("found"), nb::arg("size"), nb::arg("pad"));
}

}  // namespace icecore::python

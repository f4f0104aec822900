// Snapshots to columns: fixed-size items directly into NumPy arrays, others as offsets and bytes, or as bytes objects.
#include <nanobind/stl/optional.h>

#include <vector>

#include "fixed_size.hpp"
#include "objects.hpp"
#include "owned_array.hpp"

namespace icecore::python {
namespace {

/// Fills whole arrays with snapshot::extract, the fast way: every item must have its column's size.
std::size_t extract_fixed(const snapshot_object& self, buffer_like keys, std::size_t key_size, buffer_like values,
                          std::size_t value_size, std::size_t capacity, unsigned threads) {
  const icecore::snapshot& then = self.then();
  std::optional<output_buffer> key_buffer;
  std::optional<output_buffer> value_buffer;
  fixed_columns out;
  out.capacity = capacity;
  if (!keys.is_none()) {
    out.keys = key_buffer.emplace(keys, capacity * key_size).data();
    out.key_size = key_size;
  }
  if (!values.is_none()) {
    out.values = value_buffer.emplace(values, capacity * value_size).data();
    out.value_size = value_size;
  }
  const without_gil released(*self.owner);
  return then.extract(out, threads);
}

/// icecore._native.Selection: the items of a snapshot as views, from which columns of any kind are made.
struct selection {
  std::shared_ptr<session> owner;
  pinned_list<item> items;

  [[nodiscard]] std::string_view get(std::size_t i, part which) const noexcept {
    return which == part::key ? items[i].key : items[i].value;
  }
};

selection select(const snapshot_object& self, unsigned threads) {
  const icecore::snapshot& then = self.then();
  selection selected{self.owner, {}};
  if (empty(self.bounds)) return selected;
  const without_gil released(*self.owner);
  selected.items = then.items(threads, self.bounds);
  return selected;
}

/// Copies the keys or values into `out`, `size` bytes each; with `pad`, fills shorter ones with NUL bytes.
void copy_fixed(const selection& self, int which, buffer_like out, std::size_t size, bool pad) {
  self.owner->use();
  const output_buffer buffer(out, self.items.size() * size);
  const without_gil released(*self.owner);
  const fixed_size fits{size, pad};
  for (std::size_t i = 0; i < self.items.size(); ++i) {
    const std::string_view bytes = self.get(i, static_cast<part>(which));
    fits.require(bytes, [i] { return "item " + std::to_string(i); });
    fits.write(bytes, buffer.data() + i * size);
  }
}

bytes_list to_objects(const selection& self, int which) {
  self.owner->use();
  const nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(self.items.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < self.items.size(); ++i) {
    PyObject* const made = new_bytes(*self.owner, self.get(i, static_cast<part>(which)));
    if (made == nullptr) throw nb::python_error();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), made);
  }
  return list;
}

/// (key offsets, key bytes, value offsets, value bytes)
column_arrays extract_columns(const snapshot_object& self, unsigned threads) {
  const icecore::snapshot& then = self.then();
  columns extracted;
  if (empty(self.bounds)) {
    extracted.keys.offsets = {0};
    extracted.values.offsets = {0};
  } else {
    const without_gil released(*self.owner);
    extracted = then.extract(threads, self.bounds);
  }
  return nb::make_tuple(array_of<std::uint64_t>(std::move(extracted.keys.offsets)),
                        array_of<std::uint8_t>(std::move(extracted.keys.bytes)),
                        array_of<std::uint64_t>(std::move(extracted.values.offsets)),
                        array_of<std::uint8_t>(std::move(extracted.values.bytes)));
}

}  // namespace

void bind_extraction(nb::module_& m) {
  m.def("extract_fixed", &extract_fixed, nb::arg("snapshot"), nb::arg("keys").none(), nb::arg("key_size"),
        nb::arg("values").none(), nb::arg("value_size"), nb::arg("capacity"), nb::arg("threads"));
  m.def("extract_columns", &extract_columns, nb::arg("snapshot"), nb::arg("threads"));
  nb::class_<selection>(m, "Selection", "The items of a snapshot, to be copied column by column.")
      .def(
          "__init__",
          [](selection* self, const snapshot_object& snapshot, unsigned threads) {
            new (self) selection(select(snapshot, threads));
          },
          nb::arg("snapshot"), nb::arg("threads"))
      .def("copy_fixed", &copy_fixed, nb::arg("part"), nb::arg("out"), nb::arg("size"), nb::arg("pad"))
      .def("to_objects", &to_objects, nb::arg("part"))
      .def("__len__", [](const selection& self) { return self.items.size(); });
}

}  // namespace icecore::python

#include "column.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <cstring>

namespace icecore::python {

std::unique_ptr<column> column::fixed(buffer_like buffer, std::size_t size, bool strip_nul) {
  auto made = std::make_unique<column>();
  const auto& layout = made->layout_.emplace<fixed_layout>(buffer, size, strip_nul);
  if (size == 0 || layout.data.bytes().size() % size != 0) {
    throw error(errc::invalid_argument, std::to_string(layout.data.bytes().size()) +
                                            " bytes are not a whole number of " + std::to_string(size) + "-byte items");
  }
  made->size_ = layout.data.bytes().size() / size;
  return made;
}

std::unique_ptr<column> column::variable(buffer_like offsets, buffer_like bytes) {
  auto made = std::make_unique<column>();
  auto& layout = made->layout_.emplace<variable_layout>(bytes);
  const bytes_argument given(offsets.ptr(), "offsets");
  const std::size_t count = given.bytes().size() / sizeof(std::uint64_t);
  if (count == 0 || given.bytes().size() % sizeof(std::uint64_t) != 0) {
    throw error(errc::invalid_argument, "offsets must be 64-bit numbers, one more than there are items");
  }
  const nb::gil_scoped_release released;  // both buffers are pinned
  layout.offsets.resize(count);
  std::memcpy(layout.offsets.data(), given.bytes().data(), given.bytes().size());
  std::uint64_t last = 0;
  for (const std::uint64_t offset : layout.offsets) {
    if (offset < last || offset > layout.data.bytes().size()) {
      throw error(errc::invalid_argument, "offset " + std::to_string(offset) + " after " + std::to_string(last) +
                                              ": offsets must not decrease or exceed the end of the " +
                                              std::to_string(layout.data.bytes().size()) + " bytes");
    }
    last = offset;
  }
  made->size_ = count - 1;
  return made;
}

std::unique_ptr<column> column::sequence(many_bytes_like objects, const char* what) {
  auto made = std::make_unique<column>();
  auto& layout = made->layout_.emplace<sequence_layout>();
  layout.objects = nb::steal(PySequence_Tuple(objects.ptr()));
  if (!layout.objects.is_valid()) throw nb::python_error();
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(layout.objects.ptr()));
  layout.items.reserve(count);
  const auto accepted = std::string_view(what) == "values" ? buffer_items::single_bytes : buffer_items::any;
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const object = PyTuple_GET_ITEM(layout.objects.ptr(), static_cast<Py_ssize_t>(i));
    if (PyBytes_CheckExact(object) || PyUnicode_Check(object)) {  // the objects own these bytes
      layout.items.push_back(bytes_argument(object, what).bytes());
    } else {
      layout.buffers.push_back(std::make_unique<bytes_argument>(object, what, accepted));
      layout.items.push_back(layout.buffers.back()->bytes());
    }
  }
  made->size_ = count;
  return made;
}

namespace {

/// A structure that a call fills, or that is taken out of a capsule.
template <class Structure>
struct owned {
  Structure made{};
  owned() = default;
  owned(nb::handle capsule, const char* name) {
    auto* const found = static_cast<Structure*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (found == nullptr) throw nb::python_error();
    if (found->release == nullptr) throw error(errc::invalid_argument, "this Arrow data was handed over before");
    made = *found;
    found->release = nullptr;
  }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;
  ~owned() {
    if (made.release != nullptr) made.release(&made);
  }
};

void require_read(int failure, ArrowArrayStream& stream, const char* what) {
  if (failure == 0) return;
  const char* const why = stream.get_last_error(&stream);
  throw error(errc::invalid_argument,
              std::string(what) + " cannot be read: " + (why != nullptr ? why : std::strerror(failure)));
}

}  // namespace

std::unique_ptr<column> column::of_stream(any_object capsule, const char* what) {
  owned<ArrowArrayStream> taken(capsule, "arrow_array_stream");
  ArrowArrayStream& stream = taken.made;
  auto made = std::make_unique<column>();
  auto& layout = made->layout_.emplace<arrow_items>();
  const nb::gil_scoped_release released;  // the stream may take it
  owned<ArrowSchema> schema;
  require_read(stream.get_schema(&stream, &schema.made), stream, what);
  for (;;) {
    owned<ArrowArray> array;
    require_read(stream.get_next(&stream, &array.made), stream, what);
    if (array.made.release == nullptr) break;
    layout.append(schema.made, array.made, what);
  }
  made->size_ = layout.items().size();
  return made;
}

std::unique_ptr<column> column::of_array(any_object schema, any_object array, const char* what) {
  auto made = std::make_unique<column>();
  auto& layout = made->layout_.emplace<arrow_items>();
  const owned<ArrowSchema> described(schema, "arrow_schema");
  owned<ArrowArray> taken(array, "arrow_array");
  layout.append(described.made, taken.made, what);
  made->size_ = layout.items().size();
  return made;
}

std::string_view column::operator[](std::size_t i) const noexcept {
  if (const auto* arrow = std::get_if<arrow_items>(&layout_)) return arrow->items()[i];
  if (const auto* items = std::get_if<sequence_layout>(&layout_)) return items->items[i];
  if (const auto* variable = std::get_if<variable_layout>(&layout_)) {
    const std::uint64_t from = variable->offsets[i];
    return {variable->data.bytes().data() + from, variable->offsets[i + 1] - from};
  }
  const auto& fixed = *std::get_if<fixed_layout>(&layout_);
  const std::string_view item{fixed.data.bytes().data() + i * fixed.size, fixed.size};
  return fixed.strip_nul ? item.substr(0, item.find_last_not_of('\0') + 1) : item;
}

void bind_column(nb::module_& m) {
  nb::class_<column>(m, "Column", "A column of byte strings for put_many and find_many.")
      .def_static("fixed", &column::fixed, nb::arg("buffer"), nb::arg("size"), nb::arg("strip_nul"))
      .def_static("variable", &column::variable, nb::arg("offsets"), nb::arg("bytes"))
      .def_static("of_stream", &column::of_stream, nb::arg("stream"), nb::arg("what"))
      .def_static("of_array", &column::of_array, nb::arg("schema"), nb::arg("array"), nb::arg("what"))
      .def_static("sequence", &column::sequence, nb::arg("objects"), nb::arg("what"))
      .def("__len__", &column::size);
}

}  // namespace icecore::python

// The Arrow half is the PyCapsule interface:
// https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
#include "results.hpp"

#include "arrow_capsule.hpp"
#include "owned_array.hpp"

namespace icecore::python {
namespace {

arrow_capsules batch_of(const results_object& self) {
  auto schema = std::make_unique<ArrowSchema>();
  auto batch = std::make_unique<ArrowArray>();
  export_to_arrow(self.columns, *schema, *batch);
  nb::object described = capsule_of(std::move(schema), "arrow_schema");
  return nb::make_tuple(described, capsule_of(std::move(batch), "arrow_array"));
}

arrow_capsule stream_of(const results_object& self) {
  auto stream = std::make_unique<ArrowArrayStream>();
  export_to_arrow(self.columns, *stream);
  return capsule_of(std::move(stream), "arrow_array_stream");
}

result_values& column_of(const results_object& self, std::size_t i) {
  if (i >= self.columns->size()) throw nb::index_error("no such column");
  return (*self.columns)[i];
}

number_array words_of(const results_object& self, std::size_t i, bool validity) {
  result_values& column = column_of(self, i);
  auto& words = validity ? column.validity : column.words;
  return array_over<std::uint64_t>(words.data(), words.size(), self.columns);
}

bytes_or_none_list objects_of(const results_object& self, std::size_t i) {
  const result_values& column = column_of(self, i);
  const nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(column.size)));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t row = 0; row < column.size; ++row) {
    const std::string_view text = column.text(row);
    PyObject* const made = column.is_null(row)
                               ? Py_NewRef(Py_None)
                               : PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    if (made == nullptr) throw nb::python_error();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(row), made);
  }
  return list;
}

}  // namespace

void append_bytes(result_values& column, const std::optional<std::string_view>& value) {
  if (column.offsets.empty()) column.offsets.push_back(0);
  if (column.size % 64 == 0) column.validity.push_back(0);
  if (value) {
    column.validity.back() |= std::uint64_t{1} << column.size % 64;
    column.bytes.insert(column.bytes.end(), value->begin(), value->end());
  } else {
    ++column.nulls;
  }
  column.offsets.push_back(column.bytes.size());
  ++column.size;
}

void bind_results(nb::module_& m) {
  nb::class_<results_object>(m, "ResultColumns", "Columns of results; icecore.ArrowColumns hands them over.")
      .def(
          "names",
          [](const results_object& self) -> text_list {
            nb::list names;
            for (const result_values& column : *self.columns) names.append(new_text(column.name));
            return names;
          },
          "The names of the columns, in order.")
      .def(
          "type", [](const results_object& self, std::size_t i) { return static_cast<int>(column_of(self, i).type); },
          nb::arg("column"), "The number of icecore::result_type.")
      .def(
          "nulls", [](const results_object& self, std::size_t i) { return column_of(self, i).nulls; },
          nb::arg("column"))
      .def("words", &words_of, nb::arg("column"), nb::arg("validity"))
      .def("objects", &objects_of, nb::arg("column"))
      .def("arrow_array", &batch_of)
      .def("arrow_stream", &stream_of)
      .def("__len__",
           [](const results_object& self) { return self.columns->empty() ? 0 : self.columns->front().size; });
}

}  // namespace icecore::python

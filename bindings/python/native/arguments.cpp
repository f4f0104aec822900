#include "arguments.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace icecore::python {
namespace {

void set_icecore_error(errc code, const std::string& message) {
  const nb::object errors = nb::module_::import_("icecore.errors");
  const nb::object made = errors.attr("error_of")(static_cast<int>(code), new_text(message));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

/// Whether the object itself says what its items are, as arrays do. Signed bytes of another object are just bytes: so
/// pyarrow describes its buffers.
bool has_item_type(PyObject* object) {
  return PyObject_HasAttrString(object, "dtype") != 0 || PyObject_HasAttrString(object, "typecode") != 0;
}

/// TypeError unless the object's buffer is one row of single bytes.
void require_single_bytes(PyObject* object, const char* what) {
  Py_buffer buffer;
  const bool described = PyObject_GetBuffer(object, &buffer, PyBUF_FORMAT | PyBUF_STRIDES) == 0;
  bool is_bytes = false;
  if (described) {
    const std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
    const bool says_so = format == "B" || format == "c" || (format == "b" && !has_item_type(object));
    is_bytes = buffer.ndim == 1 && says_so;
    PyBuffer_Release(&buffer);
  } else {
    PyErr_Clear();  // items that no buffer can describe, such as dates
  }
  if (is_bytes) return;
  PyErr_Format(PyExc_TypeError,
               "%s of type %.200s would lose its type and shape: put_array(key, array) of a store keeps both, and "
               "array.tobytes() is its bytes alone",
               what, Py_TYPE(object)->tp_name);
  throw nb::python_error();
}

}  // namespace

void bytes_argument::read(PyObject* object, const char* what, buffer_items accepted) {
  if (PyBytes_Check(object)) {  // of a subclass, such as numpy.bytes_
    bytes_ = {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
    return;
  }
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) throw nb::python_error();
    bytes_ = {text, static_cast<std::size_t>(size)};
    return;
  }
  if (!PyObject_CheckBuffer(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be bytes, str or a bytes-like object, not %.200s", what,
                 Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  if (accepted == buffer_items::single_bytes) require_single_bytes(object, what);
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  has_buffer_ = true;
  bytes_ = {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
}

output_buffer::output_buffer(nb::handle object, std::size_t size) {
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_WRITABLE) != 0) throw nb::python_error();
  if (static_cast<std::size_t>(buffer_.len) == size) return;
  const auto given = static_cast<std::size_t>(buffer_.len);
  PyBuffer_Release(&buffer_);
  throw error(errc::invalid_argument,
              "the output array has " + std::to_string(given) + " bytes, but " + std::to_string(size) + " are needed");
}

PyObject* new_bytes(session& owner, std::string_view bytes) {
  if (bytes.size() < gil_bytes_min || owner.closed())
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  PyObject* const made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes.size()));
  if (made == nullptr) return nullptr;
  const without_gil released(owner);
  std::memcpy(PyBytes_AS_STRING(made), bytes.data(), bytes.size());
  return made;
}

nb::object new_text(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

nb::object new_view(value shown) {
  const nb::object exporter = nb::cast(std::move(shown));
  nb::object view = nb::steal(PyMemoryView_FromObject(exporter.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return view;
}

key_bounds bounds_from(nb::handle start, nb::handle stop, nb::handle prefix) {
  key_bounds bounds;
  if (!start.is_none()) bounds.from = std::string(bytes_argument(start.ptr(), "start").bytes());
  if (!stop.is_none()) bounds.to = std::string(bytes_argument(stop.ptr(), "stop").bytes());
  if (prefix.is_none()) return bounds;
  return intersection(std::move(bounds), key_bounds::of_prefix(bytes_argument(prefix.ptr(), "prefix").bytes()));
}

key_bounds intersection(key_bounds a, const key_bounds& b) {
  if (b.from && (!a.from || *a.from < *b.from)) a.from = b.from;
  if (b.to && (!a.to || *b.to < *a.to)) a.to = b.to;
  return a;
}

bool empty(const key_bounds& bounds) noexcept { return bounds.from && bounds.to && *bounds.to <= *bounds.from; }

bool contains(const key_bounds& bounds, std::string_view key) noexcept {
  return (!bounds.from || *bounds.from <= key) && (!bounds.to || key < *bounds.to);
}

void set_python_error() noexcept {
  try {
    try {
      throw;
    } catch (nb::python_error& e) {
      e.restore();
    } catch (const nb::builtin_exception& e) {
      PyErr_SetString(PyExc_TypeError, e.what());
    } catch (const error& e) {
      set_icecore_error(static_cast<errc>(e.code().value()), e.message());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
  } catch (nb::python_error& e) {  // making the exception failed: report that failure
    e.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

progress_adapter::progress_adapter(nb::handle function)
    : shared_(function.is_none() ? nullptr : std::make_shared<shared>(shared{function.ptr(), std::nullopt})) {}

progress_function progress_adapter::function() {
  if (!shared_) return {};
  return [to = shared_](const progress& p) {
    const nb::gil_scoped_acquire held;
    if (to->function == nullptr || to->thrown) return;
    try {
      nb::handle(to->function)(new_text(p.what), p.done, p.total, new_text(p.unit));
    } catch (const nb::python_error& e) {
      to->thrown.emplace(e);
    }
  };
}

void progress_adapter::finish() {
  if (!shared_) return;
  shared_->function = nullptr;
  if (!shared_->thrown) return;
  nb::python_error thrown = std::move(*shared_->thrown);
  shared_->thrown.reset();
  throw thrown;
}

std::vector<placement> placements_of(const placement_pairs& pairs) {
  std::vector<placement> placements;
  for (const nb::handle one : pairs) {
    const auto [path, node] = nb::cast<std::pair<nb::bytes, int>>(one);
    placements.push_back({std::string(path.c_str(), path.size()), node});
  }
  return placements;
}

}  // namespace icecore::python

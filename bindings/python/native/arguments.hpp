// Converts Python objects to C++ bytes, and C++ errors to Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/icecore.hpp"
#include "python_types.hpp"
#include "session.hpp"

namespace icecore::python {

namespace nb = nanobind;

/// Which buffers are bytes: those of any items, or only rows of single bytes. An array of other items has a type and a
/// shape besides, which its bytes do not tell.
enum class buffer_items : std::uint8_t { any, single_bytes };

/// The bytes of a Python object for the duration of one call: bytes, str (as UTF-8), or anything with a C-contiguous
/// buffer, such as bytearray, memoryview and NumPy arrays. Nothing is copied. `what` names the argument in errors.
class bytes_argument {
 public:
  bytes_argument(PyObject* object, const char* what, buffer_items accepted = buffer_items::any) {
    if (PyBytes_CheckExact(object)) {
      bytes_ = {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
    } else {
      read(object, what, accepted);
    }
  }
  ~bytes_argument() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }
  bytes_argument(const bytes_argument&) = delete;
  bytes_argument& operator=(const bytes_argument&) = delete;

  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  void read(PyObject* object, const char* what, buffer_items accepted);

  std::string_view bytes_;
  Py_buffer buffer_;  // only if has_buffer_
  bool has_buffer_ = false;
};

/// The bytes of a value to be stored. What is more than bytes is refused: reading it would not give it back.
class value_argument : public bytes_argument {
 public:
  explicit value_argument(PyObject* object) : bytes_argument(object, "a value", buffer_items::single_bytes) {}
};

/// A writable C-contiguous buffer of exactly `size` bytes: the caller's array, to be filled.
class output_buffer {
 public:
  output_buffer(nb::handle object, std::size_t size);
  ~output_buffer() { PyBuffer_Release(&buffer_); }
  output_buffer(const output_buffer&) = delete;
  output_buffer& operator=(const output_buffer&) = delete;

  [[nodiscard]] char* data() const noexcept { return static_cast<char*>(buffer_.buf); }

 private:
  Py_buffer buffer_;
};

/// A new bytes object. The caller keeps `bytes` valid. Copies large values without the GIL, as a call of `owner`, so
/// that closing waits for it: a thread must not retake the GIL after the interpreter's end. Once `owner` is closed, it
/// keeps the GIL.
[[nodiscard]] PyObject* new_bytes(session& owner, std::string_view bytes);

/// A new str; bytes that are not UTF-8 become surrogates, as in file names.
[[nodiscard]] nb::object new_text(std::string_view text);

/// A read-only memoryview of a value in the pool, whose pin lives as long as any buffer of these bytes.
[[nodiscard]] nb::object new_view(value shown);

/// Bounds from optional bytes-like ends and an optional prefix; a key must satisfy all of them.
[[nodiscard]] key_bounds bounds_from(nb::handle start, nb::handle stop, nb::handle prefix);
/// The intersection of two bounds.
[[nodiscard]] key_bounds intersection(key_bounds a, const key_bounds& b);
/// Whether no key lies between them.
[[nodiscard]] bool empty(const key_bounds& bounds) noexcept;
[[nodiscard]] bool contains(const key_bounds& bounds, std::string_view key) noexcept;

/// Sets the Python exception for the C++ exception being handled. Call it inside a catch block.
void set_python_error() noexcept;

/// Runs `body` for a slot of a Python type: turns an exception into a Python exception and returns `failed`.
template <typename Result, typename Body>
Result slot(Result failed, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return failed;
  }
}

/// The C++ object inside `self`, which must have been initialised.
template <typename T>
T& self_of(PyObject* self) {
  if (!nb::inst_ready(self)) throw nb::type_error("this object was never initialised: call its class's __init__");
  return *nb::inst_ptr<T>(self);
}

/// Paths with NUMA nodes.
using placement_pairs = nb::typed<nb::list, nb::typed<nb::tuple, nb::bytes, int>>;
[[nodiscard]] std::vector<placement> placements_of(const placement_pairs& pairs);

/// Calls a Python progress function during a C++ call, and stores its first exception until that call has ended.
class progress_adapter {
 public:
  explicit progress_adapter(nb::handle function);
  ~progress_adapter() {
    if (shared_) shared_->function = nullptr;
  }
  progress_adapter(const progress_adapter&) = delete;
  progress_adapter& operator=(const progress_adapter&) = delete;

  /// Empty if the function is None.
  [[nodiscard]] progress_function function();
  /// Makes no more calls, and throws the exception that the Python function raised.
  void finish();

 private:
  struct shared {
    PyObject* function;  // borrowed from the caller's arguments; null after finish()
    std::optional<nb::python_error> thrown;
  };
  std::shared_ptr<shared> shared_;
};

}  // namespace icecore::python

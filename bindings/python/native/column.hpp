// A column of byte strings from Python in one of four layouts, which C++ reads without the GIL.
//
// Invariant: a column keeps its Python buffers or objects pinned, so its bytes do not move while it lives.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "arguments.hpp"
#include "arrow_import.hpp"

namespace icecore::python {

class column {
 public:
  /// Item i is the `size` bytes at i * size of `buffer`; `strip_nul` drops its trailing NUL bytes (NumPy's 'S').
  [[nodiscard]] static std::unique_ptr<column> fixed(buffer_like buffer, std::size_t size, bool strip_nul);
  /// Item i is bytes[offsets[i] .. offsets[i + 1]). errc::invalid_argument if the offsets exceed the bytes.
  [[nodiscard]] static std::unique_ptr<column> variable(buffer_like offsets, buffer_like bytes);
  /// Item i is objects[i]: bytes, str or bytes-like.
  [[nodiscard]] static std::unique_ptr<column> sequence(many_bytes_like objects, const char* what);

  /// What a library hands over in capsules: an arrow_array_stream, or an arrow_schema with an arrow_array. Nothing is
  /// copied. errc::invalid_argument for nulls and for types without bytes.
  [[nodiscard]] static std::unique_ptr<column> of_stream(any_object stream, const char* what);
  [[nodiscard]] static std::unique_ptr<column> of_array(any_object schema, any_object array, const char* what);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Item i < size(). O(1).
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept;

 private:
  struct fixed_layout {
    bytes_argument data;
    std::size_t size;
    bool strip_nul;
    fixed_layout(nb::handle buffer, std::size_t item_size, bool strip)
        : data(buffer.ptr(), "data"), size(item_size), strip_nul(strip) {}
  };
  struct variable_layout {
    bytes_argument data;
    std::vector<std::uint64_t> offsets;  // a copy, so that nothing changes it after the check
    explicit variable_layout(nb::handle bytes) : data(bytes.ptr(), "bytes") {}
  };
  struct sequence_layout {
    nb::object objects;                                    // a tuple, so that nothing can remove its items
    std::vector<std::unique_ptr<bytes_argument>> buffers;  // of the items that are neither bytes nor str
    std::vector<std::string_view> items;
  };

  std::variant<std::monostate, fixed_layout, variable_layout, sequence_layout, arrow_items> layout_;
  std::size_t size_ = 0;
};

void bind_column(nb::module_& m);

}  // namespace icecore::python

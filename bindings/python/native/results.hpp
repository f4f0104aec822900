// Columns of results in Python: as NumPy arrays, and for whoever reads Arrow.
#pragma once

#include <memory>

#include "objects.hpp"

namespace icecore::python {

/// icecore._native.ResultColumns
struct results_object {
  std::shared_ptr<result_columns> columns;
};

/// Appends a value of a column of bytes; none is a null.
void append_bytes(result_values& column, const std::optional<std::string_view>& value);

void bind_results(nb::module_& m);

}  // namespace icecore::python

// The stores that can be measured: those whose libraries were available when this program was built.
//
// Each file NAME.cpp beside this one has a function `std::vector<store_kind> NAME_kinds()`: one kind, or several
// configurations of one library. bench/CMakeLists.txt registers it by icecore_bench_store(NAME NAME ...).
#pragma once

#include <vector>

#include "store.hpp"

namespace icecore::bench {

/// All kinds, in the order of reports.
[[nodiscard]] const std::vector<store_kind>& all_kinds();

/// The kind with that name, or null.
[[nodiscard]] const store_kind* kind_of_name(std::string_view name);

}  // namespace icecore::bench

// Shared by the parts of the C interface of clusters: handles, and values that are returned as copies.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)  // these functions are exported
#include "icecore/icecore_mpi.h"
#pragma GCC visibility pop

#include "icecore/cluster.hpp"
#include "support.hpp"

struct icecore_cluster {
  icecore::cluster cluster;
  std::string path;
};

struct icecore_cluster_snapshot {
  icecore::cluster_snapshot snapshot;
};

namespace icecore::c {

/// A copy that icecore_cluster_values_free() frees; NULL for no value. std::bad_alloc.
[[nodiscard]] icecore_bytes copy_of(const std::optional<std::string>& value);

/// Sets all answers to NULL (C2) and checks the arrays.
void prepare_find_many(std::size_t count, const icecore_bytes* keys, icecore_bytes* values, const char* function);

/// The caller's pairs as views.
[[nodiscard]] std::vector<std::string_view> views(std::size_t count, const icecore_bytes* bytes, const char* function,
                                                  const char* argument);

/// Copies all found values for the caller; if there is no memory for one of them, returns none.
void hand_out(const std::vector<std::optional<std::string>>& found, icecore_bytes* values);

}  // namespace icecore::c

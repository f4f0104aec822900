// Opens a store for reading beside the process that writes it.
#pragma once

#include <memory>

#include "store/engine.hpp"

namespace icecore::detail {

/// Beside the process that writes it. Null while that process is still opening the store, and where nothing is
/// published for this one: on another machine, or in another boot of this one. Reads all settled records, on as many
/// threads as the options say. Errors: those of opening a damaged or foreign file; errc::locked if the writer does not
/// publish.
[[nodiscard]] std::unique_ptr<opened_store> open_beside_writer(const std::filesystem::path& path,
                                                               const options& opening);

/// Where no process writes it, and the last one that did has closed it: writers may come and go later
/// (options::never_locks). Null if that is not so. Errors: those of opening a damaged or foreign file.
[[nodiscard]] std::unique_ptr<opened_store> open_closed(const std::filesystem::path& path, const options& opening);

}  // namespace icecore::detail

// Opens a store for reading beside the process that writes it.
#pragma once

#include <memory>

#include "store/engine.hpp"

namespace icecore::detail {

/// Null while the writer is still opening the store, and where nothing is published for this process: by a writer that
/// does not publish, on another machine, or in another boot of this one. Reads all settled records, on as many threads
/// as the options say. Errors: those of opening a damaged or foreign file.
[[nodiscard]] std::unique_ptr<store_core> open_beside_writer(const std::filesystem::path& path, const options& opening);

}  // namespace icecore::detail

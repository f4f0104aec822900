// Opens a store for reading beside the process that writes it.
#pragma once

#include <memory>
#include <optional>

#include "store/beside/settled_records.hpp"
#include "store/engine.hpp"

namespace icecore::detail {

/// A store that another process writes, as that process has published it.
struct settled_store {
  std::unique_ptr<pool_set> pools;
  manifest packing;
  std::unique_ptr<settled_records> records;
  settled_now now;
};

/// Empty while a process is opening the store, packing it alone or closing it, and where nothing is published for this
/// one: on another machine, or in another boot of this one. Errors: as open_beside_writer().
[[nodiscard]] std::optional<settled_store> find_settled(const std::filesystem::path& path, const options& opening);

/// Whether a root that was read is still the newest one's session and manifest. If not, what was read behind it may be
/// of two times.
[[nodiscard]] bool is_still(const std::filesystem::path& path, const options& opening, const format::root& was);

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

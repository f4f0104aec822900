// The row streams of a store: scans, histories, differences and changes.
//
// Each holds a pin, so it stays valid when the store is closed; then its next block fails with errc::closed.
// Threads: one at a time. Cost: that of the store's ranges; memory, one block.
#pragma once

#include <memory>
#include <string_view>

#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "service/database.hpp"
#include "service/read/value_codec.hpp"

namespace icecore::service {

/// `shown`: keys that it refuses are left out; empty shows all.
using key_test = std::function<bool(std::string_view)>;

[[nodiscard]] std::unique_ptr<row_stream> scan_of(icecore::snapshot at, const scan_request& what,
                                                  std::shared_ptr<const value_codec> codec, key_test shown);
/// Of a key, down to the record that version `oldest` shows.
[[nodiscard]] std::unique_ptr<row_stream> history_of(icecore::key_history past, icecore::version oldest,
                                                     icecore::version up_to, std::shared_ptr<const value_codec> codec);
[[nodiscard]] std::unique_ptr<row_stream> differences_of(icecore::diff_range range, icecore::version after,
                                                         std::shared_ptr<const value_codec> codec);
/// `told`: begins behind the version it was made for. `up_to`: ends with this version.
[[nodiscard]] std::unique_ptr<row_stream> changes_of(icecore::feed told, const changes_request& what,
                                                     icecore::version up_to, std::shared_ptr<const value_codec> codec);

/// The condition of a feed that tells what is between the bounds. Bounds that are too long for one are left to
/// whoever reads the feed.
[[nodiscard]] icecore::filter filter_of(const icecore::key_bounds& bounds);

}  // namespace icecore::service

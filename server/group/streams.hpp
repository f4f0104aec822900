// The row streams of a cluster: scans, differences and changes of all servers, merged.
//
// Threads: one at a time. Lifetime: the database must be open while a block is read; `alive` is asked before each block
// and keeps it open meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <shared_mutex>

#include "icecore/cluster.hpp"
#include "service/database.hpp"
#include "service/read/value_codec.hpp"

namespace icecore::server::group {

/// Holds the database open for the time of a block; throws errc::unavailable once it is closed.
using alive_function = std::function<std::shared_lock<std::shared_mutex>()>;

[[nodiscard]] std::unique_ptr<service::row_stream> scan_of(icecore::cluster_snapshot at,
                                                           const service::scan_request& what,
                                                           std::shared_ptr<const service::value_codec> codec,
                                                           alive_function alive);
[[nodiscard]] std::unique_ptr<service::row_stream> differences_of(icecore::cluster_snapshot before,
                                                                  icecore::cluster_snapshot after,
                                                                  const icecore::key_bounds& bounds,
                                                                  std::shared_ptr<const service::value_codec> codec,
                                                                  alive_function alive);
[[nodiscard]] std::unique_ptr<service::row_stream> changes_of(icecore::cluster_feed told,
                                                              const service::changes_request& what,
                                                              icecore::version up_to,
                                                              std::shared_ptr<const service::value_codec> codec,
                                                              alive_function alive);
/// Of one key: `records` newest first.
[[nodiscard]] std::unique_ptr<service::row_stream> history_of(std::vector<icecore::versioned_value> records,
                                                              icecore::version up_to,
                                                              std::shared_ptr<const service::value_codec> codec);

}  // namespace icecore::server::group

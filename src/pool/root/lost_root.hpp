// A store both of whose root pages are damaged: the pool's seed, found from what it seeded.
//
//   std::optional<format::root> stand_in = root_from_segments(file, size);
//
// A CRC can be undone: from a segment header's checksum and content follows the one seed that makes it right. Whether
// it is the pool's the other headers tell, and then the records, each by its own checksum.
//
// Threads: all. Cost: a look at each granule that is no hole.
#pragma once

#include <cstdint>
#include <optional>

#include "pool/file/file.hpp"
#include "pool/format.hpp"

namespace icecore {

/// A root with a pool id that gives the seed most segment headers agree on; of clock, certificate and index it knows
/// nothing. Empty if there is no segment header.
[[nodiscard]] std::optional<format::root> root_from_segments(const pool_file& file, std::uint64_t size);

}  // namespace icecore

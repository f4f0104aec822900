// For a store whose root pages are both damaged: finds the pool's seed from the checksums that it seeded.
//
//   std::optional<format::root> stand_in = root_from_segments(file, size);
//
// A CRC can be reversed: the checksum and the content of a segment header determine the one seed that fits them. The
// other headers show whether it is the pool's seed, and then the records do, each by its own checksum. A second copy of
// the pool's id would not replace this: no store that is there now has one, and one beside the roots would mostly be
// lost with them. The scan reverses checksums too, for the generation of a segment without a header.
//
// Threads: any. Cost: one read for each granule that is not a hole.
#pragma once

#include <cstdint>
#include <optional>

#include "pool/file/file.hpp"
#include "pool/format.hpp"

namespace icecore {

/// A root whose pool id gives the seed on which most segment headers agree. It has no knowledge of clock, certificate
/// and index. Empty if there is no segment header.
[[nodiscard]] std::optional<format::root> root_from_segments(const pool_file& file, std::uint64_t size);

}  // namespace icecore

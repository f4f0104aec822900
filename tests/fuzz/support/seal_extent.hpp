// Makes the checksums of an extent right whatever it says, as reseal.hpp does for a pool file.
//
// Of an extent that is not compressed: its blocks as they follow one another, their sum, the fence and the header. Of a
// compressed one: the frames, the table of frames, the fence and the headers. All else is left as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace icecore::testing {

void seal_extent(std::span<std::byte> media, std::uint32_t seed);

}  // namespace icecore::testing

// Writes a store as a dump (docs/dump-format.md).
//
//   write_dump(store, 8'000'000, out());
//
// Memory and time are those of version_order (dump_order.hpp). The store must not be written meanwhile.
#pragma once

#include <cstdint>

#include "icecore/store.hpp"
#include "text/output.hpp"

namespace icecore::cli {

/// Flushes `to`. errc::no_space, errc::io, closed_pipe.
void write_dump(const store& s, std::uint64_t records_in_memory, output& to);

}  // namespace icecore::cli

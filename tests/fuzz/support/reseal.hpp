// Makes the checksums of a pool file right whatever it says: what a fuzzer changed then reaches the code behind them.
//
// Sealed anew, where they can be made out: the roots, segment headers, fills, stamps, records, the checksums of large
// values, and the newest root's certificate of them. All else is left as it is: sizes, links, versions, kinds, keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace icecore::testing {

/// What the roots are to say besides.
struct root_changes {
  bool this_boot = false;              ///< of this boot of the machine
  std::optional<std::uint64_t> inode;  ///< of this file
};

/// The roots alone.
void reseal_roots(std::span<std::byte> file, const root_changes& change);
/// Everything.
void reseal(std::span<std::byte> file, const root_changes& change);

}  // namespace icecore::testing

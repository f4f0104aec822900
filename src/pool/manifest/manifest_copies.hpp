// What of a manifest is damaged while its second copy is intact (manifest_format.hpp).
//
//   for (const damage& d : manifest_damages(pools)) report.damages.push_back(d);
//
// manifest_of() reads the copy that is intact.
//
// Threads: any. Cost: a look at the manifest and its copy.
#pragma once

#include <vector>

#include "pool/pool_set.hpp"

namespace icecore {

/// Of the manifest that counts, of what leads to it, and of the headers of segments that it names. Empty, too, where no
/// copy is intact: manifest_of() raises then.
[[nodiscard]] std::vector<damage> manifest_damages(const pool_set& pools);

}  // namespace icecore

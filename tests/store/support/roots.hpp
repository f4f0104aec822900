// Changes a file's roots without the store.
#pragma once

#include <cstring>
#include <string>

#include "base/checksum.hpp"
#include "pool/format.hpp"

namespace icecore::testing {

/// Changes both roots of the file and corrects their checksums.
template <class Change>
[[nodiscard]] std::string with_roots_changed(std::string file, const Change& change) {
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
    format::root root;
    std::memcpy(&root, file.data() + offset, sizeof root);
    if (root.magic != format::magic) continue;
    change(root);
    root.crc = crc32c(0, &root, offsetof(format::root, crc));
    std::memcpy(file.data() + offset, &root, sizeof root);
  }
  return file;
}

}  // namespace icecore::testing

// The image of a store's file, as another boot of the machine finds it.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/checksum.hpp"
#include "pool/format.hpp"

namespace icecore::testing {

/// A file's number, which a store that is open has in its root, as it was and as that of the image is.
struct inodes {
  std::uint64_t before;
  std::uint64_t after;
};

/// No memory survived: nothing of the file's live page may be trusted. A file that is no store's stays as it is. With
/// `moved` only those roots change that were the file's own, and they believe that they still are.
inline void change_boot(std::string& image, const std::optional<inodes>& moved = {}) {
  for (const std::uint64_t at : {format::root_a_offset, format::root_b_offset}) {
    format::root r;
    if (image.size() < at + sizeof r) continue;
    std::memcpy(&r, image.data() + at, sizeof r);
    const std::uint32_t crc = crc32c(0, &r, offsetof(format::root, crc));
    if (r.magic != format::magic || r.crc != crc) continue;
    if (moved && r.inode != moved->before) continue;
    if (moved) r.inode = moved->after;
    r.boot_id[0] = static_cast<std::uint8_t>(r.boot_id[0] + 1);  // not this boot, nor the one of an image before
    r.crc = crc32c(0, &r, offsetof(format::root, crc));
    std::memcpy(image.data() + at, &r, sizeof r);
  }
}

}  // namespace icecore::testing

#include "support/seal_extent.hpp"

#include <algorithm>
#include <cstring>

#include "stratum/extent_parts.hpp"
#include "stratum/frames/frame_parts.hpp"

namespace icecore::testing {
namespace {

using namespace format;

template <class Struct>
[[nodiscard]] Struct read(std::span<const std::byte> from, std::uint64_t at) {
  Struct read;
  std::memcpy(&read, from.data() + at, sizeof read);
  return read;
}
template <class Struct>
void write(std::span<std::byte> to, std::uint64_t at, const Struct& what) {
  std::memcpy(to.data() + at, &what, sizeof what);
}
[[nodiscard]] bool has(std::span<const std::byte> media, std::uint64_t at, std::uint64_t size) noexcept {
  return at <= media.size() && size <= media.size() - at;
}

/// The sum of the blocks that lie one behind the other in front of the fence.
std::uint64_t seal_blocks(std::span<std::byte> media, std::uint64_t fence_at, std::uint32_t seed) {
  std::uint64_t sum = 0;
  for (std::uint64_t at = sizeof(extent_header); at < fence_at && has(media, at, sizeof(block_header));) {
    auto h = read<block_header>(media, at);
    if (h.size < sizeof h || !has(media, at, h.size)) break;
    h.crc = crc32c(stratum::block_seed(seed, at), media.data() + at + sizeof h.crc, h.size - sizeof h.crc);
    write(media, at, h);
    sum += stratum::block_digest(media.data() + at, at);
    at += h.size;
  }
  return sum;
}

void seal_fence(std::span<std::byte> media, std::uint64_t at, extent_header& h, std::uint32_t seed) {
  const std::uint64_t size = h.size - h.fence_at;
  if (h.fence_at <= h.size && has(media, at, size)) h.fence_crc = crc32c(seed, media.data() + at, size);
}

void seal_frames(std::span<std::byte> media, framed_header& h, std::uint32_t seed) {
  const std::uint64_t table = h.frames * sizeof(frame_entry);
  if (!has(media, h.table_at, table)) return;
  std::uint64_t at = h.table_at + table;
  for (std::uint32_t i = 0; i < h.frames; ++i) {
    const std::uint64_t entry_at = h.table_at + i * sizeof(frame_entry);
    auto entry = read<frame_entry>(media, entry_at);
    if (!has(media, at, entry.size)) break;
    entry.crc = crc32c(stratum::frame_seed(seed, i), media.data() + at, entry.size);
    write(media, entry_at, entry);
    at += entry.size;
  }
  h.table_crc = crc32c(seed, media.data() + h.table_at, table);
}

}  // namespace

void seal_extent(std::span<std::byte> media, std::uint32_t seed) {
  if (media.size() < sizeof(extent_header)) return;
  if (read<std::uint32_t>(media, 0) != framed_magic) {
    auto h = read<extent_header>(media, 0);
    h.blocks_sum = seal_blocks(media, h.fence_at, seed);
    seal_fence(media, h.fence_at, h, seed);
    h.crc = stratum::header_crc(h, seed);
    write(media, 0, h);
    return;
  }
  if (!has(media, 0, stratum::framed_fence_at)) return;
  auto framed = read<framed_header>(media, 0);
  auto h = read<extent_header>(media, sizeof framed);
  seal_fence(media, stratum::framed_fence_at, h, seed);
  h.crc = stratum::header_crc(h, seed);
  write(media, sizeof framed, h);
  seal_frames(media, framed, seed);
  framed.crc = stratum::framed_crc(framed, h, seed);
  write(media, 0, framed);
}

}  // namespace icecore::testing

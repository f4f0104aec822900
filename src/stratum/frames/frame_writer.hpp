// Compresses an extent.
//
//   frame_writer frames(3);
//   frames.write(extent, seed, media);        // media is the framed extent (frame_format.hpp)
//
// Frames have some 64 KiB of unlike records, and some 16 KiB of the versions of one key. Of these, the first frame,
// with the newest versions, has no parent. The parent of frame n of them is the one whose number is n without its last
// bit that is 1; after 128 frames it begins anew. So half of the frames are compressed against their neighbour, and
// reading a version inflates eight frames at most. (A Fenwick tree has the same shape.)
//
// Threads: one object, one thread. Errors: std::bad_alloc.
// Cost: some hundred MB a second at level 3. Memory: that of zstd, which is bounded by the longest value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;

namespace icecore::stratum {

class frame_writer {
 public:
  /// `level`: zstd's, from 1 to 19.
  explicit frame_writer(int level);
  ~frame_writer();
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;

  /// `extent` is what extent_builder::finish() has completed with this seed.
  void write(std::span<const std::byte> extent, std::uint32_t seed, std::vector<std::byte>& media);

 private:
  /// Appends the compressed bytes, or the same ones if they do not shrink.
  void compress(std::span<const std::byte> blocks, std::span<const std::byte> parent, std::vector<std::byte>& media);

  ZSTD_CCtx_s* zstd_;
  int level_;
};

}  // namespace icecore::stratum

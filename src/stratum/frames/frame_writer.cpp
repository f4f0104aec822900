#include "stratum/frames/frame_writer.hpp"

#include <zstd.h>
#include <zstd_errors.h>

#include <bit>
#include <cassert>
#include <cstring>
#include <new>

#include "base/checksum.hpp"
#include "stratum/fence.hpp"
#include "stratum/frames/frame_parts.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

constexpr std::uint64_t unlike_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t history_bytes = std::uint64_t{16} << 10;
/// Where a long history begins, a frame of at least so many bytes ends.
constexpr std::uint64_t short_frame_bytes = std::uint64_t{8} << 10;
/// Of so many frames of a history the first one is an ancestor of all.
constexpr std::uint32_t family = 128;
static_assert(std::bit_width(family - 1) <= frame_ancestors_max);
static_assert(unlike_bytes <= frame_bytes_max && history_bytes <= frame_bytes_max);

/// Says which blocks are a frame, and whose child it is.
class frame_plan {
 public:
  explicit frame_plan(const fence& of) noexcept : fence_(&of) {}

  [[nodiscard]] bool at_end() const noexcept { return next_ == fence_->blocks(); }
  struct planned {
    std::uint32_t first;
    std::uint32_t end;
    std::uint32_t parent;
  };
  [[nodiscard]] planned next() {
    const std::uint32_t first = next_;
    const bool goes_on = fence_->goes_on(first);
    if (!goes_on) history_.clear();
    do {
      ++next_;
    } while (!at_end() && !ends_before(first, next_));
    const planned made{first, next_, goes_on ? parent() : no_parent};
    // the next frame may go on with the last key of this one
    for (std::uint32_t b = first + 1; b < next_; ++b) {
      if (!fence_->goes_on(b)) history_.clear();
    }
    history_.push_back(frames_++);
    return made;
  }

 private:
  [[nodiscard]] bool ends_before(std::uint32_t first, std::uint32_t block) const noexcept {
    const std::uint64_t bytes = fence_->place(block) - fence_->place(first);
    if (bytes + (fence_->place(block + 1) - fence_->place(block)) > frame_bytes_max) return true;
    if (fence_->goes_on(block)) return bytes >= history_bytes;
    const bool begins_history = block + 1 < fence_->blocks() && fence_->goes_on(block + 1);
    // The eldest ancestor of a history has no parent, so it has nothing of the history before.
    if (begins_history && fence_->goes_on(first)) return true;
    return bytes >= (begins_history ? short_frame_bytes : unlike_bytes);
  }
  [[nodiscard]] std::uint32_t parent() const noexcept {
    const auto n = static_cast<std::uint32_t>(history_.size()) % family;
    if (n == 0) return no_parent;
    const std::uint32_t last_bit = n & (~n + 1);
    return history_[history_.size() - last_bit];
  }

  const fence* fence_;
  std::uint32_t next_ = 0;
  std::uint32_t frames_ = 0;
  std::vector<std::uint32_t> history_;  // the frames of the key that goes on
};

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

frame_writer::frame_writer(int level) : zstd_(ZSTD_createCCtx()), level_(level) {
  if (zstd_ == nullptr) throw std::bad_alloc();
}

frame_writer::~frame_writer() { ZSTD_freeCCtx(zstd_); }

void frame_writer::compress(std::span<const std::byte> blocks, std::span<const std::byte> parent,
                            std::vector<std::byte>& media) {
  ZSTD_CCtx_reset(zstd_, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, level_);
  if (!parent.empty()) {
    // all of the parent is within reach
    const auto window = static_cast<int>(std::bit_width(parent.size() + blocks.size() - 1));
    ZSTD_CCtx_setParameter(zstd_, ZSTD_c_windowLog, window);
    ZSTD_CCtx_refPrefix(zstd_, parent.data(), parent.size());
  }
  const std::size_t begin = media.size();
  media.resize(begin + ZSTD_compressBound(blocks.size()));
  const std::size_t size =
      ZSTD_compress2(zstd_, media.data() + begin, media.size() - begin, blocks.data(), blocks.size());
  if (ZSTD_isError(size) != 0 && ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  if (ZSTD_isError(size) == 0 && size < blocks.size()) {
    media.resize(begin + size);
    return;
  }
  media.resize(begin);
  append(media, blocks);
}

void frame_writer::write(std::span<const std::byte> extent, std::uint32_t seed, std::vector<std::byte>& media) {
  extent_header header;
  std::memcpy(&header, extent.data(), sizeof header);
  assert(header.magic == extent_magic && header.size <= extent.size());
  const std::span<const std::byte> fence_bytes = extent.subspan(header.fence_at, header.size - header.fence_at);
  const fence places(fence_bytes.data(), header.blocks, header.separators, header.prefix_size,
                     {header.least, header.greatest});

  std::vector<frame_plan::planned> planned;
  for (frame_plan plan(places); !plan.at_end();) planned.push_back(plan.next());

  framed_header framed{};
  framed.magic = framed_magic;
  framed.table_at = table_at(fence_bytes.size());
  framed.frames = static_cast<std::uint32_t>(planned.size());
  block_header first;
  std::memcpy(&first, extent.data() + sizeof header, sizeof first);
  framed.slot_bytes = first.slot_bytes;

  media.assign(framed.table_at + planned.size() * sizeof(frame_entry), std::byte{0});
  std::memcpy(media.data() + sizeof framed, &header, sizeof header);
  std::memcpy(media.data() + framed_fence_at, fence_bytes.data(), fence_bytes.size());
  const auto blocks_of = [&](const frame_plan::planned& f) {
    return extent.subspan(places.place(f.first), places.place(f.end) - places.place(f.first));
  };
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const frame_plan::planned& f = planned[i];
    const std::size_t begin = media.size();
    compress(blocks_of(f), f.parent == no_parent ? std::span<const std::byte>() : blocks_of(planned[f.parent]), media);
    const auto number = static_cast<std::uint32_t>(i);
    const std::size_t size = media.size() - begin;
    const frame_entry entry{f.first, f.parent, static_cast<std::uint32_t>(size),
                            crc32c(frame_seed(seed, number), media.data() + begin, size)};
    std::memcpy(media.data() + framed.table_at + i * sizeof entry, &entry, sizeof entry);
  }
  framed.size = media.size();
  framed.table_crc = crc32c(seed, media.data() + framed.table_at, planned.size() * sizeof(frame_entry));
  framed.crc = framed_crc(framed, header, seed);
  std::memcpy(media.data(), &framed, sizeof framed);
}

}  // namespace icecore::stratum

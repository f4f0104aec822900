// The blocks of a compressed extent, at the addresses that they have inflated. A frame of them is inflated when one of
// its blocks is read for the first time.
//
//   framed_blocks blocks(media, header, fence, place, checked, cache);   // checks the table of frames
//   blocks.bring(17);                             // block 17 may be read: at blocks.begin() + fence.place(17)
//
// Threads: any. Lifetime: memory() keeps the addresses, for views that are longer than this.
// Errors: errc::damaged, which names the frame's place on media.
// Cost: bring() that of inflating the frame and those of its ancestors that are not there. Memory: that of what is
// inflated, which frame_cache bounds, and 48 bytes for each frame.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "stratum/extent_place.hpp"
#include "stratum/fence.hpp"
#include "stratum/frames/frame_cache.hpp"
#include "stratum/frames/frame_format.hpp"

namespace icecore::stratum {

/// Of bytes that claim to be a framed extent: its header, checked. errc::damaged
[[nodiscard]] format::framed_header checked_framed_header(std::span<const std::byte> media, const extent_place& place);

/// Addresses for an extent, without memory until they are written to.
class reserved_range {
 public:
  /// Throws std::bad_alloc.
  explicit reserved_range(std::uint64_t size);
  ~reserved_range();
  reserved_range(const reserved_range&) = delete;
  reserved_range& operator=(const reserved_range&) = delete;
  [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
  /// The memory of a part in one call, before it is written to, in place of a fault for each page.
  void bring_pages(std::uint64_t from, std::uint64_t to) const noexcept;

 private:
  std::byte* begin_;
  std::uint64_t size_;
};

class framed_blocks {
 public:
  using bits = std::atomic<std::uint64_t>;

  /// `checked` has a bit for each block, which says that it may be read; those of a frame are cleared before it leaves.
  /// They, `media` and `of` outlive this. Without a cache each frame stays once it is inflated.
  framed_blocks(std::span<const std::byte> media, const format::framed_header& header, const fence& of,
                const extent_place& place, bits* checked, std::shared_ptr<frame_cache> cache);

  /// Where the extent would begin.
  [[nodiscard]] const std::byte* begin() const noexcept { return memory_->begin(); }
  [[nodiscard]] std::shared_ptr<const void> memory() const noexcept { return memory_; }
  /// Block `block` is inflated, and may be checked.
  void bring(std::uint32_t block) const { cache_->bring(*this, frame_of(block)); }
  /// Where on media the frame of the block begins, counted from the framed extent's start.
  [[nodiscard]] std::uint64_t media_place(std::uint32_t block) const noexcept {
    return frames_[frame_of(block)].media_at;
  }
  [[nodiscard]] std::uint32_t frame_of(std::uint32_t block) const noexcept;
  /// Calls `report(what, place)` for each frame that is damaged on media; `place` from the framed extent's start.
  /// Returns which frames are lost: these, and their descendants.
  [[nodiscard]] std::vector<bool> verify(
      const std::function<void(std::string_view what, std::uint64_t place)>& report) const;

 private:
  friend class frame_cache;
  enum class presence : std::uint8_t { absent, arriving, present };
  /// A frame; the second part belongs to the cache's mutex.
  struct frame {
    std::uint64_t at;        // inflated, from the extent's start
    std::uint64_t media_at;  // from the framed extent's start
    std::uint32_t media_size;
    std::uint32_t crc;
    std::uint32_t first_block;
    std::uint32_t parent;

    presence is = presence::absent;
    bool leaves = false;
    std::uint32_t users = 0;  // frames that are being inflated and need this one
  };

  [[nodiscard]] std::uint64_t size_of(std::uint32_t i) const noexcept { return frames_[i + 1].at - frames_[i].at; }
  [[nodiscard]] std::span<const std::byte> on_media(std::uint32_t i) const noexcept;
  [[nodiscard]] const char* media_fails(std::uint32_t i) const noexcept;
  [[noreturn]] void raise_damaged(std::uint64_t media_at, std::string_view what) const;

  // For the cache:
  /// Precondition: the parent is there, and nobody reads the frame.
  void inflate(std::uint32_t i) const;
  void clear_bits(std::uint32_t i) const noexcept;
  [[nodiscard]] bool has_bit(std::uint32_t i) const noexcept;
  /// Gives the pages back that no frame that is there needs. The frame is absent.
  void drop(std::uint32_t i) const noexcept;

  std::span<const std::byte> media_;
  extent_place place_;
  std::shared_ptr<frame_cache> cache_;
  mutable std::vector<frame> frames_;  // and one behind them, which says where they end
  std::shared_ptr<reserved_range> memory_;
  bits* checked_;
};

}  // namespace icecore::stratum

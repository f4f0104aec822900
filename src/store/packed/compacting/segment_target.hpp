// Where a compaction puts the extents that it makes: in segments of their own, or nowhere, if it only counts.
//
//   building_room memory;
//   segment_target target(pools, file, seed_start, {made, written}, memory, {extent_bytes, &how}, slow);
//   stratum::merge(sources, rule, range, target);
//   use(target.made());
//
// Threads: one object, one thread. Errors: errc::no_space, errc::io, std::bad_alloc.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "icecore/compaction.hpp"
#include "pool/manifest/manifest_format.hpp"
#include "pool/pool_set.hpp"
#include "store/packed/compacting/pace.hpp"
#include "stratum/frames/frame_format.hpp"
#include "stratum/frames/frame_writer.hpp"
#include "stratum/merge/merge.hpp"

namespace icecore::detail {

inline constexpr std::uint64_t extent_bytes = std::uint64_t{64} << 20;
/// Zeroed memory in which extents are built, one after the other.
class building_room {
 public:
  building_room() = default;
  ~building_room() { drop(); }
  building_room(const building_room&) = delete;
  building_room& operator=(const building_room&) = delete;

  [[nodiscard]] std::span<std::byte> get(std::uint64_t at_least) {
    if (at_least > size_) {
      drop();
      void* const at =
          ::mmap(nullptr, at_least, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) throw std::bad_alloc();
      at_ = static_cast<std::byte*>(at);
      size_ = at_least;
      static_cast<void>(::madvise(at_, size_, MADV_HUGEPAGE));
    }
    return {at_, size_};
  }
  void clear() noexcept { static_cast<void>(::madvise(at_, size_, MADV_DONTNEED)); }

 private:
  void drop() noexcept {
    if (at_ != nullptr) ::munmap(at_, size_);
    at_ = nullptr;
    size_ = 0;
  }

  std::byte* at_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Where in a page extents begin that are made so. What is compressed is not read by pages.
[[nodiscard]] inline std::optional<std::uint64_t> page_offset_of(const compaction_options& how) noexcept {
  if (how.compression != compression::none) return std::nullopt;
  return sizeof(format::segment_header);
}

/// Puts the extents of a range of keys into segments.
class segment_target final : public stratum::extent_target {
 public:
  /// What all targets of a session count.
  struct counts {
    std::atomic<std::uint32_t>& made;     ///< extents; with `seed_start` it makes seeds that no other extent has
    std::atomic<std::uint64_t>& written;  ///< bytes
  };
  struct form {
    std::uint64_t extent_bytes;     ///< about, if less than usual
    const compaction_options* how;  ///< compression
  };
  segment_target(pool_set& pools, std::uint16_t file, std::uint32_t seed_start, counts all, building_room& memory,
                 const form& made_as, pace* slow)
      : pools_(&pools),
        file_(file),
        seed_start_(seed_start),
        count_(&all.made),
        written_(&all.written),
        extent_bytes_(made_as.extent_bytes),
        in_page_(page_offset_of(*made_as.how)),
        memory_(&memory),
        slow_(slow) {
    if (made_as.how->compression == compression::zstd) frames_.emplace(made_as.how->compression_level);
  }

  room begin(std::uint64_t at_least) override {
    // relaxed: only the number matters
    seed_ = crc32c(seed_start_, std::uint64_t{count_->fetch_add(1, std::memory_order_relaxed)});
    return {memory_->get(std::max(extent_bytes, at_least)), seed_,
            extent_bytes_ < extent_bytes ? extent_bytes_ : UINT64_MAX, in_page_};
  }
  void complete(std::uint64_t size) override {
    std::span<const std::byte> bytes = memory_->get(0).first(size);
    if (frames_) {
      frames_->write(bytes, seed_, framed_);
      bytes = framed_;
    }
    const segment s = pools_->allocate(bytes.size(), file_, format::packed_segment_magic, {});
    made_.push_back({s.offset, bytes.size(), seed_, 0, header_crc_of(bytes), 0, 0});
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    static_cast<void>(pools_->of(s.offset).store_value(s.first_record(), {&all, 1}));
    pools_->persist().flush(pools_->at(s.first_record()), bytes.size());
    pools_->persist().fence();
    pools_->grow_ahead(s.offset);
    written_->fetch_add(bytes.size(), std::memory_order_relaxed);  // relaxed: a count
    memory_->clear();
    if (slow_ != nullptr) slow_->spend(bytes.size());
  }
  [[nodiscard]] const std::vector<format::named_extent>& made() const noexcept { return made_; }

 private:
  static_assert(offsetof(format::framed_header, crc) == offsetof(format::extent_header, crc));
  [[nodiscard]] static std::uint32_t header_crc_of(std::span<const std::byte> extent) noexcept {
    std::uint32_t crc;
    std::memcpy(&crc, extent.data() + offsetof(format::extent_header, crc), sizeof crc);
    return crc;
  }

  pool_set* pools_;
  std::uint16_t file_;
  std::uint32_t seed_start_;
  std::atomic<std::uint32_t>* count_;
  std::atomic<std::uint64_t>* written_;
  std::uint64_t extent_bytes_;
  std::optional<std::uint64_t> in_page_;
  building_room* memory_;
  pace* slow_;  // null: as fast as it goes
  std::uint32_t seed_ = 0;
  std::optional<stratum::frame_writer> frames_;  // if extents are compressed
  std::vector<std::byte> framed_;                // the one that is written
  std::vector<format::named_extent> made_;
};

/// Keeps nothing: merge() says how much it was.
class counting_target final : public stratum::extent_target {
 public:
  counting_target(building_room& memory, const compaction_options& how, pace* slow) noexcept
      : memory_(&memory), in_page_(page_offset_of(how)), slow_(slow) {}

  room begin(std::uint64_t at_least) override {
    return {memory_->get(std::max(extent_bytes, at_least)), 0, UINT64_MAX, in_page_};
  }
  void complete(std::uint64_t /*size*/) override {
    memory_->clear();
    if (slow_ != nullptr) slow_->spend(0);  // it may end the work
  }

 private:
  building_room* memory_;
  std::optional<std::uint64_t> in_page_;
  pace* slow_;  // null: nobody ends it
};

}  // namespace icecore::detail

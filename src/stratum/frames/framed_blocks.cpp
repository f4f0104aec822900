#include "stratum/frames/framed_blocks.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/checksum.hpp"
#include "base/memory/device_pages.hpp"
#include "base/memory/spares.hpp"
#include "base/raise.hpp"
#include "stratum/frames/frame_parts.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

[[noreturn]] void raise_damaged_at(const extent_place& place, std::uint64_t at, std::string_view what) {
  raise(errc::damaged, "{}: damaged at byte {} (compressed records): {}", place.file, place.offset + at, what);
}

/// What one thread inflates with at a time. Its memory does not depend on what is inflated: zstd writes to where the
/// blocks lie.
class inflater {
 public:
  inflater() : zstd_(ZSTD_createDCtx()) {
    if (zstd_ == nullptr) throw std::bad_alloc();
  }
  ~inflater() { ZSTD_freeDCtx(zstd_); }
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  /// Whether `from` inflates to exactly `to`. Throws std::bad_alloc.
  [[nodiscard]] bool operator()(std::span<const std::byte> from, std::span<const std::byte> parent,
                                std::span<std::byte> to) {
    ZSTD_DCtx_reset(zstd_, ZSTD_reset_session_and_parameters);
    if (!parent.empty()) require_memory(ZSTD_DCtx_refPrefix(zstd_, parent.data(), parent.size()));
    return require_memory(ZSTD_decompressDCtx(zstd_, to.data(), to.size(), from.data(), from.size())) == to.size();
  }

 private:
  /// What zstd had no memory for is not damage.
  static std::size_t require_memory(std::size_t result) {
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    return result;
  }

  ZSTD_DCtx* zstd_;
};

constinit spares<inflater> inflaters;

std::uint64_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

// ---- Addresses ----

reserved_range::reserved_range(std::uint64_t size) : size_(size) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(at);
  // a huge page would take memory for frames that nobody has asked for
  static_cast<void>(::madvise(begin_, size_, MADV_NOHUGEPAGE));
}

void reserved_range::bring_pages(std::uint64_t from, std::uint64_t to) const noexcept {
#ifdef MADV_POPULATE_WRITE
  const std::uint64_t page = page_bytes();
  from = from / page * page;
  to = std::min((to + page - 1) / page * page, (size_ + page - 1) / page * page);
  // Where that fails, each page comes when it is written to.
  if (to - from > page) static_cast<void>(::madvise(begin_ + from, to - from, MADV_POPULATE_WRITE));
#else
  static_cast<void>(from), static_cast<void>(to);
#endif
}

reserved_range::~reserved_range() { ::munmap(begin_, size_); }

// ---- The table of frames ----

framed_header checked_framed_header(std::span<const std::byte> media, const extent_place& place) {
  framed_header h;
  if (media.size() < framed_fence_at) raise_damaged_at(place, 0, "the file ends within the header");
  std::memcpy(&h, media.data(), sizeof h);
  extent_header inner;
  std::memcpy(&inner, media.data() + sizeof h, sizeof inner);
  if (h.magic != framed_magic) raise_damaged_at(place, 0, "no header is here");
  if (framed_crc(h, inner, place.seed) != h.crc) raise_damaged_at(place, 0, "checksum mismatch of the header");
  const std::uint64_t table = std::uint64_t{h.frames} * sizeof(frame_entry);
  if (h.size > media.size() || h.frames == 0 || h.table_at < framed_fence_at || h.table_at > h.size ||
      table > h.size - h.table_at) {
    raise_damaged_at(place, 0, "the header cannot be true");
  }
  return h;
}

framed_blocks::framed_blocks(std::span<const std::byte> media, const framed_header& header, const fence& of,
                             const extent_place& place, bits* checked, std::shared_ptr<frame_cache> cache)
    : media_(media.first(header.size)),
      place_(place),
      cache_(cache != nullptr ? std::move(cache) : std::make_shared<frame_cache>(0)),
      checked_(checked) {
  const std::byte* const table = media_.data() + header.table_at;
  const std::uint64_t table_size = std::uint64_t{header.frames} * sizeof(frame_entry);
  if (place_.on_device) ask_for({table, table_size});
  if (crc32c(place_.seed, table, table_size) != header.table_crc) {
    raise_damaged(header.table_at, "checksum mismatch of the table of frames");
  }
  std::uint64_t media_at = header.table_at + table_size;
  std::vector<std::uint8_t> ancestors(header.frames);
  frames_.reserve(header.frames + std::size_t{1});
  for (std::uint32_t i = 0; i < header.frames; ++i) {
    frame_entry e;
    std::memcpy(&e, table + std::uint64_t{i} * sizeof e, sizeof e);
    const bool follows = i == 0 ? e.first_block == 0 : e.first_block > frames_.back().first_block;
    const bool has_parent = e.parent != no_parent;
    if (!follows || e.first_block >= of.blocks() || e.size == 0 || e.size > header.size - media_at ||
        (has_parent && (e.parent >= i || ancestors[e.parent] == frame_ancestors_max))) {
      raise_damaged(header.table_at, "the table of frames cannot be true");
    }
    if (has_parent) ancestors[i] = static_cast<std::uint8_t>(ancestors[e.parent] + 1);
    frames_.push_back({.at = of.place(e.first_block),
                       .media_at = media_at,
                       .media_size = e.size,
                       .crc = e.crc,
                       .first_block = e.first_block,
                       .parent = e.parent});
    media_at += e.size;
  }
  frames_.push_back({.at = of.place(of.blocks()),
                     .media_at = media_at,
                     .media_size = 0,
                     .crc = 0,
                     .first_block = of.blocks(),
                     .parent = no_parent});
  for (std::uint32_t i = 0; i < header.frames; ++i) {
    const bool is_one_block = frames_[i].first_block + 1 == frames_[i + 1].first_block;
    if (size_of(i) < frames_[i].media_size || (size_of(i) > frame_bytes_max && !is_one_block)) {
      raise_damaged(header.table_at, "the table of frames cannot be true");
    }
  }
  if (media_at != header.size) raise_damaged(header.table_at, "the frames do not end where the header says");
  memory_ = std::make_shared<reserved_range>(frames_.back().at);
}

void framed_blocks::raise_damaged(std::uint64_t media_at, std::string_view what) const {
  raise_damaged_at(place_, media_at, what);
}

std::uint32_t framed_blocks::frame_of(std::uint32_t block) const noexcept {
  const auto behind = std::ranges::upper_bound(frames_, block, {}, &frame::first_block);
  return static_cast<std::uint32_t>(behind - frames_.begin()) - 1;
}

// ---- Frames that come and go ----

std::span<const std::byte> framed_blocks::on_media(std::uint32_t i) const noexcept {
  return media_.subspan(frames_[i].media_at, frames_[i].media_size);
}

const char* framed_blocks::media_fails(std::uint32_t i) const noexcept {
  const std::span<const std::byte> from = on_media(i);
  if (crc32c(frame_seed(place_.seed, i), from.data(), from.size()) != frames_[i].crc) {
    return "checksum mismatch of the frame";
  }
  // Nothing is written for a frame that claims another size, nor beyond its place for one that has another.
  if (from.size() != size_of(i) && ZSTD_getFrameContentSize(from.data(), from.size()) != size_of(i)) {
    return "the frame does not tell the size that its place has";
  }
  return nullptr;
}

std::vector<bool> framed_blocks::verify(const std::function<void(std::string_view, std::uint64_t)>& report) const {
  std::vector<bool> lost(frames_.size() - 1);
  for (std::uint32_t i = 0; i < lost.size(); ++i) {
    if (place_.on_device) walk_comes_to(media_, media_.data() + frames_[i].media_at);
    const char* const what = media_fails(i);
    if (what != nullptr) report(what, frames_[i].media_at);
    lost[i] = what != nullptr || (frames_[i].parent != no_parent && lost[frames_[i].parent]);
  }
  return lost;
}

void framed_blocks::inflate(std::uint32_t i) const {
  const frame& f = frames_[i];
  const std::span<const std::byte> from = on_media(i);
  if (place_.on_device) ask_for(from);  // little beside inflating it
  if (const char* const what = media_fails(i)) raise_damaged(f.media_at, what);
  const std::uint64_t size = size_of(i);
  std::byte* const to = memory_->begin() + f.at;
  memory_->bring_pages(f.at, f.at + size);
  if (size == from.size()) {
    std::memcpy(to, from.data(), size);
    return;
  }
  std::span<const std::byte> parent;
  if (f.parent != no_parent) parent = {memory_->begin() + frames_[f.parent].at, size_of(f.parent)};
  const spares<inflater>::lease inflate(inflaters);
  if (!(*inflate)(from, parent, {to, size})) raise_damaged(f.media_at, "the frame does not inflate");
}

void framed_blocks::clear_bits(std::uint32_t i) const noexcept {
  for (std::uint32_t b = frames_[i].first_block, end = frames_[i + 1].first_block; b < end;) {
    const std::uint32_t count = std::min(64 - b % 64, end - b);
    const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << (b % 64);
    checked_[b / 64].fetch_and(~mask, std::memory_order_relaxed);  // published by viewers::renew()
    b += count;
  }
}

bool framed_blocks::has_bit(std::uint32_t i) const noexcept {
  for (std::uint32_t b = frames_[i].first_block, end = frames_[i + 1].first_block; b < end; ++b) {
    // relaxed: those that viewers::none_before() tells about have set theirs
    if ((checked_[b / 64].load(std::memory_order_relaxed) >> (b % 64) & 1) != 0) return true;
  }
  return false;
}

void framed_blocks::drop(std::uint32_t i) const noexcept {
  const std::uint64_t page = page_bytes();
  std::uint64_t from = frames_[i].at / page * page;
  std::uint64_t to = (frames_[i + 1].at + page - 1) / page * page;
  for (std::uint32_t before = i; before > 0 && frames_[before].at > from;) {
    if (frames_[--before].is == presence::absent) continue;
    from += page;
    break;
  }
  for (std::uint32_t behind = i + 1; behind + 1 < frames_.size() && frames_[behind].at < to; ++behind) {
    if (frames_[behind].is == presence::absent) continue;
    to -= page;
    break;
  }
  if (from < to) static_cast<void>(::madvise(memory_->begin() + from, to - from, MADV_DONTNEED));
}

}  // namespace icecore::stratum

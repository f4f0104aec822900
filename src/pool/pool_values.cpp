// How values of a MiB and more come into a pool's file.
//
// No store has touched the pages of such a value. Through the mapping each costs a page fault and, since the kernel
// cannot know that all of it will be overwritten, clearing. So where one page cache holds what is written and what is
// mapped, the value is written with pwrite. What a crash leaves is what it leaves of stores through the mapping:
//   - A process crash: what pwrite has copied is in the page cache, as stores are, and pieces are written in order. No
//     other thread knows the record before it is linked, and the release there orders the kernel's stores on this
//     thread as it does the thread's own.
//   - A power cut: pages are dirty in either case, and the sync that makes the record durable covers them.
//   - To begin writing back is a hint. Nobody waits for it here, so the kernel keeps an error of it for that sync.
// Where cache lines are flushed, stores go through the mapping: on DAX the flush of a line does not make durable that
// pwrite has allocated or converted its block.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "pool/file/range_copier.hpp"
#include "pool/pool.hpp"

namespace icecore {
namespace {

/// A piece is read for its checksum and then, from the processor's caches, copied. Pieces end at multiples of this in
/// the file, where the kernel's large pages begin.
#ifdef ICECORE_WRITTEN_VALUE_SIZE
constexpr std::uint64_t piece_bytes = ICECORE_WRITTEN_VALUE_SIZE;
#else
constexpr std::uint64_t piece_bytes = std::uint64_t{512} << 10;
#endif
/// The device is given so much at a time.
constexpr std::uint64_t written_back_bytes = std::uint64_t{8} << 20;

/// File systems of whose files Linux has one page cache for read, write and mappings.
constexpr std::array<std::string_view, 7> with_one_page_cache = {"tmpfs", "ramfs", "ext",    "xfs",
                                                                 "btrfs", "f2fs",  "overlay"};

/// Beyond the limit pwrite would fail with a signal, while stores to a file that has the size already are allowed.
bool within_size_limit(std::uint64_t end) noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur);
}

}  // namespace

bool pool::can_write_values() const noexcept {
  return shared_ && persist_->by_pages() && durability_.medium != medium::persistent_memory &&
         std::ranges::find(with_one_page_cache, durability_.filesystem) != with_one_page_cache.end();
}

std::uint32_t pool::store_value(link to, std::span<const std::string_view> parts) {
  std::uint64_t end = link_offset(to);
  for (const std::string_view part : parts) end += part.size();
  const bool written = writes_values_ && within_size_limit(end);
  const range_copier::file file{file_.descriptor(), &file_.path()};
  // only what must be durable soon; memory has no device
  const bool to_device = written && durability_.medium == medium::block_device && durability_.mode != durability::none;
  std::uint32_t crc = 0;
  std::uint64_t at = link_offset(to);
  std::uint64_t begun = at;  // up to here the device has been told
  const auto store_piece = [&](std::string_view piece) {
    crc = crc32c(crc, piece.data(), piece.size());
    if (written) {
      write_at(file, piece.data(), piece.size(), at);
    } else {
      populate(at, piece.size());
      std::memcpy(base_ + at, piece.data(), piece.size());
    }
    at += piece.size();
    if (to_device && (at - begun >= written_back_bytes || (at == end && begun != link_offset(to)))) {
      // Not the first page: it has the record's header, which is still to be sealed and stamped, and a store to a page
      // that is being written back may wait.
      const std::uint64_t from = std::max(begun, format::round_up(link_offset(to), format::page_size));
      begin_writing(file, from, at - from);
      begun = at;
    }
  };
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const std::string_view piece = part.substr(0, piece_bytes - at % piece_bytes);
      store_piece(piece);
      part.remove_prefix(piece.size());
    }
  }
  return crc;
}

/// One call in place of a page fault for each page, which also tells where a fault would end the process. On older
/// kernels the faults occur as usual.
void pool::populate(std::uint64_t offset, std::uint64_t size) {
#ifdef MADV_POPULATE_WRITE
  const std::uint64_t from = offset / format::page_size * format::page_size;
  if (madvise(base_ + from, offset + size - from, MADV_POPULATE_WRITE) == 0 || errno != EFAULT) return;
  persist_->verify_file_sizes();
  raise(errc::no_space, "{}: the device has no room for bytes {} to {} although the file has them",
        file_.path().native(), offset, offset + size);
#endif
}

void pool::clear_value(link at, std::uint64_t size) noexcept {
  // A page that nothing was written to is not touched: there may be no room for it.
  std::byte* const begin = base_ + link_offset(at);
  for (std::uint64_t done = 0; done < size;) {
    const std::uint64_t step = std::min(size - done, format::page_size - (link_offset(at) + done) % format::page_size);
    if (!all_zero(begin + done, step)) std::memset(begin + done, 0, step);
    done += step;
  }
}

}  // namespace icecore

#include "index/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>

#include "base/bytes.hpp"
#include "base/memory/address_space.hpp"

namespace icecore::index {
namespace {

constexpr std::uint64_t reach_bytes = (std::uint64_t{std::numeric_limits<arena_ref>::max()} + 1) * arena::unit_bytes;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

/// What the arena in a file has reserved; a process that attaches must reserve as much.
std::uint64_t reserved_in(int file, std::uint64_t offset) {
  std::uint64_t reserved = 0;
  const bool is_one = arena::content_of(file) == arena::content::an_arena;
  const auto at = static_cast<off_t>(offset);
  if (!is_one || pread(file, &reserved, sizeof reserved, at) != sizeof reserved || reserved == 0 ||
      reserved > reach_bytes)
    throw std::bad_alloc();
  return reserved;
}

/// Asks the kernel who else locks these bytes. An error counts as somebody.
bool is_locked_by_others(int descriptor, std::uint64_t first, std::uint64_t count) noexcept {
  struct flock l {};
  l.l_type = F_WRLCK;
  l.l_whence = SEEK_SET;
  l.l_start = static_cast<off_t>(first);
  l.l_len = static_cast<off_t>(count);
  return fcntl(descriptor, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK;
}

}  // namespace

arena::arena(const arena_options& options) : offset_(options.file_offset) {
  std::uint64_t reserved = 0;
  if (options.file >= 0) {
    file_ = fcntl(options.file, F_DUPFD_CLOEXEC, 0);
    if (file_ < 0) throw std::bad_alloc();
    locks_.emplace([&] { return fcntl(options.locks, F_DUPFD_CLOEXEC, 0); });
  }
  try {
    if (options.attach) {
      reserve(round_up(reserved_in(file_, offset_), commit_min_bytes), options);
      return;
    }
    reserved = round_up(std::min(options.size_max_bytes, reach_bytes), commit_min_bytes);
    reserved =
        std::min(reserved, std::max(address_space_share() / commit_min_bytes, std::uint64_t{1}) * commit_min_bytes);
    for (;; reserved = round_up(reserved / 2, commit_min_bytes)) {
      try {
        reserve(reserved, options);
        break;
      } catch (const std::bad_alloc&) {
        if (reserved == commit_min_bytes) throw;
      }
    }
    back(0, commit_min_bytes);
  } catch (...) {
    if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
    if (file_ >= 0) ::close(file_);
    throw;
  }
  auto* h = new (base_) head_unit;
  h->reserved = std::min(reserved, options.size_max_bytes);
  // relaxed: no other thread uses it yet
  h->used.store(unit_bytes, std::memory_order_relaxed);
  h->committed.store(commit_min_bytes, std::memory_order_relaxed);
  h->magic.store(magic_word, std::memory_order_release);  // release: a thread that finds it sees the other fields
}

arena::content arena::content_of(int file) noexcept {
  struct head_words {
    std::uint64_t reserved, committed, used;
    arena_ref roots[root_count];
    std::uint64_t magic;
  } found{};
  static_assert(sizeof(head_words) <= sizeof(head_unit) && offsetof(head_words, magic) == offsetof(head_unit, magic));
  struct stat s {};
  const ssize_t size = pread(file, &found, sizeof found, 0);
  // the file's length is read after the head's contents: it grows before they do
  if (size < 0 || fstat(file, &s) != 0 || !S_ISREG(s.st_mode)) return content::something_else;
  const head_words none{};
  if (std::memcmp(&found, &none, sizeof found) == 0) return content::nothing_yet;
  if (found.magic == 0 && found.reserved <= reach_bytes && found.used <= commit_min_bytes) return content::nothing_yet;
  const auto length = static_cast<std::uint64_t>(s.st_size);
  const bool possible = found.magic == magic_word && found.reserved != 0 && found.reserved <= reach_bytes &&
                        found.committed <= length && found.used <= length && found.used >= unit_bytes;
  return possible ? content::an_arena : content::something_else;
}

arena::~arena() {
  munmap(mapping_, mapping_bytes_);
  if (file_ >= 0) ::close(file_);
}

/// Reserves addresses only. If there is a file, all of them map it at once; no thread accesses those without memory
/// yet.
void arena::reserve(std::uint64_t bytes, const arena_options& options) {
  const std::uint64_t with_room = bytes + huge_page_bytes;
  // PROT_NONE: no memory is accounted even where overcommit is forbidden.
  void* p = mmap(nullptr, with_room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(p);
  mapping_bytes_ = with_room;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  base_ = mapping_ + (round_up(address, huge_page_bytes) - address);
  if (file_ >= 0 && mmap(base_, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_,
                         static_cast<off_t>(offset_)) == MAP_FAILED) {
    munmap(mapping_, mapping_bytes_);
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  // Only a hint: if huge pages are switched off, the index works as well, some tens of percent slower.
  if (options.huge_pages) (void)madvise(base_, bytes, MADV_HUGEPAGE);
}

/// Gives a range its memory. Doing this again, or twice at once, is harmless.
void arena::back(std::uint64_t from, std::uint64_t bytes) const {
  int failed = EINTR;
  if (file_ < 0) {
    failed = mprotect(base_ + from, bytes, PROT_READ | PROT_WRITE);
  } else {  // a full memory file system is an error here, not a SIGBUS later
    while (failed == EINTR)
      failed = posix_fallocate(file_, static_cast<off_t>(offset_ + from), static_cast<off_t>(bytes));
  }
  if (failed != 0) throw std::bad_alloc();
}

// A lock on the number's byte. The kernel releases it when the process ends, for whatever reason.

void arena::hold(unsigned number) const {
  if (file_ < 0) return;
  struct flock l {};
  l.l_type = F_WRLCK;
  l.l_whence = SEEK_SET;
  l.l_start = number;
  l.l_len = 1;
  if (fcntl(locks_->get(), F_OFD_SETLK, &l) != 0) throw std::bad_alloc();
  own_.store(number, std::memory_order_relaxed);  // relaxed: before other threads use the arena
}

bool arena::is_held(unsigned number) const noexcept {
  // a process does not conflict with its own lock, so the kernel would report that no process holds it
  if (file_ < 0 || number == own_.load(std::memory_order_relaxed)) return true;  // relaxed: as in hold()
  return is_locked_by_others(locks_->get(), number, 1);
}

bool arena::others_lock(std::uint64_t first, std::uint64_t count) const noexcept {
  return file_ >= 0 && count != 0 && is_locked_by_others(locks_->get(), first, count);
}

arena_options arena::sibling_options(std::uint32_t number, bool huge_pages) const noexcept {
  const std::uint64_t apart = round_up(head().reserved, huge_page_bytes);
  return {.huge_pages = huge_pages,
          .size_max_bytes = head().reserved,
          .file = file_,
          .locks = locks_->get(),
          .file_offset = number * apart};
}

std::shared_ptr<arena> arena::make_sibling(std::uint32_t number, bool huge_pages) const {
  clear_sibling(number);
  auto made = std::make_shared<arena>(sibling_options(number, huge_pages));
  made->hold(process());
  return made;
}

std::shared_ptr<arena> arena::attach_sibling(std::uint32_t number, bool huge_pages) const {
  arena_options how = sibling_options(number, huge_pages);
  how.attach = true;
  auto there = std::make_shared<arena>(how);
  there->hold(process());
  return there;
}

void arena::clear_sibling(std::uint32_t number) const noexcept {
  const arena_options of = sibling_options(number, false);
  const std::uint64_t bytes = round_up(of.size_max_bytes, huge_page_bytes);
  // A memory file system can always do it.
  static_cast<void>(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(of.file_offset),
                              static_cast<off_t>(bytes)));
}

arena_ref arena::allocate(std::uint64_t bytes) {
  head_unit& h = head();
  if (bytes > h.reserved) throw std::bad_alloc();
  const std::uint64_t size = round_up(bytes, unit_bytes);
  // Relaxed: only the winner of the exchange owns the bytes; other threads see them through a reference that the tree
  // publishes with release.
  std::uint64_t at = h.used.load(std::memory_order_relaxed);
  for (;;) {
    if (at + size > h.reserved) throw std::bad_alloc();
    // Acquire: pairs with commit(), which must come before the first access.
    if (at + size > h.committed.load(std::memory_order_acquire)) commit(at + size);
    if (h.used.compare_exchange_weak(at, at + size, std::memory_order_relaxed)) {
      return static_cast<arena_ref>(at / unit_bytes);
    }
  }
}

/// Two threads that find too little memory commit the same range, or ranges of which one contains the other; the
/// greater end is stored. So no thread waits, and a process that is killed here delays no other.
void arena::commit(std::uint64_t end) {
  head_unit& h = head();
  std::uint64_t old = h.committed.load(std::memory_order_acquire);  // acquire: memory up to there is committed
  if (end <= old) return;
  std::uint64_t step = std::clamp(old, commit_min_bytes, commit_max_bytes);
  step = std::max(step, round_up(end - old, commit_min_bytes));
  step = std::min(step, round_up(h.reserved, commit_min_bytes) - old);
  back(old, step);
  const std::uint64_t now = old + step;
  // Release: see allocate().
  while (old < now &&
         !h.committed.compare_exchange_weak(old, now, std::memory_order_release, std::memory_order_acquire)) {
  }
}

// What it touches is nobody's or already another thread's: to populate a page changes none of its bytes. From the end
// of what is used on, since pages below it were touched by those who use them.
bool arena::make_ready() noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older headers lack
  const std::uint64_t used = used_bytes();
  // relaxed: see wanted()
  const std::uint64_t from =
      std::max(touched_.load(std::memory_order_relaxed), used / huge_page_bytes * huge_page_bytes);
  const std::uint64_t last = std::min(round_up(used + ahead_of(used), huge_page_bytes), head().reserved);
  const std::uint64_t end = std::min(from + huge_page_bytes, last);
  touched_.store(std::max(from, end), std::memory_order_relaxed);  // also after a failure: it is not asked for again
  if (from >= end) return false;
  try {
    commit(end);
  } catch (const std::bad_alloc&) {
    return false;  // whoever needs the memory meets the error
  }
  // A file's memory was given by commit(); here it is mapped, so that writers meet no fault.
  (void)madvise(base_ + from, round_up(end, commit_min_bytes) - from, populate_write);
  return end < last;
}

}  // namespace icecore::index

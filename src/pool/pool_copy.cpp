#include "pool/pool_copy.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore {

pool_copy::pool_copy(const std::filesystem::path& from, pool_file& to) try
    : from_(from, access::read_only, creation::open_existing),
      to_(&to),
      size_(from_.size()),
      copier_({from_.descriptor(), &from_.path()}, {to.descriptor(), &to.path()}) {
  if (size_ == 0) raise(errc::not_a_store, "{}: is empty", from_.path().native());
  // in memory, allocating would clear each page before it is overwritten; a device places all blocks better at once
  to.on_memory_filesystem() ? to.set_size(size_) : to.grow(size_, false);
  // through the file, not its mapping: if a memory file system is full, this is an error and not a SIGBUS
  write_at({to.descriptor(), &to.path()}, root_pages_.data(), root_pages_.size(), 0);
  read_root_pages();
} catch (...) {
  to.remove_created_file();
  throw;
}

pool_copy::~pool_copy() {
  if (!finished_) to_->remove_created_file();
}

/// Of a source that is shorter the rest stays zero.
void pool_copy::read_root_pages() {
  const std::uint64_t wanted = std::min<std::uint64_t>(size_, root_pages_.size());
  for (std::uint64_t at = 0; at < wanted;) {
    const ssize_t count = ::pread(from_.descriptor(), root_pages_.data() + at, wanted - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) raise_errno(errno, "pread", from_.path().native());
    if (count == 0) raise(errc::truncated, "{}: ends at byte {} while it is copied", from_.path().native(), at);
    at += static_cast<std::uint64_t>(count);
  }
}

void pool_copy::copy_pages(std::uint64_t end, unsigned threads, const std::function<void(std::uint64_t)>& copied) {
  constexpr std::uint64_t piece = std::uint64_t{16} << 20;
  constexpr std::uint64_t begin = 2 * format::page_size;
  end = std::min(end, size_);
  if (end <= begin) return;
  const std::uint64_t pieces = (end - begin + piece - 1) / piece;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  run_on_threads(static_cast<unsigned>(std::min<std::uint64_t>(threads, pieces)), [&](unsigned thread) {
    // Of each thread at most two pieces are on their way to the device: a sync of another file may have to wait for all
    // that is on its way (ext4 commits its journal in one sequence), and the copied store's writers sync meanwhile.
    std::uint64_t last = 0;
    std::uint64_t last_size = 0;
    // relaxed, both: only the counts matter
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      const std::uint64_t from = begin + i * piece;
      const std::uint64_t size = std::min(piece, end - from);
      copier_.copy(from, size);
      const range_copier::file target{to_->descriptor(), &to_->path()};
      begin_writing(target, from, size);  // the device need not wait for the sync
      if (last_size > 0) await_writing(target, last, last_size);
      last = from;
      last_size = size;
      const std::uint64_t now = done.fetch_add(size, std::memory_order_relaxed) + size;
      if (thread == 0) copied(now);
    }
  });
}

void pool_copy::finish() {
  to_->sync_with_directory();
  finished_ = true;
}

}  // namespace icecore

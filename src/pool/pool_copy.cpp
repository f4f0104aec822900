#include "pool/pool_copy.hpp"

#include <algorithm>
#include <atomic>

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
  static_cast<void>(from_.read(root_pages_.data(), std::min<std::uint64_t>(size_, root_pages_.size()), 0));
} catch (...) {
  to.undo_creation();
  throw;
}

pool_copy::~pool_copy() {
  if (!finished_) to_->undo_creation();
}

void pool_copy::copy_pages() {
  constexpr std::uint64_t piece = std::uint64_t{16} << 20;
  constexpr std::uint64_t begin = 2 * format::page_size;
  if (size_ <= begin) return;
  const std::uint64_t pieces = (size_ - begin + piece - 1) / piece;
  std::atomic<std::uint64_t> next{0};
  run_on_threads(static_cast<unsigned>(std::min<std::uint64_t>(core_count(), pieces)), [&](unsigned) {
    // relaxed: only the count matters
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      const std::uint64_t from = begin + i * piece;
      const std::uint64_t size = std::min(piece, size_ - from);
      copier_.copy(from, size);
      begin_writing({to_->descriptor(), &to_->path()}, from, size);  // the device need not wait for the sync
    }
  });
}

void pool_copy::finish() {
  to_->sync_with_directory();
  finished_ = true;
}

}  // namespace icecore

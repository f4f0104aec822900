#include "pool/pool_copy.hpp"

#include <algorithm>

#include "base/raise.hpp"

namespace icecore {

pool_copy::pool_copy(const std::filesystem::path& from, pool_file& to) try
    : from_(from, access::read_only, creation::open_existing),
      to_(&to),
      size_(from_.size()),
      in_memory_(to.on_memory_filesystem()),
      copier_({from_.descriptor(), &from_.path()}, {to.descriptor(), &to.path()}) {
  if (size_ == 0) raise(errc::not_a_store, "{}: is empty", from_.path().native());
  // in memory, allocating would clear each page before it is overwritten; a device places all blocks better at once
  in_memory_ ? to.set_size(size_) : to.grow(size_, false);
} catch (...) {
  to.undo_creation();
  throw;
}

pool_copy::~pool_copy() {
  if (!finished_) to_->undo_creation();
}

void pool_copy::bring(std::uint64_t offset, std::uint64_t filled, std::uint64_t end) {
  filled = std::min(filled, size_);
  end = std::min(end, size_);
  if (offset < filled) copier_.copy(offset, filled - offset);
  if (in_memory_) {
    if (filled < end) to_->fill_holes(filled, end);  // clears no page before it is first read
    return;
  }
  if (offset >= filled) return;
  begin_writing({to_->descriptor(), &to_->path()}, offset, filled - offset);
}

void pool_copy::finish() {
  to_->sync_with_directory();
  finished_ = true;
}

}  // namespace icecore

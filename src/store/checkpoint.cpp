// Checkpoints: the pool's file up to where each segment was filled at one instant, with a root that says it was closed.
//
//   1. The gate stops the writers; the open version is closed if anything was written in it; how far each segment is
//      filled, and the totals, are noted. What lies before those places is never changed again but for the words that
//      every opening makes anew (an entry's head and second version) and the persisted bits of stamps.
//   2. Writers go on, behind those places. The file's bytes before them are copied to the same places of a new file;
//   the
//      kernel copies, from the page cache that the mapping is a view of.
//   3. Each segment's fill, then the root, clean and with the certificate of 1., are written; all is synced; the file
//      gets its name.
// A crash leaves the unfinished file under another name, without a root: nothing opens it.
#include "icecore/checkpoint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/raise.hpp"
#include "icecore/unfinished.hpp"
#include "pool/range_copier.hpp"
#include "store/core.hpp"

namespace icecore {

namespace detail {

struct checkpoint_cut {
  const store_core* from;
  std::vector<partial_segments::place> places;  ///< by offset
  record_totals totals;
  version open;  ///< the store's clock
  std::uint64_t end = format::first_segment_offset;
};

std::shared_ptr<const checkpoint_cut> store_core::cut() {
  check_usable();
  check_first();
  auto made = std::make_shared<checkpoint_cut>();
  made->from = this;
  {
    // named tags write their record behind their tick: none may be between the two
    const std::scoped_lock one_at_a_time(tag_mutex_);
    const writer_set::gate stopped(*writers_);
    const version open = clock_->now();
    made->open = read_only() || untouched(open) ? open : clock_->tick() + 1;
    made->totals = shared_->recovered;
    made->totals.add(writers_->totals());
    made->places = places();
  }
  std::ranges::sort(made->places, {}, [](const partial_segments::place& p) { return p.in.offset; });
  if (!made->places.empty()) made->end = made->places.back().in.end();
  return made;
}

}  // namespace detail

namespace {

/// A file being written, its errors named.
class output_file {
 public:
  explicit output_file(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) raise_errno(errno, "open", path_.native());
    // as a store that is open for writing: whoever finds the file leaves it alone (unfinished.cpp)
    struct flock l {};
    l.l_type = F_WRLCK;
    l.l_whence = SEEK_SET;
    static_cast<void>(::fcntl(descriptor_, F_OFD_SETLK, &l));  // without locks there, the look at the end must do
  }
  ~output_file() { ::close(descriptor_); }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void resize(std::uint64_t size) const {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) raise_errno(errno, "ftruncate", path_.native());
  }
  [[nodiscard]] std::uint64_t inode() const {
    struct stat about {};
    if (::fstat(descriptor_, &about) != 0) raise_errno(errno, "fstat", path_.native());
    return about.st_ino;
  }
  void write(const void* bytes, std::uint64_t size, std::uint64_t offset) const {
    write_at(as_target(), bytes, size, offset);
  }
  void sync() const {
    if (::fsync(descriptor_) != 0) raise_errno(errno, "fsync", path_.native());
  }
  /// Throws unless the name still leads to this file.
  void require_name() const {
    struct stat named {};
    if (::stat(path_.c_str(), &named) == 0 && named.st_ino == inode()) return;
    raise(errc::locked, "{}: another one is writing a checkpoint under this name", path_.native());
  }
  [[nodiscard]] range_copier::file as_target() const noexcept { return {descriptor_, &path_}; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// The root of the store as it would be had it been closed at the cut.
format::root closed_root(const detail::checkpoint_cut& cut, std::uint64_t inode) {
  format::root r = cut.from->the_pool().roots().read();
  r.state = format::root_state::clean;
  r.clock = cut.open;
  r.clock_limit = std::max(r.clock_limit, cut.open);
  r.durable_version = 0;
  r.certified_records = cut.totals.records;
  r.certified_sum = cut.totals.digest;
  r.used_end = cut.end;
  r.file_size = cut.end;
  r.inode = inode;
  r.anchor = null_link;  // an index that lasts is not copied: it changes all the time
  seal_root(r);
  return r;
}

void write_file(const detail::checkpoint_cut& cut, const output_file& to, const progress_function& on_progress) {
  const pool& from = cut.from->the_pool();
  to.resize(cut.end);
  range_copier copier({from.file().descriptor(), &from.file().path()}, to.as_target());
  constexpr std::uint64_t told_every_bytes = std::uint64_t{16} << 20;
  std::uint64_t told = 0;
  for (const partial_segments::place& p : cut.places) {
    for (std::uint64_t at = p.in.offset; at < p.position;) {
      const std::uint64_t size = std::min(told_every_bytes, p.position - at);
      copier.copy(at, size);
      begin_writing(to.as_target(), at, size);
      at += size;
      if (on_progress && at - told >= told_every_bytes) {
        cut.from->check_usable();  // closed or poisoned meanwhile: not a minute of copying more
        on_progress({"writing the checkpoint", told = at, cut.end, "bytes"});
      }
    }
    const std::uint64_t word = from.fill_word(p.in, p.position);
    to.write(&word, sizeof word, p.in.offset + offsetof(format::segment_header, fill));
  }
  const format::root root = closed_root(cut, to.inode());
  to.write(&root, sizeof root, root_offset(root));
  to.sync();
  if (on_progress) on_progress({"writing the checkpoint", cut.end, cut.end, "bytes"});
}

}  // namespace

version checkpoint::version() const noexcept { return cut_->open - 1; }
std::uint64_t checkpoint::bytes() const noexcept { return cut_->end; }

void checkpoint::write(const std::filesystem::path& to, const progress_function& on_progress) const {
  cut_->from->check_usable();
  if (std::filesystem::exists(std::filesystem::symlink_status(to))) {
    raise(errc::store_exists, "{}: something is there; a checkpoint gets a path of its own", to.native());
  }
  unfinished_store making(to, ".writing");
  const output_file file(making.path());
  write_file(*cut_, file, on_progress);
  file.require_name();
  making.finish(replacing::refused);
}

}  // namespace icecore

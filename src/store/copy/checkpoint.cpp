// Checkpoints: the pool's file up to each segment's fill end at one instant, with a root that says it was closed.
//
//   1. The gate stops the writers; the open version is closed if anything was written in it; the fill ends of the
//      segments, and the totals, are noted. What lies before these fill ends is never changed again, except for the
//      words that every recovery computes anew (an entry's head and second version) and the persisted bits of stamps.
//   2. Writers go on, behind these fill ends. The kernel copies the file's bytes before them to the same positions of a
//      new file, from the page cache that the mapping is a view of.
//   3. Each segment's fill end, then the root, clean and with the certificate of step 1, are written; everything is
//      synced; the file gets its name.
// The segments of kept queries are copied as a whole, and the lists that lead to them written last (query_cut.hpp).
// If the store has several files, each is written: the secondary files lie beside the first ("model.ice.1"), which gets
// its name last. A crash leaves the unfinished file under another name and without a root, so nothing opens it; and
// perhaps secondary files that belong to no first file, which the next checkpoint of that name replaces.
#include "icecore/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/locks/lock_descriptor.hpp"
#include "base/raise.hpp"
#include "icecore/unfinished.hpp"
#include "pool/file/range_copier.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/query/query_cut.hpp"
#include "pool/query/query_space.hpp"
#include "store/copy/lineage.hpp"
#include "store/core.hpp"
#include "store/packed/retention/forgetting.hpp"

namespace icecore {

namespace detail {

struct [[gnu::visibility("hidden")]] checkpoint_cut {
  pin of_store;
  std::shared_ptr<const void> keeps_all;  ///< beside the writer: also what no manifest names, as requests to forget
  std::vector<segment_tail> places;       ///< by offset
  record_totals totals;
  query_cut queries;
  std::uint32_t manifest = 0;                           ///< its number
  format::manifest_anchor anchor;                       ///< the page that leads to it
  std::vector<segment> packed;                          ///< segments of extents, and of the manifest: copied whole
  version open;                                         ///< the store's clock
  std::array<std::uint64_t, format::files_max> ends{};  ///< of each file, up to its last segment

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return std::accumulate(ends.begin(), ends.end(), std::uint64_t{0});
  }
};

std::shared_ptr<const checkpoint_cut> store_core::cut() {
  check_usable();
  if (!pool_->missing().empty()) {
    raise(errc::missing_file, "{}; a checkpoint needs all files of the store", pool_->missing().front().what);
  }
  auto made = std::make_shared<checkpoint_cut>();
  made->of_store = take_pin();
  if (beside_writer_) made->keeps_all = pool_->file().keep_all();
  if (!beside_writer_) {  // there they change without the lock of this process
    query_space queries(*pool_, shared_->queries);
    made->queries = query_cut(queries, !read_only());  // first: their versions are closed at the cut
  }
  {
    // named tags write their record after their tick: the cut must not fall between the two
    const certifying_turn one_at_a_time(*opened_);
    query_space queries(*pool_, shared_->queries);
    std::optional<recovering_lock> no_request;  // to forget is written meanwhile
    if (!beside_writer_) no_request.emplace(queries.hold());
    const writer_set::gate stopped(*writers_);
    require_current();
    const version open = clock_->now();
    if (read_only()) {
      // nothing can be closed here; the copy's clock moves on if its newest closed version would be a lost one
      made->open = lost().contains(open - 1) ? open + 1 : open;
    } else {
      made->open = shown_by_newest_closed(open) ? open : close_open() + 1;
    }
    made->totals = shared_->recovered;
    made->totals.add(writers_->totals());
    made->places = writers_->segment_tails();
    // Requests to forget: while the gate is shut no writer makes a segment, whose header would be looked at.
    if (may_have_packed_segments(pool_->roots().read())) {
      made->packed = forgotten_keys(*pool_).segments();
    }
  }
  if (!read_only() && pool_->durability().deferred) sync();  // who reads the copy has read this store
  std::ranges::sort(made->places, {}, [](const segment_tail& p) { return p.in.offset; });
  for (const pool* p : pool_->files()) made->ends[p->number()] = format::first_segment_offset;
  for (const auto& p : made->places) {
    std::uint64_t& end = made->ends[link_pool(p.in.offset)];
    end = std::max(end, link_offset(p.in.end()));
  }
  made->manifest = packing_.number;
  made->anchor = anchor_of(*pool_, packing_);
  for (const format::named_extent& each : packing_.extents) made->packed.push_back(pool_->segment_at(each.segment));
  for (const format::named_value& each : packing_.values) made->packed.push_back(pool_->segment_at(each.segment));
  if (packing_.number != 0) made->packed.push_back(pool_->segment_at(packing_.segment));
  for (const segment& s : made->packed) {
    std::uint64_t& end = made->ends[link_pool(s.offset)];
    end = std::max(end, link_offset(s.end()));
  }
  for (const segment& s : made->queries.segments()) {
    std::uint64_t& end = made->ends[link_pool(s.offset)];
    end = std::max(end, link_offset(s.end()));
  }
  return made;
}

}  // namespace detail

namespace {

/// A file being written; its errors name it.
class output_file {
 public:
  explicit output_file(const std::filesystem::path& path)
      : path_(path), descriptor_([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }) {
    if (descriptor_.get() < 0) raise_errno(errno, "open", path_.native());
    // locked like a store that is open for writing: a process that finds the file leaves it alone (unfinished.cpp)
    struct flock l {};
    l.l_type = F_WRLCK;
    l.l_whence = SEEK_SET;
    static_cast<void>(::fcntl(descriptor_.get(), F_OFD_SETLK, &l));  // if locks fail there, require_name() must do
  }
  void resize(std::uint64_t size) const {
    if (::ftruncate(descriptor_.get(), static_cast<off_t>(size)) != 0) raise_errno(errno, "ftruncate", path_.native());
  }
  [[nodiscard]] std::uint64_t inode() const {
    struct stat about {};
    if (::fstat(descriptor_.get(), &about) != 0) raise_errno(errno, "fstat", path_.native());
    return about.st_ino;
  }
  /// So that no store of who writes to the file later can fail, and no look at it in memory, for lack of space.
  void require_blocks(std::uint64_t from, std::uint64_t end) const {
    const int failed = allocate(descriptor_.get(), from, end);
    if (failed != 0) raise_errno(failed, fmt::format("allocating {} bytes at {}", end - from, from), path_.native());
  }
  void write(const void* bytes, std::uint64_t size, std::uint64_t offset) const {
    write_at(as_target(), bytes, size, offset);
  }
  void sync() const {
    if (::fsync(descriptor_.get()) != 0) raise_errno(errno, "fsync", path_.native());
  }
  /// Throws unless the name still leads to this file.
  void require_name() const {
    struct stat named {};
    if (::stat(path_.c_str(), &named) == 0 && named.st_ino == inode()) return;
    raise(errc::locked, "{}: another process or thread is writing a checkpoint under this name", path_.native());
  }
  [[nodiscard]] range_copier::file as_target() const noexcept { return {descriptor_.get(), &path_}; }

 private:
  std::filesystem::path path_;
  lock_descriptor descriptor_;  // a forked child holds none: it would block the next user of the name
};

/// Writes one file after the other.
class checkpoint_writer {
 public:
  checkpoint_writer(const detail::checkpoint_cut& cut, std::filesystem::path to, const progress_function& on_progress)
      : cut_(&cut), pools_(&cut.of_store.core().the_pool()), to_(std::move(to)), on_progress_(&on_progress) {
    // the copy's files share a session that no other files have: neither the store's nor another checkpoint's fit
    if (pools_->count() > 1) session_ = session_of_copy(pools_->roots().read().files.session);
  }

  /// Copies all segments of the file of this number.
  void write_segments(std::uint16_t number, const output_file& file) {
    const pool& from = *pools_->find(number);
    file.resize(cut_->ends[number]);
    file.require_blocks(0, format::first_segment_offset);
    range_copier copier({from.file().descriptor(), &from.file().path()}, file.as_target());
    for (const auto* whole : {&cut_->queries.segments(), &cut_->packed}) {
      for (const segment& s : *whole) {
        if (link_pool(s.offset) == number) copy(copier, s.offset, s.end(), file);
      }
    }
    for (const segment_tail& p : cut_->places) {
      if (link_pool(p.in.offset) != number) continue;
      file.require_blocks(link_offset(p.position), link_offset(p.in.end()));  // where its writers go on
      copy(copier, p.in.offset, p.position, file);
      const std::uint64_t word = from.fill_word(p.in, p.position);
      file.write(&word, sizeof word, link_offset(p.in.offset) + offsetof(format::segment_header, fill));
    }
  }
  /// Call it when the segments of all files are copied.
  void note_queries() {
    if (cut_->of_store.core().beside_writer()) return;
    query_space space(*pools_, cut_->of_store.core().shared().queries);
    lists_ = cut_->queries.lists(space, !cut_->of_store.core().read_only());
  }
  /// Completes the file of this number, and syncs it.
  void finish(std::uint16_t number, const output_file& file) const {
    for (const auto& [at, bytes] : lists_) {
      if (link_pool(at) == number) file.write(bytes.data(), bytes.size(), link_offset(at));
    }
    if (number == 0) {
      const auto lineage = lineage_bytes(*pools_);
      file.write(lineage.data(), lineage.size(), format::lineage_offset);
      file.write(&cut_->anchor, sizeof cut_->anchor, format::manifest_anchor_offset);
    }
    const format::root root = closed_root(*pools_->find(number), file.inode());
    file.write(&root, sizeof root, root_offset(root));
    file.sync();
  }
  void report_end() const {
    if (*on_progress_) (*on_progress_)({"writing the checkpoint", cut_->bytes(), cut_->bytes(), "bytes"});
  }

 private:
  void copy(range_copier& copier, link from, link to, const output_file& file) {
    constexpr std::uint64_t report_every_bytes = std::uint64_t{16} << 20;
    for (link at = from; at < to;) {
      const std::uint64_t size = std::min(report_every_bytes, to - at);
      copier.copy(link_offset(at), size);
      begin_writing(file.as_target(), link_offset(at), size);
      at += size;
      done_ += size;
      if (*on_progress_ && done_ - reported_ >= report_every_bytes) {
        cut_->of_store.core().check_usable();  // throws if it was closed or poisoned meanwhile
        (*on_progress_)({"writing the checkpoint", reported_ = done_, cut_->bytes(), "bytes"});
      }
    }
  }

  /// The root that the file would have if the store had been closed at the cut.
  [[nodiscard]] format::root closed_root(const pool& from, std::uint64_t inode) const {
    format::root r = from.roots().read();
    r.state = format::root_state::clean;
    r.used_end = cut_->ends[from.number()];
    r.file_size = r.used_end;
    r.inode = inode;
    r.anchor = null_link;  // a persistent index is not copied: it changes all the time
    r.files.session = r.files.session_before = session_;
    if (from.number() == 0) {
      r.manifest = cut_->manifest;
      r.clock = cut_->open;
      r.clock_limit = std::max(r.clock_limit, cut_->open);
      r.durable_version = 0;
      // the root of a store opened for reading does not list them yet
      set_lost_versions(r, cut_->of_store.core().lost());
      r.certified_records = cut_->totals.records;
      r.certified_sum = cut_->totals.digest;
      if (pools_->count() > 1) name_files(r, places());
    } else {
      r.files.session_before = 0;
      name_first(r, to_);
    }
    seal_root(r);
    return r;
  }
  [[nodiscard]] std::vector<placement> places() const {
    std::vector<placement> all{{to_, -1}};
    for (std::uint16_t n = 1; n < pools_->count(); ++n) all.push_back({default_path(to_, n), -1});
    return all;
  }

  const detail::checkpoint_cut* cut_;
  pool_set* pools_;
  std::filesystem::path to_;
  const progress_function* on_progress_;
  std::uint64_t session_ = 0;
  std::vector<query_cut::piece> lists_;
  std::uint64_t done_ = 0;
  std::uint64_t reported_ = 0;
};

/// Removes what a checkpoint that was cut off has left of a secondary file. Throws if anything else is there.
void require_free(const std::filesystem::path& path, std::uint16_t number, const format::root& of) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(path))) return;
  if (!is_file_of(path, number, of)) {
    raise(errc::store_exists, "{}: exists already; file {} of the checkpoint needs this path", path.native(),
          number + 1);
  }
  std::filesystem::remove(path);
}

}  // namespace

version checkpoint::version() const noexcept { return cut_->open - 1; }
std::uint64_t checkpoint::bytes() const noexcept { return cut_->bytes(); }

void checkpoint::write(const std::filesystem::path& to, const progress_function& on_progress) const {
  cut_->of_store.core().check_usable();
  if (std::filesystem::exists(std::filesystem::symlink_status(to))) {
    raise(errc::store_exists, "{}: exists already; a checkpoint needs a new path", to.native());
  }
  const pool_set& pools = cut_->of_store.core().the_pool();
  unfinished_store making(to, ".writing");
  const output_file file(making.path());  // first: another writer of the same checkpoint meets its lock
  checkpoint_writer writing(*cut_, to, on_progress);
  std::vector<std::unique_ptr<unfinished_store>> secondary;
  std::vector<std::unique_ptr<output_file>> files;
  for (std::uint16_t n = 1; n < pools.count(); ++n) {
    const std::filesystem::path path = default_path(to, n);
    require_free(path, n, pools.roots().read());
    secondary.push_back(std::make_unique<unfinished_store>(path, ".writing"));
    files.push_back(std::make_unique<output_file>(secondary.back()->path()));
    writing.write_segments(n, *files.back());
  }
  writing.write_segments(0, file);
  writing.note_queries();
  for (std::size_t i = 0; i < files.size(); ++i) writing.finish(static_cast<std::uint16_t>(i + 1), *files[i]);
  files.clear();
  writing.finish(0, file);
  writing.report_end();
  file.require_name();
  std::size_t named = 0;
  try {
    for (; named < secondary.size(); ++named) secondary[named]->finish(replacing::refused);
    making.finish(replacing::refused);
  } catch (...) {
    std::error_code ignored;
    for (std::size_t i = 0; i < named; ++i) {
      std::filesystem::remove(default_path(to, static_cast<std::uint16_t>(i + 1)), ignored);
    }
    throw;
  }
}

}  // namespace icecore

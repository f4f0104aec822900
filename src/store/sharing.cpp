// How a store's parts come together: opened by the first process, or attached to by others beside it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/lock_descriptor.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "index/make_index.hpp"
#include "pool/file.hpp"
#include "store/core.hpp"
#include "store/killed_writers.hpp"
#include "store/opening_at_once.hpp"
#include "store/recovery.hpp"

namespace icecore::detail {
namespace {

[[noreturn]] void raise_not_shared(const std::filesystem::path& shared_as) {
  raise(errc::closed, "{}: the store is not shared yet, or no longer", shared_as.native());
}

/// The file of `shared_as`, closed at the end.
class memory_file {
 public:
  memory_file(const std::filesystem::path& path, int flags) : path_(path) {
    constexpr int always = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    descriptor_ = ::open(path.c_str(), flags | always, 0600);
    if (descriptor_ < 0) raise_not_opened(flags);
    locks_.emplace([&] { return ::open(path.c_str(), always); });
    if (locks_->get() < 0) {
      const int number = errno;
      ::close(descriptor_);
      if (flags != 0) ::unlink(path.c_str());  // made here: else the next try would find something there
      raise_errno(number, "open", path.native());
    }
    struct stat one {};
    struct stat other {};
    if (fstat(descriptor_, &one) == 0 && fstat(locks_->get(), &other) == 0 && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino)
      return;
    ::close(descriptor_);
    raise(errc::io, "{}: another file took its place while it was opened", path.native());
  }
  ~memory_file() { ::close(descriptor_); }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;

  [[nodiscard]] int locks() const noexcept { return locks_->get(); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// What it holds is followed without a check of every word. So nobody may have written it but this user's processes.
  void require_own() const {
    struct stat s {};
    if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
    if (s.st_uid != geteuid()) {
      raise(errc::permission,
            "{}: belongs to user {}, and this process is user {}'s; processes of one user share a store",
            path_.native(), s.st_uid, geteuid());
    }
    if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      raise(errc::permission, "{}: other users may write it (mode {:o}); a store is not shared so", path_.native(),
            s.st_mode & 07777U);
    }
    const index::arena::content what = index::arena::content_of(descriptor_);
    if (what == index::arena::content::nothing_yet) raise_not_shared(path_);
    if (what == index::arena::content::something_else)
      raise(errc::invalid_argument, "{}: is no file that a store is shared as", path_.native());
  }
  void require_memory() const {
    if (is_on_memory_filesystem(descriptor_)) return;
    ::unlink(path_.c_str());
    raise(errc::invalid_argument, "{}: what processes share must be on a memory file system such as /dev/shm",
          path_.native());
  }

 private:
  [[noreturn]] void raise_not_opened(int flags) const {
    if (errno == EEXIST) {
      raise(
          errc::locked,
          "{}: something is there already; a store is shared as a file that is not there yet (remove it if the process "
          "that made it is dead)",
          path_.native());
    }
    if (errno == ENOENT && flags == 0)
      raise(errc::no_such_store, "{}: no process shares a store as this file", path_.native());
    raise_errno(errno, "open", path_.native());
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<lock_descriptor> locks_;
};

/// An entry takes at least half as much of the pool as of the index: no more addresses are needed than that.
constexpr std::uint64_t index_bytes_max(std::uint64_t capacity) noexcept { return 2 * capacity; }

}  // namespace

void store_core::open(const std::filesystem::path& path, const options& opening) {
  const bool shares = !opening.shared_as.empty();
  if (shares && opening.access != access::read_write) {
    raise(errc::invalid_argument, "{}: a store is shared by who opens it for writing", path.native());
  }
  pool_ = std::make_unique<pool_set>(path, opening);
  index::arena_options memory{.huge_pages = opening.huge_pages, .size_max_bytes = index_bytes_max(pool_->capacity())};
  if (!shares) {
    auto own = std::make_shared<index::arena>(memory);
    shared_ = &shared_state::make_in(*own);
    assemble(std::move(own), opening);
    recover(opening);
    return;
  }
  const memory_file file(opening.shared_as, O_CREAT | O_EXCL);
  file.require_memory();
  try {
    memory.file = file.descriptor();
    memory.locks = file.locks();
    auto common = std::make_shared<index::arena>(memory);
    shared_ = &shared_state::make_in(*common);
    assemble(std::move(common), opening);
    recover(opening);
    share(opening);
  } catch (...) {
    ::unlink(opening.shared_as.c_str());
    throw;
  }
}

void store_core::recover(const options& opening) {
  if (opening_at_once::possible(*pool_, opening)) {
    opening_at_once(*this).run();
  } else {
    recovery(*this, opening).run();
  }
  histories_->believe_after(shared_->newest_recovered);
}

/// From now on the index is the one that the anchor leads to, or that is built there, and heads last.
void store_core::use_lasting_index(const format::root& root, std::uint64_t epoch, bool is_new) {
  const link anchor = root.anchor;
  media_ = std::make_unique<lasting_media>(*pool_, *memory_, *writers_, anchor, shared_->lasting);
  if (!attached_) shared_->outlive_kills();
  for (pool* p : pool_->files()) {
    auto& word = media_->anchor().used_end[p->number()];
    const link place = anchor + static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&word) -
                                                           reinterpret_cast<const std::byte*>(&media_->anchor()));
    const std::uint64_t said = word.load(std::memory_order_relaxed);  // relaxed, here and below: nobody else is there
    const std::uint64_t end = said & format::stamp_version_mask;
    if (is_new) {
      word.store(pool_->codec().encode(p->used_end(), place), std::memory_order_relaxed);
      pool_->persist().flush(&word, sizeof word);
    } else if (!attached_) {
      // What lies behind a wrong end would be given out again, and cut off at closing. The first root is closed last:
      // while it says that the store is open, another one may be of before its last segment was taken.
      const format::root own = p->roots().read();
      const auto clean = format::root_state::clean;
      const bool closed = own.state == clean && pool_->roots().read().state == clean;
      const bool as_closed = !closed || end == own.used_end;
      if (said != pool_->codec().encode(end, place) || end < format::first_segment_offset || end > p->size() ||
          end % format::granule_size != 0 || !as_closed)
        media_->raise_damaged(place, "the index's anchor does not tell where the store ends");
      p->set_used_end(end);
    }
    p->keep_used_end(word, place);
  }
  killed_writers_ = std::make_unique<killed_writers>(*this);
  writers_->use(media_->segments(), *killed_writers_);
  histories_->let_heads_last(*media_, pool_->first().size());
  keys_->check_with(*media_);
  auto index = index::make_persistent_index(
      *keys_, media_->index_parts(epoch, root.evidence_from, writers_->process(), attached_), shared_->lasting.index);
  tag_list_ = std::make_unique<tag_list>(index->space());
  index_ = std::move(index);
}

/// All is there: lets others in.
void store_core::share(const options& opening) {
  const format::root root = pool_->roots().read();
  std::memcpy(shared_->pool_id, root.pool_id, sizeof root.pool_id);
  shared_->durability = pool_->durability().mode;
  shared_->epoch = root.epoch;
  pool_->share(shared_->spaces);
  pool_->persist().share(shared_->poisoned);
  shared_as_ = opening.shared_as;
  shared_->is.store(shared_state::phase::open, std::memory_order_release);  // release: pairs with attach()
}

void store_core::attach(const std::filesystem::path& path, const options& opening) {
  if (opening.shared_as.empty()) {
    raise(errc::invalid_argument, "{}: to attach, name the file that the store is shared as (options::shared_as)",
          path.native());
  }
  const memory_file file(opening.shared_as, 0);
  file.require_own();
  std::shared_ptr<index::arena> common;
  try {
    common = std::make_shared<index::arena>(index::arena_options{
        .huge_pages = opening.huge_pages, .file = file.descriptor(), .locks = file.locks(), .attach = true});
  } catch (const std::bad_alloc&) {
    raise(errc::no_space, "{}: what is shared as this file cannot be mapped: too few addresses",
          opening.shared_as.native());
  }
  shared_ = shared_state::find_in(*common, opening.shared_as);
  const auto is_shared = [this] {
    // acquire: all that was there when the store was shared
    return shared_ != nullptr && shared_->is.load(std::memory_order_acquire) == shared_state::phase::open;
  };
  if (!is_shared()) raise_not_shared(opening.shared_as);
  options as_shared = opening;
  as_shared.durability = shared_->durability;
  as_shared.emulate_durability = true;
  pool_ = std::make_unique<pool_set>(path, as_shared, shared_->spaces);
  // From here on nobody opens the store (the pool's locks are held), and these words do not change: so if they are
  // those of the opening that shared it, all that is shared is of now, whoever was killed or opened it before.
  if (!is_shared()) raise_not_shared(opening.shared_as);
  const format::root root = pool_->roots().read();
  if (std::memcmp(root.pool_id, shared_->pool_id, sizeof root.pool_id) != 0) {
    raise(errc::invalid_argument, "{}: is not the store that is shared as {}", path.native(),
          opening.shared_as.native());
  }
  if (root.epoch != shared_->epoch) {
    raise(errc::closed, "{}: was shared by processes that have all ended, and the store was opened since; remove it",
          opening.shared_as.native());
  }
  lost_ = lost_versions_of(root);
  pool_->persist().share(shared_->poisoned);
  assemble(std::move(common), opening);
  if (index_ == nullptr) use_lasting_index(root, root.epoch, false);
  histories_->believe_after(shared_->newest_recovered);
  writers_->finish_killed();  // else only who waits for one looks, and its place would lie idle
  recovered_from_crash_ = false;
}

void store_core::assemble(std::shared_ptr<index::arena> memory, const options& opening) {
  const format::root root = pool_->roots().read();
  stores_never_wait_ = pool_->durability().medium != medium::block_device;
  clock_ = std::make_unique<version_clock>(pool_->live().clock, &pool_->roots(), root.clock_limit);
  const address_space space(pool_->bases());
  histories_ = std::make_unique<histories>(space, *clock_, pool_->codec(), pool_->persist(),
                                           pool_->shared() && pool_->durability().mode == durability::operation);
  keys_ = std::make_unique<entry_keys>(space, pool_->persist());
  writers_ = std::make_unique<writer_set>(*pool_, *memory, shared_->writers);
  histories_->let_waits_look([this] { writers_->finish_killed(); });
  index_kind_ = opening.change_index ? opening.index : static_cast<index_kind>(root.index);
  memory_ = std::move(memory);
  // One that lasts comes when its place is known; where that cannot be written, another takes its place.
  const bool lasts =
      index_kind_ == index_kind::persistent && (!read_only() || opening_at_once::possible(*pool_, opening));
  if (!lasts)
    index_ =
        index::make_index(index_kind_ == index_kind::persistent ? index_kind::btree : index_kind_, *keys_, memory_);
  lookups_ = std::make_unique<index::lookup_cache>(opening.lookup_cache_bytes, opening.huge_pages);
  checked_ = std::make_unique<checked_values>(*pool_);
  accepts_damage_ = opening.accept_damage;
}

void store_core::raise_attached() const {
  if (!memory_->is_held(writer_set::first_process)) {
    raise(errc::invalid_argument,
          "{}: this process is attached to the store; that is done by the one that opened it, which has ended; end all "
          "that are attached and open it again",
          pool_->file().path().native());
  }
  raise(errc::invalid_argument,
        "{}: this process is attached to the store; that is done by the one that opened it and shares it",
        pool_->file().path().native());
}

}  // namespace icecore::detail

#include "store/open/opening.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/locks/lock_descriptor.hpp"
#include "base/locks/looks.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "index/make_index.hpp"
#include "pool/file/file.hpp"
#include "store/beside/observing.hpp"
#include "store/open/recovery.hpp"
#include "store/persistent/instant_recovery.hpp"
#include "store/sharing/compaction_answerer.hpp"
#include "store/sharing/following.hpp"

namespace icecore::detail {
namespace {

[[noreturn]] void raise_not_shared(const std::filesystem::path& shared_as) {
  raise(errc::closed, "{}: the store is not shared yet, or no longer", shared_as.native());
}

/// The file of `shared_as`; the destructor closes it.
class memory_file {
 public:
  memory_file(const std::filesystem::path& path, int flags) : path_(path) {
    constexpr int always = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    descriptor_ = ::open(path.c_str(), flags | always, 0600);
    if (descriptor_ < 0) raise_not_opened(errno, flags);
    locks_.emplace([&] { return ::open(path.c_str(), always); });
    if (locks_->get() < 0) {
      const int number = errno;
      ::close(descriptor_);
      if (flags != 0) ::unlink(path.c_str());  // made here: otherwise the next try would find it there
      raise_not_opened(number, flags);
    }
    struct stat one {};
    struct stat other {};
    if (fstat(descriptor_, &one) == 0 && fstat(locks_->get(), &other) == 0 && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino)
      return;
    ::close(descriptor_);
    raise_replaced();
  }
  ~memory_file() { ::close(descriptor_); }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;

  [[nodiscard]] int locks() const noexcept { return locks_->get(); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// The file, opened once more: its locks last as long as this, which may be longer than those of the process.
  [[nodiscard]] std::shared_ptr<const lock_descriptor> opened_again() const {
    auto again = std::make_shared<const lock_descriptor>(
        [this] { return ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW); });
    if (again->get() < 0) raise_not_opened(errno, 0);
    struct stat one {};
    struct stat other {};
    const bool is_same = fstat(descriptor_, &one) == 0 && fstat(again->get(), &other) == 0 &&
                         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    if (!is_same) raise_replaced();
    return again;
  }
  /// Its contents are followed without a check of every word, so only processes of this user may have written it.
  void require_own() const {
    struct stat s {};
    if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
    if (s.st_uid != geteuid()) {
      raise(errc::permission,
            "{}: belongs to user {}, but this process runs as user {}; only processes of one user can share a store",
            path_.native(), s.st_uid, geteuid());
    }
    if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      raise(errc::permission,
            "{}: other users may write to it (mode {:o}); a store is shared only as a file that its owner alone may "
            "write",
            path_.native(), s.st_mode & 07777U);
    }
    const index::arena::content what = index::arena::content_of(descriptor_);
    if (what == index::arena::content::nothing_yet) raise_not_shared(path_);
    if (what == index::arena::content::something_else)
      raise(errc::invalid_argument, "{}: is not a file that a store is shared as", path_.native());
  }
  void require_memory() const {
    if (is_on_memory_filesystem(descriptor_)) return;
    ::unlink(path_.c_str());
    raise(errc::invalid_argument,
          "{}: the file that a store is shared as must be on a memory file system such as /dev/shm", path_.native());
  }

 private:
  [[noreturn]] void raise_replaced() const {
    raise(errc::io, "{}: was replaced by another file while it was being opened", path_.native());
  }
  /// The process that shared it may have closed the store and removed the file since it was opened here the first time.
  [[noreturn]] void raise_not_opened(int number, int flags) const {
    if (number == EEXIST) {
      raise(errc::locked,
            "{}: exists already; a store is shared as a new file (remove the old one if the process that made it is "
            "dead)",
            path_.native());
    }
    if (number == ENOENT && flags == 0)
      raise(errc::no_such_store, "{}: no process shares a store as this file", path_.native());
    raise_errno(number, "open", path_.native());
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<lock_descriptor> locks_;
};

/// An entry takes at least half as many bytes of the pool as of the index, so twice the pool's addresses suffice.
constexpr std::uint64_t index_bytes_max(std::uint64_t capacity) noexcept { return 2 * capacity; }

}  // namespace

store_parts parts_in(std::unique_ptr<pool_set> pool, std::shared_ptr<index::arena> memory, shared_state& shared,
                     const options& opening) {
  store_parts parts;
  parts.opened = std::make_unique<opened_store>();
  parts.store = parts.opened.get();
  opened_store& opened = *parts.opened;
  opened.writers = std::make_unique<writer_set>(*pool, *memory, shared.writers);
  opened.checked = std::make_unique<checked_values>(*pool);
  opened.tags = std::make_unique<tag_index>();
  opened.as_asked = {opening.lookup_cache_bytes, opening.block_cache_bytes, opening.huge_pages,
                     opening.grow_in_background, opening.recovery_threads};
  opened.shared = &shared;
  opened.memory = std::move(memory);
  opened.pool = std::move(pool);
  parts.pool = opened.pool.get();
  parts.memory = opened.memory;
  parts.shared = &shared;
  parts.writers = opened.writers.get();
  parts.checked = opened.checked.get();
  parts.tags = opened.tags.get();
  parts.lookups =
      std::make_unique<index::lookup_cache>(opening.lookup_cache_bytes, opening.huge_pages, &opened.lookups);
  return parts;
}

history_parts history_parts_of(const store_parts& parts) {
  const bool each_is_durable = parts.pool->recovery_mode() == durability::operation;
  return {parts.space(),
          parts.clock,
          parts.pool->codec(),
          &parts.pool->persist(),
          parts.pool->shared() && each_is_durable,
          [writers = parts.writers] { writers->recover_dead_writers(); },
          each_is_durable ? nullptr : parts.synced};
}

rebuilt_parts rebuilt_parts_of(const store_parts& parts) {
  rebuilt_parts made;
  made.keys = std::make_unique<entry_keys>(parts.space(), parts.pool->persist());
  const index_kind kind = parts.kind == index_kind::persistent ? index_kind::btree : parts.kind;
  made.index = index::make_index(kind, *made.keys, parts.index_memory, parts.hash_seed);
  made.tags = std::make_unique<scanned_tags>();
  return made;
}

namespace {

/// Takes the end of each file from the index's anchor, or notes it there if the anchor is fresh.
void take_over_ends(const store_parts& parts, const durable_media& media, link anchor_at, anchor_is anchor) {
  pool_set& pools = *parts.pool;
  for (pool* p : pools.files()) {
    auto& word = media.anchor().used_end[p->number()];
    const link place = anchor_at + static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&word) -
                                                              reinterpret_cast<const std::byte*>(&media.anchor()));
    const std::uint64_t said = word.load(std::memory_order_relaxed);  // relaxed, here and below: nothing else runs
    const std::uint64_t end = said & format::stamp_version_mask;
    if (anchor == anchor_is::fresh) {
      word.store(pools.codec().encode(p->used_end(), place), std::memory_order_relaxed);
      pools.persist().flush(&word, sizeof word);
    } else if (anchor == anchor_is::there) {
      // Space behind a wrong end would be allocated again, and cut off at closing. The first file's root is closed
      // last: while it says that the store is open, another file's root may date from before that file's last segment
      // was taken.
      const format::root own = p->roots().read();
      const auto clean = format::root_state::clean;
      const bool closed = own.state == clean && pools.roots().read().state == clean;
      const bool as_closed = !closed || end == own.used_end;
      if (said != pools.codec().encode(end, place) || end < format::first_segment_offset || end > p->size() ||
          end % format::granule_size != 0 || !as_closed)
        media.raise_damaged(place, "the end of the store in the index's anchor is not valid");
      p->set_used_end(end);
    }
    p->keep_used_end(word, place);
  }
}

}  // namespace

durable_parts durable_parts_in(store_parts& parts, const format::root& root, std::uint64_t epoch, anchor_is anchor,
                               history_base&& records) {
  pool_set& p = *parts.pool;
  durable_media::state& shared = parts.shared->durable;
  durable_parts made;
  made.media = std::make_unique<durable_media>(p, *parts.memory, *parts.writers, root.anchor, shared);
  if (anchor != anchor_is::in_use) parts.shared->make_robust();
  take_over_ends(parts, *made.media, root.anchor, anchor);
  made.keys = std::make_unique<checked_entry_keys>(parts.space(), p.persist(), *made.media);
  made.histories = std::make_unique<durable_histories>(std::move(records), *made.media, p.first().size());
  const auto where =
      made.media->index_parts(epoch, root.evidence_from, parts.writers->process(), anchor == anchor_is::in_use);
  made.index = index::make_persistent_index(*made.keys, where, shared.index);
  made.tags =
      std::make_unique<listed_tags>(made.index->space(), *made.histories, *made.media, anchor != anchor_is::there);
  made.killed = std::make_unique<dead_writers>(p, *made.media, *made.histories, *made.index, *made.tags,
                                               parts.shared->tags, *parts.memory);
  // W6: of the parts' generation. The current one may be a later one by now, if this process attaches.
  parts.writers->use(made.media->segments(), *made.killed, parts.generation);
  return made;
}

namespace {

/// The root's, or a new one, which recovery will write to the root, if the store gets its first index `hash`.
index::hash_seed hash_seed_for(index_kind kind, const format::root& root, const options& opening) {
  index::hash_seed seed;
  static_assert(sizeof seed == sizeof root.hash_seed);
  std::memcpy(seed.data(), root.hash_seed, sizeof seed);
  if (kind != index_kind::hash || seed != index::hash_seed{} || opening.access != access::read_write) return seed;
  if (getrandom(seed.data(), seed.size(), 0) != static_cast<ssize_t>(seed.size())) raise_errno(errno, "getrandom", {});
  return seed;
}

/// What is made of a store.
enum class extent_of_opening : std::uint8_t { all, young_generation };

/// An index in memory has an arena of its own, which goes with its engine, unless processes share it.
store_parts parts_on(std::unique_ptr<pool_set> pool, std::shared_ptr<index::arena> memory, shared_state& shared,
                     const options& opening, extent_of_opening what = extent_of_opening::all) {
  const format::root root = pool->roots().read();
  const bool is_shared = !opening.shared_as.empty();
  store_parts parts = parts_in(std::move(pool), std::move(memory), shared, opening);
  pool_set& pools = *parts.pool;
  opened_store& opened = *parts.opened;
  opened.clock = std::make_unique<version_clock>(pools.live().clock, &pools.roots(), root.clock_limit);
  parts.clock = opened.clock.get();
  parts.index_memory =
      is_shared ? parts.memory
                : std::make_shared<index::arena>(index::arena_options{
                      .huge_pages = opening.huge_pages, .size_max_bytes = index_bytes_max(pools.capacity())});
  parts.kind = opening.change_index ? opening.index : static_cast<index_kind>(root.index);
  parts.hash_seed = hash_seed_for(parts.kind, root, opening);
  parts.accepts_damage = opening.accept_damage;
  if (opening.access == access::attached) return parts;  // take_generation() has the rest
  if (what == extent_of_opening::all) {
    parts.packing = manifest_of(pools);
    parts.packed = open_strata(pools, parts.packing, opening.block_cache_bytes);
  } else {
    parts.packing = manifest_of(pools, extent_segments::as_they_are);
  }
  pools.set_era(parts.packing.era);
  if (pools.shared() && pools.durability().deferred) {
    opened.synced = std::make_unique<durable_point>();
    parts.synced = opened.synced.get();
  }
  return parts;
}

std::unique_ptr<opened_store> recover(store_parts&& parts, const options& opening) {
  if (!opening.copy_of.empty()) {
    options checking = opening;
    checking.check_values = true;
    return recovery_of_copy(parts, checking).run();
  }
  if (instant_recovery::possible(*parts.pool, opening)) return instant_recovery(parts).run();
  return recovery(parts, opening).run();
}

/// A reader cannot write what it would wait for, and has no writes that could wait.
void require_deferrable(const std::filesystem::path& path, const options& opening) {
  if (!opening.deferred_durability || opening.access == access::read_only) return;
  if (opening.durability != durability::operation) {
    raise(errc::invalid_argument, "{}: only durability 'operation' can be deferred; ask for it, or do not defer",
          path.native());
  }
  if (!opening.shared_as.empty()) {
    raise(errc::invalid_argument,
          "{}: a store whose durability is deferred cannot be shared, because only the process that opened it can sync "
          "for readers",
          path.native());
  }
}

/// What readers that come while this process has the store open are to do.
enum class readers : std::uint8_t {
  read_beside,  ///< if options::publish_settled says so; else they are refused
  wait,         ///< as for a process that is still opening the store
};

void tell(readers these, opened_store& opened, const options& opening) {
  if (opening.access != access::read_write || these == readers::wait) return;
  if (opening.publish_settled) return opened.current().publish_settled();
  withhold_settled(*opened.pool);
}

/// The files of a copy (options::copy_of), which go again if the store is not opened after all, such as where there is
/// room for it, but not for going on.
class files_of_copy {
 public:
  files_of_copy() = default;
  ~files_of_copy() {
    std::error_code ignored;
    for (const std::filesystem::path& each : all_) std::filesystem::remove(each, ignored);
  }
  files_of_copy(const files_of_copy&) = delete;
  files_of_copy& operator=(const files_of_copy&) = delete;

  void note(const pool_set& made) {
    for (const pool* file : made.files()) all_.push_back(file->file().path());
  }
  void keep() noexcept { all_.clear(); }

 private:
  std::vector<std::filesystem::path> all_;
};

std::unique_ptr<opened_store> open(const std::filesystem::path& path, const options& opening,
                                   readers others = readers::read_beside,
                                   extent_of_opening what = extent_of_opening::all) {
  const bool shares = !opening.shared_as.empty();
  const bool grows = opening.grow_in_background && opening.access == access::read_write;
  const bool packs = opening.compaction == compaction_mode::automatic && opening.access == access::read_write &&
                     others == readers::read_beside;
  require_deferrable(path, opening);
  if (shares && opening.access != access::read_write) {
    raise(errc::invalid_argument, "{}: to share a store, open it for writing", path.native());
  }
  files_of_copy copied;  // before what has them open
  // Last: when a store is shared, what its threads use moves into the memory that the processes share.
  const auto begin_threads = [&](opened_store& opened) {
    if (grows) opened.current().grow_in_background();
    if (opened.settled != nullptr) opened.settled->look_in_background();
    if (shares) opened.answers = std::make_unique<compaction_answerer>(opened);
    if (packs) opened.automatic = std::make_unique<automatic_compaction>(opened, opening.compaction_limits);
    copied.keep();
  };
  auto pool = std::make_unique<pool_set>(path, opening);
  if (!opening.copy_of.empty()) copied.note(*pool);
  index::arena_options memory{.huge_pages = opening.huge_pages, .size_max_bytes = index_bytes_max(pool->capacity())};
  if (!shares) {
    auto own = std::make_shared<index::arena>(memory);
    shared_state& state = shared_state::make_in(*own);
    auto opened = recover(parts_on(std::move(pool), std::move(own), state, opening, what), opening);
    tell(others, *opened, opening);
    begin_threads(*opened);
    return opened;
  }
  const memory_file file(opening.shared_as, O_CREAT | O_EXCL);
  file.require_memory();
  try {
    memory.file = file.descriptor();
    memory.locks = file.locks();
    auto common = std::make_shared<index::arena>(memory);
    shared_state& state = shared_state::make_in(*common);
    auto opened = recover(parts_on(std::move(pool), std::move(common), state, opening), opening);
    tell(others, *opened, opening);
    state.make_robust();
    opened->current().share(opening.shared_as);
    begin_threads(*opened);
    return opened;
  } catch (...) {
    ::unlink(opening.shared_as.c_str());
    throw;
  }
}

/// The engine of a process that is attached: nothing of the store is changed, and everything shared is there.
std::unique_ptr<opened_store> attached_engine(store_parts&& parts, const format::root& root) {
  parts.pool->set_era(parts.packing.era);
  if (parts.kind != index_kind::persistent || parts.generation != 1) {
    rebuilt_parts made = rebuilt_parts_of(parts);
    made.histories = std::make_unique<rebuilt_histories>(history_parts_of(parts));
    return make_store<rebuilt_engine, rebuilt_heads>(std::move(parts), std::move(made));
  }
  durable_parts made =
      durable_parts_in(parts, root, root.epoch, anchor_is::in_use, history_base(history_parts_of(parts)));
  made.histories->set_unverified_up_to(parts.shared->newest_recovered);
  return make_store<durable_engine, durable_heads>(std::move(parts), std::move(made));
}

/// Another process may be packing the store. If it was killed amid the change, this one completes it.
void await_generation(opened_store& opened, store_parts& parts) {
  opened.writers->when_gate_holder_died([&opened] { opened.complete_change_of_dead(); });
  backoff wait;
  for (unsigned rounds = 1; !take_generation(opened, parts); ++rounds) {
    wait.pause();
    if (rounds % rounds_between_looks != 0) continue;
    opened.writers->open_gate_of_dead();
    if (opened.pool->persist().poisoned()) opened.pool->persist().raise_poisoned();
  }
}

std::unique_ptr<opened_store> attach(const std::filesystem::path& path, const options& opening) {
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
    raise(errc::no_space, "{}: this shared memory cannot be mapped: too little address space",
          opening.shared_as.native());
  }
  shared_state* const shared = shared_state::find_in(*common, opening.shared_as);
  const auto is_shared = [&] {
    // acquire: sees everything that was there when the store was shared
    return shared != nullptr && shared->is.load(std::memory_order_acquire) == shared_state::phase::open;
  };
  if (!is_shared()) raise_not_shared(opening.shared_as);
  options as_shared = opening;
  as_shared.durability = shared->durability;
  as_shared.emulate_durability = true;
  auto pool = std::make_unique<pool_set>(path, as_shared, shared->spaces);
  // From here on no process can open the store (the pool's locks are held), and these words do not change. So if they
  // are those of the opening that shared the store, everything shared is current, no matter which processes were killed
  // or opened it before.
  if (!is_shared()) raise_not_shared(opening.shared_as);
  const format::root root = pool->roots().read();
  if (std::memcmp(root.pool_id, shared->pool_id, sizeof root.pool_id) != 0) {
    raise(errc::invalid_argument, "{}: is not the store that is shared as {}", path.native(),
          opening.shared_as.native());
  }
  if (root.epoch != shared->epoch) {
    raise(errc::closed,
          "{}: all processes that shared the store as this file have ended, and the store was opened since; remove "
          "this file",
          opening.shared_as.native());
  }
  pool->persist().share(shared->poisoned);
  store_parts parts = parts_on(std::move(pool), std::move(common), *shared, opening);
  parts.lost = lost_versions_of(root);
  parts.attached = true;
  writer_set& writers = *parts.writers;
  parts.opened->view_locks = file.opened_again();
  await_generation(*parts.opened, parts);
  const std::uint64_t generation = parts.generation;
  auto attached = attached_engine(std::move(parts), root);
  attached->current().share_tags();
  attached->begin_following(generation);
  writers.recover_dead_writers();  // or only waiting threads would do so, and its segment would lie idle
  return attached;
}

void require_no_lock(const std::filesystem::path& path, const options& opening) {
  if (opening.beside_writer && !opening.accept_damage && !opening.check_values) return;
  raise(
      errc::invalid_argument,
      "{}: a reader that never locks the store can neither accept damage, nor check all values at opening, nor refuse "
      "to read beside a writer",
      path.native());
}

/// Beside processes that write it, if there is one; else with a lock that keeps them out, or without one, as is asked
/// for. A process that is opening the store will soon have done so, or have given up.
std::unique_ptr<opened_store> open_for_reading(const std::filesystem::path& path, const options& opening) {
  constexpr std::chrono::seconds at_most{30};
  constexpr std::chrono::milliseconds between_looks{5};
  const auto until = std::chrono::steady_clock::now() + at_most;
  if (opening.never_locks) require_no_lock(path, opening);
  for (;;) {
    const bool is_last_try = std::chrono::steady_clock::now() >= until;
    try {
      if (!opening.never_locks) return open(path, opening);
      if (auto opened = open_closed(path, opening)) return opened;
    } catch (const error& e) {
      const bool beside = opening.beside_writer && !opening.accept_damage;
      if (e.code() != errc::locked || !beside || is_last_try) throw;
    }
    try {
      if (auto opened = open_beside_writer(path, opening)) return opened;
    } catch (const error& e) {
      // else it is being made: there is no root yet
      if (e.code() != errc::not_a_store || opening.never_locks) throw;
    }
    if (is_last_try) {
      raise(errc::locked, "{}: another process has been opening it for writing, or packing it, for {} seconds",
            path.native(), at_most.count());
    }
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace

std::unique_ptr<opened_store> open_store(const std::filesystem::path& path, const options& opening) {
  if (opening.compaction != compaction_mode::by_call && opening.access != access::read_write) {
    raise(errc::invalid_argument,
          "{}: a store is packed by the process that opens it for writing: ask for automatic compaction there "
          "(options::compaction)",
          path.native());
  }
  switch (opening.access) {
    case access::attached:
      return attach(path, opening);
    case access::read_only:
      return open_for_reading(path, opening);
    case access::read_write:
      break;
  }
  return open(path, opening);
}

std::unique_ptr<opened_store> open_young_generation(const std::filesystem::path& path, const options& opening) {
  return open(path, opening, readers::wait, extent_of_opening::young_generation);
}

std::unique_ptr<opened_store> open_store_briefly(const std::filesystem::path& path, const options& opening) {
  return open(path, opening, readers::wait);
}

void store_core::share_tags() {
  shared_tags_ = std::make_unique<shared_tags>(*catalog_, shared_->tags, *opened_->memory, *records_,
                                               opened_->told_tags_mutex, *tags_, *writers_);
  catalog_ = shared_tags_.get();
}

/// Lets other processes attach. Call when the store is complete.
void store_core::share(const std::filesystem::path& as) {
  const format::root root = pool_->roots().read();
  std::memcpy(shared_->pool_id, root.pool_id, sizeof root.pool_id);
  shared_->durability = pool_->durability().mode;
  shared_->epoch = root.epoch;
  // relaxed: no process is attached yet
  shared_->generations.of[generation_ % 2].era.store(packing_.era, std::memory_order_relaxed);
  pool_->share(shared_->spaces);
  pool_->persist().share(shared_->poisoned);
  shared_as_ = as;
  const std::vector<tag_info> all = tags().all();
  share_tags();
  try {
    shared_tags_->tell(all);
  } catch (const std::bad_alloc&) {
    raise(errc::no_space,
          "{}: no room for the store's {} tags in the memory that the processes share; share it elsewhere", as.native(),
          all.size());
  }
  shared_->is.store(shared_state::phase::open, std::memory_order_release);  // release: pairs with attach()
}

}  // namespace icecore::detail

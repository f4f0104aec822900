// A reader's view is a function of the records that it has read: its index leads to the entries among them, its heads
// to the newest of each entry's records. So whatever the writer does meanwhile, a version never changes here. refresh()
// adds the records that were settled since. It raises heads and extends the index first, and only then moves the clock:
// who reads a version finds all of its records, and who reads an older one walks past those that are newer (H1).
//
// Once the store is packed, what is written since is in segments of another era, and what was written before in strata.
// Then refresh() makes another engine over these, as opening does, and makes it the current one before it moves the
// clock (E3). Who holds a pin on the engine of before goes on reading there.
//
// Each engine keeps its manifest (pool_file::keep()): what it looks at is not given back. The one of before is kept
// until its last pin is gone. So a reader that refreshes lets a writer use again what was packed.
#include "store/beside/observing.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/open/opening.hpp"
#include "store/open/record_scan.hpp"
#include "store/open/sorted_entries.hpp"

namespace icecore::detail {
namespace {

/// So many records are looked at together, so that the waits for memory overlap.
constexpr std::size_t group_size = 64;

template <class Take>
void for_each_group(std::span<const link> all, const Take& take) {
  for (; !all.empty(); all = all.subspan(std::min(group_size, all.size()))) {
    take(all.first(std::min(group_size, all.size())));
  }
}

/// The records of `parts` become the newest ones of their entries where they are. By as many threads as there are
/// parts.
void raise_heads(observed_histories& histories, const std::vector<settled_part>& parts) {
  std::size_t updates = 0;
  for (const settled_part& part : parts) updates += part.updates.size();
  histories.heads().reserve(updates);
  run_on_threads(static_cast<unsigned>(parts.size()), [&](unsigned t) {
    for_each_group(parts[t].updates, [&](std::span<const link> group) {
      for (const link update : group) histories.heads().prefetch(histories.at(update).as_update().entry);
      for (const link update : group) {
        const record r = histories.at(update);
        const std::uint32_t depth = r.header().depth;
        histories.heads().raise(r.as_update().entry, update,
                                [&](link known) { return histories.at(known).header().depth < depth; });
      }
    });
  });
}

/// The entries of `parts` become part of the index.
void enter(index::ordered_index& to, const entry_keys& keys, const std::vector<settled_part>& parts) {
  std::array<std::string_view, group_size> sought;
  std::array<link, group_size> found;  // nothing: the keys are new
  for (const settled_part& part : parts) {
    for_each_group(part.entries, [&](std::span<const link> group) {
      for (std::size_t i = 0; i < group.size(); ++i) sought[i] = keys.key_of(group[i]);
      // these searches overlap, and those that enter the keys find their nodes in the caches
      to.find_many(std::span(sought).first(group.size()), std::span(found).first(group.size()));
      for (std::size_t i = 0; i < group.size(); ++i) static_cast<void>(to.insert(sought[i], group[i]));
    });
  }
}

void add_tags(tag_index& to, const observed_histories& histories, const std::vector<settled_part>& parts) {
  for (const settled_part& part : parts) {
    for (const link l : part.tags) {
      const record r = histories.at(l);
      to.add({histories.stamp_of(l), r.as_tag().time_ns, std::string(r.key()), std::string(r.value())});
    }
  }
}

record_totals totals_of(const std::vector<settled_part>& parts) {
  record_totals sum;
  for (const settled_part& part : parts) sum.add(part.totals);
  return sum;
}

std::vector<link> in_key_order(const pool_set& pools, const std::vector<settled_part>& parts,
                               const address_space& space) {
  std::vector<std::span<const link>> entries;
  entries.reserve(parts.size());
  for (const settled_part& part : parts) entries.emplace_back(part.entries);
  entries_in_order sorted = sort_entries(std::move(entries), space);
  if (sorted.of_one_key) {
    const auto [one, other] = *sorted.of_one_key;
    raise(errc::damaged, "{}: damaged at byte {} (entry): the key is entered twice, also at {}", pools.origin(other),
          link_offset(other), pools.place_of(one));
  }
  return std::move(sorted.entries);
}

/// Whether `known` and `found` are together what the store was closed with.
bool is_all_of(const settled_now& closed, record_totals known, const std::vector<settled_part>& found) noexcept {
  known.add(totals_of(found));
  return known.records == closed.closed_with->records && known.digest == closed.closed_with->digest;
}

/// The open version. That of a closed store is shown, as by any reader that no writer disturbs, and counts as open: it
/// is closed when the next writer, which sees this reader, begins another one.
version clock_of(const settled_now& now) noexcept { return now.closed_with ? now.version : now.version + 1; }

unsigned threads_for(const pool_set& pools, unsigned asked) {
  return pools.size() < (std::uint64_t{4} << 20) ? 1 : thread_count(asked);
}

/// Of what was read, with the engine's other parts; to be called before the engine shows anything.
observed_parts observed_parts_of(const store_parts& parts, std::unique_ptr<settled_records> records,
                                 const std::vector<settled_part>& found, unsigned threads) {
  observed_parts own;
  own.records = std::move(records);
  own.histories = std::make_unique<observed_histories>(history_parts_of(parts));
  rebuilt_parts like_rebuilt = rebuilt_parts_of(parts);
  own.keys = std::move(like_rebuilt.keys);
  own.index = std::move(like_rebuilt.index);
  own.tags = std::move(like_rebuilt.tags);
  raise_heads(*own.histories, found);
  own.index->build(in_key_order(*parts.pool, found, parts.space()), threads);
  return own;
}

/// An index of its own for each engine, which goes with it.
std::shared_ptr<index::arena> own_index_memory(bool huge_pages) {
  return std::make_shared<index::arena>(index::arena_options{.huge_pages = huge_pages});
}

/// Whether what is packed shows the version that the writer has published. Where the compaction has packed later ones,
/// and perhaps given up this one, the writer is about to publish those (B4).
bool is_shown_by(const manifest& packing, const stratum::strata* packed, version v) {
  const auto has_it = [v](const version_range& each) { return each.first <= v && v < each.end; };
  return (packed == nullptr || packed->greatest() <= v) && std::ranges::none_of(packing.expired, has_it);
}

/// Whether the root leads to this manifest: for who looks behind keeping it.
bool leads_to(const pool_set& pools, std::uint32_t manifest) {
  const auto root = newest_root(pools.first().base());
  return root && root->manifest == manifest;
}

/// Null if the writer is about to publish a later version.
std::unique_ptr<opened_store> open_observing(std::unique_ptr<pool_set> opened, manifest packing,
                                             std::unique_ptr<settled_records> records, const settled_now& now,
                                             const std::vector<settled_part>& found, const options& opening,
                                             std::chrono::steady_clock::time_point begin) {
  auto memory = std::make_shared<index::arena>(index::arena_options{.huge_pages = opening.huge_pages});
  shared_state& shared = shared_state::make_in(*memory);
  store_parts parts = parts_in(std::move(opened), std::move(memory), shared, opening);
  pool_set& pools = *parts.pool;
  parts.packing = std::move(packing);
  parts.packed = open_strata(pools, parts.packing, opening.block_cache_bytes);
  if (!is_shown_by(parts.packing, parts.packed.get(), now.version)) return nullptr;
  pools.set_era(parts.packing.era);
  const format::root root = pools.roots().read();

  parts.index_memory = own_index_memory(opening.huge_pages);
  opened_store& store = *parts.opened;
  store.observed_clock.store(clock_of(now), std::memory_order_relaxed);  // relaxed: no other thread is there yet
  store.clock = std::make_unique<version_clock>(store.observed_clock, &pools.roots(), version_max);
  parts.clock = store.clock.get();
  parts.kind = static_cast<index_kind>(root.index);
  std::memcpy(parts.hash_seed.data(), root.hash_seed, sizeof root.hash_seed);
  parts.lost = lost_versions_of(root);
  parts.beside_writer = true;
  // Until here it keeps everything (pool_file::viewer()).
  parts.views = pools.first().file().keep(parts.packing.number);
  if (!leads_to(pools, parts.packing.number)) parts.views = pools.first().file().keep_all();

  observed_parts own =
      observed_parts_of(parts, std::move(records), found, threads_for(pools, opening.recovery_threads));
  own.newest = now.version;
  parts.writers->use(*own.records, parts.generation);
  add_tags(*parts.tags, *own.histories, found);
  own.records->keep();
  for (pool* p : pools.files()) p->set_used_end(now.ends[p->number()]);
  parts.shared->recovered = totals_of(found);
  parts.shared->newest_recovered = now.version;
  parts.recovery_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  auto made = make_store<observed_engine, observed_heads>(std::move(parts), std::move(own));
  pools.first().file().end_viewing();
  return made;
}

/// A process that opens or closes the store writes one file's root after the other's: seen amid that, they are not from
/// the same time. What stays so is an error.
std::unique_ptr<pool_set> files_of_one_time(const std::filesystem::path& path, const options& opening) {
  constexpr int tries = 50;
  constexpr std::chrono::milliseconds between(2);
  for (int left = tries;; --left) {
    try {
      return std::make_unique<pool_set>(path, opening, beside_writer{});
    } catch (const error& e) {
      if (e.code() != errc::missing_file || left == 0) throw;
    }
    std::this_thread::sleep_for(between);
  }
}

}  // namespace

bool is_still(const std::filesystem::path& path, const options& opening, const format::root& was) {
  const format::root now = files_of_one_time(path, opening)->roots().read();
  return now.epoch == was.epoch && now.manifest == was.manifest && now.state == was.state;
}

std::optional<settled_store> find_settled(const std::filesystem::path& path, const options& opening) {
  auto pools = files_of_one_time(path, opening);
  settled_records before(*pools);
  if (before.are_of_closed_store()) return std::nullopt;
  const auto now = before.settled();
  if (!now && opening.never_locks && before.are_abandoned()) {
    raise(
        errc::locked,
        "{}: the last process that wrote the store did not close it, and what it had settled is not known; open it for "
        "writing, which recovers it, or let the reader lock it (options::never_locks)",
        path.native());
  }
  if (!now && before.are_withheld()) {
    raise(errc::locked,
          "{}: open for writing by process {}, which does not publish what readers may show "
          "(options::publish_settled is off); close it there first, or have it publish",
          path.native(), pools->live().writer_pid);
  }
  const format::root root = pools->roots().read();
  // closed since, with more than was settled
  if (now && root.state == format::root_state::clean) return std::nullopt;
  // else another process has begun to open it
  if (!now || root.epoch != now->epoch || root.manifest != now->manifest) return std::nullopt;
  // Only now: what the root leads to is still being written while a process packs the store, which publishes nothing.
  try {
    manifest packing = manifest_of(*pools);
    auto records = std::make_unique<settled_records>(*pools, packing);
    return settled_store{std::move(pools), std::move(packing), std::move(records), *now};
  } catch (const error&) {
    if (is_still(path, opening, root)) throw;
    return std::nullopt;
  }
}

std::unique_ptr<opened_store> open_beside_writer(const std::filesystem::path& path, const options& opening) {
  const auto begin = std::chrono::steady_clock::now();
  auto there = find_settled(path, opening);
  if (!there) return nullptr;
  const format::root root = there->pools->roots().read();
  try {
    const auto found =
        there->records->read(there->now, threads_for(*there->pools, opening.recovery_threads), opening.on_progress);
    return open_observing(std::move(there->pools), std::move(there->packing), std::move(there->records), there->now,
                          found, opening, begin);
  } catch (const error&) {
    if (is_still(path, opening, root)) throw;
    return nullptr;
  }
}

namespace {

[[noreturn]] void raise_not_as_closed(const pool_set& pools) {
  raise(errc::damaged,
        "{}: damaged (segments): its records are not those that it was closed with; icecore verify names what is lost",
        pools.origin());
}

/// Whether the store is still as it was closed in that epoch. If not, what was read of it means nothing.
bool is_still_closed(const std::filesystem::path& path, const options& opening, std::uint64_t epoch) {
  const auto pools = files_of_one_time(path, opening);
  const auto now = settled_records(*pools).closed();
  return now && now->epoch == epoch;
}

}  // namespace

std::unique_ptr<opened_store> open_closed(const std::filesystem::path& path, const options& opening) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t epoch = 0;
  try {
    auto pools = files_of_one_time(path, opening);
    const format::root root = pools->roots().read();
    if (root.state != format::root_state::clean) return nullptr;
    epoch = root.epoch;
    if (const std::vector<damage> all = pools->damages(); !all.empty()) {
      raise(errc::damaged, "{}: damaged at byte {} ({}): {}; icecore verify reports the damage",
            pools->origin(all.front().offset), link_offset(all.front().offset), all.front().structure,
            all.front().what);
    }
    manifest packing = manifest_of(*pools);
    auto records = std::make_unique<settled_records>(*pools, packing);
    const auto now = records->closed();
    if (!now || root.epoch != now->epoch || root.manifest != now->manifest) return nullptr;
    // as recovery does: what was changed by another hand is not trusted, even where its checksums are right
    record_scan scan(*pools,
                     {.threads = threads_for(*pools, opening.recovery_threads), .on_progress = opening.on_progress});
    scan.refuse_damaged();
    scan.check_chains();
    scan.refuse_damaged();
    const auto found = records->take_over(*now, scan);
    if (!is_all_of(*now, {}, found)) raise_not_as_closed(*pools);
    auto opened = open_observing(std::move(pools), std::move(packing), std::move(records), *now, found, opening, begin);
    if (opened == nullptr) return nullptr;
    opened->shared->superseded_recovered = scan.superseded_bytes();
    opened->replaced_bytes = scan.outdated_bytes();
    return opened;
  } catch (const error&) {
    if (epoch == 0 || is_still_closed(path, opening, epoch)) throw;
    return nullptr;
  }
}

namespace {

/// What a store shows that was packed since, with what keeps it.
struct packed_since {
  manifest packing;
  std::shared_ptr<const void> keeps;
  std::unique_ptr<const stratum::strata> packed;
  std::unique_ptr<settled_records> records;
  settled_now now{};
  std::vector<settled_part> found;
};

/// Behind the manifest of the number `known`. Empty while a process has begun to open the store or to pack it, or has
/// packed it once more just now.
std::optional<packed_since> read_packed(const opened_store& store, std::uint32_t known, unsigned threads) {
  pool_set& pools = *store.pool;
  const auto root = newest_root(pools.first().base());
  if (!root || root->manifest <= known) return std::nullopt;  // one page of the root is being written
  packed_since all;
  all.keeps = pools.first().file().keep(root->manifest);
  if (!leads_to(pools, root->manifest)) return std::nullopt;
  try {
    pools.follow();
    all.packing = manifest_of(pools);
    if (all.packing.number != root->manifest) return std::nullopt;
    all.records = std::make_unique<settled_records>(pools, all.packing);
    auto now = all.records->closed();
    if (!now) now = all.records->settled();
    if (!now || now->manifest != all.packing.number) return std::nullopt;
    all.now = *now;
    all.packed = open_strata(pools, all.packing, store.as_asked.block_cache_bytes);
    if (!is_shown_by(all.packing, all.packed.get(), now->version)) return std::nullopt;
    all.found = all.records->read(*now, threads, {});
    if (!now->closed_with || is_all_of(*now, {}, all.found)) return all;
    const auto again = settled_records(pools).closed();
    if (again && again->epoch == now->epoch) raise_not_as_closed(pools);
    return std::nullopt;  // a process has opened the store meanwhile
  } catch (const error&) {
    if (leads_to(pools, root->manifest)) throw;
    return std::nullopt;
  }
}

}  // namespace

template <class Heads>
version observed_engine<Heads>::refresh() {
  const version shown = this->newest_readable();
  const auto is_packed_since = [&](const settled_now& now) { return now.manifest != this->packing_.number; };
  auto now = own_.records->closed();
  std::vector<settled_part> found;
  if (now) {
    if (is_packed_since(*now)) return go_on_with_packed();
    found = own_.records->read(*now, 1, {});
    if (!is_all_of(*now, this->shared_->recovered, found)) {
      const auto again = own_.records->closed();
      if (again && again->epoch == now->epoch) raise_not_as_closed(*this->pool_);
      now.reset();  // a process has opened the store meanwhile
    }
  }
  if (!now) {
    now = own_.records->settled();
    if (now && is_packed_since(*now)) return go_on_with_packed();
    if (!now || now->version < this->clock_->now()) return shown;
    found = own_.records->read(*now, 1, {});
  }
  const version settled = now->version;
  raise_heads(*own_.histories, found);
  enter(*this->index_, *own_.keys, found);
  {
    // a checkpoint's cut, and counts, are of one version
    const std::scoped_lock as_a_tag(this->opened_->tag_mutex);
    const writer_set::gate stopped(*this->writers_);
    add_tags(*this->tags_, *own_.histories, found);  // last of what can fail
    own_.records->keep();
    for (pool* p : this->pool_->files()) p->set_used_end(now->ends[p->number()]);
    this->shared_->recovered.add(totals_of(found));
    this->shared_->writers.filled.forget(settled);  // feeds find changes among all keys
    // seq_cst, as a tick (H3): who learns of the version sees its records. The clock first: it is never behind
    this->opened_->observed_clock.store(clock_of(*now), std::memory_order_seq_cst);
    this->newest_observed_.store(settled, std::memory_order_seq_cst);
  }
  this->shared_->closed_versions.ring();
  return settled;
}

/// The store was packed since.
template <class Heads>
version observed_engine<Heads>::go_on_with_packed() {
  opened_store& store = *this->opened_;
  pool_set& pools = *this->pool_;
  const version shown = this->newest_readable();
  const unsigned threads = threads_for(pools, store.as_asked.recovery_threads);
  std::optional<packed_since> next = read_packed(store, this->packing_.number, threads);
  if (!next || next->now.version < shown) return shown;
  const settled_now now = next->now;
  const std::uint32_t era = next->packing.era;

  store_parts parts = this->parts_of_next();
  parts.generation = this->generation_;  // no process shares it
  parts.beside_writer = true;
  parts.lookups = std::make_unique<index::lookup_cache>(store.as_asked.lookup_cache_bytes, store.as_asked.huge_pages,
                                                        &store.lookups);
  parts.packed = std::move(next->packed);
  parts.packing = std::move(next->packing);
  parts.views = std::move(next->keeps);
  parts.index_memory = own_index_memory(store.as_asked.huge_pages);
  observed_parts own = observed_parts_of(parts, std::move(next->records), next->found, threads);
  own.newest = now.version;
  settled_records& records = *own.records;
  const observed_histories& histories = *own.histories;
  auto prepared =
      store.prepare_replacing(make_engine<observed_engine, observed_heads>(std::move(parts), std::move(own)));
  {
    const std::scoped_lock one_engine(store.replacing);
    const std::scoped_lock as_a_tag(store.tag_mutex);
    const writer_set::gate stopped(*this->writers_);
    add_tags(*this->tags_, histories, next->found);  // last of what can fail; most are there already
    records.keep();
    pools.set_era(era);
    this->writers_->use(records, this->generation_);
    for (pool* p : pools.files()) p->set_used_end(now.ends[p->number()]);
    this->shared_->recovered = totals_of(next->found);
    this->shared_->superseded_recovered = 0;
    this->shared_->writers.filled.forget(now.version);
    store.replaced_bytes = 0;  // the process that writes knows of it
    store.replace(std::move(prepared));
    // E3: the engine first, which shows the version from then on: what it showed before may have expired there. Who
    // knows the version learned of it from that engine, or from the clock.
    store.observed_clock.store(clock_of(now), std::memory_order_seq_cst);
  }
  store.shared->closed_versions.ring();
  return now.version;
}

template class observed_engine<observed_heads>;
template class observed_engine<layered<observed_heads>>;

}  // namespace icecore::detail

// Packs a store while threads read and write it. docs/design/0033-compaction-beside-writers.md says why so.
//
//   1. The newest version is closed behind the gate (settle_version): what it shows is complete, and stays where it is.
//      The decision: what expires, which strata are merged.
//   2. Threads merge all records up to that version into extents. Others go on to write, in the same young generation.
//   3. In rounds: closes the newest version again, and makes a stratum of what was written since. Writers are slowed
//      meanwhile (slow_writers.hpp), so each round packs at most half of the one before, and a few records. The store's
//      own compactions slow them in 2, too, if they write more records than it merges.
//   4. The gate is shut. The last stratum is made, of what little was written since. Tags are written in segments of
//      the next era, and the manifest and both roots (A9, A10). From then on no record of the young generation counts.
//   5. Writers forget the segments that they had. The next engine, whose young generation is empty, becomes the current
//      one, and the gate opens. No write fell between 4 and 5: so each acknowledged write is in a stratum, or in a
//      segment of the new era.
//   6. When no pin is left on the engine of before, it ends, and its segments are free space.
//
// A crash before the first root of 4 leaves the store as it was, with segments that no manifest names; behind it, with
// all that was written before the gate was shut in strata: none of the writes that the old segments hold is missing.
// Opening treats both as after a compaction of a closed store (compaction.cpp), and gives back what is not named.
//
// Processes that share the store go on meanwhile, and follow (store/sharing/). If this one is killed amid 4 or 5, they
// complete the change.
//
// Locks, in this order: compacting, replacing, tag_mutex and the one beside it (certifying_turn), the one of the
// queries, the gate.
#include <algorithm>
#include <chrono>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "base/raise.hpp"
#include "index/make_index.hpp"
#include "pool/query/query_space.hpp"
#include "store/engine.hpp"
#include "store/open/opening.hpp"
#include "store/packed/compacting/compaction_turn.hpp"
#include "store/packed/compacting/packing.hpp"
#include "store/packed/compacting/slow_writers.hpp"
#include "store/packed/retention/holds.hpp"
#include "store/sharing/compaction_asker.hpp"
#include "store/sharing/generations.hpp"

namespace icecore::detail {
namespace {

/// So little is packed while writers wait, in records and in bytes; but for bytes, of which a few records may have
/// more.
constexpr std::uint64_t last_records_max = 2048;
constexpr std::uint64_t last_bytes_max = std::uint64_t{8} << 20;
constexpr std::uint64_t last_records_few = 8;
/// Writers are slowed so that each round is at most half of the one before, and a few operations: these are enough for
/// any number of records.
constexpr unsigned rounds_max = 32;
/// Writers of a store that processes share are not slowed: a process that is killed here would leave them slow.
constexpr unsigned rounds_of_shared = 6;
/// Of a round, when it begins, whatever has been packed in it: in records and in bytes.
constexpr std::uint64_t round_records_at_once = last_records_max / 4;
constexpr std::uint64_t round_bytes_at_once = last_bytes_max / 8;
/// Each two records that a round packs let one be written.
constexpr std::uint64_t records_for_each = 2;

/// A query, a feed or a hold needs a version that was about to expire.
struct decision_is_old {};

class live_packing final : packing {
 public:
  /// While the gate is shut and the queries' lock is held: it looks for requests to forget.
  live_packing(opened_store& store, held_engine of, const compaction_options& how, pace& slow, compacts why,
               changes_before before)
      : packing(*of, how, before),
        store_(&store),
        of_(std::move(of)),
        slow_(&slow),
        by_itself_(why),
        writers_(*store.writers),
        is_shared_(core_->shares()) {}

  [[nodiscard]] change_done run() {
    forgotten_.require_intact(*pools_);
    report_.bytes_before = bytes_on_device(*pools_);
    version low = 0;
    at_one_instant([&] { low = core_->settle_version(); });
    if (how_->together != nullptr) {
      // Other stores may have closed later versions at that instant, and this one with them. The gate: a thread or
      // process may have closed one since, in which a write is still under way.
      const writer_set::gate stopped(*store_->writers);
      low = core_->clock().now() - 1;
    }
    report_.up_to = low;
    range_list held;
    {
      query_space queries(*pools_, store_->shared->queries);
      // What a process that was killed before this opening has stored of a release may be in the caches alone: nothing
      // expires by it before it is durable.
      if (queries.ever_used()) queries.finish();
      const recovering_lock no_query = queries.hold();
      decide();
      if (how_->together != nullptr) held = in_order(versions_in_use(*pools_, store_->shared->queries, low));
    }
    if (how_->together != nullptr) choose_expired(std::move(held));
    choose_strata();
    report_.strata = core_->packed() == nullptr ? 0 : core_->packed()->all().size();
    if (!is_anything_to_do()) {
      // versions and tags without a record are durable then, too
      if (!how_->dry_run) at_one_instant([&] { core_->sync(); });
      return ended();
    }
    if (how_->dry_run) {
      count({0, low}, slow_);
      return done();
    }
    try {
      written before = all_written();
      if (by_itself_ == compacts::by_itself && !is_shared_) {
        writers_.begin(std::max(before.records, last_records_max), 1);
      }
      counts_ = {.young = before.records};
      merged first = merge_all({0, low}, slow_);
      made_.push_back(std::move(first.young));
      range_ = std::move(first.range);
      counts_.merged = records_read();
      pools_->persist().sync();
      // each closes a version
      if (how_->together != nullptr) {
        writers_.end();  // nobody waits for other stores
      } else {
        low = pack_rounds(low, before);
      }
      last_round_from_ = before.records;
      at_one_instant([&] { finish(low); });
    } catch (...) {
      if (!is_finished_) give_up();  // else another store failed at that instant
      throw;
    }
    report_.packed = true;
    report_.versions_expired = newly_expired_;
    return ended();
  }

 private:
  /// Closes a version. Other stores may do so with this one.
  template <typename Work>
  void at_one_instant(const Work& work) const {
    how_->together == nullptr ? work() : how_->together->at_one_instant(work);
  }
  [[nodiscard]] change_done ended() {
    of_.reset();  // this was one of the pins that space waits for
    give_back_replaced();
    report_.bytes_after = bytes_on_device(*pools_);
    return done();
  }
  /// Since the store was opened, or packed.
  struct written {
    std::uint64_t records;
    std::uint64_t bytes;
  };
  [[nodiscard]] written all_written() const {
    const writer_set::gate stopped(*store_->writers);
    return all_written(stopped);
  }
  [[nodiscard]] written all_written(const writer_set::gate& /*shut*/) const {
    const record_totals t = store_->writers->totals();
    return {t.inserts + t.removes, t.record_bytes};
  }

  /// Step 3. Returns the version up to which all is in strata then; `before`: what had been written up to it.
  [[nodiscard]] version pack_rounds(version low, written& before) {
    const unsigned rounds = is_shared_ ? rounds_of_shared : rounds_max;
    for (unsigned round = 0; round < rounds; ++round) {
      const written now = all_written();
      const std::uint64_t records = now.records - before.records;
      const std::uint64_t bytes = now.bytes - before.bytes;
      const bool is_little = records <= last_records_max - round_records_at_once &&
                             (bytes <= last_bytes_max - round_bytes_at_once || records <= last_records_few);
      const std::uint64_t of_each = std::max<std::uint64_t>(1, bytes / std::max<std::uint64_t>(1, records));
      const std::uint64_t at_once = std::clamp<std::uint64_t>(round_bytes_at_once / of_each, 1, round_records_at_once);
      if (!is_shared_) writers_.begin(at_once, records_for_each);
      if (is_little) break;
      before = now;
      ++counts_.rounds;
      const version high = core_->settle_version();
      made_.insert(made_.begin(), merge_new({low, high}, slow_));
      pools_->persist().sync();
      low = high;
    }
    return low;
  }

  /// Steps 4 and 5. `low`: everything up to it is in strata that are durable.
  void finish(version low) {
    const std::scoped_lock one_engine(store_->replacing);
    const certifying_turn no_sync(*store_);
    query_space queries(*pools_, store_->shared->queries);
    const recovering_lock no_query = queries.hold();
    const auto begin = std::chrono::steady_clock::now();
    {
      const writer_set::gate stopped(*store_->writers);
      writers_.end();  // when the gate opens
      core_->check_usable();
      const std::uint64_t records = all_written(stopped).records;
      counts_.written = records - counts_.young;
      counts_.last_round = records - last_round_from_;
      store_->last_compaction = counts_;
      const version high = core_->settle_version(stopped);
      report_.up_to = high;
      require_decision(high);
      are_writers_stopped_ = true;
      if (high > low) made_.insert(made_.begin(), merge_new({low, high}, nullptr));
      const manifest now = core_->packing();
      manifest next = next_manifest(made_, range_, greatest_era() + 1);
      auto& generations = store_->shared->generations;
      const std::uint64_t number = store_->writers->generation() + 1;
      std::uint64_t written_bytes = 0;  // in segments
      for (const segment_tail& each : store_->writers->segment_tails()) written_bytes += each.in.size;
      const std::uint32_t arena = free_arena();
      std::optional<opened_store::replacement> prepared;
      pools_->set_era(next.era);  // from here on every error takes it back: of another era no record counts
      try {
        std::vector<segment_tail> segments = write_tags();
        add_from_free_space(segments, written_bytes);
        store_->writers->prepare_generation(segments);
        begin_versions_of_feeds_again();
        store_manifest(*pools_, now, next);
        store_parts parts = next_parts(next, arena);  // behind that: the manifest has its number and its place
        rebuilt_parts own = rebuilt_parts_of(parts);
        own.histories = std::make_unique<rebuilt_histories>(history_parts_of(parts));
        auto engine = make_engine<rebuilt_engine, rebuilt_heads>(std::move(parts), std::move(own));
        if (is_shared_) engine->share_tags();
        prepared.emplace(store_->prepare_replacing(std::move(engine)));
        store_->replaced_arenas.reserve(store_->replaced_arenas.size() + 1);
        // All that no manifest names then, also what earlier compactions left: the pins that it waits for are of this
        // engine, too.
        replaced_ = outdated_segments(*pools_, next);
      } catch (...) {
        pools_->set_era(now.era);
        throw;
      }
      // relaxed: ordered by the generation's number (R1)
      generations.of[number % 2].era.store(next.era, std::memory_order_relaxed);
      generations.of[number % 2].arena.store(arena, std::memory_order_relaxed);
      generations.change.manifest = next.number;
      generations.change.newest = high;
      generations.change.left = left_;
      generations.change.to.store(number, std::memory_order_release);  // R2; release: with the fields before it
      is_named_ = true;                                                // a root may lead to it from here on
      try {
        begin_next(std::move(*prepared), next, number, high);
      } catch (...) {
        give_up();  // before the gate opens: a write that came then would be acknowledged, and be lost
        throw;
      }
    }
    report_.writers_stopped =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
    store_->shared->closed_versions.ring();
    is_finished_ = true;
  }

  /// Under the gate: has a root lead to the next manifest, and makes the engine over it the current one.
  void begin_next(opened_store::replacement by, const manifest& next, std::uint64_t number, version high) {
    if (store_->settled != nullptr) {
      store_->settled->publish(high);   // B4: what was published before may have expired in what the root leads to
      store_->settled->publish_ends();  // B5: those of the tags' segments, too
    }
    pools_->roots().update_both([&](format::root& r) { note_packed(r, next); });
    for (pool* p : pools_->files()) p->forget_used_end();
    store_->replaced_space = std::move(replaced_);
    store_->replaced_bytes = bytes_of(store_->replaced_space);
    // relaxed: a count
    store_->packing_bytes.fetch_add(left_.record_bytes + manifest_size(next), std::memory_order_relaxed);
    if (is_shared_) store_->replaced_arenas.push_back(current_arena());
    store_->shared->recovered = left_;
    store_->shared->superseded_recovered = 0;
    store_->writers->begin_generation(number, high);
    store_->shared->generations.change.to.store(0, std::memory_order_release);
    if (store_->as_asked.grow_in_background) by.engine->grow_in_background();  // takes no memory: it did before
    store_->replace(std::move(by));
    if (store_->synced != nullptr) store_->synced->advance(high);
    if (store_->settled != nullptr) store_->settled->publish(high);
  }

  /// Only this process knows of free space, and others write, too: for them, segments are made of it, as many as the
  /// writers of this generation have filled, but so few that writers wait for no longer.
  void add_from_free_space(std::vector<segment_tail>& to, std::uint64_t bytes) const {
    constexpr std::size_t at_most = 16;
    constexpr std::uint64_t largest = std::uint64_t{4} << 20;
    if (!is_shared_) return;
    std::size_t made = 0;
    for (const pool* file : pools_->files()) {
      for (; made < at_most && bytes >= format::granule_size; ++made) {
        const std::uint64_t size = std::min({file->largest_free_bytes(), bytes, largest});
        if (size < format::granule_size) break;
        const segment s = pools_->allocate(size - sizeof(format::segment_header), file->number());
        to.push_back({s, s.first_record()});
        bytes -= std::min(bytes, s.size);
      }
    }
  }
  /// Queries, feeds and holds that were made since the decision may need what was about to expire.
  void require_decision(version high) const {
    if (newly_expired_ == 0) return;
    for (const version_range& held : versions_in_use(*pools_, store_->shared->queries, high)) {
      for (const version_range& each : expired_) {
        const version first = std::max(each.first, held.first);
        const version end = std::min(each.end, held.end);
        if (first < end && !has_all_expired(first, end)) throw decision_is_old();
      }
    }
  }
  /// Whether all of them had expired before.
  [[nodiscard]] bool has_all_expired(version first, version end) const {
    return std::ranges::any_of(core_->expired(),
                               [&](const version_range& each) { return each.first <= first && end <= each.end; });
  }

  /// Of the shared file: which has the index of now.
  [[nodiscard]] std::uint32_t current_arena() const noexcept {
    const auto& generations = store_->shared->generations;
    // relaxed: only a compaction changes it
    return generations.of[store_->writers->generation() % 2].arena.load(std::memory_order_relaxed);
  }
  /// 0 if no processes share the store.
  [[nodiscard]] std::uint32_t free_arena() const {
    std::uint32_t number = 1;
    while (number == current_arena() ||
           std::ranges::find(store_->replaced_arenas, number) != store_->replaced_arenas.end())
      ++number;
    return is_shared_ ? number : 0;
  }
  [[nodiscard]] std::shared_ptr<index::arena> shared_index_memory(std::uint32_t arena) const {
    try {
      return store_->memory->make_sibling(arena, store_->as_asked.huge_pages);
    } catch (const std::bad_alloc&) {
      raise(errc::no_space, "{}: no room for another index in the memory that the processes share",
            pools_->file().path().native());
    }
  }
  /// What the engine that follows is made of: an empty index in memory, over the manifest's strata.
  [[nodiscard]] store_parts next_parts(const manifest& next, std::uint32_t arena) const {
    store_parts parts = core_->parts_of_next();
    parts.packing = next;
    parts.packed = open_strata(*pools_, next, store_->as_asked.block_cache_bytes);
    const bool huge_pages = store_->as_asked.huge_pages;
    parts.index_memory = arena != 0 ? shared_index_memory(arena)
                                    : std::make_shared<index::arena>(index::arena_options{
                                          .huge_pages = huge_pages, .size_max_bytes = 2 * pools_->capacity()});
    parts.lookups = std::make_unique<index::lookup_cache>(store_->as_asked.lookup_cache_bytes,
                                                          store_->as_asked.huge_pages, &store_->lookups);
    return parts;
  }

  /// Step 6, if nobody looks at it any more. If somebody does, a later call does it, or automatic compaction.
  void give_back_replaced() {
    constexpr std::chrono::milliseconds at_most(10);
    constexpr std::chrono::milliseconds of_shared = at_most + 2 * ticking_task::interval;  // others look that often
    constexpr std::chrono::milliseconds between(1);
    // for reads that end about now
    const auto until = std::chrono::steady_clock::now() + (is_shared_ ? of_shared : at_most);
    while (!store_->nobody_looks() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(between);
    if (report_.packed) {
      store_->forgets.reset();
      const bool is_done = !forgotten_.segments().empty() && !is_forgotten_key_written_;
      if (is_done) store_->forgets = std::make_unique<forgetting>(forgotten_);
    }
    bool is_done = store_->give_back_replaced();
    // for runs of queries that were dropped, which end when they look at the phase the next time
    while (!is_done && store_->replaced_space.empty() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(between);
      is_done = store_->give_back_replaced();
    }
    report_.erased = is_done && !is_forgotten_key_written_;
  }

  /// Nothing leads to what was made, unless it is in doubt whether a root does.
  void give_up() noexcept {
    if (is_named_) return poison();
    try {
      std::vector<segment> unused;
      made_.push_back(std::move(range_));
      for (const stratum_parts& parts : made_) {
        for (const key_part& part : parts) {
          for (const format::named_extent& each : part.made) unused.push_back(pools_->segment_at(each.segment));
        }
      }
      for (const segment& s : give_back(*pools_, std::move(unused))) pools_->add_free(s.offset, s.size);
    } catch (...) {  // the next opening gives it back
    }
  }

  void note_packed_records(std::uint64_t records) override { writers_.packed(records); }

  opened_store* store_;
  std::optional<held_engine> of_;
  pace* slow_;
  compacts by_itself_;
  slow_writers writers_;
  std::uint64_t last_round_from_ = 0;  // all_written().records
  decltype(opened_store::last_compaction) counts_;
  bool is_shared_;                   // processes share the store
  std::vector<stratum_parts> made_;  // youngest first
  std::vector<segment> replaced_;
  stratum_parts range_;
  bool is_named_ = false;
  bool is_finished_ = false;
};

}  // namespace

compaction_report opened_store::compact(const compaction_options& how) {
  if (asks != nullptr) return asks->compact(how);
  pace slow(how.bytes_per_second);
  return compact(how, slow, compacts::by_call);
}

compaction_report opened_store::compact(const compaction_options& how, pace& slow, compacts why) {
  check(how);
  check_usable();
  const compaction_turn one_at_a_time(*this);
  hold()->check_writable();
  // Readers beside this process that have refreshed since look at what the last one made, which this one replaces.
  if (!how.dry_run) static_cast<void>(give_back_replaced());
  const auto change = [&](changes_before before) {
    constexpr unsigned tries = 3;
    for (unsigned n = 1;; ++n) {
      held_engine now = hold();
      now->check_writable();
      std::optional<live_packing> work;
      {
        query_space queries(*pool, shared->queries);
        const recovering_lock no_query = queries.hold();
        const writer_set::gate stopped(*writers);
        work.emplace(*this, std::move(now), how, slow, why, before);
      }
      try {
        return work->run();
      } catch (const decision_is_old&) {
        if (n == tries) {
          raise(errc::query_busy,
                "{}: queries, feeds and holds that need versions that are about to expire are made all the time; try "
                "again",
                pool->file().path().native());
        }
      }
    }
  };
  return make_changes(change);
}

}  // namespace icecore::detail

#include "store/core.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/query/query_space.hpp"
#include "store/packed/retention/holds.hpp"

namespace icecore {

std::uint64_t process_huge_page_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  std::uint64_t kibibytes = 0;
  for (std::string name; in >> name;) {
    std::uint64_t n = 0;
    if (name == "AnonHugePages:" || name == "ShmemPmdMapped:" || name == "FilePmdMapped:") {
      if (in >> n) kibibytes += n;
    }
    in.ignore(1 << 16, '\n');
  }
  return kibibytes * 1024;
}

}  // namespace icecore

namespace icecore::detail {

store_core::store_core(store_parts&& parts, heads_kind heads, const history_base& records, const entry_keys& keys,
                       index::ordered_index& index, tag_catalog& catalog)
    : opened_(parts.store),
      generation_(parts.generation),
      views_(std::move(parts.views)),
      pool_(opened_->pool.get()),
      persist_(&pool_->persist()),
      clock_(opened_->clock.get()),
      shared_(opened_->shared),
      writers_(opened_->writers.get()),
      checked_(opened_->checked.get()),
      tags_(opened_->tags.get()),
      synced_(opened_->synced.get()),
      index_memory_(std::move(parts.index_memory)),
      lookups_(std::move(parts.lookups)),
      packing_(std::move(parts.packing)),
      packed_(std::move(parts.packed)),
      records_(&records),
      keys_(&keys),
      index_(&index),
      catalog_(&catalog),
      heads_(heads),
      read_only_(!pool_->shared()),
      beside_writer_(parts.beside_writer),
      no_writeback_stalls_(pool_->durability().medium != medium::block_device),
      kind_(parts.kind),
      fork_generation_(fork_generation()),
      recovery_seconds_(parts.recovery_seconds),
      recovered_from_crash_(parts.recovered_from_crash),
      took_index_over_(parts.recovered_instantly),
      findings_(std::move(parts.findings)),
      stand_ins_(std::move(parts.stand_ins)),
      accepts_damage_(parts.accepts_damage),
      attached_(parts.attached),
      shared_as_(std::move(parts.shared_as)) {
  if (packed_ != nullptr) {
    packed_links_.emplace(index, records.space(), *packed_);
    if (packed_->frames() != nullptr) packed_->frames()->watch(&opened_->pins);
  }
  note_unknown_versions();
}

store_parts store_core::parts_of_next() const {
  store_parts parts;
  parts.store = opened_;
  parts.pool = pool_;
  parts.memory = opened_->memory;
  parts.shared = shared_;
  parts.clock = clock_;
  parts.writers = writers_;
  parts.checked = checked_;
  parts.tags = tags_;
  parts.synced = synced_;
  parts.kind = kind_;
  const format::root root = pool_->roots().read();
  static_assert(sizeof parts.hash_seed == sizeof root.hash_seed);
  std::memcpy(parts.hash_seed.data(), root.hash_seed, sizeof root.hash_seed);
  parts.attached = attached_;
  parts.shared_as = shared_as_;
  parts.generation = generation_ + 1;
  parts.recovery_seconds = recovery_seconds_;
  parts.recovered_from_crash = recovered_from_crash_;
  parts.recovered_instantly = took_index_over_;
  return parts;
}

void store_core::grow_in_background() {
  pool_->grow_in_background({index_memory_.get(), lookups_.get()});
  lookups_->grow_elsewhere([pools = pool_] { return pools->ask_background(); });
}

store_core::~store_core() = default;

pin_table::memory store_core::memory_of_views() const {
  pin_table::memory found;
  for (const pool* p : pool_->files()) found.push_back(p->memory());
  if (stand_ins_ != nullptr) found.push_back(stand_ins_);
  if (views_ != nullptr) found.push_back(views_);
  for (std::uint32_t i = 0; packed_ != nullptr && i < packed_->extents(); ++i) {
    if (auto inflated = packed_->extent_at(i).inflated_memory()) found.push_back(std::move(inflated));
  }
  return found;
}

void store_core::close_in_destructor() noexcept {
  if (is_closed_ || fork_generation_ != fork_generation()) return;
  try {
    close();
  } catch (...) {  // call close() to learn of errors
  }
}

void store_core::raise_unusable() const {
  if (fork_generation_ != fork_generation()) {
    raise(errc::forked, "{}: used in a forked child of the process that opened it; open it again in the child",
          pool_->file().path().native());
  }
  if (pool_->persist().poisoned()) pool_->persist().raise_poisoned();
  raise(errc::closed, "{}: the process that shared the store has closed it", pool_->file().path().native());
}

void store_core::raise_read_only() const {
  raise(errc::read_only, "{}: was opened for reading only", pool_->file().path().native());
}

void store_core::raise_not_closed(version v) const {
  if (beside_writer_) {
    raise(errc::version_not_closed,
          "version {} is not settled: {} is the newest that the process which writes the store had published when it "
          "was read; refresh() reads what was published since",
          v, newest_readable());
  }
  raise(errc::version_not_closed, "version {} is not closed yet: the open version is {}; tag() closes it", v,
        clock_->now());
}

namespace {

std::string named(const version_range& all) {
  if (all.first + 1 == all.end) return fmt::format("version {}", all.first);
  return fmt::format("the versions from {} to {}", all.first, all.end - 1);
}

}  // namespace

void store_core::raise_lost(version v) const {
  const auto behind = std::ranges::find_if(lost().ranges(), [v](const version_range& each) { return v < each.end; });
  raise(
      errc::version_lost,
      "{}: version {} is lost: a power cut took what was not durable yet of {}; what lies before and after can be read",
      pool_->file().path().native(), v, named(*behind));
}

void store_core::check_known(version v) const {
  if (lost().contains(v)) raise_lost(v);
  refuse_expired(v, v);
}

void store_core::refuse_expired(version from, version to) const {
  const auto& all = packing_.expired;
  const auto found = std::ranges::upper_bound(all, from, {}, &version_range::end);
  if (found == all.end() || found->first > to) return;
  const version v = std::max(from, found->first);
  raise(
      errc::version_expired,
      "{}: version {} has expired: a compaction gave up {}, as the store's retention says; what lies before and after "
      "can be read{}",
      pool_->file().path().native(), v, named(*found),
      from == to ? "" : "; what was written from one version to another is known where none between them has expired");
}

void store_core::note_unknown_versions() noexcept {
  all_known_from_ = 0;
  if (!lost().empty()) all_known_from_ = lost().ranges().back().end;
  if (!packing_.expired.empty()) all_known_from_ = std::max(all_known_from_, packing_.expired.back().end);
}

void store_core::raise_attached() const {
  if (!opened_->memory->is_held(writer_set::first_process)) {
    raise(errc::invalid_argument,
          "{}: this process is attached to the store; only the process that opened it may do this, and it has ended; "
          "end all attached processes and open the store again",
          pool_->file().path().native());
  }
  raise(errc::invalid_argument,
        "{}: this process is attached to the store; only the process that opened it and shares it may do this",
        pool_->file().path().native());
}

void store_core::keep_queries() const {
  if (!beside_writer_ || pool_->first().file().observe()) return;
  raise(errc::read_only,
        "{}: another process writes the store, and the file system has no locks by which it would learn that this one "
        "reads its kept queries; read them there, or in a process that is attached to it (options::shared_as)",
        pool_->file().path().native());
}

// ---- About itself ----

namespace {

/// As of now: the process that writes gives out free space, and tells nobody.
std::uint64_t free_beside_writer(const pool_set& pools) {
  std::uint64_t sum = 0;
  for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
    const bool is_known = link_offset(s.end()) <= pools.of(s.offset).used_end();
    if (h.magic == format::free_segment_magic && is_known) sum += s.size;
  });
  return sum;
}

}  // namespace

statistics store_core::stats() const {
  check_usable();
  statistics s{};
  record_totals totals;
  std::uint64_t free_in_segments = 0;
  {
    const writer_set::gate stopped(*writers_);
    require_current();
    totals = young_totals();
    for (const auto& p : writers_->segment_tails()) free_in_segments += p.space();
    s.garbage_bytes = shared_->superseded_recovered + writers_->counts().superseded_bytes;
    const auto [given, written] = writers_->since_opening();
    s.given_bytes = given;
    s.written_bytes = written;
  }
  const format::root root = pool_->roots().read();
  s.keys = s.keys_at_least = totals.keys;
  s.records = totals.inserts + totals.removes;
  s.removes = totals.removes;
  if (packed_ != nullptr) {
    for (const stratum::strata::range& each : packed_->all()) {
      s.keys_at_least = std::max(s.keys_at_least, packed_->keys_in(each));
    }
    s.keys += packed_->keys();
    s.records += packed_->records();
    s.removes += packed_->removals();
    totals.key_bytes += packed_->key_bytes();
    totals.value_bytes += packed_->value_bytes();
    for (const format::named_value& each : packing_.values) {  // nothing else of its segment is used
      s.garbage_bytes += pool_->segment_at(each.segment).size - each.size;
    }
    s.packed_keys = packed_->keys();
    s.packed_records = packed_->records();
    s.packed_bytes = packed_->media_bytes();
    s.packed_inflated_bytes = packed_->bytes();
    s.strata = packed_->all().size();
    if (packed_->frames() != nullptr) {
      const stratum::frame_cache::counts frames = packed_->frames()->now();
      s.block_cache_bytes_max = frames.bound;
      s.block_cache_bytes = frames.bytes;
      s.block_cache_hits = frames.hits;
      s.block_cache_misses = frames.misses;
    }
  }
  s.tags = tags().size();
  s.clock = clock_->now();
  s.key_bytes = totals.key_bytes;
  s.value_bytes = totals.value_bytes;
  for (std::uint16_t n = 0; n < pool_->count(); ++n) {
    const pool* p = pool_->find(n);
    if (p == nullptr) continue;
    s.files.push_back({p->file().path().native(), pool_->node_of(n), p->file().size(), p->used_end()});
    s.free_bytes += p->file().size() - p->used_end() + p->free_bytes();
    s.used_bytes += s.files.back().used_bytes - format::first_segment_offset - p->free_bytes();
    s.file_bytes += s.files.back().file_bytes;
  }
  if (beside_writer_) free_in_segments += free_beside_writer(*pool_);
  s.used_bytes -= free_in_segments;
  s.free_bytes += free_in_segments;
  s.index_bytes = index_->memory_bytes() + lookups_->bytes();
  s.recovery_seconds = recovery_seconds_;
  s.recovered_from_crash = recovered_from_crash_;
  s.path = pool_->file().path().native();
  s.pool_id = pool_->id();
  s.format_major = root.version_major;
  s.format_minor = root.version_minor;
  s.index = kind_;
  s.recovered_instantly = took_index_over_;
  s.durability = pool_->durability();
  opened_->add_to(s);
  s.live_bytes = s.used_bytes - std::min(s.used_bytes, s.garbage_bytes);
  if (!beside_writer_ || pool_->first().file().observe()) {
    query_space queries(*pool_, shared_->queries);
    std::optional<recovering_lock> no_query;
    if (!beside_writer_) no_query.emplace(queries.hold());
    for (const version_range& each : versions_in_use(*pool_, shared_->queries, clock_->now() - 1)) {
      s.oldest_held = std::min(s.oldest_held.value_or(each.first), each.first);
    }
  }
  return s;
}

}  // namespace icecore::detail

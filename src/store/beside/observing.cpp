// A reader's view is a function of the records that it has read: its index leads to the entries among them, its heads
// to the newest of each entry's records. So whatever the writer does meanwhile, a version never changes here. refresh()
// adds the records that were settled since. It raises heads and extends the index first, and only then moves the clock:
// who reads a version finds all of its records, and who reads an older one walks past those that are newer (H1).
#include "store/beside/observing.hpp"

#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/open/opening.hpp"
#include "store/open/sorted_entries.hpp"

namespace icecore::detail {
namespace {

/// The records of `parts` become the newest ones of their entries where they are. By as many threads as there are
/// parts.
void raise_heads(observed_histories& histories, const std::vector<settled_part>& parts) {
  std::size_t updates = 0;
  for (const settled_part& part : parts) updates += part.updates.size();
  histories.heads().reserve(updates);
  run_on_threads(static_cast<unsigned>(parts.size()), [&](unsigned t) {
    for (const link update : parts[t].updates) {
      const record r = histories.at(update);
      const std::uint32_t depth = r.header().depth;
      histories.heads().raise(r.as_update().entry, update,
                              [&](link known) { return histories.at(known).header().depth < depth; });
    }
  });
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
  for (const settled_part& part : parts) entries.emplace_back(part.entries);
  entries_in_order sorted = sort_entries(std::move(entries), space);
  if (sorted.of_one_key) {
    const auto [one, other] = *sorted.of_one_key;
    raise(errc::damaged, "{}: damaged at byte {} (entry): the key is entered twice, also at {}", pools.origin(other),
          link_offset(other), pools.place_of(one));
  }
  return std::move(sorted.entries);
}

}  // namespace

std::unique_ptr<store_core> open_beside_writer(const std::filesystem::path& path, const options& opening) {
  const auto begin = std::chrono::steady_clock::now();
  store_parts parts;
  parts.pool = std::make_unique<pool_set>(path, opening, beside_writer{});
  pool_set& pools = *parts.pool;
  observed_parts own;
  const format::root root = pools.roots().read();
  parts.packing = manifest_of(pools);
  own.records = std::make_unique<settled_records>(pools, parts.packing.era);
  const auto now = own.records->settled();
  if (!now) return nullptr;
  parts.packed = open_strata(pools, parts.packing);
  if (root.epoch != now->epoch) return nullptr;  // another process has begun to open it

  parts.memory = std::make_shared<index::arena>(index::arena_options{.huge_pages = opening.huge_pages});
  parts.shared = &shared_state::make_in(*parts.memory);
  own.clock = std::make_unique<std::atomic<std::uint64_t>>(now->version + 1);
  parts.clock = std::make_unique<version_clock>(*own.clock, &pools.roots(), version_max);
  parts.writers = std::make_unique<writer_set>(pools, *parts.memory, parts.shared->writers);
  parts.writers->use(*own.records);
  parts.lookups = std::make_unique<index::lookup_cache>(opening.lookup_cache_bytes, opening.huge_pages);
  parts.checked = std::make_unique<checked_values>(pools);
  parts.tags = std::make_unique<tag_index>();
  parts.kind = static_cast<index_kind>(root.index);
  std::memcpy(parts.hash_seed.data(), root.hash_seed, sizeof root.hash_seed);
  parts.lost = lost_versions_of(root);
  parts.beside_writer = true;

  const unsigned threads = pools.size() < (std::uint64_t{4} << 20) ? 1 : thread_count(opening.recovery_threads);
  const std::vector<settled_part> found = own.records->read(*now, threads, opening.on_progress);
  own.histories = std::make_unique<observed_histories>(history_parts_of(parts));
  rebuilt_parts like_rebuilt = rebuilt_parts_of(parts);
  own.keys = std::move(like_rebuilt.keys);
  own.index = std::move(like_rebuilt.index);
  own.tags = std::move(like_rebuilt.tags);
  raise_heads(*own.histories, found);
  own.index->build(in_key_order(pools, found, parts.space()), threads);
  add_tags(*parts.tags, *own.histories, found);
  own.records->keep();
  for (pool* p : pools.files()) p->set_used_end(now->ends[p->number()]);
  parts.shared->recovered = totals_of(found);
  parts.shared->newest_recovered = now->version;
  parts.recovery_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return make_engine<observed_engine, observed_heads>(std::move(parts), std::move(own));
}

template <class Heads>
version observed_engine<Heads>::refresh() {
  this->check_usable();
  const std::scoped_lock one_at_a_time(refreshing_);
  const version shown = this->clock_->now() - 1;
  const auto now = own_.records->settled();
  if (!now || now->version <= shown) return shown;
  if (const auto root = newest_root(this->pool_->first().base()); root && root->manifest != this->packing_.number) {
    raise(errc::closed,
          "{}: was packed (compact) since this reader opened it; what the reader has goes on to be valid, but to see "
          "what was written since, open the store again",
          this->pool_->file().path().native());
  }
  const std::vector<settled_part> found = own_.records->read(*now, 1, {});
  raise_heads(*own_.histories, found);
  for (const settled_part& part : found) {
    for (const link entry : part.entries) static_cast<void>(this->index_->insert(own_.keys->key_of(entry), entry));
  }
  {
    // a checkpoint's cut, and counts, are of one version
    const std::scoped_lock as_a_tag(this->tag_mutex_);
    const writer_set::gate stopped(*this->writers_);
    add_tags(*this->tags_, *own_.histories, found);  // last of what can fail
    own_.records->keep();
    for (pool* p : this->pool_->files()) p->set_used_end(now->ends[p->number()]);
    this->shared_->recovered.add(totals_of(found));
    this->shared_->writers.filled.forget(now->version);  // feeds find changes among all keys
    // seq_cst, as a tick (H3): who learns of the version sees its records
    own_.clock->store(now->version + 1, std::memory_order_seq_cst);
  }
  this->shared_->closed_versions.ring();
  return now->version;
}

template class observed_engine<observed_heads>;
template class observed_engine<layered<observed_heads>>;

}  // namespace icecore::detail

#include "store/packed/compacting/packing.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/background/progress_watch.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/query/feed_places.hpp"
#include "pool/query/query_space.hpp"
#include "store/engine.hpp"
#include "store/feed/written_keys.hpp"
#include "store/packed/compacting/packed_sources.hpp"
#include "store/packed/compacting/segment_target.hpp"
#include "store/packed/open_strata.hpp"
#include "store/packed/retention/holds.hpp"
#include "store/read/sorted_keys.hpp"

namespace icecore {

static_assert(packed_value_size_max == stratum::packed_value_max);

namespace detail {
namespace {

/// Fewer records are not worth a second thread.
constexpr std::uint64_t records_per_range_min = 100'000;
constexpr unsigned ranges_per_thread = 4;

[[nodiscard]] std::uint64_t bytes_of(const tag_info& tag) noexcept {
  return record_layout::of_tag(tag.name.size(), tag.note.size()).size() + 2 * format::record_padding_max;
}

}  // namespace

std::uint64_t bytes_on_device(const pool_set& pools) {
  std::uint64_t sum = 0;
  for (const pool* p : pools.files()) {
    struct stat about {};
    if (::fstat(p->file().descriptor(), &about) == 0) sum += static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
  return sum;
}

packing::packing(store_core& core, const compaction_options& how)
    : core_(&core), pools_(&core.the_pool()), how_(&how), forgotten_(*pools_) {}

std::uint64_t packing::young_records() const {
  const writer_set::gate stopped(core_->writers());
  const record_totals t = core_->young_totals();
  return t.inserts + t.removes;
}

bool packing::is_anything_to_do() const {
  // Segments, not keys: of a request that a crash has cut off, amid its being written or given back, no key is read,
  // but names of keys may be there.
  const bool something_expires = newly_expired_ != 0 || merges_thin_strata_;
  if (how_->only_if_expiring) return something_expires;
  const bool something_goes = something_expires || !forgotten_.segments().empty();
  return young_records() != 0 || merged_strata_ >= 2 || changes_form() || something_goes;
}

void packing::decide() {
  core_->keep_queries();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::vector<tag_info> tags = core_->tags().all();
  const auto lost = core_->lost().ranges();
  expired_ = expired_versions({.policy = core_->kept(),
                               .tags = tags,
                               .before = core_->packing().expired,
                               .lost = {lost.begin(), lost.end()},
                               .held = versions_in_use(*pools_, core_->shared().queries, report_.up_to),
                               .up_to = report_.up_to,
                               .now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                               .ranges_max = format::expired_ranges_max});
  newly_expired_ = versions_in(expired_) - versions_in(core_->packing().expired);
}

void packing::choose_expired(range_list held) {
  const range_list& before = core_->packing().expired;
  expired_ = in_order(how_->together->choose_expired(std::move(expired_), std::move(held)));
  const auto stays = [&](const version_range& each) {
    return std::ranges::any_of(expired_,
                               [&](const version_range& e) { return e.first <= each.first && each.end <= e.end; });
  };
  const bool keeps_newest = expired_.empty() || (expired_.front().first != 0 && expired_.back().end <= report_.up_to);
  if (!keeps_newest || !std::ranges::all_of(before, stays) || expired_.size() > format::expired_ranges_max) {
    raise(
        errc::invalid_argument,
        "compact: choose_expired returned {} ranges; they must have all versions that expired before, neither version "
        "0 nor the newest closed one, {}, and be at most {}",
        expired_.size(), report_.up_to, format::expired_ranges_max);
  }
  newly_expired_ = versions_in(expired_) - versions_in(before);
}

/// Whether versions have expired since the stratum was made, or do now, of which it may have records. A record goes
/// with the versions from its own on.
bool packing::may_thin(const stratum::strata::range& of) const {
  const manifest& now = core_->packing();
  version least = version_max;
  for (std::uint32_t i = of.begin; i < of.end; ++i) {
    if ((now.extents[i].flags & format::extent_may_thin) != 0) return true;
    least = std::min<version>(least, core_->packed()->extent_at(i).header().least);
  }
  for (const version_range& each : between(now.expired, least, version_max)) {
    if (has_any(expired_, each.first, each.end - 1)) return true;
  }
  return false;
}

void packing::choose_strata() {
  const stratum::strata* const packed = core_->packed();
  if (packed == nullptr) return;
  std::uint64_t merged = young_records();
  for (const auto& each : packed->all()) {
    std::uint64_t records = 0;
    std::uint64_t keys = 0;
    for (std::uint32_t i = each.begin; i < each.end; ++i) {
      records += packed->extent_at(i).header().records;
      keys += packed->extent_at(i).header().keys - (packed->goes_on(i) ? 1 : 0);
    }
    const bool thins = may_thin(each);
    const std::uint64_t may_go = merged + (thins ? records - std::min(records, keys) : 0);
    if (!how_->whole && records > 2 * may_go) break;
    merged += records;
    merges_thin_strata_ = merges_thin_strata_ || thins;
    ++merged_strata_;
  }
  // all that have a key that is to be forgotten
  for (std::size_t s = forgotten_.empty() ? packed->all().size() : merged_strata_; s < packed->all().size(); ++s) {
    const pin holds = core_->take_pin();  // blocks may be inflated for the search
    if (forgotten_.are_in(*packed, packed->all()[s])) merged_strata_ = s + 1;
  }
  total_ = merged;
}

/// Whether a stratum that is packed once more is compressed, and is not to be, or the other way round.
bool packing::changes_form() const {
  const stratum::strata* const packed = core_->packed();
  if (packed == nullptr || !how_->whole) return false;
  for (std::uint32_t i = 0; i < packed->extents(); ++i) {
    if (packed->extent_at(i).is_compressed() != (how_->compression == compression::zstd)) return true;
  }
  return false;
}

/// Where ranges of keys begin, for threads that work side by side.
template <class Engine>
packing::stratum_parts packing::cut_keys(const Engine& engine, unsigned threads) const {
  stratum_parts parts(1);
  const std::uint64_t packed = core_->packed() == nullptr ? 0 : core_->packed()->records();
  const std::uint64_t wanted =
      std::min<std::uint64_t>(std::uint64_t{threads} * ranges_per_thread,
                              young_records() / records_per_range_min + packed / records_per_range_min);
  if (threads == 1 || wanted < 2) return parts;
  std::shared_ptr<const sorted_keys> kept;
  const pin holds = core_->take_pin();
  for (const link l : in_key_order(engine, kept, threads).split_points(wanted - 1)) {
    std::string key(engine.key_of(l));
    if (key.empty() || (!parts.back().from.empty() && key <= parts.back().from)) continue;
    parts.back().to = key;
    parts.push_back({.from = std::move(key), .to = {}, .made = {}});
  }
  return parts;
}

packing::stratum_parts packing::merge_all(interval of, pace* slow) {
  if (!how_->dry_run) announce_packed_segments(*pools_);
  stratum_parts parts;
  with_engine(*core_, [&](const auto& engine) {
    const unsigned threads = thread_count(how_->threads);
    total_ = std::max(total_, young_records());
    std::optional<sorted_keys> sorted;  // of a young generation whose index has another order
    if (!engine.index().orders_keys()) sorted.emplace(engine, threads);
    const index::ordered_links& young = sorted ? static_cast<const index::ordered_links&>(*sorted) : engine.index();
    parts = cut_keys(engine, threads);
    merge_parts(engine, young, of, merged_strata_, parts, slow);
  });
  return parts;
}

packing::stratum_parts packing::merge_new(interval of, pace* slow) {
  stratum_parts parts(1);
  with_engine(*core_, [&](const auto& engine) {
    std::optional<sorted_keys> sorted;
    if (const auto found = entries_written(engine, of.low, of.high)) {
      auto all = sort_entries({std::span<const link>(*found)}, engine.records().space()).entries;
      sorted.emplace(engine, std::move(all));
    } else if (!engine.index().orders_keys()) {
      sorted.emplace(engine, 1);
    }
    const index::ordered_links& young = sorted ? static_cast<const index::ordered_links&>(*sorted) : engine.index();
    merge_parts(engine, young, of, 0, parts, slow);
  });
  return parts;
}

/// Merges the young records of the interval with the youngest `strata`.
template <class Engine>
void packing::merge_parts(const Engine& engine, const index::ordered_links& young, interval of, std::size_t strata,
                          stratum_parts& parts, pace* slow) {
  std::atomic<std::size_t> next{0};
  // The epoch of this opening was never used before, so extents of an earlier try do not pass for these.
  const format::root root = pools_->roots().read();
  const std::uint32_t seed_start = crc32c(pools_->codec().pool_seed(), root.epoch);
  std::vector<stratum::merge_totals> totals(parts.size());
  const unsigned workers = std::min(thread_count(how_->threads), static_cast<unsigned>(parts.size()));
  const unsigned watchers = how_->on_progress && !are_writers_stopped_ ? 1 : 0;  // the calling thread
  progress_watch watch(workers);
  run_on_threads(workers + watchers, [&](unsigned number) {
    try {
      if (number < watchers) return watch.until_end([&] { tell_progress(); });
      const progress_watch::end_of_one end(watch);
      building_room memory;
      // relaxed: only a work counter
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts.size();) {
        segment_target target(*pools_, pools_->number_for(number - watchers), seed_start,
                              {core_->opened().extents_made, core_->opened().packing_bytes}, memory, *how_, slow);
        counting_target only_counts(memory);
        auto& to = how_->dry_run ? static_cast<stratum::extent_target&>(only_counts) : target;
        totals[i] = merge_part(engine, young, of, strata, parts[i], to);
        parts[i].made = target.made();
      }
    } catch (...) {
      next.store(parts.size(), std::memory_order_relaxed);  // the others stop, too
      throw;
    }
  });
  for (const stratum::merge_totals& t : totals) {
    report_.records += t.kept;
    report_.records_dropped += t.read - t.kept;
    if (how_->dry_run) {
      report_.bytes_written += t.bytes;
      report_.keys += t.keys;
    }
  }
  for (const key_part& part : parts) {
    for (const format::named_extent& e : part.made) report_.bytes_written += e.size;
  }
}

template <class Engine>
stratum::merge_totals packing::merge_part(const Engine& engine, const index::ordered_links& young, interval of,
                                          std::size_t strata, const key_part& part, stratum::extent_target& target) {
  generation_records<Engine> first(engine, young, part.from, of.low, of.high);
  std::vector<std::unique_ptr<stratum_records>> older;
  std::vector<stratum::record_source*> sources{&first};
  for (std::size_t s = 0; s < strata; ++s) {
    older.push_back(std::make_unique<stratum_records>(*core_, core_->packed()->all()[s], part.from));
    sources.push_back(older.back().get());
  }
  const stratum::kept_versions kept = stratum::kept_versions::all_but(expired_);
  const bool is_oldest = of.low == 0 && (core_->packed() == nullptr || strata == core_->packed()->all().size());
  stratum::merge_rule rule{.kept = kept, .is_oldest = is_oldest};
  // what is forgotten was written before the interval of any later stratum
  if (of.low == 0 && !forgotten_.empty()) {
    rule.forgotten_up_to = [this](std::string_view key) { return forgotten_.up_to(key); };
  }
  rule.on_progress = [&](std::uint64_t records) {
    done_.fetch_add(records, std::memory_order_relaxed);  // a count
    note_packed_records(records);
  };
  return stratum::merge(sources, rule, {part.from, part.to}, target);
}

void packing::tell_progress() const {
  const std::uint64_t done = done_.load(std::memory_order_relaxed);  // relaxed: as above
  if (done != 0) how_->on_progress({"packing records", std::min(done, total_), total_, "records"});
}

compaction_report packing::counted(interval of) {
  const manifest& now = core_->packing();
  report_.versions_expired = newly_expired_;
  static_cast<void>(merge_all(of, nullptr));
  report_.strata = report_.strata - merged_strata_ + (report_.records != 0 ? 1 : 0);
  const auto in_granules = [](std::uint64_t bytes) {
    return format::round_up(bytes + sizeof(format::segment_header), format::granule_size);
  };
  // extents, the manifest and the tags; what is before the first segment
  report_.bytes_after = format::first_segment_offset + in_granules(report_.bytes_written) + 2 * format::granule_size;
  if (const stratum::strata* const packed = core_->packed()) {
    for (std::size_t s = merged_strata_; s < packed->all().size(); ++s) {
      for (std::uint32_t i = packed->all()[s].begin; i < packed->all()[s].end; ++i) {
        report_.bytes_after += in_granules(now.extents[i].size);
      }
    }
  }
  report_.bytes_after = std::min(report_.bytes_after, report_.bytes_before);
  return report_;
}

manifest packing::next_manifest(const std::vector<stratum_parts>& made, std::uint32_t era) {
  const manifest& now = core_->packing();
  manifest next;
  next.era = era;
  next.expired = expired_;
  std::uint32_t stratum = 0;
  for (const stratum_parts& parts : made) {
    const std::size_t before = next.extents.size();
    for (const key_part& part : parts) next.extents.insert(next.extents.end(), part.made.begin(), part.made.end());
    for (std::size_t i = before; i < next.extents.size(); ++i) next.extents[i].stratum = stratum;
    if (next.extents.size() != before) ++stratum;
  }
  note_beginnings(next);
  if (const stratum::strata* const packed = core_->packed()) {
    for (std::size_t s = merged_strata_; s < packed->all().size(); ++s, ++stratum) {
      const std::uint32_t thins = may_thin(packed->all()[s]) ? format::extent_may_thin : 0;
      for (std::uint32_t i = packed->all()[s].begin; i < packed->all()[s].end; ++i) {
        next.extents.push_back(now.extents[i]);
        next.extents.back().stratum = stratum;
        next.extents.back().flags |= thins;
      }
    }
  }
  const auto strata = open_strata(*pools_, next, 0);  // what was written can be read
  if (strata != nullptr) {
    next.greatest = strata->greatest();
    next.is_compressed = strata->frames() != nullptr;
    report_.strata = strata->all().size();
    const std::size_t old = core_->packed() == nullptr ? 0 : core_->packed()->all().size() - merged_strata_;
    for (std::size_t s = 0; s + old < strata->all().size(); ++s) {
      for (std::uint32_t i = strata->all()[s].begin; i < strata->all()[s].end; ++i) {
        report_.keys += strata->extent_at(i).header().keys - (strata->goes_on(i) ? 1 : 0);
      }
    }
  }
  return next;
}

/// What opening knows of an extent without reading its blocks.
void packing::note_beginnings(manifest& next) const {
  std::unique_ptr<const stratum::extent> before;
  std::uint32_t stratum = 0;
  for (format::named_extent& each : next.extents) {
    if (each.stratum != stratum) before.reset();
    stratum = each.stratum;
    auto extent = open_extent(*pools_, each);
    const stratum::block first = extent->block_at(0);
    each.first = first.row_at(first.rows_begin(0)).record.stamped;
    if (before != nullptr) {
      const stratum::block last = before->block_at(before->blocks() - 1);
      if (last.key(last.keys() - 1) == first.key(0)) each.flags |= format::extent_goes_on;
    }
    before = std::move(extent);
  }
}

void packing::begin_versions_of_feeds_again() const {
  const query_space space(*pools_, core_->shared().queries);
  if (!space.ever_used()) return;
  for (const link head : space.heads([](link, const std::string&) {})) {
    if (!feed_places::is_feed(space, head)) continue;
    const feed_places places(space, head);
    const auto newest = places.newest();
    if (!newest || newest->line.changes == 0 || newest->line.at > report_.up_to) continue;
    format::feed_place from_its_first = newest->line;
    from_its_first.changes = 0;
    places.store(1 - newest->number, newest->line.sequence + 1, from_its_first, newest->key);
  }
}

std::uint32_t packing::greatest_era() const {
  std::uint32_t greatest = core_->packing().era;
  for_each_segment(*pools_,
                   [&](const segment&, const format::segment_header& h) { greatest = std::max(greatest, h.era); });
  return greatest;
}

std::vector<segment_tail> packing::write_tags() {
  const std::vector<tag_info> tags = core_->tags().all();
  std::uint64_t left = 0;  // bytes that the rest takes, at most
  for (const tag_info& tag : tags) left += bytes_of(tag);
  std::vector<segment_tail> made;
  segment s{};
  link end = null_link;
  for (const tag_info& tag : tags) {
    const record_layout layout = record_layout::of_tag(tag.name.size(), tag.note.size());
    if (s.size == 0 || layout.place(end) + layout.size() > s.end()) {
      if (s.size != 0) {
        pools_->set_fill(s, end);
        made.push_back({s, end});
      }
      constexpr std::uint64_t most = (std::uint64_t{1} << 20) - sizeof(format::segment_header);
      s = pools_->allocate(std::max(std::min(most, left), bytes_of(tag)));
      // Before its records: these have versions that may be durable already. In a segment whose header, with its era, a
      // power cut took, they would count.
      pools_->persist().persist(pools_->at(s.offset), sizeof(format::segment_header));
      end = s.first_record();
    }
    left -= bytes_of(tag);
    const link at = layout.place(end);
    const record r(pools_->at(at));
    r.fill(layout, null_link, tag.name, tag.note);
    r.as_tag().time_ns = tag.time_ns;
    r.seal(pools_->codec().record_seed(s.generation, at));
    // relaxed: nothing leads here yet
    r.header().stamp.store(pools_->codec().encode(tag.version, at + format::stamp_offset), std::memory_order_relaxed);
    end = at + layout.size();
    pools_->persist().flush(r.address(), layout.size());
    left_.add(layout, false, record_digest(at, r.header().crc, tag.version));
  }
  if (s.size != 0) {
    pools_->set_fill(s, end);
    made.push_back({s, end});
  }
  return made;
}

void packing::note_packed(format::root& r, const manifest& next) const {
  name_manifest(r, next);
  r.anchor = null_link;
  r.clock = std::max(r.clock, report_.up_to);
  r.durable_version = report_.up_to;  // A14
  r.certificate = format::certificate_kind::proven;
  r.certified_records = left_.records;
  r.certified_sum = left_.digest;
}

}  // namespace detail
}  // namespace icecore

#include "store/packed/compacting/packing.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <unordered_set>
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

/// What is compressed has all of its values. After a request to forget no bytes are left beside a value.
[[nodiscard]] moves_values moves_by(const compaction_options& how, const forgotten_keys& forgotten) noexcept {
  if (how.compression == compression::zstd) return moves_values::all;
  return forgotten.segments().empty() ? moves_values::none : moves_values::unless_alone;
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

void add_further(compaction_report& to, const compaction_report& next) {
  to.packed = to.packed || next.packed;
  to.keys = next.keys;  // with those of the changes before it
  to.records = next.records;
  to.strata = next.strata;
  to.up_to = next.up_to;
  to.bytes_after = next.bytes_after;
  to.bytes_written += next.bytes_written;
  to.versions_expired += next.versions_expired;
  to.records_dropped += next.records_dropped;
  to.writers_stopped = std::max(to.writers_stopped, next.writers_stopped);
  to.erased = next.erased;
}

packing::packing(store_core& core, const compaction_options& how, changes_before before)
    : core_(&core),
      pools_(&core.the_pool()),
      how_(&how),
      forgotten_(*pools_),
      values_(*pools_, core.packing(), core.packed(), moves_by(how, forgotten_)),
      before_(before) {}

record_totals packing::young_totals() const {
  const writer_set::gate stopped(core_->writers());
  return core_->young_totals();
}

std::uint64_t packing::young_records() const {
  const record_totals t = young_totals();
  return t.inserts + t.removes;
}

bool packing::is_anything_to_do() const {
  // Segments, not keys: of a request that a crash has cut off, amid its being written or given back, no key is read,
  // but names of keys may be there.
  const bool something_expires = newly_expired_ != 0 || plan_.merges_thin_strata;
  if (how_->only_if_expiring && !before_.are_any) return something_expires;
  const bool something_goes = something_expires || !forgotten_.segments().empty();
  const bool has_several = plan_.with_young + (plan_.end - plan_.first) >= 2;
  return young_records() != 0 || has_several || plan_.goes_on || changes_form() || something_goes;
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

void packing::choose_strata() {
  const record_totals young = young_totals();
  plan_ = plan_merge({.core = *core_,
                      .how = *how_,
                      .expired = expired_,
                      .forgotten = forgotten_,
                      .young_records = young.inserts + young.removes,
                      .young_bytes = young.key_bytes + young.value_bytes,
                      .is_further = before_.are_any});
  total_ = plan_.records;
}

/// Whether a stratum that is packed once more is compressed, and is not to be, or the other way round.
bool packing::changes_form() const {
  const stratum::strata* const packed = core_->packed();
  if (packed == nullptr || !how_->whole || before_.are_any) return false;
  for (std::uint32_t i = 0; i < packed->extents(); ++i) {
    if (packed->extent_at(i).is_compressed() != (how_->compression == compression::zstd)) return true;
  }
  return false;
}

/// Where ranges of keys begin, for threads that work side by side, and those of the plan.
template <class Engine>
packing::stratum_parts packing::cut_keys(const Engine& engine, unsigned threads) const {
  std::vector<std::string> cuts = plan_.bounds;
  if (!plan_.from.empty()) cuts.push_back(plan_.from);
  if (plan_.to) cuts.push_back(*plan_.to);
  const std::uint64_t changes = plan_.bounds.size() + 1;
  const std::uint64_t packed = core_->packed() == nullptr ? 0 : core_->packed()->records();
  const std::uint64_t wanted =
      std::min<std::uint64_t>(std::uint64_t{threads} * ranges_per_thread * changes,
                              young_records() / records_per_range_min + packed / records_per_range_min);
  if (threads != 1 && wanted >= 2) {
    std::shared_ptr<const sorted_keys> kept;
    const pin holds = core_->take_pin();
    for (const link l : in_key_order(engine, kept, threads).split_points(wanted - 1))
      cuts.emplace_back(engine.key_of(l));
  }
  std::ranges::sort(cuts);
  stratum_parts parts(1);
  for (std::string& key : cuts) {
    if (key.empty() || key == parts.back().from) continue;
    parts.back().to = key;
    parts.push_back({.from = std::move(key)});
  }
  return parts;
}

packing::merged packing::merge_all(interval of, pace* slow) {
  if (!how_->dry_run) announce_packed_segments(*pools_);
  merged made;
  with_engine(*core_, [&](const auto& engine) {
    const unsigned threads = thread_count(how_->threads);
    total_ = std::max(total_, young_records());
    std::optional<sorted_keys> sorted;  // of a young generation whose index has another order
    if (!engine.index().orders_keys()) sorted.emplace(engine, threads);
    const index::ordered_links& young = sorted ? static_cast<const index::ordered_links&>(*sorted) : engine.index();
    stratum_parts all;
    std::size_t of_range = 0;  // the first ones
    for (const key_part& cut : cut_keys(engine, threads)) {
      const bool in_range = plan_.first < plan_.end && plan_.has(cut.from);
      if (in_range) {
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(of_range++),
                   {.from = cut.from,
                    .to = cut.to,
                    .has_young = plan_.is_one(),
                    .first_stratum = plan_.is_one() ? 0 : plan_.first,
                    .end_stratum = plan_.end});
      }
      if (!in_range || !plan_.is_one()) {
        all.push_back({.from = cut.from, .to = cut.to, .end_stratum = plan_.with_young});
      }
    }
    merge_parts(engine, young, of, all, slow);
    const auto behind = all.begin() + static_cast<std::ptrdiff_t>(of_range);
    made.range.assign(std::make_move_iterator(all.begin()), std::make_move_iterator(behind));
    made.young.assign(std::make_move_iterator(behind), std::make_move_iterator(all.end()));
  });
  return made;
}

packing::stratum_parts packing::merge_new(interval of, pace* slow) {
  stratum_parts parts(1);
  with_engine(*core_, [&](const auto& engine) {
    std::optional<sorted_keys> sorted;
    if (const auto found = entries_written(engine, of.low, of.high, few_of(engine.index().size()))) {
      auto all = sort_entries({std::span<const link>(*found)}, engine.records().space()).entries;
      sorted.emplace(engine, std::move(all));
    } else if (!engine.index().orders_keys()) {
      sorted.emplace(engine, 1);
    }
    const index::ordered_links& young = sorted ? static_cast<const index::ordered_links&>(*sorted) : engine.index();
    merge_parts(engine, young, of, parts, slow);
  });
  return parts;
}

/// Merges the young records of the interval, and what each part says, into the parts' extents.
template <class Engine>
void packing::merge_parts(const Engine& engine, const index::ordered_links& young, interval of, stratum_parts& parts,
                          pace* slow) {
  values_.look_at_segments();
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
                              {core_->opened().extents_made, core_->opened().packing_bytes}, memory,
                              {plan_.extent_bytes, how_}, slow);
        counting_target only_counts(memory, *how_, slow);
        auto& to = how_->dry_run ? static_cast<stratum::extent_target&>(only_counts) : target;
        totals[i] = merge_part(engine, young, of, parts[i], to);
        parts[i].made = target.made();
      }
    } catch (...) {
      next.store(parts.size(), std::memory_order_relaxed);  // the others stop, too
      throw;
    }
  });
  for (const stratum::merge_totals& t : totals) {
    read_ += t.read;
    report_.records_dropped += t.read - t.kept;
    if (how_->dry_run) {
      report_.bytes_written += t.bytes;
      report_.keys += t.keys;
      report_.records += t.kept;
    }
  }
  for (const key_part& part : parts) {
    for (const format::named_extent& e : part.made) report_.bytes_written += e.size;
  }
}

template <class Engine>
stratum::merge_totals packing::merge_part(const Engine& engine, const index::ordered_links& young, interval of,
                                          const key_part& part, stratum::extent_target& target) {
  std::optional<generation_records<Engine>> first;
  std::vector<std::unique_ptr<stratum_records>> older;
  std::vector<stratum::record_source*> sources;
  if (part.has_young) sources.push_back(&first.emplace(engine, young, part.from, of.low, of.high, values_));
  for (std::size_t s = part.first_stratum; s < part.end_stratum; ++s) {
    older.push_back(std::make_unique<stratum_records>(*core_, core_->packed()->all()[s], part.from));
    sources.push_back(older.back().get());
  }
  const stratum::kept_versions kept = stratum::kept_versions::all_but(expired_);
  const bool is_oldest =
      of.low == 0 && (core_->packed() == nullptr || part.end_stratum == core_->packed()->all().size());
  stratum::merge_rule rule{.kept = kept, .is_oldest = is_oldest};
  // what is forgotten was written before the interval of any later stratum
  if (!forgotten_.empty()) {
    rule.forgotten_up_to = [this, is_first = of.low == 0](std::string_view key) {
      const version up_to = forgotten_.up_to(key);
      if (is_first || up_to == 0) return up_to;
      is_forgotten_key_written_ = true;
      return version{0};
    };
  }
  rule.values = &values_;
  rule.on_progress = [&](std::uint64_t records) {
    done_.fetch_add(records, std::memory_order_relaxed);  // a count
    note_packed_records(records);
  };
  return stratum::merge(sources, rule, {part.from, part.to}, target);
}

void packing::tell_progress() const {
  const std::uint64_t done = done_.load(std::memory_order_relaxed);  // relaxed: as above
  const std::uint64_t total = before_.read + total_ + plan_.records_left;
  if (done != 0) how_->on_progress(packing_progress(std::min(before_.read + done, total), total));
}

void packing::count(interval of, pace* slow) {
  const manifest& now = core_->packing();
  report_.versions_expired = newly_expired_;
  static_cast<void>(merge_all(of, slow));
  report_.strata = report_.strata - plan_.end + (report_.records != 0 ? 1 : 0);
  const auto in_granules = [](std::uint64_t bytes) {
    return format::round_up(bytes + sizeof(format::segment_header), format::granule_size);
  };
  // extents, the manifest and the tags; what is before the first segment
  report_.bytes_after = format::first_segment_offset + in_granules(report_.bytes_written) + 2 * format::granule_size;
  for (const format::named_value& each : values_.next()) report_.bytes_after += pools_->segment_at(each.segment).size;
  if (const stratum::strata* const packed = core_->packed()) {
    for (std::size_t s = plan_.end; s < packed->all().size(); ++s) {
      for (std::uint32_t i = packed->all()[s].begin; i < packed->all()[s].end; ++i) {
        report_.bytes_after += in_granules(now.extents[i].size);
      }
    }
  }
}

manifest packing::next_manifest(const std::vector<stratum_parts>& young, const stratum_parts& range,
                                std::uint32_t era) {
  manifest next;
  next.era = era;
  next.expired = expired_;
  next.values = values_.next();
  std::uint32_t stratum = 0;
  for (const stratum_parts& parts : young) {
    std::vector<format::named_extent> made = extents_of(parts);
    for (format::named_extent& each : made) each.stratum = stratum;
    // what this merge has in common with strata that it has not merged yet waits with them
    if (&parts == &young.back() && plan_.leaves_rest() && !plan_.goes_on) {
      for (format::named_extent& each : made) each.flags |= format::extent_awaits;
    }
    if (!made.empty()) ++stratum;
    next.extents.insert(next.extents.end(), made.begin(), made.end());
  }
  if (core_->packed() != nullptr) append_unmerged(next, range, stratum);
  const auto strata = open_strata(*pools_, next, 0);  // what was written can be read
  if (strata != nullptr) {
    next.greatest = strata->greatest();
    next.is_compressed = strata->frames() != nullptr;
    report_.strata = strata->all().size();
    count_packed(next, *strata);
  }
  return next;
}

/// The extents that were made of a stratum, with what opening knows of an extent without reading its blocks.
std::vector<format::named_extent> packing::extents_of(const stratum_parts& parts) const {
  std::vector<format::named_extent> all;
  std::unique_ptr<const stratum::extent> before;
  for (const key_part& part : parts) {
    for (format::named_extent each : part.made) {
      auto extent = open_extent(*pools_, each);
      const stratum::block first = extent->block_at(0);
      each.first = first.row_at(first.rows_begin(0)).record.stamped;
      if (before != nullptr) {
        const stratum::block last = before->block_at(before->blocks() - 1);
        if (last.key(last.keys() - 1) == first.key(0)) each.flags |= format::extent_goes_on;
      }
      before = std::move(extent);
      all.push_back(each);
    }
  }
  return all;
}

/// The strata of before: those that were not merged, and `range` in the last one of those that were.
void packing::append_unmerged(manifest& next, const stratum_parts& range, std::uint32_t stratum) const {
  const stratum::strata& packed = *core_->packed();
  const version expiring = greatest_added(core_->packing().expired, expired_);
  std::vector<format::named_extent> made = extents_of(range);
  for (format::named_extent& each : made) each.flags |= plan_.leaves_rest() ? format::extent_replaces : 0;
  for (std::size_t s = plan_.with_young; s < packed.all().size(); ++s) {
    const stratum::strata::range& of = packed.all()[s];
    const bool in_plan = s >= plan_.first && s < plan_.end;
    const bool takes_range = in_plan && s + 1 == plan_.end;
    const std::size_t before = next.extents.size();
    const auto append = [&](format::named_extent each) {
      each.stratum = stratum;
      next.extents.push_back(each);
    };
    std::uint32_t i = of.begin;
    const auto append_old = [&](std::uint32_t marks) {
      format::named_extent each = core_->packing().extents[i];
      each.flags &= ~(format::extent_awaits | format::extent_replaces);
      each.flags |= marks;
      if (may_thin(*core_, expiring, {i, i + 1})) each.flags |= format::extent_may_thin;
      append(each);
    };
    if (in_plan) {
      for (; i < of.end && packed.extent_at(i).first_key() < plan_.from; ++i) {
        append_old(plan_.leaves_rest() ? format::extent_replaces : 0);
      }
      if (takes_range) std::ranges::for_each(made, append);
      while (i < of.end && plan_.has(packed.extent_at(i).first_key())) ++i;
    }
    for (; i < of.end; ++i) append_old(in_plan ? format::extent_awaits : 0);
    if (next.extents.size() != before) ++stratum;
  }
}

/// What this merge has made, with its changes of before.
void packing::count_packed(const manifest& next, const stratum::strata& all) {
  std::unordered_set<link> stayed;
  for (const format::named_extent& each : core_->packing().extents) {
    if ((each.flags & format::extent_replaces) == 0) stayed.insert(each.segment);
  }
  for (std::uint32_t i = 0; i < all.extents(); ++i) {
    if (stayed.contains(next.extents[i].segment)) continue;
    report_.keys += all.extent_at(i).header().keys - (all.goes_on(i) ? 1 : 0);
    report_.records += all.extent_at(i).header().records;
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

void packing::poison() const noexcept {
  try {
    pools_->persist().poison("a compaction could not go on with what it had packed");
  } catch (...) {
    pools_->persist().poison({});  // there is no memory for the reason
  }
}

}  // namespace detail
}  // namespace icecore

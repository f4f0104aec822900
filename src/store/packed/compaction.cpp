// Packs a store that nobody else has open. The numbers are those of docs/design/0028-freezing-and-compaction.md.
//
//   1. The open version is closed if anything was written in it. The store's retention, its tags and what kept queries
//      and feeds need decide which versions expire (retention/expiry.hpp).
//   2. Threads merge ranges of keys of the young generation, and of the strata that are packed once more, into extents,
//      each in a segment of its own. Nothing leads there.
//   3. Extents, the tags (as records of the next era) and the manifest are made durable.
//   4. 5. Both roots lead to the manifest. From then on the segments of the eras before it are free space, and what the
//      store holds is the manifest's extents and the tags.
//   7. 8. Nobody else is there but readers beside the writer, which give_back() looks for. What no manifest names is
//      given back, and the files end where the last segment does.
//
// A crash before 4 leaves the store as it was, with segments that no manifest names; between 4 and 5 one of the two, by
// the root that counts; and behind 5 what is packed. The next opening for writing gives back what is left.
#include "icecore/compaction.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/background/progress_watch.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/query/feed_places.hpp"
#include "pool/query/query_format.hpp"
#include "store/engine.hpp"
#include "store/packed/packed_sources.hpp"
#include "store/packed/retention/expiry.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "store/packed/retention/holds.hpp"
#include "store/read/sorted_keys.hpp"
#include "stratum/frames/frame_format.hpp"
#include "stratum/frames/frame_writer.hpp"
#include "stratum/merge/merge.hpp"

namespace icecore {

static_assert(packed_value_size_max == stratum::packed_value_max);

namespace detail {
namespace {

constexpr std::uint64_t extent_bytes = std::uint64_t{64} << 20;
/// Fewer records are not worth a second thread.
constexpr std::uint64_t records_per_range_min = 100'000;
constexpr unsigned ranges_per_thread = 4;

/// Zeroed memory in which extents are built, one after the other.
class building_room {
 public:
  building_room() = default;
  ~building_room() { drop(); }
  building_room(const building_room&) = delete;
  building_room& operator=(const building_room&) = delete;

  [[nodiscard]] std::span<std::byte> get(std::uint64_t at_least) {
    if (at_least > size_) {
      drop();
      void* const at =
          ::mmap(nullptr, at_least, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) throw std::bad_alloc();
      at_ = static_cast<std::byte*>(at);
      size_ = at_least;
      static_cast<void>(::madvise(at_, size_, MADV_HUGEPAGE));
    }
    return {at_, size_};
  }
  void clear() noexcept { static_cast<void>(::madvise(at_, size_, MADV_DONTNEED)); }

 private:
  void drop() noexcept {
    if (at_ != nullptr) ::munmap(at_, size_);
    at_ = nullptr;
    size_ = 0;
  }

  std::byte* at_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Puts the extents of a range of keys into segments.
class segment_target final : public stratum::extent_target {
 public:
  /// `seed_start` and `count` make seeds that no other extent of this store has.
  segment_target(pool_set& pools, std::uint16_t file, std::uint32_t seed_start, std::atomic<std::uint32_t>& count,
                 building_room& memory, const compaction_options& how)
      : pools_(&pools), file_(file), seed_start_(seed_start), count_(&count), memory_(&memory) {
    if (how.compression == compression::zstd) frames_.emplace(how.compression_level);
  }

  room begin(std::uint64_t at_least) override {
    // relaxed: only the number matters
    seed_ = crc32c(seed_start_, std::uint64_t{count_->fetch_add(1, std::memory_order_relaxed)});
    return {memory_->get(std::max(extent_bytes, at_least)), seed_};
  }
  void complete(std::uint64_t size) override {
    std::span<const std::byte> bytes = memory_->get(0).first(size);
    if (frames_) {
      frames_->write(bytes, seed_, framed_);
      bytes = framed_;
    }
    const segment s = pools_->allocate(bytes.size(), file_, format::packed_segment_magic, {});
    made_.push_back({s.offset, bytes.size(), seed_, 0, header_crc_of(bytes), 0, 0});
    static_cast<void>(pools_->of(s.offset).store_value(s.first_record(),
                                                       {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    pools_->persist().flush(pools_->at(s.first_record()), bytes.size());
    pools_->persist().fence();
    pools_->grow_ahead(s.offset);
    memory_->clear();
  }
  [[nodiscard]] const std::vector<format::named_extent>& made() const noexcept { return made_; }

 private:
  static_assert(offsetof(format::framed_header, crc) == offsetof(format::extent_header, crc));
  [[nodiscard]] static std::uint32_t header_crc_of(std::span<const std::byte> extent) noexcept {
    std::uint32_t crc;
    std::memcpy(&crc, extent.data() + offsetof(format::extent_header, crc), sizeof crc);
    return crc;
  }

  pool_set* pools_;
  std::uint16_t file_;
  std::uint32_t seed_start_;
  std::atomic<std::uint32_t>* count_;
  building_room* memory_;
  std::uint32_t seed_ = 0;
  std::optional<stratum::frame_writer> frames_;  // if extents are compressed
  std::vector<std::byte> framed_;                // the one that is written
  std::vector<format::named_extent> made_;
};

/// Keeps nothing: merge() says how much it was.
class counting_target final : public stratum::extent_target {
 public:
  explicit counting_target(building_room& memory) noexcept : memory_(&memory) {}

  room begin(std::uint64_t at_least) override { return {memory_->get(std::max(extent_bytes, at_least)), 0}; }
  void complete(std::uint64_t /*size*/) override { memory_->clear(); }

 private:
  building_room* memory_;
};

std::uint64_t bytes_on_device(const pool_set& pools) {
  std::uint64_t sum = 0;
  for (const pool* p : pools.files()) {
    struct stat about {};
    if (::fstat(p->file().descriptor(), &about) == 0) sum += static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
  return sum;
}

class packing {
 public:
  packing(store_core& core, const compaction_options& how)
      : core_(&core), pools_(&core.the_pool()), how_(&how), forgotten_(*pools_) {}

  [[nodiscard]] compaction_report run() {
    report_.bytes_before = bytes_on_device(*pools_);
    report_.up_to = core_->close_version();
    // a compaction closes the open version only if something was written in it
    if (core_->nobody_writes() && core_->shared().newest_recovered < report_.up_to) --report_.up_to;
    decide();
    choose_strata();
    const manifest& now = core_->packing();
    report_.strata = core_->packed() == nullptr ? 0 : core_->packed()->all().size();
    const bool nothing_goes = newly_expired_ == 0 && !merges_thin_strata_ && forgotten_.empty();
    if (young_records() == 0 && merged_strata_ < 2 && !changes_form() && nothing_goes) {
      core_->close();
      report_.bytes_after = bytes_on_device(*pools_);
      return report_;
    }
    if (how_->dry_run) return counted();
    // A persistent index is made anew afterwards. Without one, the opening after a crash looks at all segments, and
    // gives back those that this compaction leaves.
    pools_->roots().update_both([](format::root& r) { r.anchor = null_link; });
    if (core_->heads() == heads_kind::durable || core_->heads() == heads_kind::layered_durable) {
      // While a store has that index, no free segment is given out; its lists of segments do not count any more.
      for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
        if (h.magic == format::free_segment_magic) pools_->add_free(s.offset, s.size);
      });
    }
    manifest next;
    try {
      with_engine(*core_, [&](const auto& engine) { merge_all(engine); });
      next = next_manifest(now);
      pools_->set_era(next.era);
      write_tags();
      begin_versions_of_feeds_again();
      store_manifest(*pools_, now, next);  // 3: its first sync covers all that was written
    } catch (...) {
      pools_->set_era(now.era);
      give_up(now);
      throw;
    }
    // An error here poisons the store: then closing it writes no root.
    pools_->roots().update_both([&](format::root& r) {  // 4, 5
      name_manifest(r, next);
      r.clock = std::max(r.clock, report_.up_to);
      r.durable_version = report_.up_to;  // A14
      r.certificate = format::certificate_kind::proven;
      r.certified_records = left_.records;
      r.certified_sum = left_.digest;
    });
    // With the free segments of before, so that neighbours become one. None of those is given out any more.
    for (pool* p : pools_->files()) static_cast<void>(p->take_free());
    std::vector<segment> unused = outdated_segments(*pools_, next);
    for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
      if (h.magic == format::free_segment_magic) unused.push_back(s);
    });
    const bool has_none = unused.empty();
    report_.erased = has_none || !give_back(*pools_, std::move(unused)).empty();
    if (report_.erased) finish_forgetting();
    if (report_.erased) cut_end(next);
    core_->close_replaced(left_);
    report_.packed = true;
    report_.versions_expired = newly_expired_;
    report_.bytes_after = bytes_on_device(*pools_);
    return report_;
  }

 private:
  struct key_part {
    std::string from;
    std::optional<std::string> to;
    std::vector<format::named_extent> made;
  };

  [[nodiscard]] std::uint64_t young_records() const {
    const statistics s = core_->stats();
    return s.records - s.packed_records;
  }

  /// What the keys have left elsewhere goes, and then the requests: a crash before that leaves these for the next
  /// compaction.
  void finish_forgetting() {
    if (forgotten_.segments().empty()) return;
    if (!forgotten_.empty()) drop_queries_of(forgotten_, *pools_, core_->shared().queries);
    report_.erased = !give_back(*pools_, forgotten_.segments()).empty();
  }

  /// What merging would leave, without writing it.
  [[nodiscard]] compaction_report counted() {
    const manifest& now = core_->packing();
    report_.versions_expired = newly_expired_;
    with_engine(*core_, [&](const auto& engine) { merge_all(engine); });
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

  /// Which versions expire (A8).
  void decide() {
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

  /// Whether versions have expired since the stratum was made, or do now, of which it may have records. A record goes
  /// with the versions from its own on.
  [[nodiscard]] bool may_thin(const stratum::strata::range& of) const {
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

  /// Strata are merged while they are no more than twice what is merged without them: so their number grows with the
  /// logarithm of the records, and each record is packed that often. If versions have expired, a stratum's records that
  /// have a newer one in it count as well: they may go.
  void choose_strata() {
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
  [[nodiscard]] bool changes_form() const {
    const stratum::strata* const packed = core_->packed();
    if (packed == nullptr || !how_->whole) return false;
    for (std::uint32_t i = 0; i < packed->extents(); ++i) {
      if (packed->extent_at(i).is_compressed() != (how_->compression == compression::zstd)) return true;
    }
    return false;
  }

  /// Where ranges of keys begin, for threads that work side by side.
  template <class Engine>
  void cut_keys(const Engine& engine, unsigned threads) {
    parts_.clear();
    parts_.push_back({});
    const std::uint64_t wanted = std::min<std::uint64_t>(std::uint64_t{threads} * ranges_per_thread,
                                                         young_records() / records_per_range_min + packed_ranges());
    if (threads == 1 || wanted < 2) return;
    std::shared_ptr<const sorted_keys> kept;
    const pin holds = core_->take_pin();
    for (const link l : in_key_order(engine, kept, threads).split_points(wanted - 1)) {
      std::string key(engine.key_of(l));
      if (key.empty() || (!parts_.back().from.empty() && key <= parts_.back().from)) continue;
      parts_.back().to = key;
      parts_.push_back({.from = std::move(key), .to = {}, .made = {}});
    }
  }
  [[nodiscard]] std::uint64_t packed_ranges() const {
    return core_->packed() == nullptr ? 0 : core_->packed()->records() / records_per_range_min;
  }

  template <class Engine>
  void merge_all(const Engine& engine) {
    const unsigned threads = thread_count(how_->threads);
    total_ = std::max(total_, young_records());
    std::optional<sorted_keys> sorted;  // of a young generation whose index has another order
    if (!engine.index().orders_keys()) sorted.emplace(engine, threads);
    const index::ordered_links& young = sorted ? static_cast<const index::ordered_links&>(*sorted) : engine.index();
    cut_keys(engine, threads);
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint32_t> extents{0};
    // The epoch of this opening was never used before, so extents of an earlier try do not pass for these.
    const format::root root = pools_->roots().read();
    const std::uint32_t seed_start = crc32c(pools_->codec().pool_seed(), root.epoch);
    std::vector<stratum::merge_totals> totals(parts_.size());
    const unsigned workers = std::min(threads, static_cast<unsigned>(parts_.size()));
    const unsigned watchers = how_->on_progress ? 1 : 0;  // the calling thread
    progress_watch watch(workers);
    run_on_threads(workers + watchers, [&](unsigned number) {
      try {
        if (number < watchers) return watch.until_end([&] { tell_progress(); });
        const progress_watch::end_of_one end(watch);
        building_room memory;
        // relaxed: only a work counter
        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts_.size();) {
          segment_target target(*pools_, pools_->number_for(number - watchers), seed_start, extents, memory, *how_);
          counting_target only_counts(memory);
          auto& to = how_->dry_run ? static_cast<stratum::extent_target&>(only_counts) : target;
          totals[i] = merge_part(engine, young, parts_[i], to);
          parts_[i].made = target.made();
        }
      } catch (...) {
        next.store(parts_.size(), std::memory_order_relaxed);  // the others stop, too
        throw;
      }
    });
    for (const stratum::merge_totals& t : totals) {
      report_.records += t.kept;
      report_.records_dropped += t.read - t.kept;
      if (how_->dry_run) report_.bytes_written += t.bytes;
    }
    for (const key_part& part : parts_) {
      for (const format::named_extent& e : part.made) report_.bytes_written += e.size;
    }
  }

  template <class Engine>
  stratum::merge_totals merge_part(const Engine& engine, const index::ordered_links& young, const key_part& part,
                                   stratum::extent_target& target) {
    generation_records<Engine> first(engine, young, part.from);
    std::vector<std::unique_ptr<stratum_records>> older;
    std::vector<stratum::record_source*> sources{&first};
    for (std::size_t s = 0; s < merged_strata_; ++s) {
      older.push_back(std::make_unique<stratum_records>(*core_, core_->packed()->all()[s], part.from));
      sources.push_back(older.back().get());
    }
    const stratum::kept_versions kept = stratum::kept_versions::all_but(expired_);
    const bool is_oldest = core_->packed() == nullptr || merged_strata_ == core_->packed()->all().size();
    stratum::merge_rule rule{.kept = kept, .is_oldest = is_oldest};
    if (!forgotten_.empty()) rule.forgotten_up_to = [this](std::string_view key) { return forgotten_.up_to(key); };
    rule.on_progress = [&](std::uint64_t records) { done_.fetch_add(records, std::memory_order_relaxed); };  // a count
    return stratum::merge(sources, rule, {part.from, part.to}, target);
  }

  void tell_progress() const {
    const std::uint64_t done = done_.load(std::memory_order_relaxed);  // relaxed: as above
    if (done != 0) how_->on_progress({"packing records", std::min(done, total_), total_, "records"});
  }

  [[nodiscard]] manifest next_manifest(const manifest& now) {
    manifest next;
    next.era = greatest_era() + 1;
    next.expired = expired_;
    for (const key_part& part : parts_) {
      next.extents.insert(next.extents.end(), part.made.begin(), part.made.end());
    }
    std::uint32_t stratum = next.extents.empty() ? 0 : 1;
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
    note_beginnings(next);
    const auto strata = open_strata(*pools_, next, 0);  // what was written can be read
    if (strata != nullptr) {
      next.greatest = strata->greatest();
      next.is_compressed = strata->frames() != nullptr;
      report_.strata = strata->all().size();
      for (std::uint32_t i = 0; !strata->all().empty() && i < strata->all().front().end; ++i) {
        report_.keys += strata->extent_at(i).header().keys - (strata->goes_on(i) ? 1 : 0);
      }
    }
    return next;
  }

  /// What opening knows of an extent without reading its blocks.
  void note_beginnings(manifest& next) const {
    std::unique_ptr<const stratum::extent> before;
    for (format::named_extent& each : next.extents) {
      if (each.stratum != 0) break;  // of an older manifest
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

  /// A feed that stands between changes of a version counts them. Of several writes of a key in one version only the
  /// last one stays: so it tells that version from its first change again.
  void begin_versions_of_feeds_again() const {
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

  /// Of any segment: one of a compaction that a crash cut off may still be there, with an era that must not come again.
  [[nodiscard]] std::uint32_t greatest_era() const {
    std::uint32_t greatest = core_->packing().era;
    for_each_segment(*pools_,
                     [&](const segment&, const format::segment_header& h) { greatest = std::max(greatest, h.era); });
    return greatest;
  }

  [[nodiscard]] static std::uint64_t bytes_of(const tag_info& tag) noexcept {
    return record_layout::of_tag(tag.name.size(), tag.note.size()).size() + 2 * format::record_padding_max;
  }
  /// Tags are records of the young generation: they are written anew, in a segment of the next era.
  void write_tags() {
    const std::vector<tag_info> tags = core_->tags().all();
    std::uint64_t left = 0;  // bytes that the rest takes, at most
    for (const tag_info& tag : tags) left += bytes_of(tag);
    segment s{};
    link end = null_link;
    for (const tag_info& tag : tags) {
      const record_layout layout = record_layout::of_tag(tag.name.size(), tag.note.size());
      if (s.size == 0 || layout.place(end) + layout.size() > s.end()) {
        if (s.size != 0) pools_->set_fill(s, end);
        constexpr std::uint64_t most = (std::uint64_t{1} << 20) - sizeof(format::segment_header);
        s = pools_->allocate(std::max(std::min(most, left), bytes_of(tag)));
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
    if (s.size != 0) pools_->set_fill(s, end);
  }

  /// Files end behind the last segment that is in use.
  void cut_end(const manifest& of) const {
    std::array<std::uint64_t, format::files_max> ends{};
    ends.fill(format::first_segment_offset);
    for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
      const bool in_use = h.magic == format::query_segment_magic || h.magic == format::forget_segment_magic ||
                          of.names(s.offset) || (h.magic == format::segment_magic && h.era == of.era);
      if (in_use) ends[link_pool(s.offset)] = std::max(ends[link_pool(s.offset)], link_offset(s.end()));
    });
    for (pool* p : pools_->files()) p->set_used_end(ends[p->number()]);
  }

  /// After an error nothing leads to what was written.
  void give_up(const manifest& now) const noexcept {
    try {
      std::vector<segment> made;
      for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
        const bool is_new = (h.magic == format::segment_magic && h.era != now.era) ||
                            h.magic == format::packed_segment_magic || h.magic == format::manifest_segment_magic;
        if (is_new && !now.names(s.offset)) made.push_back(s);
      });
      for (const segment& s : give_back(*pools_, std::move(made))) pools_->add_free(s.offset, s.size);
    } catch (...) {  // the next opening for writing gives it back
    }
  }

  store_core* core_;
  pool_set* pools_;
  const compaction_options* how_;
  compaction_report report_;
  std::vector<key_part> parts_;
  std::size_t merged_strata_ = 0;
  forgotten_keys forgotten_;
  range_list expired_;  // versions, once this is done
  std::uint64_t newly_expired_ = 0;
  bool merges_thin_strata_ = false;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  record_totals left_;
};

}  // namespace
}  // namespace detail

compaction_report compact(const std::filesystem::path& path, const options& opening, const compaction_options& how) {
  if (!opening.shared_as.empty()) {
    raise(errc::invalid_argument, "{}: a store is packed by one process alone; do not share it meanwhile",
          path.native());
  }
  if (how.compression_level < compression_level_min || how.compression_level > compression_level_max) {
    raise(errc::invalid_argument, "compact: compression_level is {}; it must be from {} to {}", how.compression_level,
          compression_level_min, compression_level_max);
  }
  if (how.compression > compression::zstd) {
    raise(errc::invalid_argument, "compact: compression is {}; it must be 0 (none) or 1 (zstd)",
          static_cast<unsigned>(how.compression));
  }
  options writing = opening;
  writing.access = how.dry_run ? access::read_only : access::read_write;
  writing.creation = creation::open_existing;
  writing.grow_in_background = false;
  const auto opened = detail::open_store_briefly(path, writing);
  return detail::packing(opened->current(), how).run();
}

}  // namespace icecore

#include "store/open/record_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "base/threads.hpp"
#include "pool/query/query_space.hpp"
#include "pool/root/boot.hpp"
#include "store/open/session.hpp"

namespace icecore::detail {

using format::record_kind;

/// The part of a file that was found last to be no hole: holes of files in memory are not read (pool::next_data()).
class data_part {
 public:
  /// The first place of from..end that is in no hole; `end` if there is none.
  [[nodiscard]] link first(const pool& in, link from, link end) noexcept {
    if (from < from_ || from >= to_) {
      const auto [begin, behind] = in.next_data(link_offset(from), link_offset(end));
      from_ = make_link(in.number(), begin);
      to_ = make_link(in.number(), behind);
      return from_;
    }
    return from;
  }
  [[nodiscard]] link end() const noexcept { return to_; }

 private:
  link from_ = null_link;
  link to_ = null_link;
};

struct record_scan::reading {
  segment in;
  link fill;            // certified end
  link position;        // end of what counts so far
  link end;             // where to stop at the latest
  bool certified_only;  // a segment without a header, as a crash may have left it: no more counts
  bool headerless;      // its header is damaged: it may be several segments in a row
  bool end_unknown;     // header or fill is damaged: zeros need not be the end
  record_scan_part& into;
  version last = 0;          // of the record before position
  link last_at = null_link;  // where that record begins
  struct {
    link at = null_link;
    std::uint32_t missing = 0;  // of its records, which lie behind it
    std::size_t lost_before = 0;
  } batch{};  // the one read last
  mutable data_part data{};
};

record_scan::record_scan(const pool_set& in, const record_scan_options& how, store_is is, manifest packed)
    : pool_(&in),
      how_(how),
      is_(is),
      root_(in.roots().read()),
      packed_(std::move(packed)),
      counted_up_to_(root_.durable_version),
      parts_(std::max(1U, how.threads)) {
  same_boot_ = written_this_boot(root_);
  if (crashed()) ended_by_ = what_crashed(in, how_.crash);
  keep_all_ = memory_survived() || root_.durability == static_cast<std::uint8_t>(durability::operation);
  // after a power cut on page media, any of the pages of one operation may be missing
  ordered_ = keep_all_ && (memory_survived() || in.durability().medium != medium::block_device);
  for (const pool* p : in.files()) {
    of_pool& o = of_pools_[p->number()];
    o.size = p->size();
    o.begins = bits_of(o.size);
  }
}

record_scan::record_scan(const pool_set& in, const record_scan_options& how)
    : record_scan(in, how, in.roots().read().state == format::root_state::clean ? store_is::closed : store_is::crashed,
                  manifest_of(in, how.accept_damage ? extent_segments::as_they_are : extent_segments::checked)) {
  for (const pool* p : in.files()) find_segments_in(*p);
  note_missing_files();
  map_granules();
  read_segments([this](const segment_tail& place, record_scan_part& into) { return by_header(place.in, into); });
  drop_leftovers();
  read_behind_fills();
  check_tags();
  check_certificate();
  for (record_scan_part& part : parts_) name_damages(part);
}

record_scan::record_scan(const pool_set& in, const record_scan_options& how, std::vector<segment_tail> filled,
                         manifest packed)
    : record_scan(in, how, store_is::open, std::move(packed)) {
  segments_ = std::move(filled);
  std::ranges::sort(segments_, {}, [](const segment_tail& place) { return place.in.offset; });
  map_granules();
  read_segments([](const segment_tail& place, record_scan_part& into) {
    return reading{place.in, place.position, place.in.first_record(), place.position, false, false, false, into};
  });
  check_tags();
  for (record_scan_part& part : parts_) name_damages(part);
}

// All records of settled versions were complete before the version was published (B1), and in each segment they are a
// prefix (W2). So bytes that are no record are damage if one of a settled version lies behind them. The writer may be
// at work on others: they are what it has begun.
record_scan::record_scan(const pool_set& in, const record_scan_options& how, const std::vector<segment_tail>& segments,
                         manifest packed, version settled)
    : record_scan(in, how, store_is::written_elsewhere, std::move(packed)) {
  counted_up_to_ = settled;
  keep_all_ = false;
  segments_ = segments;
  std::ranges::sort(segments_, {}, [](const segment_tail& place) { return place.in.offset; });
  map_granules();
  read_segments([this](const segment_tail& place, record_scan_part& into) {
    reading r = by_header(place.in, into);
    std::atomic_thread_fence(std::memory_order_acquire);  // as in settled_records: a fill end before its records
    return r;
  });
  check_tags();
  for (record_scan_part& part : parts_) name_damages(part);
}

// ---- Segments ----

void record_scan::find_segments_in(const pool& p) {
  const std::uint64_t size = p.size();
  // one root decides: if it says that the store is closed, the other roots say so too
  const std::uint64_t used_end = p.roots().read().used_end;
  const link end = make_link(p.number(), is_ == store_is::closed ? std::min(used_end, size) : size);
  for (link at = make_link(p.number(), format::first_segment_offset); at < end;) {
    if (const segment_kind kind = kind_of(at, end); kind != segment_kind::none) {
      const segment s = p.segment_at(at);
      note(s, kind);
      at = s.end();
      continue;
    }
    if (const std::uint64_t damaged = size_of_damaged_query_segment(at); damaged != 0) {
      damaged_query_segments_.push_back({at, damaged, 0});
      at += damaged;
      continue;
    }
    link next = at + format::granule_size;
    while (next < end && kind_of(next, end) == segment_kind::none && !packed_.names(next)) next += format::granule_size;
    if (packed_.names(at)) {  // manifest_damages() tells of its header
      packed_segments_.push_back({at, std::min(next, end) - at, 0});
    } else {
      find_headerless(at, std::min(next, end));
    }
    at = next;
  }
}

/// A segment of queries without a valid header is theirs all the same if their lists lead to it: only they tell of the
/// damage. 0 if it is none.
std::uint64_t record_scan::size_of_damaged_query_segment(link at) {
  if (root_.version_major < format::version_major_with_queries) return 0;
  if (!listed_) listed_ = listed_query_segments(*pool_);
  const auto found = std::ranges::find(*listed_, at, &segment::offset);
  const std::uint64_t header = link_offset(at);
  if (found == listed_->end() || pool_->of(at).is_zero(header, header + sizeof(format::segment_header))) return 0;
  return found->size;
}

/// Everything in a missing file is lost.
void record_scan::note_missing_files() {
  for (const auto& absent : pool_->missing()) {
    const link from = make_link(absent.number, format::first_segment_offset);
    const link to = make_link(absent.number, link_offset_mask & ~std::uint64_t{7});
    parts_.front().lost.push_back({from, to, from, absent.what});
  }
}

void record_scan::map_granules() {
  for (const pool* p : pool_->files()) {
    of_pool& o = of_pools_[p->number()];
    o.segment_of_granule.assign(o.size / format::granule_size + 1, 0);
    o.used_end = make_link(p->number(), format::first_segment_offset);
  }
  for (const auto* others : {&index_segments_, &query_segments_, &damaged_query_segments_, &packed_segments_,
                             &free_segments_, &outdated_segments_}) {
    for (const segment& s : *others) {
      of_pool& o = of_pools_[link_pool(s.offset)];
      o.used_end = std::max(o.used_end, s.end());
    }
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const segment& s = segments_[i].in;
    of_pool& o = of_pools_[link_pool(s.offset)];
    o.used_end = std::max(o.used_end, s.end());
    for (link g = s.offset; g < s.end(); g += format::granule_size) {
      o.segment_of_granule[link_offset(g) / format::granule_size] = static_cast<std::uint32_t>(i + 1);
    }
  }
}

/// Handles granules without a valid header: free space, or a segment whose header is damaged. Everything there is taken
/// for one segment if an intact record in it shows a generation with which records can be read.
void record_scan::find_headerless(link from, link end) {
  constexpr std::uint64_t header = sizeof(format::segment_header);
  for (link at = from; at < end; at += format::granule_size) {
    const std::uint64_t size = std::min(format::granule_size, end - at);
    const auto is_zero = [&, &in = pool_->of(at), begin = link_offset(at)](std::uint64_t offset) {
      return in.is_zero(begin + offset, begin + size);
    };
    // a header only: a crash kept the segment from being used
    const bool unused = size > header && root_.state == format::root_state::open && is_zero(header);
    if (!unused && !is_zero(0)) {
      if (const auto generation = generation_in(at, end)) {
        const segment s{at, end - at, *generation};
        segments_.push_back({s, s.first_record()});
        headerless_.push_back(at);
        return;
      }
      if (ordered_ || pool_->root_unreliable()) {
        lost_range all{at, at + size, at, "the segment's header is damaged and no record in it is intact"};
        all.maybe_empty = !ordered_;
        parts_.front().lost.push_back(std::move(all));
      }
    }
    holes_.push_back({at, size, 0});
  }
}

/// The generation with which the first record at or behind `from` is intact: it seeds the checksum. Bytes that are no
/// record would need an arbitrary generation, which is seldom a possible one.
std::optional<std::uint32_t> record_scan::generation_in(link from, link end) const noexcept {
  constexpr std::uint32_t generations_max = 64;  // a segment's space is given out again only after crashes
  const std::uint32_t named = pool_->header_of(from).generation;
  for (link at = from + sizeof(format::segment_header); at + sizeof(format::record_header) <= end; at += 8) {
    const record r(pool_->at(at));
    if (!r.layout().plausible() || r.layout().size() > end - at) continue;
    const std::uint32_t g = pool_->codec().record_generation(r.intact_seed(), at);
    if (g == named || (1 <= g && g <= generations_max)) return g;
  }
  return std::nullopt;
}

/// Where a crash may have left records without their segment's header, a segment in which nothing counts is free space.
/// The header of any other one is damaged.
void record_scan::drop_leftovers() {
  if (headerless_.empty()) return;
  std::erase_if(segments_, [&](const segment_tail& p) {
    if (!std::ranges::binary_search(headerless_, p.in.offset)) return false;
    if (ordered_ || p.position != p.in.first_record()) {
      report(parts_.front(), p.in.offset, "segment", "the segment's header is damaged");
      return false;
    }
    for (link at = p.in.offset; at < p.in.end(); at += format::granule_size) {
      holes_.push_back({at, std::min(format::granule_size, p.in.end() - at), 0});
    }
    // its zeros are free space too, and nothing is lost there
    for (record_scan_part& part : parts_) {
      std::erase_if(part.lost, [&](const lost_range& l) { return p.in.offset <= l.from && l.from < p.in.end(); });
    }
    return true;
  });
  map_granules();
}

const segment_tail* record_scan::place_containing(link at) const noexcept {
  const auto& segment_of_granule = pool_of(at).segment_of_granule;
  const std::uint64_t granule = link_offset(at) / format::granule_size;
  if (granule >= segment_of_granule.size() || segment_of_granule[granule] == 0) return nullptr;
  return &segments_[segment_of_granule[granule] - 1];
}

/// Reads all segments. `begin` says how far each is certified and where to stop.
template <typename Begin>
void record_scan::read_segments(Begin begin) {
  std::uint64_t total = 0;
  for (const segment_tail& place : segments_) total += place.in.size;
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  run_on_threads(static_cast<unsigned>(parts_.size()), [&](unsigned thread) {
    record_scan_part& into = parts_[thread];
    std::uint64_t reported = 0;
    // relaxed: only the count matters; the segments were all there before the threads began
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < segments_.size();) {
      segment_tail& place = segments_[i];
      reading r = begin(place, into);
      read_records(r);
      if (ended_by_ == crash_kind::unknown && has_undecided(r)) ++into.undecided;
      place.position = r.position;
      into.bytes += r.position - place.in.offset;
      const std::uint64_t now = done.fetch_add(place.in.size, std::memory_order_relaxed) + place.in.size;
      if (thread == 0 && how_.on_progress && now - reported > (std::uint64_t{64} << 20)) {
        reported = now;
        how_.on_progress({"reading records", now, total, "bytes"});
      }
    }
  });
}

/// For a segment of a store that is not open. Its header says how far it is certified.
record_scan::reading record_scan::by_header(const segment& s, record_scan_part& into) const {
  const bool headerless = std::ranges::binary_search(headerless_, s.offset);
  reading r{s, s.first_record(), s.first_record(), s.end(), headerless && !ordered_, headerless, headerless, into};
  if (const auto fill = pool_->fill_of(s)) {
    r.fill = *fill;
  } else {
    if (!headerless) report(into, s.offset, "segment", "the fill end in the segment's header is damaged");
    r.end_unknown = true;
  }
  return r;
}

void record_scan::read_records(reading& r) const {
  while (read_record(r)) {
  }
  // A batch is stamped when all its records are there. Without this, records of it that were lost at the end would look
  // like a write that the crash interrupted.
  if (r.batch.missing == 0 || r.into.lost.size() != r.batch.lost_before || r.position >= r.end) return;
  r.into.lost.push_back(
      {r.position, r.end, r.position, "records of a batch are missing here", false, false, false, r.last, version_max});
  r.position = r.end;
}

/// If a closed store has fewer records than were certified, a segment's header may be of an earlier time, and the
/// records behind its fill end were missed.
void record_scan::read_behind_fills() {
  if (is_ != store_is::closed || totals().records >= root_.certified_records) return;
  fills_unverified_ = true;
  for (segment_tail& place : segments_) {
    const segment s = place.in;
    reading r{s, place.position, place.position, s.end(), false, false, false, parts_.front()};
    read_records(r);
    place.position = r.position;
  }
}

// ---- Records ----

bool is_intact_record(const pool_set& in, const segment& s, link at) noexcept {
  if (at % 8 != 0 || at < s.first_record() || at + sizeof(format::record_header) > s.end()) return false;
  const record r(in.at(at));
  const record_layout layout = r.layout();
  // a record can only lie where records are put: otherwise what lies before it would be missing for ever
  return layout.plausible() && layout.place(at) == at && layout.size() <= s.end() - at &&
         (!r.is_entry() || r.header().depth == 1) && r.intact(in.codec().record_seed(s.generation, at));
}

/// Why intact_record() refuses the bytes at `at`.
std::string record_scan::what_is_wrong(link at) const {
  const record r(pool_->at(at));
  if (r.has_known_kind()) return "bytes that fail the record's checksum";
  return fmt::format(
      "a record of kind {}, which this icecore does not know: the byte is damaged, or a newer icecore "
      "wrote it",
      static_cast<unsigned>(r.kind()));
}

/// For a record of a batch whose own stamp, without the persisted bit, is valid or zero.
version record_scan::version_in_batch(record r, std::uint64_t unmarked) const noexcept {
  const link batch = r.batch();
  const auto* place = place_containing(batch);
  if (place == nullptr || !intact_record(place->in, batch)) {
    return unmarked == 0 ? 0 : unreadable;
  }
  const record b(pool_->at(batch));
  const std::uint64_t stamp = load_stamp(b) & ~format::stamp_persisted;
  if (b.kind() != record_kind::batch) return unreadable;
  if (stamp != 0 && !pool_->codec().valid(stamp, batch + format::stamp_offset)) return unreadable;
  const version v = stamp & format::stamp_version_mask;
  if (unmarked != 0 && (unmarked & format::stamp_version_mask) != v) return unreadable;
  return v;
}

/// The version that a record's own stamp shows; 0 if it shows none. A reader may set it before the record of the batch
/// is durable. So if memory did not survive, a stamp beyond the durable point shows that the batch has taken effect
/// only if it is marked as persisted (H5).
version record_scan::own_version(link at) const noexcept {
  const std::uint64_t own = load_stamp(record(pool_->at(at)));
  if (!pool_->codec().valid(own, at + format::stamp_offset)) return 0;
  const version v = own & format::stamp_version_mask;
  const bool durable = v <= root_.durable_version || (own & format::stamp_persisted) != 0;
  return !crashed() || memory_survived() || durable ? v : 0;
}

/// Whether a record of version `v` at `start` counts.
bool record_scan::counts(const reading& r, link start, version v) const noexcept {
  if (v == 0) return false;
  return start < r.fill || v <= counted_up_to_ || (keep_all_ && !r.certified_only);
}

/// The next position at or behind `from` of an intact record whose version is wanted; empty if there is none.
template <typename Wanted>
std::optional<link> record_scan::next_record(const reading& r, link from, Wanted wanted) const noexcept {
  const pool& file = pool_->of(r.in.offset);
  for (link at = from; at + sizeof(format::record_header) <= r.end; at += 8) {
    at = r.data.first(file, at, r.end);
    if (at + sizeof(format::record_header) > r.end) break;
    if (word_at(pool_->at(at)) == 0) {  // most of what is searched is empty
      at += leading_zeros(pool_->at(at), r.data.end() - at) / 8 * 8;
      if (at == r.data.end()) {
        at -= 8;
        continue;
      }
      if (at + sizeof(format::record_header) > r.end) break;
    }
    if (!intact_record(r.in, at)) continue;
    // If the record of its batch is lost, its own stamp still shows that the batch has taken effect (H4).
    const auto v = version_of(at);
    if (wanted(at, v ? *v : own_version(at))) return at;
  }
  return std::nullopt;
}

/// The next position at or behind `from` of a record that counts; empty if there is none.
std::optional<link> record_scan::next_counted(const reading& r, link from) const noexcept {
  return next_record(r, from, [&](link at, version v) { return counts(r, at, v); });
}

/// Whether behind everything that certainly counts lies a record that has taken effect, which counts if the process
/// alone died. Looks behind zeros and torn bytes too: what they mean depends on the same answer.
bool record_scan::has_undecided(const reading& r) const noexcept {
  return !keep_all_ && next_record(r, r.position, [](link, version v) { return v != 0; }).has_value();
}

/// Takes in the record behind r.position. Returns false when the segment is done.
bool record_scan::read_record(reading& r) const {
  const pool& file = pool_->of(r.in.offset);
  link start = r.position;
  while (start < r.end && start - r.position <= format::record_padding_max) {
    const link there = r.data.first(file, start, r.end);
    if (there == start && word_at(pool_->at(start)) != 0) break;
    start = std::max(start + 8, there);
  }
  const bool nothing = start >= r.end || start - r.position > format::record_padding_max;
  if (nothing) {
    if (r.position < r.fill) {
      return pass_damage(r,
                         {r.position, 0, r.position, "records are missing here: zeros before the segment's fill end"});
    }
    if (r.end_unknown) return pass_zeros(r);
    // A crash leaves no zeros before a record that counts: its writer had everything before it in the same memory, or
    // durable (W2). A closed store has nothing behind its fill ends, if they are those that it was closed with.
    return (crashed() || is_ == store_is::written_elsewhere || fills_unverified_) &&
           pass_damage(r, {r.position, 0, r.position, "records are missing here: zeros before a record that counts"});
  }
  if (!intact_record(r.in, start)) return pass_damage(r, {r.position, 0, start, what_is_wrong(start)});
  const record rec(pool_->at(start));
  const record_layout layout = rec.layout();
  const version v = readable_version(start);
  if (layout.place(r.position) != start && v != unreadable && counts(r, start, v)) {
    return pass_damage(r, {r.position, start, r.position, "a record is missing here: zeros in its place"});
  }
  if (v == unreadable || v == 0) {  // nothing counts behind a record that never took effect (W2)
    const char* what = v == 0 ? "the record is not stamped" : "the record's stamp is damaged";
    return pass_damage(r, {start, start + layout.size(), start, what, true});
  }
  if (!counts(r, start, v)) return false;  // an interrupted write, or one beyond the durable point
  // a tag's note is read at opening, other values are read later
  const bool check_now = start >= r.fill || how_.large_values || layout.kind == record_kind::tag;
  if ((layout.flags & format::flag_large_value) != 0 && check_now) {
    // if memory survived, a stamped record was written completely
    const bool interruptible = !memory_survived() && start >= r.fill && v > root_.durable_version;
    if (rec.value_intact()) {
      r.into.checked_values.push_back(start);
    } else if (interruptible && !next_counted(r, start + layout.size())) {
      return false;  // an interrupted write of a large value
    } else {
      report(r.into, start, rec.is_entry() ? "entry" : "record", "the value fails its checksum");
    }
  }
  if (hides_a_record(r, start, v)) {
    lost_range zeros{r.position, start, r.position, "a record may be missing here: zeros behind a damaged value"};
    zeros.least = r.last;
    zeros.greatest = v;
    r.into.lost.push_back(std::move(zeros));
  }
  take(r, start, v);
  return r.position < r.end;
}

/// Whether the zeros before `start` may be a lost record that no certificate counts, and not padding. The device write
/// that lost it also lost the end of the record before it. Checksums show that, but opening does not compute those of
/// large values.
bool record_scan::hides_a_record(const reading& r, link start, version v) const noexcept {
  const bool has_room = start - r.position >= sizeof(format::record_header);
  const bool certified = !crashed() || r.position < r.fill || v <= root_.durable_version;
  if (!has_room || certified || r.last_at == null_link) return false;
  const record before(pool_->at(r.last_at));
  return before.has_large_value() && !before.value_intact();
}

void record_scan::take(reading& r, link start, version v) const {
  const std::uint64_t offset = link_offset(start);
  // only the thread that reads a segment writes its words
  of_pools_[link_pool(start)].begins[offset / bits_unit] |= std::uint64_t{1} << (offset / 8 % 64);
  const record rec(pool_->at(start));
  const record_layout layout = rec.layout();
  switch (layout.kind) {
    case record_kind::entry:
      r.into.entries.push_back(start);
      break;
    case record_kind::insert:
    case record_kind::remove:
      r.into.updates.push_back(start);
      break;
    case record_kind::tag:
      r.into.tags.push_back(start);
      break;
    case record_kind::batch:
      break;
    case record_kind::none:
      assert(false && "intact_record() refuses kinds that no record has");
      break;
  }
  const std::uint64_t digest = record_digest(start, rec.header().crc, v);
  r.into.totals.add(layout, rec.is_removal(), digest);
  if (start < r.fill || v <= root_.durable_version) r.into.certified.add(layout, rec.is_removal(), digest);
  r.into.newest = std::max(r.into.newest, v);
  if (layout.kind == record_kind::tag) r.into.newest_tag = std::max(r.into.newest_tag, v);
  if (layout.kind == record_kind::batch) r.batch = {start, rec.header().depth, r.into.lost.size()};
  if (rec.batched() && rec.batch() == r.batch.at && r.batch.missing > 0) --r.batch.missing;
  r.last = v;
  r.last_at = start;
  r.position = start + layout.size();
}

/// Whether a process was killed before it had made the record's batch ready. Where others went on, the bytes stay as
/// they are until the segment is read as a whole (persistent/dead_writers.hpp). If the batch took effect, and a device
/// lost its stamp and those of its records, the certificate counts more records than are there.
bool record_scan::is_of_abandoned_batch(link at) const noexcept {
  const record r(pool_->at(at));
  const link batch = r.batched() ? r.batch() : at;
  if (place_containing(batch) != place_containing(at) || load_stamp(r) != 0) return false;
  const record b(pool_->at(batch));  // it is sealed when all others are linked
  const bool is_empty = all_zero(b.address(), sizeof(format::batch_header));
  return is_empty || (b.kind() == record_kind::batch && load_stamp(b) == 0 && is_intact_record(batch));
}

/// Notes the bytes that cannot be read, from range.from to range.to if that is known, and goes on behind them. Returns
/// false when the segment is done; notes nothing if an interrupted write left the segment like this.
bool record_scan::pass_damage(reading& r, lost_range range) const {
  const link behind = range.to != 0 ? range.to : range.record + 8;
  const auto next = next_counted(r, behind);
  // An intact record with a stamp has taken effect, even if that of its batch is lost; in a closed store every one has,
  // but for a batch that was never ready.
  const bool happened = range.versionless && ((is_ == store_is::closed && !is_of_abandoned_batch(range.record)) ||
                                              counts(r, range.record, own_version(range.record)));
  // Something may be lost here, or these are remains of a crash where nothing was.
  if (range.from >= r.fill && !next && !happened && r.end_unknown) {
    if (!r.headerless) range.least = r.last;
    range.to = r.end;
    range.maybe_empty = true;
    r.into.lost.push_back(std::move(range));
    return false;
  }
  if (range.from >= r.fill && !next && !happened) return false;
  if (!r.headerless) {
    range.least = r.last;
    if (const version v = next ? version_of(*next).value_or(0) : 0; v != 0) range.greatest = v;
  }
  // If nothing behind it counts, everything that a crash may have left there is lost.
  const bool to_end = crashed() && keep_all_;
  const link end = range.to != 0 ? range.to : next ? *next : to_end ? r.end : std::max(r.fill, behind);
  range.to = end;
  r.into.lost.push_back(std::move(range));
  r.position = end;
  return r.position < r.end;
}

/// Goes on behind zeros in a segment whose fill end is unknown. Returns false if nothing lies there.
bool record_scan::pass_zeros(reading& r) const {
  const auto next = next_counted(r, r.position);
  lost_range zeros{r.position, next.value_or(r.end), r.position, "zeros in a segment whose header is damaged"};
  zeros.maybe_empty = zeros.harmless = true;
  r.into.lost.push_back(std::move(zeros));
  if (next) r.position = *next;
  return next.has_value();
}

// ---- What begins where ----

bool record_scan::is_intact_record(link l) const noexcept {
  const auto* place = place_containing(l);
  return place != nullptr && intact_record(place->in, l);
}

bool record_scan::begins(link l) const noexcept {
  const std::uint64_t offset = link_offset(l);
  const of_pool& o = pool_of(l);
  return offset % 8 == 0 && offset < o.size && (o.begins[offset / bits_unit] >> (offset / 8 % 64) & 1) != 0;
}

record_scan::bits record_scan::bits_of(std::uint64_t size) {
  bits all(static_cast<std::uint64_t*>(std::calloc(size / bits_unit + 1, sizeof(std::uint64_t))));
  if (all == nullptr) throw std::bad_alloc();
  return all;
}

}  // namespace icecore::detail

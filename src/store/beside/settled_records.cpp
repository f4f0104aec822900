#include "store/beside/settled_records.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "history/history.hpp"
#include "pool/manifest/manifest_format.hpp"
#include "pool/query/query_format.hpp"
#include "pool/root/boot.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

settled_records::settled_records(pool_set& in, const manifest& of) : pool_(&in), era_(of.era) {
  named_.reserve(of.extents.size() + of.values.size() + 1);
  for (const format::named_extent& each : of.extents) named_.push_back(each.segment);
  for (const format::named_value& each : of.values) named_.push_back(each.segment);
  if (of.number != 0) named_.push_back(of.segment);
  std::ranges::sort(named_);
}

std::optional<settled_now> settled_records::settled() const {
  const format::live_page& live = pool_->live();
  settled_now now{};
  now.epoch = live.settled_epoch.load(std::memory_order_acquire);  // acquire: pairs with settled_point's last store
  if (now.epoch == 0) return std::nullopt;
  now.version = live.settled.load(std::memory_order_acquire);  // acquire: B1
  // Behind the version: not older than it (B4)
  const auto root = newest_root(pool_->first().base());
  if (!root || root->epoch != now.epoch) return std::nullopt;  // B3
  if (!written_this_boot(*root)) {
    require_boot_to_be_told(pool_->origin());
    return std::nullopt;
  }
  now.manifest = root->manifest;
  now.index_stays = root->anchor != null_link;
  std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the one in publish_ends()
  for (const pool* p : pool_->files()) {
    // relaxed: older neither than the version (B2) nor than the root (B5)
    now.ends[p->number()] = p->live().settled_end.load(std::memory_order_relaxed);
  }
  // Another process may have begun to set these words for its own epoch. Then the epoch was set to 0 first.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (live.settled_epoch.load(std::memory_order_relaxed) != now.epoch) return std::nullopt;
  return now;
}

std::optional<settled_now> settled_records::closed() {
  const auto is_new = [&](const std::optional<format::root>& root) {
    const bool known = kept_.all_of_epoch && root && kept_.epoch == root->epoch;
    return root && root->state == format::root_state::clean && !known;
  };
  if (!is_new(newest_root(pool_->first().base()))) return std::nullopt;
  // Writers that come look for observers when they have their lock. So either they see this one, or it sees them.
  pool_file& file = pool_->first().file();
  if (!file.observe() || file.is_being_written()) return std::nullopt;
  const auto root = newest_root(pool_->first().base());
  if (!is_new(root)) return std::nullopt;
  settled_now now{};
  now.epoch = root->epoch;
  now.version = root->clock;
  now.manifest = root->manifest;
  now.index_stays = root->anchor != null_link;
  for (const pool* p : pool_->files()) {
    const auto own = newest_root(p->base());
    if (!own || own->state != format::root_state::clean) return std::nullopt;
    now.ends[p->number()] = own->used_end;
  }
  now.closed_with = {root->certified_records, root->certified_sum};
  return now;
}

bool settled_records::are_withheld() const {
  const auto root = newest_root(pool_->first().base());
  // acquire: as in settled()
  const std::uint64_t said = pool_->live().settled_epoch.load(std::memory_order_acquire);
  return root && written_this_boot(*root) && said == (root->epoch | format::settled_withheld);
}

bool settled_records::are_abandoned() {
  pool_file& file = pool_->first().file();
  if (!file.observe() || file.is_being_written()) return false;
  const auto root = newest_root(pool_->first().base());
  return root && root->state != format::root_state::clean;
}

bool settled_records::are_of_closed_store() {
  const auto root = newest_root(pool_->first().base());
  if (!root || root->state != format::root_state::clean) return false;
  pool_file& file = pool_->first().file();
  return file.observe() && file.is_being_written();
}

std::vector<settled_part> settled_records::read(const settled_now& now, unsigned threads,
                                                const progress_function& on_progress) {
  for (pool* p : pool_->files()) p->follow(now.ends[p->number()]);
  now_ = kept_;
  now_.all_of_epoch = now.closed_with.has_value();
  find_segments(now);
  std::vector<settled_part> parts(std::max(1U, threads));
  std::uint64_t total = 0;
  for (const segment_tail& place : now_.places) total += place.space();
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  run_on_threads(static_cast<unsigned>(parts.size()), [&](unsigned thread) {
    std::uint64_t reported = 0;
    // relaxed: only the count matters; the segments were all there before the threads began
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < now_.places.size();) {
      segment_tail& place = now_.places[i];
      const std::uint64_t room = place.space();
      read_segment(place, now.version, parts[thread]);
      const std::uint64_t so_far = done.fetch_add(room, std::memory_order_relaxed) + room;
      if (thread == 0 && on_progress && so_far - reported > (std::uint64_t{64} << 20)) {
        reported = so_far;
        on_progress({"reading records", so_far, total, "bytes"});
      }
    }
  });
  return parts;
}

const std::vector<segment_tail>& settled_records::find(const settled_now& now) {
  for (pool* p : pool_->files()) p->follow(now.ends[p->number()]);
  now_ = {};
  find_segments(now);
  return now_.places;
}

// A header is there before a record of its segment is settled (B1). Space that was given back is zeros, or has a
// header; so an intact record of a settled version where no header is valid means that the header is damaged. One
// record of a granule suffices. The file is read, and not the mapping: who closes the store may cut it.
std::vector<link> settled_records::hidden_records(version settled) const {
  constexpr std::uint32_t generations_max = 64;  // as record_scan's
  std::vector<link> found;
  std::vector<std::byte> bytes(format::granule_size);
  const auto holds_one = [&](link granule) {
    for (std::uint64_t at = sizeof(format::segment_header); at + sizeof(format::record_header) <= bytes.size();
         at += 8) {
      const record r(bytes.data() + at);
      if (!r.layout().plausible() || r.layout().size() > bytes.size() - at) continue;
      const std::uint32_t generation = pool_->codec().record_generation(r.intact_seed(), granule + at);
      if (generation == 0 || generation > generations_max) continue;
      const std::uint64_t stamp = r.header().stamp.load(std::memory_order_relaxed);  // relaxed: a copy
      const version v = stamp & format::stamp_version_mask;
      if (v != 0 && v <= settled && pool_->codec().valid(stamp, granule + at + format::stamp_offset)) return true;
    }
    return false;
  };
  for (const area& each : now_.others) {
    if (each.by != use::unknown) continue;
    for (link at = each.from; at < each.to; at += format::granule_size) {
      const pool& p = pool_->of(at);
      if (!p.file().read(bytes.data(), bytes.size(), link_offset(at)) || all_zero(bytes.data(), bytes.size())) continue;
      if (holds_one(at)) found.push_back(at);
    }
  }
  return found;
}

std::vector<settled_part> settled_records::take_over(const settled_now& now, const record_scan& scan) {
  now_ = {};
  now_.epoch = now.epoch;
  now_.all_of_epoch = true;
  now_.looked_up_to = now.ends;
  now_.places = scan.segments();
  for (const auto* segments : {&scan.holes(), &scan.index_segments(), &scan.query_segments(), &scan.free_segments(),
                               &scan.outdated_segments()}) {
    for (const segment& each : *segments) now_.others.push_back({each.offset, each.end(), use::unknown});
  }
  std::vector<settled_part> parts;
  parts.reserve(scan.parts().size());
  for (const record_scan_part& part : scan.parts())
    parts.push_back({part.entries, part.updates, part.tags, part.totals});
  return parts;
}

// ---- Segments ----

void settled_records::find_segments(const settled_now& now) {
  const bool same_epoch = std::exchange(now_.epoch, now.epoch) == now.epoch;
  std::vector<area> others;
  std::vector<area> unclear;
  if (!same_epoch) {  // what had no record yet may have been given out anew
    std::erase_if(now_.places, [&](const segment_tail& place) {
      if (place.position != place.in.first_record()) return false;
      unclear.push_back({place.in.offset, place.in.end(), use::unknown});
      return true;
    });
  }
  for (const area& a : now_.others) (same_epoch && a.by == use::stays ? others : unclear).push_back(a);
  for (const pool* p : pool_->files()) {
    std::uint64_t& looked_up_to = now_.looked_up_to[p->number()];
    looked_up_to = std::max(looked_up_to, format::first_segment_offset);
    const std::uint64_t end = now.ends[p->number()];
    if (end <= looked_up_to) continue;
    unclear.push_back({make_link(p->number(), looked_up_to), make_link(p->number(), end), use::unknown});
    looked_up_to = end;
  }
  // Together: a segment may lie where there were several of another use, or begin in a hole and end behind all of them.
  std::ranges::sort(unclear, {}, &area::from);
  for (std::size_t i = 0; i < unclear.size();) {
    const link from = unclear[i].from;
    link to = unclear[i].to;
    while (++i < unclear.size() && unclear[i].from == to) to = unclear[i].to;
    look_at(from, to, now.index_stays, others);
  }
  now_.others = std::move(others);
}

/// Finds the segments between two granules; `others` gets what is none of records.
void settled_records::look_at(link from, link to, bool index_stays, std::vector<area>& others) {
  const pool& p = pool_->of(from);
  for (link at = from; at < to;) {
    format::segment_header h;
    if (!p.file().read(&h, sizeof h, link_offset(at))) {  // cut off by a process that has closed the store
      others.push_back({at, to, use::unknown});
      return;
    }
    const bool known = h.magic == format::segment_magic || h.magic == format::index_segment_magic ||
                       h.magic == format::query_segment_magic || h.magic == format::packed_segment_magic ||
                       h.magic == format::manifest_segment_magic || h.magic == format::free_segment_magic ||
                       h.magic == format::forget_segment_magic;
    const std::uint64_t size = std::uint64_t{h.granules} * format::granule_size;
    const bool valid = known && size != 0 && size <= to - at && h.crc == header_crc(h, p.codec().pool_seed(), at);
    if (valid && h.magic == format::segment_magic && h.era == era_) {
      const segment found{at, size, h.generation};
      now_.places.push_back({found, found.first_record()});
      at += size;
      continue;
    }
    const bool stays = h.magic == format::index_segment_magic ? index_stays : std::ranges::binary_search(named_, at);
    const use by = !valid ? use::unknown : stays ? use::stays : use::other;
    const link end = at + (valid ? size : format::granule_size);
    if (!others.empty() && others.back().to == at && others.back().by == by) {
      others.back().to = end;
    } else {
      others.push_back({at, end, by});
    }
    at = end;
  }
}

// ---- Records ----

void settled_records::read_segment(segment_tail& place, version up_to, settled_part& into) const {
  const address_space space(pool_->bases());
  const link end = place.in.end();
  // Before the records: a writer that closes the store while they are looked at has then written more, and vouches for
  // that. The fence keeps the two in order; a fill end is stored behind its records.
  const std::optional<link> fill = pool_->fill_of(place.in);
  std::atomic_thread_fence(std::memory_order_acquire);
  for (;;) {
    link start = place.position;
    while (start < end && start - place.position <= format::record_padding_max && word_at(pool_->at(start)) == 0)
      start += 8;
    const bool nothing = start >= end || start - place.position > format::record_padding_max;
    version v = 0;
    if (!nothing && is_intact_record(*pool_, place.in, start) &&
        record(pool_->at(start)).layout().place(place.position) == start)
      v = stamped_already(space, start);
    if (v == 0) {
      if (fill && place.position < *fill) raise_missing(place.position);
      return;
    }
    if (v > up_to) return;
    take(start, v, into);
    place.position = start + record(pool_->at(start)).layout().size();
  }
}

void settled_records::take(link at, version v, settled_part& into) const {
  const record r(pool_->at(at));
  const record_layout layout = r.layout();
  if (layout.kind == format::record_kind::tag) {
    into.tags.push_back(at);
  } else if (r.is_entry()) {
    into.entries.push_back(at);
  } else if (r.is_update()) {
    into.updates.push_back(at);
  }
  into.totals.add(layout, r.is_removal(), record_digest(at, r.header().crc, v));
}

void settled_records::raise_missing(link at) const {
  raise(errc::damaged,
        "{}: damaged at byte {} (segment): records are missing here that were there when the store was last closed; "
        "close it in the process that writes it, and icecore verify will name what is lost",
        pool_->origin(at), link_offset(at));
}

segment_tail settled_records::change(unsigned /*writer*/, const segment_tail& /*remaining*/,
                                     const record_totals& /*since_opening*/, version /*newest*/,
                                     std::uint64_t /*bytes*/, std::uint16_t /*in*/) {
  raise(errc::read_only, "{}: is open for reading", pool_->file().path().native());
}

}  // namespace icecore::detail

// Compares what a record scan found with what the roots certify: what is damaged, and whether opening refuses the
// store.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/raise.hpp"
#include "pool/query/query_format.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

// A joint certificate counts if all that it certifies is there, large values included: those of records behind the fill
// ends are checked. Otherwise it was cut off, or something is damaged besides: if what the root before certifies is not
// there either, it is damage, and more of it is known with the newest root.
record_scan record_scan::of_unopened(const pool_set& in, const record_scan_options& how) {
  record_scan found(in, how);
  const bool may_be_cut_off = found.root_.certificate == format::certificate_kind::joint && found.crashed() &&
                              !found.memory_survived() && !found.damages().empty();
  if (!may_be_cut_off) return found;
  const auto before = in.roots().previous();
  if (!before) return found;
  in.roots().go_to(*before);
  record_scan as_before(in, how);
  if (as_before.damages().empty()) return as_before;
  in.roots().go_to(found.root_);
  return found;
}

void record_scan::check_certificate() {
  if (pool_->root_unreliable()) return;
  // a clean root was written when nothing was under way; after any other, the clock has moved on, below its limit
  const version last = root_.state == format::root_state::clean ? root_.clock : root_.clock_limit;
  if (newest() > last || newest_tag() >= last) {
    report(parts_.front(), 0, "file",
           fmt::format("a record or tag has version {}, but the root's clock or its limit is {}", newest(), last));
  }
  record_totals certified = this->certified();
  if (root_.state == format::root_state::clean) certified = totals();
  missing_records_ = static_cast<std::int64_t>(root_.certified_records - certified.records);
  const auto is_missing = [&](const lost_range& l) { return pool_->find(link_pool(l.from)) == nullptr; };
  for (lost_range& l : parts_.front().lost) {
    if (is_missing(l)) l.maybe_empty = l.harmless = missing_records_ == 0 && root_.state == format::root_state::clean;
  }
  for (const pool* p : pool_->files()) check_end(*p);
  if (certified.records == root_.certified_records && certified.digest == root_.certified_sum) return;
  if (!damages().empty()) return;  // that explains it
  report(parts_.front(), 0, "file",
         certified.records == root_.certified_records ? std::string("the records are not those that the root certifies")
                                                      : fmt::format("the root certifies {} records, but {} were found",
                                                                    root_.certified_records, certified.records));
}

/// Reports a file that was cut short. A clean close cuts it too, which an older root does not know.
void record_scan::check_end(const pool& p) {
  const std::uint64_t was = p.number() == 0 ? root_.file_size : p.roots().read().file_size;
  if (p.size() >= was) return;
  link from = make_link(p.number(), p.size());
  const auto behind = std::ranges::upper_bound(segments_, from, {}, [](const auto& s) { return s.in.offset; });
  if (behind != segments_.begin() && std::prev(behind)->in.end() == from) from = std::prev(behind)->position;
  const bool root_spoilt = std::ranges::any_of(p.damages(), [](const damage& d) { return d.structure == "root"; });
  const bool closed = root_.state == format::root_state::clean || root_spoilt;
  lost_range end{from, make_link(p.number(), was), from,
                 fmt::format("the file is {} bytes long but was {}: its end is missing", p.file().size(), was)};
  end.maybe_empty = missing_records_ == 0 && closed;
  parts_.front().lost.push_back(std::move(end));
}

/// A version has at most one tag, and so has a name. Checksums do not show a second one: this store did not write it.
void record_scan::check_tags() {
  std::vector<link> tags;
  for (const auto& p : parts_) tags.insert(tags.end(), p.tags.begin(), p.tags.end());
  const auto name_of = [&](link l) { return record(pool_->at(l)).key(); };
  const auto closed_by = [&](link l) { return version_of(l).value_or(0); };
  const auto report_doubles = [&](const char* what, auto of) {
    std::ranges::sort(tags, {}, [&](link l) { return std::pair(of(l), l); });
    for (std::size_t i = 1; i < tags.size(); ++i) {
      if (of(tags[i]) != of(tags[i - 1]) || of(tags[i]) == decltype(of(tags[i])){}) continue;
      report(parts_.front(), tags[i], "tag",
             fmt::format("another tag has the same {}, at {}", what, pool_->place_of(tags[i - 1])));
    }
  };
  report_doubles("version", closed_by);
  report_doubles("name", name_of);
}

std::vector<damage> record_scan::damages() const {
  std::vector<damage> all;
  for (const auto& p : parts_) {
    all.insert(all.end(), p.damages.begin(), p.damages.end());
    for (const auto& range : p.lost) {
      if (range.harmless) continue;
      all.push_back({range.record, "record", range.what, std::nullopt, std::nullopt});
    }
  }
  std::ranges::sort(all, {}, &damage::offset);
  return all;
}

void record_scan::refuse_damaged() const {
  const auto all = damages();
  if (all.empty()) return;
  const damage& first = all.front();
  raise(errc::damaged, "{}: damaged at byte {} ({}): {}{}; icecore verify reports the damage",
        pool_->origin(first.offset), link_offset(first.offset), first.structure, first.what,
        all.size() > 1 ? fmt::format(" and {} more", all.size() - 1) : "");
}

void record_scan::refuse_unknown_crash() const {
  if (std::ranges::none_of(parts_, [](const record_scan_part& part) { return part.undecided != 0; })) return;
  const auto& host = pool_->live().writer_host;
  const std::string_view name(host, strnlen(host, sizeof host));
  const bool legible = !name.empty() && std::ranges::all_of(name, [](char c) { return c > ' ' && c < '\x7f'; });
  raise(errc::crash_unknown,
        "{}: was left open by a process on {}, and it is not known here whether that machine has stopped since; there "
        "are writes behind the durable point: say 'process' to keep them if all that was written has reached the file, "
        "or 'machine' to go back to that point (options::crash, --crash)",
        pool_->origin(), legible ? name : "an unknown host");
}

record_totals record_scan::totals() const {
  record_totals sum;
  for (const auto& p : parts_) sum.add(p.totals);
  return sum;
}

record_totals record_scan::certified() const {
  record_totals sum;
  for (const auto& p : parts_) sum.add(p.certified);
  return sum;
}

std::uint64_t record_scan::superseded_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& p : parts_) sum += p.superseded;
  return sum;
}

void record_scan::report(record_scan_part& into, link at, const char* structure, std::string what) {
  into.damages.push_back({at, structure, std::move(what), std::nullopt, std::nullopt});
}

/// Names the damaged records. An update's key is in its entry, in a segment that another thread may still be reading
/// when the damage is found, so this waits until everything has been read.
void record_scan::name_damages(record_scan_part& part) const {
  for (damage& d : part.damages) {
    if (!begins(d.offset)) continue;
    const record r(pool_->at(d.offset));
    if (r.is_entry()) {
      d.key = std::string(r.key());
    } else if (const link entry = r.is_update() ? r.as_update().entry : 0; begins(entry)) {
      const record e(pool_->at(entry));
      if (e.is_entry()) d.key = std::string(e.key());
    }
    if (const auto v = version_of(d.offset); v && *v != 0) d.version = *v;
  }
}

std::uint64_t record_scan::outdated_bytes() const noexcept { return bytes_of(outdated_segments_); }

/// What the manifest says decides whether a segment counts: one of records or of an index by its era, a packed one, or
/// one of whose records a value is left, by its name.
record_scan::segment_kind record_scan::kind_of(link at, link end) const noexcept {
  if (at + format::granule_size > end) return segment_kind::none;
  const pool& p = pool_->of(at);
  if (p.is_in_hole(link_offset(at))) return segment_kind::none;
  const format::segment_header& h = p.header_of(at);
  if (!p.valid_header(at, h.magic)) return segment_kind::none;
  switch (h.magic) {
    case format::segment_magic:
      if (h.era == packed_.era) return segment_kind::records;
      return packed_.names(at) ? segment_kind::packed : segment_kind::outdated;
    case format::index_segment_magic:
      return h.era == packed_.era ? segment_kind::index : segment_kind::outdated;
    case format::query_segment_magic:
      return segment_kind::queries;
    case format::packed_segment_magic:
    case format::manifest_segment_magic:
      return packed_.names(at) ? segment_kind::packed : segment_kind::outdated;
    case format::forget_segment_magic:  // until a compaction gives it back
      return segment_kind::packed;
    case format::free_segment_magic:
      return segment_kind::free;
    default:
      return segment_kind::none;
  }
}

void record_scan::note(const segment& s, segment_kind kind) {
  switch (kind) {
    case segment_kind::records:
      return segments_.push_back({s, s.first_record()});
    case segment_kind::index:
      return index_segments_.push_back(s);
    case segment_kind::queries:
      return query_segments_.push_back(s);
    case segment_kind::packed:
      return packed_segments_.push_back(s);
    case segment_kind::free:
      return free_segments_.push_back(s);
    case segment_kind::outdated:
      return outdated_segments_.push_back(s);
    case segment_kind::none:
      return;
  }
}

version record_scan::newest() const {
  version newest = packed_.greatest;
  for (const auto& p : parts_) newest = std::max(newest, p.newest);
  return newest;
}

version record_scan::newest_tag() const {
  version newest = 0;
  for (const auto& p : parts_) newest = std::max(newest, p.newest_tag);
  return newest;
}

}  // namespace icecore::detail

#include "store/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/threads.hpp"

namespace icecore::detail {
namespace {

using format::record_kind;

constexpr std::uint64_t stamp_offset = offsetof(format::record_header, stamp);

std::uint64_t word_at(const std::byte* p) noexcept {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

bool zero_range(const std::byte* from, std::uint64_t size) noexcept {
  return std::all_of(from, from + size, [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t load_stamp(record r) noexcept {
  // acquire: verify reads beside writers; what is stamped is whole
  return r.header().stamp.load(std::memory_order_acquire);
}

}  // namespace

struct survey::reading {
  segment in;
  std::uint64_t fill;      // certified end
  std::uint64_t position;  // end of what counts so far
  std::uint64_t end;       // where to stop at the latest
  survey_part& into;
};

survey::survey(const pool& in, const survey_options& how)
    : pool_(&in), how_(how), root_(in.roots().read()), parts_(std::max(1U, how.threads)) {
  std::uint8_t boot[16];
  read_boot_id(boot);
  const bool known = std::any_of(std::begin(boot), std::end(boot), [](std::uint8_t b) { return b != 0; });
  same_boot_ = known && std::memcmp(boot, root_.boot_id, sizeof boot) == 0;
  keep_all_ = how_.filled != nullptr || root_.state == format::root_state::clean || same_boot_ ||
              root_.durability == static_cast<std::uint8_t>(durability::operation);
  // a power cut on page media leaves pages of one operation in any order
  ordered_ = keep_all_ && (how_.filled != nullptr || root_.state == format::root_state::clean || same_boot_ ||
                           in.durability().medium != medium::block_device);
  find_segments();

  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  run_on_threads(static_cast<unsigned>(parts_.size()), [&](unsigned thread) {
    std::uint64_t reported = 0;
    // relaxed: only the counting matters, the segments were all there before
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < segments_.size();) {
      read_segment(i, parts_[thread]);
      const std::uint64_t now = done.fetch_add(segments_[i].in.size, std::memory_order_relaxed);
      if (thread == 0 && how_.on_progress && now - reported > (std::uint64_t{64} << 20)) {
        reported = now;
        how_.on_progress({"reading records", now, used_end_, "bytes"});
      }
    }
  });
  if (how_.filled == nullptr) check_certificate();
}

// ---- Segments ----

void survey::find_segments() {
  segment_of_granule_.assign(pool_->size() / format::granule_size + 1, 0);
  if (how_.filled != nullptr) {
    segments_ = *how_.filled;
    std::ranges::sort(segments_, {}, [](const auto& p) { return p.in.offset; });
  } else {
    const std::uint64_t end = root_.state == format::root_state::clean ? root_.used_end : pool_->size();
    for (std::uint64_t at = format::first_segment_offset; at + format::granule_size <= end;) {
      if (pool_->valid_header(at)) {
        const segment s = pool_->segment_at(at);
        segments_.push_back({s, s.first_record()});
        at = s.end();
        continue;
      }
      const std::byte* bytes = pool_->at(at);
      const std::uint64_t header = sizeof(format::segment_header);
      const bool empty = zero_range(bytes + header, format::granule_size - header);
      if (ordered_ && !(empty && root_.state == format::root_state::open) && !zero_range(bytes, format::granule_size)) {
        report(parts_.front(), at, "segment", "the segment header is damaged; its records cannot be told apart");
      }
      holes_.push_back({at, format::granule_size, 0});
      at += format::granule_size;
    }
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const segment& s = segments_[i].in;
    used_end_ = std::max(used_end_, s.end());
    for (std::uint64_t g = s.offset; g < s.end(); g += format::granule_size) {
      segment_of_granule_[g / format::granule_size] = static_cast<std::uint32_t>(i + 1);
    }
  }
}

const partial_segments::place* survey::place_containing(std::uint64_t offset) const noexcept {
  const std::uint64_t granule = offset / format::granule_size;
  if (granule >= segment_of_granule_.size() || segment_of_granule_[granule] == 0) return nullptr;
  return &segments_[segment_of_granule_[granule] - 1];
}

void survey::read_segment(std::size_t index, survey_part& into) {
  partial_segments::place& place = segments_[index];
  const segment s = place.in;
  reading r{s, s.first_record(), s.first_record(), s.end(), into};
  if (how_.filled != nullptr) {
    r.fill = r.end = place.position;
  } else if (const auto fill = pool_->fill_of(s)) {
    r.fill = *fill;
  } else {
    report(into, s.offset, "segment", "the fill word in the segment's header is damaged");
  }
  while (read_record(r)) {
  }
  place.position = r.position;
  into.bytes += r.position - s.offset;
}

// ---- Records ----

bool survey::whole_record(const segment& s, std::uint64_t offset) const noexcept {
  if (offset % 8 != 0 || offset < s.first_record() || offset + sizeof(format::record_header) > s.end()) return false;
  const record r(pool_->at(offset));
  const record_layout layout = r.layout();
  return layout.plausible() && layout.size() <= s.end() - offset && (!r.is_entry() || r.header().depth == 1) &&
         r.intact(pool_->codec().record_seed(s.generation, offset));
}

/// The version of the intact record at `offset`; 0 if it has not happened (unstamped, or of a batch that never was);
/// empty if its stamp is damaged.
std::optional<version> survey::version_of(std::uint64_t offset) const noexcept {
  const record r(pool_->at(offset));
  const std::uint64_t own = load_stamp(r);
  const std::uint64_t unmarked = own & ~format::stamp_persisted;
  if (unmarked != 0 && !pool_->codec().valid(own, offset + stamp_offset)) return std::nullopt;
  if (!r.batched()) return unmarked & format::stamp_version_mask;
  const link batch = r.batch();
  const auto* place = place_containing(link_offset(batch));
  if (link_pool(batch) != 0 || place == nullptr || !whole_record(place->in, link_offset(batch))) {
    return unmarked == 0 ? std::optional<version>(0) : std::nullopt;
  }
  const record b(pool_->at(link_offset(batch)));
  const std::uint64_t stamp = load_stamp(b) & ~format::stamp_persisted;
  if (b.kind() != record_kind::batch) return std::nullopt;
  if (stamp != 0 && !pool_->codec().valid(stamp, link_offset(batch) + stamp_offset)) return std::nullopt;
  const version v = stamp & format::stamp_version_mask;
  if (unmarked != 0 && (unmarked & format::stamp_version_mask) != v) return std::nullopt;
  return v;
}

/// The next place at or behind `from` where a record lies that counts; empty if none does.
std::optional<std::uint64_t> survey::next_counted(const segment& s, std::uint64_t from,
                                                  std::uint64_t fill) const noexcept {
  const std::uint64_t end = keep_all_ ? s.end() : fill;
  for (std::uint64_t at = from; at + sizeof(format::record_header) <= end; at += 8) {
    if (!whole_record(s, at)) continue;
    const auto v = version_of(at);
    if (v && *v != 0) return at;
  }
  return std::nullopt;
}

/// Takes in the record behind r.position; false when the segment is done.
bool survey::read_record(reading& r) {
  std::uint64_t start = r.position;
  while (start < r.end && start - r.position <= format::record_padding_max && word_at(pool_->at(start)) == 0)
    start += 8;
  const bool nothing = start >= r.end || start - r.position > format::record_padding_max;
  std::string wrong;
  std::optional<version> v;
  if (nothing) {
    if (r.position >= r.fill) return false;
    wrong = "records are missing here: zeros where the segment says it is filled";
    start = r.position;
  } else if (!whole_record(r.in, start) || record(pool_->at(start)).layout().place(r.position) != start) {
    wrong = "bytes that fail the record's checksum";
  } else if (v = version_of(start); !v) {
    wrong = "the record's stamp is damaged";
  } else if (*v == 0 && start < r.fill) {
    wrong = "a certified record is not stamped";
  }
  if (wrong.empty()) {
    const bool certified = start < r.fill || *v <= root_.durable_version;
    if (*v == 0 || !(certified || keep_all_)) return false;  // an interrupted write, or beyond the durable point
    const record rec(pool_->at(start));
    const record_layout layout = rec.layout();
    // a tag's note is read at opening, other values later
    const bool check_now = start >= r.fill || how_.large_values || layout.kind == record_kind::tag;
    if ((layout.flags & format::flag_large_value) != 0 && check_now) {
      if (rec.value_intact()) {
        r.into.checked_values.push_back(make_link(0, start));
      } else if (start >= r.fill && !certified && !next_counted(r.in, start + layout.size(), r.fill)) {
        return false;  // an interrupted write of a large value
      } else {
        report(r.into, start, rec.is_entry() ? "entry" : "record", "the value fails its checksum");
      }
    }
    switch (layout.kind) {
      case record_kind::entry:
        r.into.entries.push_back(make_link(0, start));
        break;
      case record_kind::insert:
      case record_kind::remove:
        r.into.updates.push_back(make_link(0, start));
        break;
      case record_kind::tag:
        r.into.tags.push_back(make_link(0, start));
        break;
      default:
        break;
    }
    const std::uint64_t digest = record_digest(start, rec.header().crc, *v);
    r.into.totals.add(layout, rec.is_removal(), digest);
    if (certified) r.into.certified.add(layout, rec.is_removal(), digest);
    r.into.newest = std::max(r.into.newest, *v);
    if (layout.kind == record_kind::tag) r.into.newest_tag = std::max(r.into.newest_tag, *v);
    r.position = start + layout.size();
    return r.position < r.end;
  }
  const auto next = next_counted(r.in, start + 8, r.fill);
  if (start >= r.fill && !next) return false;  // an interrupted write
  report(r.into, start, "record", wrong);
  if (!next) return false;
  r.position = *next;
  return true;
}

void survey::report(survey_part& into, std::uint64_t offset, const char* structure, std::string what) const {
  damage d{offset, structure, std::move(what), std::nullopt, std::nullopt};
  const auto* place = place_containing(offset);
  if (place != nullptr && offset != place->in.offset && whole_record(place->in, offset)) {
    const record r(pool_->at(offset));
    if (r.is_entry()) {
      d.key = std::string(r.key());
    } else if (r.is_update() && is_counted_record(r.as_update().entry)) {
      d.key = std::string(record(pool_->at(link_offset(r.as_update().entry))).key());
    }
    if (const auto v = version_of(offset); v && *v != 0) d.version = *v;
  }
  into.damages.push_back(std::move(d));
}

void survey::check_certificate() {
  // a clean root was written when nothing was under way; another one's clock has gone on since, below its limit
  const version last = root_.state == format::root_state::clean ? root_.clock : root_.clock_limit;
  if (newest() > last || newest_tag() >= last) {
    report(parts_.front(), 0, "file",
           fmt::format("a record or tag is of version {}, but the root's clock or its limit is {}", newest(), last));
  }
  record_totals certified;
  for (const auto& p : parts_) certified.add(p.certified);
  if (root_.state == format::root_state::clean) certified = totals();
  if (certified.records == root_.certified_records && certified.digest == root_.certified_sum) return;
  if (!damages().empty()) return;  // that explains it
  report(parts_.front(), 0, "file",
         certified.records == root_.certified_records ? std::string("the records are not those that the root certifies")
                                                      : fmt::format("the root certifies {} records but {} are there",
                                                                    root_.certified_records, certified.records));
}

// ---- Chains ----

bool survey::is_counted_record(link l) const noexcept {
  const std::uint64_t offset = link_offset(l);
  const auto* place = place_containing(offset);
  return link_pool(l) == 0 && place != nullptr && offset < place->position && whole_record(place->in, offset);
}

void survey::check_chains() {
  constexpr std::size_t ahead = 16;  // so many records are on their way from memory
  run_on_threads(static_cast<unsigned>(parts_.size()), [&](unsigned thread) {
    survey_part& part = parts_[thread];
    for (std::size_t i = 0; i < part.updates.size(); ++i) {
      if (i + ahead < part.updates.size()) {
        const auto& soon = record(pool_->at(link_offset(part.updates[i + ahead]))).as_update();
        __builtin_prefetch(pool_->at(link_offset(soon.entry)));
        __builtin_prefetch(pool_->at(link_offset(soon.older)));
        __builtin_prefetch(pool_->at(link_offset(soon.jump)));
      }
      check_chain(part.updates[i], part);
    }
  });
}

void survey::check_chain(link update, survey_part& into) const {
  const record r(pool_->at(link_offset(update)));
  const auto& u = r.as_update();
  const auto inside = [&](link l) {
    const auto* place = place_containing(link_offset(l));
    return link_pool(l) == 0 && l % 8 == 0 && place != nullptr && link_offset(l) >= place->in.first_record() &&
           link_offset(l) < place->position;
  };
  if (!inside(u.entry) || !inside(u.older) || !inside(u.jump)) {
    report(into, link_offset(update), "record", "it links to places where nothing is");
    return;
  }
  const record entry(pool_->at(link_offset(u.entry)));
  const record older(pool_->at(link_offset(u.older)));
  const record jump(pool_->at(link_offset(u.jump)));
  const auto of_same_entry = [&](record x, link at) {
    return at == u.entry || (x.is_update() && x.as_update().entry == u.entry);
  };
  const std::uint32_t depth = r.header().depth;
  if (!entry.is_entry() || !of_same_entry(older, u.older) || older.header().depth + 1 != depth) {
    report(into, link_offset(update), "record", "the record before it in its history is missing");
  } else if (!of_same_entry(jump, u.jump) || jump.header().depth >= depth) {
    report(into, link_offset(update), "record", "its jump link does not lead to an older record");
  } else if (version_of(link_offset(u.older)).value_or(0) > version_of(link_offset(update)).value_or(0)) {
    report(into, link_offset(update), "record", "its version is older than that of the record before it");
  }
}

std::vector<damage> survey::damages() const {
  std::vector<damage> all;
  for (const auto& p : parts_) all.insert(all.end(), p.damages.begin(), p.damages.end());
  std::ranges::sort(all, {}, &damage::offset);
  return all;
}

record_totals survey::totals() const {
  record_totals sum;
  for (const auto& p : parts_) sum.add(p.totals);
  return sum;
}

version survey::newest() const {
  version newest = 0;
  for (const auto& p : parts_) newest = std::max(newest, p.newest);
  return newest;
}

version survey::newest_tag() const {
  version newest = 0;
  for (const auto& p : parts_) newest = std::max(newest, p.newest_tag);
  return newest;
}

}  // namespace icecore::detail

#include "pool/manifest/manifest.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "pool/manifest/manifest_copies.hpp"

namespace icecore {
namespace {

using format::manifest_slot;
using format::named_extent;
using format::named_value;

constexpr std::uint64_t segment_header_size = sizeof(format::segment_header);

const manifest_slot& slot_at(const pool_set& pools, std::uint32_t number) noexcept {
  const std::byte* const page = pools.first().base() + format::manifest_anchor_offset;
  return reinterpret_cast<const format::manifest_anchor*>(page)->slots[number % 2];
}

std::uint32_t crc_of(const pool_set& pools, manifest_slot slot) noexcept {
  slot.crc = 0;
  const std::uint32_t seed = crc32c(pools.codec().pool_seed(), format::manifest_anchor_offset);
  return crc32c(crc32c(seed, std::uint64_t{slot.number}), &slot, sizeof slot);
}

std::uint32_t bytes_seed(const pool_set& pools, std::uint32_t number) noexcept {
  return crc32c(pools.codec().pool_seed(), std::uint64_t{number});
}

[[noreturn]] void raise_damaged(const pool_set& pools, link at, const char* what, const char* more = "") {
  raise(errc::damaged, "{}: damaged at byte {} (manifest): {}{}", pools.origin(at), link_offset(at), what, more);
}

constexpr const char* what_is_lost =
    "; which packed records are part of the store, and which versions have expired, is not known: restore a checkpoint";

bool is_of(const pool_set& pools, const manifest_slot& slot, std::uint32_t number) noexcept {
  return slot.number == number && slot.crc == crc_of(pools, slot);
}

// ---- The second copy ----

constexpr std::uint64_t in_words(std::uint64_t size) noexcept { return (size + 7) & ~std::uint64_t{7}; }

/// Where the copy of the slot lies, behind that of the manifest.
link copied_slot_at(const segment& s) noexcept { return s.end() - sizeof(manifest_slot); }

link copied_bytes_at(const segment& s, std::uint64_t size) noexcept { return copied_slot_at(s) - in_words(size); }

manifest_slot copied_slot(const pool_set& pools, const segment& s) noexcept {
  manifest_slot slot;
  std::memcpy(&slot, pools.at(copied_slot_at(s)), sizeof slot);
  return slot;
}

/// Whether the manifest's size is that of what its slot counts.
bool has_right_size(const manifest_slot& slot) noexcept {
  constexpr std::uint64_t most = std::uint64_t{1} << 40;  // so that the size does not overflow
  const std::uint64_t size = std::min(slot.extents, most) * sizeof(named_extent) +
                             std::min(slot.expired, most) * sizeof(version_range) +
                             std::min(slot.values, most) * sizeof(named_value);
  return slot.size == size;
}

/// Whether the segment has a copy: not that of a store which an older icecore has packed.
bool has_copy(const pool_set& pools, const segment& s, std::uint64_t size) noexcept {
  if (size > s.size / 2 || segment_header_size + 2 * in_words(size) + sizeof(manifest_slot) > s.size) return false;
  return !all_zero(pools.at(copied_bytes_at(s, size)), in_words(size) + sizeof(manifest_slot));
}

bool are_intact(const pool_set& pools, const manifest_slot& slot, link at) noexcept {
  return crc32c(bytes_seed(pools, slot.number), pools.at(at), slot.size) == slot.bytes_crc;
}

/// The manifest's slot or, if that is damaged, the copy in its segment. Nothing if both are lost, or if a crash has
/// left another segment that says the same of itself.
std::optional<manifest_slot> intact_slot(const pool_set& pools, std::uint32_t number) {
  if (const manifest_slot& slot = slot_at(pools, number); is_of(pools, slot, number)) return slot;
  std::optional<manifest_slot> found;
  bool is_one = true;
  for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
    if (h.magic != format::manifest_segment_magic) return;
    const manifest_slot copy = copied_slot(pools, s);
    if (!is_of(pools, copy, number) || copy.at != s.offset) return;
    is_one = !found.has_value();
    found = copy;
  });
  return is_one ? found : std::nullopt;
}

/// Where the manifest's bytes are intact.
std::optional<link> intact_bytes(const pool_set& pools, const manifest_slot& slot) {
  if (!pools.valid_header(slot.at, format::manifest_segment_magic)) return std::nullopt;
  const segment s = pools.segment_at(slot.at);
  const std::uint64_t size = slot.size;
  if (!has_right_size(slot) || size > s.size - segment_header_size) return std::nullopt;
  if (are_intact(pools, slot, s.first_record())) return s.first_record();
  if (has_copy(pools, s, size) && are_intact(pools, slot, copied_bytes_at(s, size))) return copied_bytes_at(s, size);
  return std::nullopt;
}

/// The root's; if both root pages are lost, that of the newest slot that is intact.
std::uint32_t newest_number(const pool_set& pools) {
  const format::root root = pools.roots().read();
  if (!is_stand_in(root)) return root.manifest;
  std::uint32_t newest = 0;
  for (const std::uint32_t n : {0U, 1U}) {
    const manifest_slot& slot = slot_at(pools, n);
    if (slot.number % 2 == n && slot.crc == crc_of(pools, slot)) newest = std::max(newest, slot.number);
  }
  return newest;
}

static_assert(sizeof(version_range) == 16 && std::is_trivially_copyable_v<version_range>);

[[nodiscard]] bool are_sound(const std::vector<version_range>& expired) noexcept {
  version before = 0;  // the end of the range before: version 0 never expires
  for (const version_range& each : expired) {
    if (each.first <= before || each.end <= each.first || each.end > version_max) return false;
    before = each.end;
  }
  return true;
}

/// Why no value can be there; nullptr if one may be. `before`: where the segment of the value before it ends.
const char* fail_of(const pool_set& pools, const named_value& v, link before, std::uint32_t era) {
  if (v.segment < before || !pools.valid_header(v.segment, format::segment_magic)) {
    return "no packed value is here, where the manifest says so";
  }
  const std::uint64_t size = pools.segment_at(v.segment).size;
  const bool has_room = v.record >= segment_header_size && v.record <= v.offset && v.offset <= size &&
                        v.size <= size - v.offset && pools.header_of(v.segment).era != era;
  return has_room ? nullptr : "a packed value cannot be where the manifest says so";
}

/// Calls visit(value, why) for those that cannot be read where the manifest says so.
template <class Visit>
void for_each_misplaced(const pool_set& pools, const manifest& of, const Visit& visit) {
  link before = 0;
  for (const named_value& v : of.values) {
    const char* const why = fail_of(pools, v, before, of.era);
    if (why != nullptr) {
      visit(v, why);
    } else {
      before = pools.segment_at(v.segment).end();
    }
  }
}

/// Copies `count` of them to the vector, from `from` on; moves that behind them.
template <class T>
void take(std::vector<T>& to, std::uint64_t count, const std::byte*& from) {
  to.resize(count);
  if (count > 0) std::memcpy(to.data(), from, count * sizeof(T));
  from += count * sizeof(T);
}
template <class T>
void put(const std::vector<T>& from, std::byte*& to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
  to += from.size() * sizeof(T);
}

void take_all(manifest& to, const manifest_slot& slot, const std::byte* from) {
  take(to.extents, slot.extents, from);
  take(to.expired, slot.expired, from);
  take(to.values, slot.values, from);
}

const format::retention_slot& retention_slot_at(const pool_set& pools, std::uint32_t number) noexcept {
  const std::byte* const page = pools.first().base() + format::manifest_anchor_offset;
  return reinterpret_cast<const format::manifest_anchor*>(page)->retention[number % 2];
}

std::uint32_t crc_of(const pool_set& pools, format::retention_slot slot) noexcept {
  slot.crc = 0;
  const std::uint32_t seed = crc32c(pools.codec().pool_seed(), format::manifest_anchor_offset);
  return crc32c(crc32c(seed, std::uint64_t{offsetof(format::manifest_anchor, retention)}), &slot, sizeof slot);
}

/// The intact slot with the greater number. Number 0: none was ever written.
format::retention_slot newest_retention(const pool_set& pools) {
  format::retention_slot newest{};
  unsigned damaged = 0;
  for (const std::uint32_t n : {0U, 1U}) {
    const format::retention_slot& slot = retention_slot_at(pools, n);
    if (all_zero(reinterpret_cast<const std::byte*>(&slot), sizeof slot)) continue;
    if (slot.crc != crc_of(pools, slot)) {
      ++damaged;
    } else if (slot.number > newest.number) {
      newest = slot;
    }
  }
  // One alone, beside a slot that was never written: a crash cut off the first change, which both slots would say.
  if (newest.number == 0 && damaged == 2) {
    raise_damaged(pools, format::manifest_anchor_offset, "which versions the store keeps cannot be read; set it again");
  }
  return newest;
}

}  // namespace

bool manifest::names(link at) const noexcept {
  return at == segment || std::ranges::find(extents, at, &named_extent::segment) != extents.end() ||
         std::ranges::binary_search(values, at, {}, &named_value::segment);
}

manifest manifest_of(const pool_set& pools, extent_segments of_extents) {
  manifest found;
  found.number = newest_number(pools);
  if (found.number == 0) return found;
  const std::optional<manifest_slot> leads = intact_slot(pools, found.number);
  if (!leads) {
    raise_damaged(pools, format::manifest_anchor_offset, "the place that the root leads to holds no manifest",
                  what_is_lost);
  }
  const manifest_slot& slot = *leads;
  found.era = slot.era;
  found.greatest = slot.greatest;
  found.segment = slot.at;
  const std::optional<link> begin = intact_bytes(pools, slot);
  if (!begin) raise_damaged(pools, slot.at, "checksum mismatch of the manifest", what_is_lost);
  take_all(found, slot, pools.at(*begin));
  if (!are_sound(found.expired)) raise_damaged(pools, slot.at, "the versions that have expired are not in order");
  if (of_extents == extent_segments::as_they_are) return found;
  for (const named_extent& e : found.extents) {
    if (pools.find(link_pool(e.segment)) == nullptr) {
      raise(errc::missing_file, "{}: file {} of the store is missing, which holds packed versions",
            pools.file().path().native(), link_pool(e.segment) + 1);
    }
    if (!pools.valid_header(e.segment, format::packed_segment_magic) ||
        e.size > pools.segment_at(e.segment).size - segment_header_size) {
      raise_damaged(pools, e.segment, "no packed records are here, where the manifest says so");
    }
  }
  for (const named_value& v : found.values) {
    if (pools.find(link_pool(v.segment)) != nullptr) continue;
    raise(errc::missing_file, "{}: file {} of the store is missing, which holds packed values",
          pools.file().path().native(), link_pool(v.segment) + 1);
  }
  for_each_misplaced(pools, found,
                     [&](const named_value& v, const char* why) { raise_damaged(pools, v.segment, why); });
  return found;
}

std::vector<damage> manifest_damages(const pool_set& pools) {
  std::vector<damage> all;
  const std::uint32_t number = newest_number(pools);
  const std::optional<manifest_slot> slot = number == 0 ? std::nullopt : intact_slot(pools, number);
  const std::optional<link> begin = slot ? intact_bytes(pools, *slot) : std::nullopt;
  if (!begin) return all;  // manifest_of() raises
  const auto note = [&](link at, const char* what) {
    all.push_back({at, "manifest", std::string(what) + " is damaged; its second copy is intact", {}, {}});
  };
  const segment s = pools.segment_at(slot->at);
  if (!is_of(pools, slot_at(pools, number), number)) {
    note(format::manifest_anchor_offset + number % 2 * sizeof(manifest_slot), "what leads to the manifest");
  }
  if (!are_intact(pools, *slot, s.first_record())) note(s.first_record(), "the manifest");
  if (has_copy(pools, s, slot->size)) {
    const bool is_copy = std::memcmp(pools.at(copied_slot_at(s)), &*slot, sizeof *slot) == 0;
    if (!is_copy || !are_intact(pools, *slot, copied_bytes_at(s, slot->size))) {
      all.push_back({copied_bytes_at(s, slot->size), "manifest", "the manifest's second copy is damaged", {}, {}});
    }
  }
  // Who reads what the segments hold needs no header of theirs.
  manifest named;
  named.era = slot->era;
  take_all(named, *slot, pools.at(*begin));
  for (const named_extent& e : named.extents) {
    if (pools.find(link_pool(e.segment)) == nullptr || pools.valid_header(e.segment, format::packed_segment_magic))
      continue;
    all.push_back({e.segment, "manifest", "no packed records are here, where the manifest says so", {}, {}});
  }
  for_each_misplaced(pools, named, [&](const named_value& v, const char* why) {
    all.push_back({v.segment, "manifest", why, {}, {}});
  });
  return all;
}

std::uint64_t manifest_size(const manifest& m) noexcept {
  return m.extents.size() * sizeof(named_extent) + m.expired.size() * sizeof(version_range) +
         m.values.size() * sizeof(named_value);
}

void store_manifest(pool_set& pools, const manifest& now, manifest& next) {
  next.number = now.number + 1;
  const std::uint64_t size = manifest_size(next);
  const segment s = pools.allocate(2 * in_words(size) + sizeof(manifest_slot), 0, format::manifest_segment_magic, {});
  next.segment = s.offset;
  std::byte* behind = pools.at(s.first_record());
  put(next.extents, behind);
  put(next.expired, behind);
  put(next.values, behind);
  manifest_slot slot{};
  slot.number = next.number;
  slot.at = s.offset;
  slot.size = size;
  slot.bytes_crc = crc32c(bytes_seed(pools, next.number), pools.at(s.first_record()), size);
  slot.era = next.era;
  slot.extents = next.extents.size();
  slot.greatest = next.greatest;
  slot.expired = next.expired.size();
  slot.values = next.values.size();
  slot.crc = crc_of(pools, slot);
  std::memcpy(pools.at(copied_bytes_at(s, size)), pools.at(s.first_record()), size);
  std::memcpy(pools.at(copied_slot_at(s)), &slot, sizeof slot);
  pools.persist().flush(pools.at(s.offset), segment_header_size + size);
  pools.persist().persist(pools.at(copied_bytes_at(s, size)), in_words(size) + sizeof slot);
  // No root leads to the manifest that this slot had before (A10).
  auto* const to = const_cast<manifest_slot*>(&slot_at(pools, next.number));
  std::memcpy(to, &slot, sizeof slot);
  pools.persist().persist(to, sizeof slot);
}

bool may_have_packed_segments(const format::root& r) noexcept {
  return r.version_major >= format::version_major_with_manifest;
}

void announce_packed_segments(pool_set& pools) {
  if (may_have_packed_segments(pools.roots().read())) return;
  pools.roots().update_both([](format::root& r) { r.version_major = format::version_major_with_manifest; });
}

void name_manifest(format::root& r, const manifest& m) noexcept {
  r.manifest = m.number;
  std::uint16_t needed = m.is_compressed ? format::version_major_with_frames : format::version_major_with_manifest;
  if (!m.values.empty()) needed = format::version_major_with_values;
  r.version_major = std::max(r.version_major, needed);
}

retention retention_of(const pool_set& pools) {
  const format::retention_slot slot = newest_retention(pools);
  return {.tagged = slot.tagged != 0,
          .newest = slot.newest,
          .younger_than = std::chrono::seconds(slot.seconds),
          .hourly = slot.hourly,
          .daily = slot.daily,
          .weekly = slot.weekly};
}

void store_retention(pool_set& pools, const retention& which) {
  format::retention_slot slot{};
  std::uint32_t number = 0;  // a damaged slot does not keep a new one from being written
  std::uint32_t counts = 1;  // the slot that does
  for (const std::uint32_t n : {1U, 0U}) {
    const format::retention_slot& there = retention_slot_at(pools, n);
    if (there.crc != crc_of(pools, there) || there.number <= number) continue;
    number = there.number;
    counts = n;
  }
  slot.number = number + 1;
  slot.newest = which.newest;
  slot.seconds = static_cast<std::uint64_t>(which.younger_than.count());
  slot.hourly = which.hourly;
  slot.daily = which.daily;
  slot.weekly = which.weekly;
  slot.tagged = which.tagged ? 1 : 0;
  slot.crc = crc_of(pools, slot);
  // One after the other, and the one that counts last: a crash leaves it whole until the other one is durable. That
  // other one may be torn, or of before, where a crash has cut off the change before this one.
  for (const std::uint32_t n : {1 - counts, counts}) {
    auto* const place = const_cast<format::retention_slot*>(&retention_slot_at(pools, n));
    std::memcpy(place, &slot, sizeof slot);
    pools.persist().persist(place, sizeof slot);
    pools.persist().sync();
  }
}

void keep_retention(pool_set& pools) {
  for (const std::uint32_t n : {0U, 1U}) {
    const format::retention_slot& slot = retention_slot_at(pools, n);
    pools.persist().flush(&slot, sizeof slot);
  }
  pools.persist().fence();
}

format::manifest_anchor anchor_of(const pool_set& pools, const manifest& of) noexcept {
  format::manifest_anchor anchor;
  std::memcpy(&anchor, pools.first().base() + format::manifest_anchor_offset, sizeof anchor);
  if (of.number == 0) return anchor;
  manifest_slot& own = anchor.slots[of.number % 2];
  manifest_slot& other = anchor.slots[(of.number + 1) % 2];
  // Its copy. A manifest without one is of an older icecore, beside which nobody reads.
  if (const manifest_slot copy = copied_slot(pools, pools.segment_at(of.segment)); is_of(pools, copy, of.number)) {
    own = copy;
  }
  if (other.number > of.number) other = {};
  return anchor;
}

std::optional<format::segment_header> seen_header(const pool& in, link offset) {
  format::segment_header read{};
  if (!in.may_be_cut() && in.is_in_hole(link_offset(offset))) return std::nullopt;
  if (in.may_be_cut() && !in.file().read(&read, sizeof read, link_offset(offset))) return std::nullopt;
  const auto& there = in.may_be_cut() ? read : in.header_of(offset);
  format::segment_header h{};
  // acquire: the words before the checked generation are those of this one, or newer ones: then the checksum fails
  const auto both =
      std::bit_cast<checked_generation>(__atomic_load_n(&header_word(there.generation), __ATOMIC_ACQUIRE));
  const auto kind = std::bit_cast<kind_and_size>(__atomic_load_n(&header_word(there.magic), __ATOMIC_RELAXED));
  h.magic = kind.magic;
  h.granules = kind.granules;
  h.generation = both.generation;
  h.crc = both.crc;
  h.era = __atomic_load_n(&there.era, __ATOMIC_RELAXED);
  if (h.granules == 0 || h.granules > (in.size() - link_offset(offset)) / format::granule_size ||
      h.crc != header_crc(h, in.codec().pool_seed(), offset)) {
    return std::nullopt;
  }
  return h;
}

void for_each_segment(const pool_set& pools,
                      const std::function<void(const segment&, const format::segment_header&)>& visit) {
  for (const pool* p : pools.files()) {
    const link end = make_link(p->number(), p->size());
    for (link at = make_link(p->number(), format::first_segment_offset); at + format::granule_size <= end;) {
      const std::optional<format::segment_header> h = seen_header(*p, at);
      if (!h) {
        at += format::granule_size;
        continue;
      }
      const segment s{at, h->granules * format::granule_size, h->generation};
      visit(s, *h);
      at = s.end();
    }
  }
}

std::vector<segment> outdated_segments(const pool_set& pools, const manifest& of) {
  std::vector<segment> found;
  for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
    const bool has_era = h.magic == format::segment_magic || h.magic == format::index_segment_magic;
    const bool is_packed = h.magic == format::packed_segment_magic || h.magic == format::manifest_segment_magic;
    if (((has_era && h.era != of.era) || is_packed) && !of.names(s.offset)) found.push_back(s);
  });
  return found;
}

std::uint64_t bytes_of(std::span<const segment> all) noexcept {
  std::uint64_t sum = 0;
  for (const segment& s : all) sum += s.size;
  return sum;
}

namespace {

/// No flush of lines makes a hole durable.
void sync_holes(pool_set& pools) {
  pools.persist().sync();
  if (pools.persist().by_pages()) return;
  for (unsigned file = 0; file < pools.files().size(); ++file) pools.persist().sync_file(file);
}

/// Segments one behind the other, and the first of them.
struct segment_run {
  segment first;
  segment all;
  [[nodiscard]] bool is_one() const noexcept { return first.size == all.size; }
};

[[nodiscard]] std::vector<segment_run> runs_of(std::vector<segment> all) {
  std::ranges::sort(all, {}, &segment::offset);
  std::vector<segment_run> runs;
  for (const segment& s : all) {
    if (!runs.empty() && runs.back().all.end() == s.offset) {
      runs.back().all.size += s.size;
    } else {
      runs.push_back({s, s});
    }
  }
  return runs;
}

}  // namespace

std::vector<segment> give_back(pool_set& pools, std::vector<segment> all) {
  if (all.empty()) return {};
  const auto alone = pools.file().without_other_viewers(pools.roots().read().manifest);
  if (!alone) return {};
  const std::vector<segment_run> runs = runs_of(std::move(all));
  for (const segment_run& run : runs) pools.of(run.first.offset).clear_content(run.first);
  // before its header changes: half of one is a hole over zeros, and damage over records
  sync_holes(pools);
  if (!std::ranges::all_of(runs, &segment_run::is_one)) {
    for (const segment_run& run : runs) {
      const segment& s = run.all;
      if (!run.is_one()) pools.of(s.offset).format_segment(s.offset, s.size, format::packed_segment_magic);
    }
    // before the headers go that it takes in: records without a header are damage
    pools.persist().sync();
    for (const segment_run& run : runs) {
      if (!run.is_one()) pools.of(run.all.offset).clear_content(run.all);
    }
    // before a header says that all behind it is zero
    sync_holes(pools);
  }
  std::vector<segment> joined(runs.size());
  std::ranges::transform(runs, joined.begin(), &segment_run::all);
  for (const segment& s : joined) pools.of(s.offset).format_segment(s.offset, s.size, format::free_segment_magic);
  pools.persist().sync();
  return joined;
}

}  // namespace icecore

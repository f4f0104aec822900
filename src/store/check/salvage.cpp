#include "store/check/salvage.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/bytes.hpp"

namespace icecore::detail {
namespace {

using format::record_kind;

std::uint64_t stamp_word(record r) noexcept {
  // relaxed: nothing writes what is being salvaged
  return r.header().stamp.load(std::memory_order_relaxed) & ~format::stamp_persisted;
}

std::uint32_t depth_of(record r) noexcept { return r.header().depth; }

}  // namespace

salvage::salvage(const pool_set& in, record_scan& found) : pool_(&in), found_(&found) {
  const auto part_is_sound = [](const record_scan_part& p) { return p.lost.empty() && p.damages.empty(); };
  if (std::ranges::all_of(found.parts(), part_is_sound)) return;
  for (const auto& part : found.parts()) {
    for (const auto& lost : part.lost) ranges_.push_back({lost});
  }
  std::ranges::sort(ranges_, {}, [](const range& g) { return g.what.from; });
  find_versions();
  read_histories();
  name_unexplained();
  take_over_damages();
  std::ranges::stable_sort(findings_, {}, [](const finding& f) { return f.place.offset; });
}

// ---- Versions ----

/// Infers the versions of intact records whose stamp is damaged: a batch and its records show each other's, and so do
/// neighbours of the same version. A record of a damaged batch has its own stamp only if the batch had its stamp before
/// (H4).
void salvage::find_versions() {
  for (range& g : ranges_) {
    if (!g.what.versionless) continue;
    const link l = g.what.from;
    const record r = at(l);
    std::optional<version> v;
    if (!r.batched()) {
      v = version_by_stamp(l, g.what.least, g.what.greatest);
    } else {
      range* batch = range_of(r.batch());
      if (found_->is_intact_record(r.batch())) v = version_by_stamp(r.batch(), g.what.least, g.what.greatest);
      if (!v) v = version_by_stamp(l, g.what.least, g.what.greatest);
      if (batch != nullptr && !batch->names_batch && !batch->explained && v) {
        batch->names_batch = true;
        batch->explained = holds_batch_alone(*batch, r.batch());
        ++named_records_;
        add_finding(batch->what.record, "batch", batch->what.what + "; its records show its version", false);
      }
    }
    if (!v && g.what.least == g.what.greatest) v = g.what.least;
    if (v && *v != 0) {
      take_back(g, *v);
      g.explained = true;
    } else if (r.is_entry()) {
      // H1: all later records of the key are at least as new
      inferred_[l] = std::max<version>(1, g.what.least);
      lost_entries_.push_back(l);
      found_->parts().front().entries.push_back(l);
      g.explained = true;
    }
    name_versionless(g);
  }
}

/// Whether only the record of this batch can have been lost there: no other one would have fitted in, or what is left
/// of this one is followed by zeros.
bool salvage::holds_batch_alone(const range& g, link batch) const noexcept {
  const link end = batch + record_layout::of_batch().size();
  if (g.what.record != batch || end > g.what.to) return false;
  const std::uint64_t remaining = g.what.to - end;
  return remaining < sizeof(format::record_header) ||
         (at(batch).kind() == record_kind::batch && all_zero(pool_->at(end), remaining));
}

/// Lets an intact record count whose version has been inferred.
void salvage::take_back(const range& from, version v) {
  record_scan_part& into = found_->parts().front();
  const link l = from.what.from;
  const record r = at(l);
  inferred_[l] = v;
  into.totals.add(r.layout(), r.is_removal(), record_digest(from.what.from, r.header().crc, v));
  into.newest = std::max(into.newest, v);
  if (r.is_entry()) into.entries.push_back(l);
  if (r.is_update()) into.updates.push_back(l);
  if (r.kind() == record_kind::tag) into.tags.push_back(l);
}

version salvage::version_of(link l) const {
  const auto inferred = inferred_.find(l);
  return inferred != inferred_.end() ? inferred->second : found_->version_of(l).value_or(0);
}

std::optional<version> salvage::version_by_stamp(link l, version least, version greatest) const noexcept {
  if (l % 8 != 0 || !pool_->contains(l, sizeof(format::record_header))) return std::nullopt;
  const std::uint64_t word = stamp_word(at(l));
  const version v = word & format::stamp_version_mask;
  if (v == 0 || v < least || v > greatest || !pool_->codec().valid(word, l + format::stamp_offset)) return std::nullopt;
  return v;
}

// ---- Histories ----

void salvage::read_histories() {
  std::vector<link> updates;
  for (const auto& part : found_->parts()) {
    entries_.insert(entries_.end(), part.entries.begin(), part.entries.end());
    updates.insert(updates.end(), part.updates.begin(), part.updates.end());
  }
  std::ranges::sort(entries_);
  std::ranges::sort(updates, {}, [&](link l) { return std::tuple(at(l).as_update().entry, depth_of(at(l)), l); });
  find_owners();
  auto next = entries_.begin();
  for (std::size_t i = 0; i < updates.size();) {
    const link entry = at(updates[i]).as_update().entry;
    std::size_t end = i;
    while (end < updates.size() && at(updates[end]).as_update().entry == entry) ++end;
    for (; next != entries_.end() && *next < entry; ++next) read_history(*next, {});
    const updates_of_entry group = std::span<const link>(updates).subspan(i, end - i);
    if (next != entries_.end() && *next == entry) {
      read_history(entry, group);
      ++next;
    } else {
      name_orphans(entry, group);
    }
    i = end;
  }
  for (; next != entries_.end(); ++next) read_history(*next, {});
  for (auto& part : found_->parts()) {
    std::erase_if(part.updates, [&](link l) { return !is_entry(at(l).as_update().entry); });
  }
}

bool salvage::is_entry(link l) const noexcept { return std::ranges::binary_search(entries_, l); }

/// Collects what damaged records say of the entry they belong to: claims for lost_newest() to weigh.
void salvage::find_owners() {
  for (const range& g : ranges_) {
    if (g.what.record % 8 != 0 || !pool_->contains(g.what.record, sizeof(format::update_header))) continue;
    const link l = g.what.record;
    if (at(l).is_update() && is_entry(at(l).as_update().entry)) owners_.emplace(at(l).as_update().entry, l);
  }
}

void salvage::read_history(link entry, updates_of_entry updates) {
  link below = entry;
  link out_of_order = null_link;
  std::optional<version> forked;  // from here on two records claim to come next; which one did is unknown
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const link l = updates[i];
    const bool has_twin = i + 1 < updates.size() && depth_of(at(updates[i + 1])) == depth_of(at(l));
    const bool follows = forked || depth_of(at(l)) <= depth_of(at(below)) + 1;  // else one is missing before it
    if (has_twin || forked) forked = std::min(forked.value_or(version_max), version_of(follows ? l : below));
    const bool fits = !forked && depth_of(at(l)) > depth_of(at(below)) && version_of(l) >= version_of(below);
    if (!fits) {
      add_finding(l, "record", "it does not fit the record before it in its history", true, key_of(entry));
      out_of_order = l;
      continue;
    }
    if (depth_of(at(l)) != depth_of(at(below)) + 1) {
      add_hole(entry, l, below, null_link);
    } else if (!is_linked(l, below)) {
      relinked_.emplace_back(l, below);
      name_relinked(l);
    }
    below = l;
    out_of_order = null_link;
  }
  if (forked) return holes_.push_back({entry, null_link, below, std::max(version_of(below), *forked)});
  const link newest = out_of_order != null_link ? out_of_order : lost_newest(entry, below, updates);
  if (newest != null_link) add_hole(entry, null_link, below, newest);
}

/// Whether an update's links lead to the record before it, `below`, and to an older one of the same history. If every
/// checksum is right but a link is wrong, no store wrote it.
bool salvage::is_linked(link update, link below) const noexcept {
  const auto& u = at(update).as_update();
  if (u.older != below) return false;
  if (!found_->begins(u.jump) && !inferred_.contains(u.jump) && !is_entry(u.jump)) return false;
  const record jump = at(u.jump);
  const bool of_same_entry = u.jump == u.entry || (jump.is_update() && jump.as_update().entry == u.entry);
  return of_same_entry && depth_of(jump) < depth_of(at(update));
}

/// Whether the entry's head led to an intact record when the store was left. If memory survived, a record was there
/// before its head led to it. If it did not, but each operation was made durable, the head of an interrupted operation
/// may lead to nothing; but something else is lost too, so this explanation is not trusted. However, if heads are
/// durable, a head that an earlier crash left leading to nothing stays so, and the committed head decides (H7).
bool salvage::was_intact(link entry, link head, link newest) const {
  if (!found_->memory_survived() && !found_->keeps_all()) return false;
  if (found_->is_intact_record(head)) return true;  // except perhaps for its large value
  if (static_cast<index_kind>(pool_->roots().read().index) != index_kind::persistent) return true;
  // relaxed: nothing writes what is being salvaged
  const std::uint64_t committed = at(entry).as_entry().committed_head().load(std::memory_order_relaxed);
  return history_base::newest_of(entry, committed) != newest;
}

/// Where the newest record of an entry was, if it is lost. `newest` is the newest of those that are not.
link salvage::lost_newest(link entry, link newest, updates_of_entry updates) const {
  const auto& e = at(entry).as_entry();
  const bool durable = static_cast<index_kind>(pool_->roots().read().index) == index_kind::persistent;
  // relaxed: nothing writes what is being salvaged. The committed head (H7) helps if the head is damaged.
  const std::uint64_t head_word = e.head.load(std::memory_order_relaxed);
  const std::uint64_t committed = durable ? e.committed_head().load(std::memory_order_relaxed) : head_word;
  for (const std::uint64_t word : {head_word, committed}) {
    const link head = history_base::newest_of(entry, word);
    if (head == newest || head == entry) continue;
    // a head that a crash left behind may lead to a record in the middle: the one after that shows its loss
    const bool in_the_middle = std::ranges::any_of(updates, [&](link l) { return at(l).as_update().older == head; });
    const bool in_damage = range_of(head) != nullptr;
    const bool all_seen = std::ranges::all_of(ranges_, [](const range& g) { return g.what.harmless; });
    const auto is_intact = [&](link l) { return found_->is_intact_record(l) && at(l).value_intact(); };
    const bool dangling = head % 8 == 0 && pool_->contains(head, 1) && !is_intact(head);
    const bool uncounted = all_seen && found_->missing_records() > 0;
    if (!in_the_middle && (in_damage || (dangling && (uncounted || was_intact(entry, head, newest))))) return head;
  }
  const auto [first, last] = owners_.equal_range(entry);
  for (auto i = first; i != last; ++i) {
    const record r = at(i->second);
    const bool trusted = range_of(i->second)->what.versionless;
    if (!trusted && r.as_update().older != newest) continue;
    if (depth_of(r) > depth_of(at(newest)) && (trusted || depth_of(r) == depth_of(at(newest)) + 1)) return i->second;
  }
  return null_link;
}

salvage::range* salvage::range_of(link l) noexcept {
  return const_cast<range*>(static_cast<const salvage*>(this)->range_of(l));
}

const salvage::range* salvage::range_of(link l) const noexcept {
  const auto after = std::ranges::upper_bound(ranges_, l, {}, [](const range& g) { return g.what.from; });
  if (after == ranges_.begin()) return nullptr;
  const range& g = *std::prev(after);
  return l < g.what.to ? &g : nullptr;
}

/// Names the records between `below` and `above`, as far down as damaged ones show, and notes from which version on the
/// key's value is not known. If `above` is null: names those above the newest intact one; `newest` is the position of
/// one of them.
void salvage::add_hole(link entry, link above, link below, link newest) {
  const version v_below = version_of(below);
  version greatest = above != null_link ? version_of(above) : version_max;
  std::uint32_t missing = above != null_link ? depth_of(at(above)) - depth_of(at(below)) - 1 : ~0U;
  version least_anywhere = version_max;  // of all that is lost
  for (const range& g : ranges_) least_anywhere = std::min(least_anywhere, g.what.least);
  hole h{entry, above, below, ranges_.empty() ? v_below : std::max(v_below, least_anywhere)};
  std::vector<std::pair<link, version>> lost;
  for (link place = above != null_link ? at(above).as_update().older : newest; missing > 0;) {
    range* g = range_of(place);
    const version least = std::max(v_below, g != nullptr ? g->what.least : 0);
    if (g != nullptr) {
      greatest = std::min(greatest, g->what.greatest);
      g->explained = true;
    }
    const auto inferred = version_by_stamp(place, least, greatest);
    lost.emplace_back(place, inferred.value_or(0));
    --missing;
    greatest = inferred.value_or(greatest);
    const bool readable = place % 8 == 0 && pool_->contains(place, sizeof(format::update_header));
    // If no record above shows how many are missing, the stamp at least shows that the record belongs to this position:
    // other bytes that came here may be of the same key.
    const auto agrees = [&](record r) {
      if (!r.is_update() || r.as_update().entry != entry) return false;
      const std::uint32_t depth = depth_of(r) - depth_of(at(below));
      return above != null_link ? depth == missing + 1 : inferred && (depth == 1) == (r.as_update().older == below);
    };
    const link older = readable && agrees(at(place)) ? at(place).as_update().older : null_link;
    if (missing == 0 || older == below) {
      h.first = inferred.value_or(least);  // it is the oldest of them
      break;
    }
    if (range_of(older) == nullptr || lost.size() > ranges_.size() + 64) break;
    place = older;
  }
  const std::uint32_t unplaced = above != null_link ? missing : 0;
  holes_.push_back(h);
  name_lost(h, lost, unplaced);
}

// ---- Repair ----

void salvage::repair_records() {
  for (const auto& [l, v] : inferred_) {
    at(l).header().stamp.store(pool_->codec().encode(v, l + format::stamp_offset), std::memory_order_relaxed);
  }
  for (const link l : lost_entries_) at(l).header().flags |= format::flag_lost;
}

std::unique_ptr<std::byte[]> salvage::repair_histories(rebuilt_histories& histories) {
  for (const auto& [update, below] : relinked_) {
    auto& u = histories.at(update).as_update();
    u.older = u.jump = below;
  }
  constexpr std::uint64_t stand_in_size = format::cache_line_size;
  constexpr std::uint16_t stand_in_pool = address_space::stand_in_pool;
  if (holes_.empty()) return nullptr;
  auto memory = std::make_unique<std::byte[]>((holes_.size() + 1) * stand_in_size);
  histories.space().set_base(stand_in_pool, memory.get());
  for (std::size_t i = 0; i < holes_.size(); ++i) {
    const hole& h = holes_[i];
    const link stand_in = make_link(stand_in_pool, (i + 1) * stand_in_size);  // L1: not at 0
    auto& u = histories.at(stand_in).as_update();
    u.record.kind = record_kind::insert;
    u.record.flags = format::flag_lost;
    u.record.depth = depth_of(at(h.below)) + 1;
    u.record.stamp.store(h.first, std::memory_order_relaxed);  // relaxed: nothing else runs yet
    u.entry = h.entry;
    u.older = u.jump = h.below;
    auto& e = histories.at(h.entry).as_entry();
    if (h.above != null_link) {
      histories.at(h.above).as_update().older = stand_in;
    } else {
      e.head.store(stand_in, std::memory_order_relaxed);
    }
  }
  for (const hole& h : holes_) {
    auto& e = histories.at(h.entry).as_entry();
    const link newest = histories.newest(h.entry);
    e.head.store(newest, std::memory_order_relaxed);
    e.committed_head().store(0, std::memory_order_relaxed);
    // jumps may lead over or into what is lost: without them, finds in such a history take O(depth)
    for (link l = newest; histories.at(l).is_update(); l = histories.at(l).older())
      histories.at(l).as_update().jump = histories.at(l).older();
  }
  return memory;
}

std::vector<damage> salvage::damages() const {
  std::vector<damage> all;
  all.reserve(findings_.size());
  for (const finding& f : findings_) all.push_back(f.place);
  return all;
}

}  // namespace icecore::detail

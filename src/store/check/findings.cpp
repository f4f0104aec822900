// Puts what salvage found into words: a finding has a position, a structure, what is wrong, and key and version if
// known.
#include <fmt/format.h>

#include <algorithm>

#include "store/check/printable.hpp"
#include "store/check/salvage.hpp"

namespace icecore::detail {
namespace {

using format::record_kind;

const char* structure_of(record r) {
  switch (r.kind()) {
    case record_kind::entry:
      return "entry";
    case record_kind::tag:
      return "tag";
    case record_kind::batch:
      return "batch";
    default:
      return "record";
  }
}

std::string versions(version first, version last) {
  return first == last ? fmt::format("in version {}", first) : fmt::format("in versions {} to {}", first, last);
}

}  // namespace

void salvage::add_finding(link place, std::string structure, std::string what, bool lost,
                          std::optional<std::string> key, std::optional<version> v) {
  findings_.push_back({{place, std::move(structure), std::move(what), std::move(key), v}, lost});
}

/// Names an intact record whose stamp is damaged. An update whose version is unknown is left to read_history().
void salvage::name_versionless(const range& of) {
  const link l = of.what.from;
  const record r = at(l);
  const bool inferred = inferred_.contains(l) && std::ranges::find(lost_entries_, l) == lost_entries_.end();
  if (r.is_update() && !inferred) return;
  std::optional<std::string> key;
  if (r.is_entry()) key = key_of(l);
  if (r.is_update() && found_->is_intact_record(r.as_update().entry)) key = key_of(r.as_update().entry);
  std::string what = of.what.what;
  if (r.kind() == record_kind::tag) what += fmt::format(" (the tag '{}')", printable(r.key()));
  ++named_records_;
  if (inferred) {
    add_finding(of.what.from, structure_of(r), what + "; other records show its version", false, key, inferred_[l]);
  } else if (r.kind() == record_kind::batch) {
    add_finding(of.what.from, "batch", what + "; its records show its version", false);
  } else {
    const std::string least = fmt::format("{}", std::max<version>(1, of.what.least));
    const std::string greatest = of.what.greatest == version_max ? "the last" : fmt::format("{}", of.what.greatest);
    add_finding(of.what.from, structure_of(r),
                fmt::format("{}; its version is lost: one of {} to {}", what, least, greatest), true, key);
  }
  for (range& g : ranges_) {
    if (g.what.from == of.what.from) g.explained = true;
  }
}

/// Names the records of a hole: `lost` are their positions, newest first, with versions or 0; of `unplaced` more
/// nothing is known.
void salvage::name_lost(const hole& of, const std::vector<std::pair<link, version>>& lost, std::uint32_t unplaced) {
  const std::string key = key_of(of.entry);
  std::string unknown = fmt::format("what the key held from version {} on is not known", of.first);
  if (of.above != null_link) {
    const version next = version_of(of.above);
    unknown = next > of.first ? fmt::format("what the key held {} is not known", versions(of.first, next - 1))
                              : "a later record of the same version replaces it";
  }
  for (const auto& [place, v] : lost) {
    const range* g = range_of(place);
    const std::string why = g != nullptr ? g->what.what : "no record lies here";
    add_finding(place, "record", fmt::format("{}; {}", why, unknown), true, key,
                v != 0 ? std::optional(v) : std::nullopt);
  }
  if (unplaced != 0) {
    add_finding(lost.back().first, "record",
                fmt::format("{} older records of the key are lost with it; {}", unplaced, unknown), true, key);
  }
  named_records_ += static_cast<std::int64_t>(lost.size()) + unplaced;
}

/// Names updates whose entry is lost: nothing else holds their key.
void salvage::name_orphans(link entry, updates_of_entry updates) {
  range* g = range_of(entry);
  std::string what = g != nullptr ? g->what.what : "no entry lies here";
  if (g != nullptr) what += perhaps(entry, g->what.to);
  add_finding(entry, "entry", fmt::format("{}; the key is lost, with {} later records", what, updates.size()));
  if (g != nullptr) note_perhaps(entry, g->what.to, g->what.least);
  ++named_records_;
  if (g != nullptr) g->explained = true;
  for (const link l : updates) {
    add_finding(l, "record", fmt::format("its key is lost with the entry at {}", pool_->place_of(entry)), true,
                std::nullopt, version_of(l));
  }
}

/// Does nothing if the record scan has named it: the scan checks links only if nothing else is wrong.
void salvage::name_relinked(link update) {
  const auto names_it = [&](const damage& d) { return d.offset == update; };
  const auto& parts = found_->parts();
  if (std::ranges::any_of(parts, [&](const auto& p) { return std::ranges::any_of(p.damages, names_it); })) return;
  add_finding(update, "record", "its links do not lead to the records before it in its history", false,
              key_of(at(update).as_update().entry), version_of(update));
}

void salvage::name_unexplained() {
  for (const range& g : ranges_) {
    if (g.explained || g.what.harmless) continue;
    if (g.what.maybe_empty) {
      add_finding(g.what.from, "file", g.what.what + "; nothing shows that a record is lost", false);
      continue;
    }
    ++named_records_;
    const link l = g.what.record;
    if (pool_->find(link_pool(l)) == nullptr) {
      add_finding(l, "file",
                  "the keys of the records that are lost with the file are not known, except those named here");
      continue;
    }
    const std::string guess = perhaps(g.what.record, g.what.to);
    add_finding(g.what.record, guess.empty() ? "record" : structure_of(at(l)),
                fmt::format("{}{}; the keys of the records that are lost up to byte {} are not known", g.what.what,
                            guess, link_offset(g.what.to)),
                true, std::nullopt, version_by_stamp(l, g.what.least, g.what.greatest));
    note_perhaps(g.what.record, g.what.to, g.what.least);
  }
  const auto says_so = [](const damage& d) { return d.structure == "file"; };
  const auto& parts = found_->parts();
  const bool said = std::ranges::any_of(parts, [&](const auto& p) { return std::ranges::any_of(p.damages, says_so); });
  // compare before subtracting anything: a damaged root certifies any number
  if (said || found_->missing_records() <= named_records_) return;
  add_finding(0, "file",
              fmt::format("{} more records, which the root certifies, are lost; their keys are not known",
                          found_->missing_records() - named_records_));
}

/// What a damaged record between these positions says of its key or name: unreliable, but a hint for the user.
std::string salvage::perhaps(link from, link to) const {
  if (!is_plausible(from, to)) return {};
  const record r = at(from);
  if (r.is_entry()) return fmt::format("; it held a key, perhaps '{}'", printable(r.key()));
  if (r.kind() == record_kind::tag) return fmt::format("; it was a tag, perhaps '{}'", printable(r.key()));
  return {};
}

bool salvage::is_plausible(link from, link to) const {
  if (from % 8 != 0 || from + sizeof(format::entry_header) > to || !pool_->contains(from, to - from)) return false;
  const record_layout layout = at(from).layout();
  return layout.plausible() && from + layout.value_offset() <= to;
}

/// The last finding is of an entry that is lost there.
void salvage::note_perhaps(link from, link to, version least) {
  findings_.back().least = least;
  if (is_plausible(from, to) && at(from).is_entry()) findings_.back().perhaps_of = std::string(at(from).key());
}

/// Takes over what the record scan named itself: headers, whose records are all there, large values, and the
/// certificate.
void salvage::take_over_damages() {
  for (const auto& part : found_->parts()) {
    for (const damage& d : part.damages) findings_.push_back({d, d.structure != "segment"});
  }
}

}  // namespace icecore::detail

// Repair: writes what is intact in a damaged store to a new one.
//
// The damaged store is opened for reading with its damage accepted (salvage.hpp), so that each history is there with
// stand-ins for what is lost. Its records are copied in the order of their versions, through the same calls that any
// writer uses, so the new store keeps all invariants. A removal takes the place of what is lost (D2): users would trust
// a value that may be wrong, but they look into a value that is missing, and the report says which versions are
// affected.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "icecore/unfinished.hpp"
#include "pool/manifest/manifest_copies.hpp"
#include "pool/query/query_check.hpp"
#include "store/check/packed_salvage.hpp"
#include "store/copy/lineage.hpp"
#include "store/engine.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "store/read/scan.hpp"

namespace icecore {
namespace {

using detail::forgotten_keys;
using detail::is_packed;
using detail::opened_store;
using detail::packed_salvage;
using detail::store_core;
using detail::with_writer;

/// Damage is accepted only by an opening that reads all records, and that rebuilds the heads.
using damaged_store = detail::engine<rebuilt_heads>;

/// One record to be written.
struct copied_record {
  version v;
  link from;                   // null: a removal in the place of lost records
  std::uint32_t entry_number;  // the key that this removal is for
  std::uint32_t place;         // position in the key's new history
};

/// Young records, and packed ones of the store that they belong to.
class copier {
 public:
  using event = packed_salvage::event;

  copier(const damaged_store& from, packed_salvage& packed, const forgotten_keys& forgotten, repair_report& report)
      : from_(&from), packed_(&packed), forgotten_(&forgotten), report_(&report) {}

  /// Collects the histories of all keys. O(records).
  void collect() {
    std::unordered_set<link> done;
    packed_->for_each_key([&](std::string_view key, const packed_salvage::history& packed) {
      const link entry = from_->index().find(key);
      if (entry != null_link) done.insert(entry);
      events_ = packed;
      for (event& e : events_) {
        if (e.record != null_link && !packed_value_intact(key, e)) e.record = null_link;
      }
      // One of them is intact; what is lost may lie on both sides of it.
      const auto known = std::ranges::find_if(packed, [](const event& e) { return e.record != null_link; });
      collect(key, entry, known->record);
    });
    detail::for_each_block(*from_, detail::index_part(), [&](const detail::walked_entries& entries) {
      for (const link entry : entries) {
        if (!done.empty() && done.contains(entry)) continue;
        const std::string key(from_->key_of(entry));
        events_ = packed_->lost_of(key);
        collect(key, entry, entry);
      }
      return true;
    });
    std::ranges::sort(records_, {}, [](const copied_record& c) { return std::tuple(c.v, c.place, c.from); });
  }

  /// An entry that is lost may have been of this key: what is packed of it is not shown from that version on.
  void suspect(const std::string& key, version least) { suspects_.emplace(key, least); }

  void write(opened_store& into, const progress_function& on_progress) {
    store_core& to = into.current();
    const std::vector<tag_info> tags = from_->tags().all();
    auto next_tag = tags.begin();
    const auto write_tags_before = [&](version v) {
      for (; next_tag != tags.end() && next_tag->version < v; ++next_tag) {
        to.skip_to(next_tag->version);
        static_cast<void>(to.tag({.name = next_tag->name, .note = next_tag->note, .time_ns = next_tag->time_ns}));
        ++report_->tags;
      }
    };
    std::uint64_t done = 0;
    constexpr std::uint64_t report_every = 4096;
    for (const copied_record& c : records_) {
      write_tags_before(c.v);
      to.skip_to(c.v);
      write(into, c);
      packed_->let_go();
      if (++done % report_every == 0 && on_progress) on_progress({"writing records", done, records_.size(), "records"});
    }
    const version open = from_->clock().now();
    write_tags_before(open);
    to.skip_to(open);
    to.lose(from_->lost());
    report_->clock = open;
  }

  /// The versions of which something is lost, or would show what is (N2). Call it after collect().
  [[nodiscard]] version_ranges altered() const {
    const auto may_be_elsewhere = [this](const damage& d) {
      if (d.structure == "query" || d.structure == "retention" || d.structure == "forget")
        return false;  // no version depends on it
      return !d.key || !altered_keys_.contains(*d.key) || (d.version && !altered_.contains(*d.version));
    };
    version_ranges all = altered_;
    if (std::ranges::any_of(report_->losses, may_be_elsewhere)) all.add({0, version_max});
    return all;
  }

 private:
  /// `events_` are those of what is packed. `entry` is the young one, if there is one; `known_by` is a record of the
  /// key.
  void collect(std::string_view key, link entry, link known_by) {
    if (entry != null_link) {
      add_young(entry);
    } else if (const auto suspected = suspects_.find(key); suspected != suspects_.end()) {
      events_.push_back({std::max(suspected->second, events_.back().stamped), null_link});
    }
    const version forgotten = forgotten_->up_to(key);
    if (forgotten != 0) forget(forgotten);
    bool present = false;
    std::uint32_t place = 0;
    const std::size_t first = records_.size();
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const auto [v, from] = events_[i];
      if (from == null_link) {
        const bool newest = i + 1 == events_.size();
        const version next = newest ? from_->clock().now() + 1 : events_[i + 1].stamped;
        // what is lost may also be of the next record's version, which shows that record in any case
        alter(key, v, next);
        if (next > v) lose(key, v, next - 1);
        if (next > v && present) records_.push_back({v, null_link, number_of(known_by), ++place});
        present = present && next <= v;
      } else if (forgotten != 0 && !present && is_removal(from)) {
        altered_.add({v, v + 1});  // nothing is left that it removes, and it has the key
      } else {
        records_.push_back({v, from, 0, ++place});
        present = !is_removal(from);
      }
    }
    if (records_.size() > first) ++report_->keys;
  }

  void add_young(link entry) {
    const rebuilt_histories& histories = from_->histories();
    const std::size_t first = events_.size();
    for (link l = histories.newest(entry); l != null_link; l = histories.at(l).older()) {
      const record r = histories.at(l);
      const bool is_known = !r.is_lost() && value_intact(l);
      if (is_known && r.layout().is_key_alone()) continue;  // it shows nothing: what is packed shows through
      events_.push_back({histories.stamp_of(l), is_known ? l : null_link});
    }
    std::reverse(events_.begin() + static_cast<std::ptrdiff_t>(first), events_.end());
  }

  /// Nothing stays of what was written up to this version.
  void forget(version up_to) {
    std::erase_if(events_, [&](const event& e) {
      const bool goes = e.stamped <= up_to && e.record != null_link;
      if (goes) altered_.add({e.stamped, e.stamped + 1});
      return goes;
    });
    // what is lost may be newer
    for (event& e : events_) e.stamped = std::max(e.stamped, e.record == null_link ? up_to + 1 : e.stamped);
  }

  /// The number of the key that a removal without a record is for.
  std::uint32_t number_of(link known_by) {
    if (entries_.empty() || entries_.back() != known_by) entries_.push_back(known_by);
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }

  void alter(std::string_view key, version first, version last) {
    altered_.add({first, last + 1});
    altered_keys_.emplace(key);
  }

  void lose(std::string_view key, version first, version last) {
    auto& unknown = report_->unknown;
    if (!unknown.empty() && unknown.back().key == key && unknown.back().last + 1 >= first) {
      unknown.back().last = last;
    } else {
      unknown.push_back({std::string(key), first, last});
    }
  }

  bool value_intact(link l) {
    const record r = from_->histories().at(l);
    if (r.value_intact()) return true;
    const version v = from_->histories().stamp_of(l);
    report_->losses.push_back({l, r.is_entry() ? "entry" : "record", "the value fails its checksum",
                               std::string(detail::key_of_record(*from_, l)), v});
    return false;
  }

  bool packed_value_intact(std::string_view key, const event& of) {
    const stratum::packed_record r = packed_->record(of.record);
    if (!r.is_elsewhere()) return true;
    try {
      static_cast<void>(packed_->value(of.record));
      return true;
    } catch (const error& e) {
      if (e.code() != errc::damaged && e.code() != errc::missing_file) throw;
      report_->losses.push_back(
          {r.reference().at, "packed", "the value fails its checksum", std::string(key), of.stamped});
      return false;
    }
  }

  [[nodiscard]] bool is_removal(link l) const {
    return is_packed(l) ? packed_->record(l).is_removal() : from_->histories().at(l).is_removal();
  }
  [[nodiscard]] std::string_view key_of(link l) const {
    return is_packed(l) ? packed_->key(l) : detail::key_of_record(*from_, l);
  }

  void write(opened_store& to, const copied_record& c) const {
    const std::string_view key = key_of(c.from == null_link ? entries_[c.entry_number] : c.from);
    const std::uint64_t hash = index::lookup_cache::hash_of(key);
    const auto remove = [&] {
      return with_writer(to, [&](auto& engine, const writer& w) { return engine.remove(w, key, hash); }).has_value();
    };
    if (c.from == null_link) {
      remove();
      return;
    }
    ++report_->records;
    if (!is_removal(c.from)) {
      const std::string_view value = is_packed(c.from) ? packed_->value(c.from) : from_->histories().at(c.from).value();
      with_writer(to, [&](auto& engine, const writer& w) { static_cast<void>(engine.put(w, key, hash, value)); });
    } else if (!remove()) {
      batch one;  // batches record removals of absent keys too
      one.remove(key);
      static_cast<void>(apply(to, one));
    }
  }

  const damaged_store* from_;
  packed_salvage* packed_;
  const forgotten_keys* forgotten_;
  repair_report* report_;
  std::vector<copied_record> records_;
  std::vector<link> entries_;       // or packed records of keys that have none
  packed_salvage::history events_;  // of the current key, oldest first
  version_ranges altered_;          // by losses whose keys are known
  std::set<std::string, std::less<>> altered_keys_;
  std::map<std::string, version, std::less<>> suspects_;
};

/// Sorts what was found at opening into losses and the rest. Large values are checked when they are copied.
void sort_findings(store_core& from, repair_report& report) {
  for (const detail::finding& f : from.findings()) {
    (f.lost ? report.losses : report.repaired).push_back(f.place);
  }
  pool_set& pools = from.the_pool();
  const auto is_lost = [&](const damage& d) {
    return pools.root_unreliable() || pools.find(link_pool(d.offset)) == nullptr;
  };
  for (damage& d : pools.damages()) (is_lost(d) ? report.losses : report.repaired).push_back(std::move(d));
  for (const query_damage& d : check_queries(pools).damages) {
    (d.definition_is_lost ? report.losses : report.repaired).push_back({d.at, "query", d.what, {}, {}});
  }
  for (damage& d : manifest_damages(pools)) report.repaired.push_back(std::move(d));
  if (const auto found = lineage_damage(pools)) report.repaired.push_back(*found);  // tokens hold no data of the store
}

/// The keys of the new store come in the order in which they came in the old one, from its next opening on.
void keep_hash_seed(const format::root& of, const pool_set& to) {
  if (all_zero(reinterpret_cast<const std::byte*>(of.hash_seed), sizeof of.hash_seed)) return;
  to.roots().update([&](format::root& r) { std::memcpy(r.hash_seed, of.hash_seed, sizeof r.hash_seed); });
}

/// Tokens of the old store, and of those that it continues, hold in the new one. If nobody knows any more which store
/// it was, there are no such tokens.
void keep_lineage(const pool_set& from, const pool_set& to, version open, const version_ranges& altered) {
  const format::root root = from.roots().read();
  if (is_stand_in(root)) return;
  lineage now = lineage_of(from).value_or(lineage{});
  now.add(root, open, altered);
  store_lineage(to, now);
}

/// Its changes are counted, and its keys may be others, within a version of which something is lost: such a version, or
/// snapshot, is told again from its beginning. Versions before it were told, whatever repair has lost of them.
feed_places::place kept_place(feed_places::place place, const version_ranges& altered) {
  if (!altered.contains(place.line.at)) return place;
  place.line.changes = 0;
  place.line.flags = static_cast<std::uint8_t>(place.line.flags & ~format::feed_key_known);
  place.key = {};
  return place;
}

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A query keeps what it asks, not what it found: rows are named by keys and versions, but chunks by places. Queries of
/// versions that a power cut took are gone with these. A feed goes on where it was acknowledged. A hold holds the same
/// version. What holds a forgotten key stays behind, but for the names of holds.
void copy_queries(store_core& from, store_core& to, const forgotten_keys& forgotten, const version_ranges& altered,
                  repair_report& report) {
  query_space space(to.the_pool(), to.shared().queries);
  for (const intact_definition& d : intact_definitions(from.the_pool())) {
    if (d.kind == format::query_kind::hold) {
      static_cast<void>(space.add({d.parts, d.bytes}));
      ++report.holds;
      continue;
    }
    if (forgotten.are_in(text_of(d.bytes)) || (d.place && forgotten.are_in(d.place->key))) continue;
    if (d.kind == format::query_kind::query) {
      if (from.lost().contains(title_of(d.bytes).version)) continue;
      static_cast<void>(space.add({d.parts, d.bytes, d.keys_expected}));
      ++report.queries;
    } else if (d.place) {
      const feed_places::place place = kept_place(*d.place, altered);
      static_cast<void>(
          space.add({.parts = d.parts,
                     .definition = d.bytes,
                     .bytes_behind = feed_places::behind_definition(d.bytes.size(), true),
                     .complete = [&](link head) { feed_places(space, head).store(0, 1, place.line, place.key); }}));
      ++report.feeds;
    }
  }
}

/// Collects all records, and names what is lost of what is packed. Of an entry that is lost with its key older records
/// may be packed: where its damaged bytes still say the key, these are not shown instead.
void name_packed_losses(store_core& from, packed_salvage& packed, copier& records, repair_report& report) {
  for (const detail::finding& f : packed.findings()) (f.lost ? report.losses : report.repaired).push_back(f.place);
  for (const detail::finding& f : from.findings()) {
    if (f.lost && f.perhaps_of) records.suspect(*f.perhaps_of, f.least);
  }
  records.collect();
  if (from.packing().extents.empty()) return;
  for (damage& d : report.losses) {
    const bool may_hide_a_key = d.structure == "record" || d.structure == "entry" || d.structure == "file";
    if (may_hide_a_key && !d.key) {
      d.what += "; if older versions of such a key are packed, the new store may show these in its place";
    }
  }
}

/// Which versions the store keeps, and which have expired.
void keep_what_is_kept(const store_core& from, store_core& to, repair_report& report) {
  try {
    if (const retention kept = from.kept(); kept != retention{}) to.set_retention(kept);
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;
    report.losses.push_back({format::manifest_anchor_offset,
                             "retention",
                             "which versions the store keeps cannot be read: the new store keeps all until it is told",
                             {},
                             {}});
  }
  if (from.expired().empty()) return;
  to.skip_to(from.expired().back().end + 1);  // the clock may be lost
  report.clock = to.clock().now();
  to.expire(from.expired());
}

}  // namespace

repair_report repair(const repair_options& how) {
  const std::filesystem::path path = how.to;
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    raise(errc::store_exists, "{}: exists already; a repaired store needs a new path", path.native());
  }
  options reading;
  reading.access = access::read_only;
  reading.creation = creation::open_existing;
  reading.accept_copy = true;
  reading.accept_damage = true;
  reading.placements = how.moved;
  reading.crash = how.crash;
  reading.on_progress = how.on_progress;
  const auto opened = detail::open_young_generation(how.from, reading);
  store_core& damaged = opened->current();
  const auto& from = static_cast<const damaged_store&>(damaged);
  const pool_set& pools = from.the_pool();
  repair_report report;
  sort_findings(damaged, report);
  packed_salvage packed(pools, damaged.packing());
  const forgotten_keys forgotten(pools);
  report.losses.insert(report.losses.end(), forgotten.damages().begin(), forgotten.damages().end());
  copier records(from, packed, forgotten, report);
  name_packed_losses(damaged, packed, records, report);
  if (is_stand_in(pools.roots().read()) && report.keys == 0) {
    raise(errc::damaged, "{}: both root pages are damaged and no record is intact: nothing can be repaired",
          how.from.native());
  }

  unfinished_store making(path, ".repairing");
  options writing;
  writing.creation = creation::create_new;
  writing.placements = how.placements;
  writing.durability = durability::none;  // closing makes all of it durable
  writing.index = static_cast<index_kind>(pools.roots().read().index);
  {
    const auto to = detail::open_store(making.path(), writing);
    records.write(*to, how.on_progress);
    copy_queries(damaged, to->current(), forgotten, records.altered(), report);
    keep_what_is_kept(damaged, to->current(), report);
    keep_hash_seed(pools.roots().read(), *to->pool);
    keep_lineage(pools, *to->pool, report.clock, records.altered());
    to->close();
  }
  const verify_report checked = verify_file(making.path(), how.on_progress);
  if (!checked.ok()) {
    raise(errc::io, "{}: what was read back is not what was written ({}); check the device", making.path().native(),
          checked.damages.front().what);
  }
  making.finish(replacing::refused);
  for (auto* damages : {&report.losses, &report.repaired}) {
    std::ranges::stable_sort(*damages, {}, &damage::offset);
    for (damage& d : *damages) d = pools.localized(std::move(d));
  }
  return report;
}

}  // namespace icecore

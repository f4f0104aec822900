// Repair: writes what is intact in a damaged store to a new one.
//
// The damaged store is opened for reading with its damage accepted (salvage.hpp), so that each history is there with
// stand-ins for what is lost. Its records are copied in the order of their versions, through the same calls that any
// writer uses, so the new store keeps all invariants. A removal takes the place of what is lost (D2): users would trust
// a value that may be wrong, but they look into a value that is missing, and the report says which versions are
// affected.
#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "icecore/unfinished.hpp"
#include "pool/query/query_check.hpp"
#include "store/copy/lineage.hpp"
#include "store/engine.hpp"
#include "store/read/scan.hpp"

namespace icecore {
namespace {

using detail::opened_store;
using detail::store_core;
using detail::with_writer;

/// Damage is accepted only by an opening that reads all records, and that rebuilds the heads.
using damaged_store = detail::engine<rebuilt_heads>;

/// One record to be written.
struct copied_record {
  version v;
  link from;                   // null: a removal in the place of lost records
  std::uint32_t entry_number;  // the entry that this removal is for
  std::uint32_t place;         // position in the key's new history
};

class copier {
 public:
  copier(const damaged_store& from, repair_report& report) : from_(&from), report_(&report) {}

  /// Collects the histories of all keys. O(records).
  void collect() {
    detail::for_each_block(*from_, detail::index_part(), [&](const detail::walked_entries& entries) {
      for (const link entry : entries) collect(entry);
      return true;
    });
    std::ranges::sort(records_, {}, [](const copied_record& c) { return std::tuple(c.v, c.place, c.from); });
  }

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
      if (d.structure == "query") return false;  // no version depends on it
      return !d.key || !altered_keys_.contains(*d.key) || (d.version && !altered_.contains(*d.version));
    };
    version_ranges all = altered_;
    if (std::ranges::any_of(report_->losses, may_be_elsewhere)) all.add({0, version_max});
    return all;
  }

 private:
  void collect(link entry) {
    const rebuilt_histories& histories = from_->histories();
    history_.clear();
    for (link l = histories.newest(entry); l != null_link; l = histories.at(l).older()) history_.push_back(l);
    std::ranges::reverse(history_);
    bool present = false;
    std::uint32_t place = 0;
    const std::size_t first = records_.size();
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const record r = histories.at(history_[i]);
      const version v = histories.stamp_of(history_[i]);
      if (r.is_lost() || !value_intact(history_[i])) {
        const bool newest = i + 1 == history_.size();
        const version next = newest ? from_->clock().now() + 1 : histories.stamp_of(history_[i + 1]);
        // what is lost may also be of the next record's version, which shows that record in any case
        alter(entry, v, next);
        if (next > v) lose(entry, v, next - 1);
        if (next > v && present) records_.push_back({v, null_link, number_of(entry), ++place});
        present = present && next <= v;
      } else {
        records_.push_back({v, history_[i], 0, ++place});
        present = !r.is_removal();
      }
    }
    if (records_.size() > first) ++report_->keys;
  }

  /// The number of the entry that a removal without a record is for.
  std::uint32_t number_of(link entry) {
    if (entries_.empty() || entries_.back() != entry) entries_.push_back(entry);
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }

  void alter(link entry, version first, version last) {
    altered_.add({first, last + 1});
    altered_keys_.emplace(from_->key_of(entry));
  }

  void lose(link entry, version first, version last) {
    const std::string key(from_->key_of(entry));
    auto& unknown = report_->unknown;
    if (!unknown.empty() && unknown.back().key == key && unknown.back().last + 1 >= first) {
      unknown.back().last = last;
    } else {
      unknown.push_back({key, first, last});
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

  void write(opened_store& to, const copied_record& c) const {
    const auto remove = [&to](std::string_view key) {
      return with_writer(to, [&](auto& engine, const writer& w) { return engine.remove(w, key); }).has_value();
    };
    if (c.from == null_link) {
      remove(from_->key_of(entries_[c.entry_number]));
      return;
    }
    ++report_->records;
    const record r = from_->histories().at(c.from);
    const std::string_view key = detail::key_of_record(*from_, c.from);
    if (!r.is_removal()) {
      with_writer(to, [&](auto& engine, const writer& w) { static_cast<void>(engine.put(w, key, r.value())); });
    } else if (!remove(key)) {
      batch one;  // batches record removals of absent keys too
      one.remove(key);
      static_cast<void>(apply(to, one));
    }
  }

  const damaged_store* from_;
  repair_report* report_;
  std::vector<copied_record> records_;
  std::vector<link> entries_;
  std::vector<link> history_;  // of the current key, oldest first
  version_ranges altered_;     // by losses whose keys are known
  std::set<std::string, std::less<>> altered_keys_;
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

/// A query keeps what it asks, not what it found: rows are named by keys and versions, but chunks by places. Queries of
/// versions that a power cut took are gone with these. A feed goes on where it was acknowledged.
void copy_queries(store_core& from, store_core& to, const version_ranges& altered, repair_report& report) {
  query_space space(to.the_pool(), to.shared().queries);
  for (const intact_definition& d : intact_definitions(from.the_pool())) {
    if (!d.is_feed) {
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
  const auto opened = detail::open_store(how.from, reading);
  store_core& damaged = opened->current();
  if (damaged.packed() != nullptr) {
    raise(errc::unsupported_format,
          "{}: has packed versions, which repair cannot rebuild yet; icecore verify names what is damaged, and keys "
          "that lie elsewhere can be read as before",
          how.from.native());
  }
  const auto& from = static_cast<const damaged_store&>(damaged);
  repair_report report;
  sort_findings(damaged, report);
  copier records(from, report);
  records.collect();
  if (is_stand_in(from.the_pool().roots().read()) && report.keys == 0) {
    raise(errc::damaged, "{}: both root pages are damaged and no record is intact: nothing can be repaired",
          how.from.native());
  }

  unfinished_store making(path, ".repairing");
  options writing;
  writing.creation = creation::create_new;
  writing.placements = how.placements;
  writing.durability = durability::none;  // closing makes all of it durable
  writing.index = static_cast<index_kind>(from.the_pool().roots().read().index);
  {
    const auto to = detail::open_store(making.path(), writing);
    records.write(*to, how.on_progress);
    copy_queries(damaged, to->current(), records.altered(), report);
    keep_hash_seed(from.the_pool().roots().read(), *to->pool);
    keep_lineage(from.the_pool(), *to->pool, report.clock, records.altered());
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
    for (damage& d : *damages) d = from.the_pool().localized(std::move(d));
  }
  return report;
}

}  // namespace icecore

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/manifest/manifest_copies.hpp"
#include "pool/query/query_check.hpp"
#include "pool/query/query_space.hpp"
#include "store/beside/observing.hpp"
#include "store/check/salvage.hpp"
#include "store/copy/lineage.hpp"
#include "store/engine.hpp"
#include "store/open/record_scan.hpp"
#include "store/open/sorted_entries.hpp"
#include "store/packed/open_strata.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "store/persistent/instant_recovery.hpp"
#include "stratum/merge/record_source.hpp"

namespace icecore {
namespace {

verify_report report_of(const pool_set& in, detail::record_scan& found) {
  // links matter only if every checksum is right: otherwise salvage reports more
  if (found.damages().empty()) found.check_chains();
  verify_report report;
  report.segments = found.segments().size();
  const record_totals totals = found.totals();
  report.entries = totals.keys;
  report.records = totals.inserts + totals.removes;
  for (const auto& part : found.parts()) {
    report.tags += part.tags.size();
    report.bytes += part.bytes;
  }
  report.damages = detail::salvage(in, found).damages();
  return report;
}

/// A key is entered only once: opening, which sorts the entries, refuses a second entry.
void check_keys(const pool_set& in, const detail::record_scan& found, verify_report& report) {
  const address_space space(in.bases());
  const auto twice = detail::sort_entries(found, space).of_one_key;
  if (!twice) return;
  const auto [one, other] = *twice;
  report.damages.push_back({other, "entry", fmt::format("the key is entered twice, also at {}", in.place_of(one)),
                            std::string(space.record_at(other).key()), std::nullopt});
}

/// What is damaged then is no version of the store: it opens, and its records are intact.
void add_queries_and_lineage(pool_set& in, const query_findings& found, verify_report& report) {
  report.queries = found.queries;
  for (const query_damage& d : found.damages) {
    report.damages.push_back({d.at, "query", d.what, std::nullopt, std::nullopt});
  }
  if (const auto d = lineage_damage(in)) report.damages.push_back(*d);
}

/// Reads the value that a record in this segment refers to. `referred`: by the values' numbers.
void check_value(const stratum::values_elsewhere& values, link segment, std::string_view key,
                 const stratum::packed_record& of, std::vector<bool>& referred, verify_report& report) {
  const auto note = [&](link at, const char* what) {
    report.damages.push_back({at, "packed", what, std::string(key), of.stamped});
  };
  const auto i = values.find(of.reference());
  if (!i) return note(segment, "a packed record refers to a value that the manifest does not name");
  report.bytes += of.reference().size;
  const char* const what = referred[*i] ? "two packed records refer to this value" : values.fails(*i);
  referred[*i] = true;
  if (what != nullptr) note(of.reference().at, what);
}

/// Reads all that is packed. `of`: the manifest of what is checked. Another process may have packed the store since:
/// then the places of that manifest may be those of a later one.
void check_packed(const pool_set& in, const manifest& of, verify_report& report) {
  const auto note = [&](link at, std::string what) {
    report.damages.push_back({at, "packed", std::move(what), std::nullopt, std::nullopt});
  };
  const auto is_newest = [&] {
    const auto root = newest_root(in.first().base());
    return root && root->manifest == of.number;
  };
  if (is_newest()) {
    std::vector<damage> found = manifest_damages(in);
    if (is_newest()) std::ranges::move(found, std::back_inserter(report.damages));
  }
  const stratum::values_elsewhere values(detail::values_of(in, of));
  std::vector<bool> referred(values.all().size());
  bool all_are_read = true;
  for (const format::named_extent& each : of.extents) {
    try {
      if (each.size > link_offset_mask ||
          !in.contains_by_now(each.segment + sizeof(format::segment_header), each.size)) {
        raise(errc::damaged, "the file is missing, or ends before the packed records do");
      }
      const auto extent = detail::open_extent(in, each);
      report.entries += extent->header().keys;
      report.records += extent->header().records;
      report.bytes += extent->media_size();
      const stratum::block first = extent->block_at(0);
      if (first.row_at(first.rows_begin(0)).record.stamped != each.first) {
        note(each.segment, "the manifest does not say what the packed records begin with");
      }
      extent->verify([&](std::string_view what, std::uint64_t offset) {
        note(make_link(link_pool(each.segment), offset), std::string(what));
        all_are_read = false;
      });
      if (values.all().empty()) continue;
      for (stratum::extent_records r(*extent); !r.at_end(); r.next()) {
        if (r.record().is_elsewhere()) check_value(values, each.segment, r.key(), r.record(), referred, report);
      }
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
      note(each.segment, e.message());
      all_are_read = false;
    }
  }
  const auto unused = std::ranges::find(referred, false);
  if (all_are_read && unused != referred.end()) {
    note(values.all()[static_cast<std::size_t>(unused - referred.begin())].where.at,
         "no packed record refers to a value that the manifest names");
  }
}

void check_forgotten(const pool_set& in, verify_report& report) {
  const detail::forgotten_keys asked(in);
  report.damages.insert(report.damages.end(), asked.damages().begin(), asked.damages().end());
}

/// Turns their positions, which are links, into files and bytes in these.
void localize(const pool_set& in, std::vector<damage>& damages) {
  std::ranges::stable_sort(damages, {}, &damage::offset);
  for (damage& d : damages) d = in.localized(std::move(d));
}

/// For a closed store with a persistent index, in these files.
void check_persistent_index(const std::filesystem::path& path, const std::vector<std::string>& files,
                            const options& reading, verify_report& report) {
  try {
    const auto is_known = [&](const damage& d) {
      return std::ranges::any_of(report.damages, [&](const damage& known) {
        return known.offset == d.offset && known.file == d.file && known.what == d.what;
      });
    };
    for (damage& d : store(path, reading).verify().damages) {
      if (!is_known(d)) report.damages.push_back(std::move(d));
    }
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;
    // an error that is met while opening and checking begins with the file's name
    const auto named =
        std::ranges::find_if(files, [&](const std::string& file) { return e.message().starts_with(file + ": "); });
    report.damages.push_back(
        {0, "index", e.message(), std::nullopt, std::nullopt, named != files.end() ? *named : path.native()});
  }
}

}  // namespace

std::vector<segment_tail> detail::store_core::filled_segments() const {
  check_usable();
  const writer_set::gate stopped(*writers_);
  require_current();
  return writers_->segment_tails();
}

verify_report detail::store_core::verify(std::vector<segment_tail> filled, const progress_function& on_progress) const {
  check_usable();
  if (accepts_damage_) {  // the mapping is repaired, the file is not
    std::vector<placement> where;
    for (const pool* p : pool_->files()) {
      if (p->number() != 0) where.push_back({p->file().path(), -1});
    }
    return verify_file(pool_->file().path(), on_progress, where);
  }
  // also what no manifest names, as requests to forget
  const auto keeps_all = beside_writer_ ? pool_->file().keep_all() : nullptr;
  record_scan found(*pool_, {.threads = core_count(), .large_values = true, .on_progress = on_progress},
                    std::move(filled), packing_);
  verify_report report = report_of(*pool_, found);
  check_index(found, report);
  check_packed(*pool_, packing_, report);
  if (beside_writer_) {
    check_forgotten(*pool_, report);
    add_queries_and_lineage(*pool_, check_queries_beside(*pool_), report);
  } else {
    {
      query_space queries(*pool_, shared_->queries);
      const recovering_lock no_request = queries.hold();  // to forget is made or given back meanwhile
      check_forgotten(*pool_, report);
    }
    add_queries_and_lineage(*pool_, check_queries_in_use(*pool_, shared_->queries), report);
  }
  localize(*pool_, report.damages);
  return report;
}

namespace detail {

/// Reports entries that the index does not lead to and, if heads are durable, heads that do not lead to the newest
/// record and tags that are not in the list of tags.
template <class Heads>
void reading_engine<Heads>::check_index(const record_scan& found, verify_report& report) const {
  const auto note = [&](link at, const char* structure, std::string what, link entry) {
    std::string key(young_->at(entry).key());  // as it is, damaged or not
    report.damages.push_back({at, structure, std::move(what), std::move(key), std::nullopt});
  };
  // What is read here may be damaged: then reading it throws.
  const auto damage_met = [](auto check) -> std::optional<std::string> {
    try {
      check();
      return std::nullopt;
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
      return e.message();
    }
  };
  const auto attempt = [&](link at, const char* structure, link entry, auto check) {
    if (const auto met = damage_met(check)) note(at, structure, *met, entry);
  };
  for (const auto& part : found.parts()) {
    for (const link entry : part.entries) {
      attempt(entry, "index", entry, [&] {
        if (index_->find(key_of(entry)) != entry) note(entry, "index", "the index does not lead to this entry", entry);
      });
    }
    if constexpr (!Heads::are_durable) continue;
    for (const link update : part.updates) {
      const record r = young_->at(update);
      const link entry = r.as_update().entry;
      attempt(entry, "entry", entry, [&] {
        if (young_->at(young_->newest(entry)).header().depth < r.header().depth)
          note(entry, "entry", "the entry's head does not lead to its newest record", entry);
      });
    }
  }
  // For damage of no entry: in the file whose name begins the message, or in the first one.
  const auto note_whole = [&](const char* structure, std::string what) {
    const auto& files = pool_->files();
    const auto named =
        std::ranges::find_if(files, [&](const pool* file) { return what.starts_with(file->origin() + ": "); });
    const link in = named != files.end() ? make_link((*named)->number(), 0) : null_link;
    report.damages.push_back({in, structure, std::move(what), std::nullopt, std::nullopt});
  };
  if (nobody_writes()) {  // nor does a refresh extend the index meanwhile
    const auto met = damage_met([&] {
      for (auto& what : index_->check()) note_whole("index", std::move(what));
    });
    if (met) note_whole("index", *met);
  }
  if constexpr (!Heads::are_durable) return;
  if (const auto met = damage_met([&] { catalog_->load(*tags_); })) return note_whole("tag", *met);
  for (const auto& part : found.parts()) {
    for (const link l : part.tags) {
      if (tags_->find(young_->stamp_of(l))) continue;
      // Another thread may have listed it, and still wait for a sync before it shows it.
      bool is_listed = false;
      if (const auto met = damage_met([&] { is_listed = catalog_->lists(l); })) {
        return note_whole("tag", *met);
      }
      if (is_listed) continue;
      report.damages.push_back(
          {l, "tag", "the index's list of tags lacks this tag", std::nullopt, young_->stamp_of(l)});
    }
  }
}

template void reading_engine<rebuilt_heads>::check_index(const record_scan& found, verify_report& report) const;
template void reading_engine<observed_heads>::check_index(const record_scan& found, verify_report& report) const;
template void reading_engine<durable_heads>::check_index(const record_scan& found, verify_report& report) const;
template void reading_engine<layered<rebuilt_heads>>::check_index(const record_scan& found,
                                                                  verify_report& report) const;
template void reading_engine<layered<observed_heads>>::check_index(const record_scan& found,
                                                                   verify_report& report) const;
template void reading_engine<layered<durable_heads>>::check_index(const record_scan& found,
                                                                  verify_report& report) const;

}  // namespace detail

namespace {

/// With a lock that keeps writers out. errc::locked
verify_report verify_alone(const std::filesystem::path& path, const progress_function& on_progress, options reading) {
  reading.accept_copy = true;
  reading.accept_damage = true;
  reading.beside_writer = false;
  verify_report report;
  bool has_index = false;
  std::vector<std::string> files;
  {
    pool_set p(path, reading);
    auto found = detail::record_scan::of_unopened(
        p, {.threads = core_count(), .large_values = true, .accept_damage = true, .on_progress = on_progress});
    report = report_of(p, found);
    if (report.ok()) check_keys(p, found, report);
    check_packed(p, manifest_of(p, extent_segments::as_they_are), report);
    check_forgotten(p, report);
    for (auto& d : p.damages()) report.damages.push_back(std::move(d));
    has_index = report.ok();
    add_queries_and_lineage(p, check_queries(p), report);
    localize(p, report.damages);
    reading.accept_damage = false;
    has_index = has_index && detail::instant_recovery::possible(p, reading);
    for (const pool* file : p.files()) files.push_back(file->origin());
  }
  if (has_index) check_persistent_index(path, files, reading, report);
  return report;
}

// ---- Beside the process that writes the store ----

constexpr int looks_max = 50;
constexpr std::chrono::milliseconds between_looks(1);

/// The writer may be writing one of the pages, and then it is whole soon.
void check_root_pages(const pool_set& in, verify_report& report) {
  for (const pool* p : in.files()) {
    std::vector<damage> found = p->damages();
    for (int left = looks_max; !found.empty() && left > 0; --left) {
      std::this_thread::sleep_for(between_looks);
      found = p->damages();
    }
    std::ranges::move(found, std::back_inserter(report.damages));
  }
}

/// A settled record that is damaged, and behind which none lies, looks like one that the writer has begun. If the root
/// certifies it, it is missed here. While the writer closes the store, fill ends vouch for more than this root: then
/// nothing follows from the comparison, and soon the store is not this writer's any more.
void check_certificate(const pool_set& in, const detail::record_scan& found, version settled, verify_report& report) {
  const format::root root = in.roots().read();
  if (root.durable_version > settled) return;  // certified, and not published yet
  const record_totals certified = found.certified();
  if (certified.records == root.certified_records && certified.digest == root.certified_sum) return;
  std::atomic_thread_fence(std::memory_order_acquire);  // a fill end that was read before the root that precedes it
  const auto newest = newest_root(in.first().base());
  const bool is_closing = !newest || newest->epoch != root.epoch || newest->state != root.state ||
                          newest->durable_version > in.live().settled.load(std::memory_order_acquire);
  if (is_closing) return;
  report.damages.push_back(
      {null_link, "file",
       fmt::format("the root certifies {} records, but {} were found", root.certified_records, certified.records),
       std::nullopt, std::nullopt});
}

/// What was settled when it begins. Empty if a process opens or closes the store meanwhile, or has packed it, and
/// something seems damaged: it may be of two times. None of what it reads is given back while it has the files open.
std::optional<verify_report> verify_settled(const std::filesystem::path& path, const progress_function& on_progress,
                                            const options& reading) {
  const auto there = detail::find_settled(path, reading);
  if (!there) return std::nullopt;
  pool_set& in = *there->pools;
  const version settled = there->now.version;
  const format::root root = in.roots().read();
  verify_report report;
  try {
    detail::record_scan found(in, {.threads = core_count(), .large_values = true, .on_progress = on_progress},
                              there->records->find(there->now), there->packing, settled);
    report = report_of(in, found);
    for (const link at : there->records->hidden_records(settled)) {
      report.damages.push_back({at, "segment", "the segment's header is damaged", std::nullopt, std::nullopt});
    }
    if (report.ok()) check_keys(in, found, report);
    if (report.ok()) check_certificate(in, found, settled, report);
    check_packed(in, there->packing, report);
    check_forgotten(in, report);
    check_root_pages(in, report);
    add_queries_and_lineage(in, check_queries_beside(in), report);
    localize(in, report.damages);
  } catch (const error&) {
    if (detail::is_still(path, reading, root)) throw;
    return std::nullopt;
  }
  if (!report.ok() && !detail::is_still(path, reading, root)) return std::nullopt;
  return report;
}

/// Alone if no process writes the store, else beside it. A process that is opening or closing it will soon have done
/// so.
verify_report verify_somehow(const std::filesystem::path& path, const progress_function& on_progress,
                             const options& reading) {
  constexpr std::chrono::seconds at_most{30};
  constexpr std::chrono::milliseconds between{5};
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    const bool is_last_try = std::chrono::steady_clock::now() >= until;
    try {
      return verify_alone(path, on_progress, reading);
    } catch (const error& e) {
      if (e.code() != errc::locked || is_last_try) throw;
    }
    try {
      if (auto report = verify_settled(path, on_progress, reading)) return *std::move(report);
    } catch (const error& e) {
      if (e.code() != errc::not_a_store || is_last_try) throw;  // else it is being made: there is no root yet
    }
    std::this_thread::sleep_for(between);
  }
}

}  // namespace

verify_report verify_file(const std::filesystem::path& path, const progress_function& on_progress,
                          const std::vector<placement>& moved) {
  options reading;
  reading.placements = moved;
  reading.access = access::read_only;
  reading.creation = creation::open_existing;
  try {
    return verify_somehow(path, on_progress, reading);
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;
    verify_report report;
    report.damages.push_back({0, "root", e.message(), std::nullopt, std::nullopt, path.native()});
    return report;
  }
}

}  // namespace icecore

#include "icecore/record_log.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <optional>
#include <vector>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/pool_set.hpp"
#include "pool/query/query_check.hpp"
#include "store/open/record_scan.hpp"
#include "store/packed/open_strata.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "stratum/merge/record_source.hpp"

namespace icecore {
namespace {

options reading_of(const options& opening) {
  options reading = opening;
  reading.access = access::read_only;
  reading.creation = creation::open_existing;
  reading.accept_damage = reading.accept_copy = false;
  return reading;
}

}  // namespace

struct [[gnu::visibility("hidden")]] record_log::content {
  /// An older record of the same key has a smaller depth (L1), a tag has none (L2). Then by position: files are read
  /// forwards.
  struct place {
    version at;
    std::uint32_t depth;  ///< packed_depth: `from` counts packed records
    link from;
    friend auto operator<=>(const place&, const place&) = default;
  };

  /// No record has this depth. A key has at most one packed record of a version, and none of later ones (T1).
  static constexpr std::uint32_t packed_depth = std::numeric_limits<std::uint32_t>::max();
  /// Views into its extent.
  struct packed_row {
    std::string_view key;
    stratum::packed_record record;
  };

  content(const std::filesystem::path& path, const options& opening) : from(path, reading_of(opening)) {
    if (from.count() > 1) {
      raise(errc::unsupported_format, "{}: is a store of {} files; only a store of one file can be read as a log",
            path.native(), from.count());
    }
    detail::record_scan found(from,
                              {.threads = thread_count(opening.recovery_threads), .on_progress = opening.on_progress});
    found.refuse_damaged();
    found.check_chains();
    found.refuse_damaged();
    if (found.crashed()) {
      raise(errc::copied, "{}: its writer has not closed it; open it as a store and close it first", path.native());
    }
    if (!detail::forgotten_keys(from).segments().empty()) {
      raise(errc::unsupported_format,
            "{}: has keys that are to be forgotten, of which a log would still tell; pack it with icecore::compact() "
            "first",
            path.native());
    }
    clock = from.roots().read().clock;
    lost = lost_versions_of(from.roots().read());
    pool_id = from.id();
    has_queries = !intact_definitions(from).empty();
    std::size_t count = 0;
    for (const auto& part : found.parts()) count += part.entries.size() + part.updates.size() + part.tags.size();
    places.reserve(count);
    const auto add = [&](link l, bool is_tag) {
      const version v = found.version_of(l).value_or(0);  // the record scan has made sure that there is one
      const std::uint32_t depth = is_tag ? 0 : record(from.at(l)).header().depth;
      places.push_back({is_tag ? v + 1 : v, depth, l});
    };
    for (const auto& part : found.parts()) {
      for (const link l : part.entries) add(l, false);
      for (const link l : part.updates) add(l, false);
      for (const link l : part.tags) add(l, true);
    }
    const manifest packing = manifest_of(from);
    expired = packing.expired;
    kept = retention_of(from);
    add_packed(packing);
    std::ranges::sort(places);
  }

  /// Reads and checks all blocks. What is compressed stays inflated: rows are views into it.
  void add_packed(const manifest& packing) {
    values.emplace(detail::values_of(from, packing));
    for (const format::named_extent& each : packing.extents) {
      const auto& extent = *extents.emplace_back(detail::open_extent(from, each));
      for (stratum::extent_records all(extent); !all.at_end(); all.next()) {
        const stratum::packed_record& r = all.record();
        places.push_back({r.stamped, packed_depth, rows.size()});
        rows.push_back({all.key(), r});
      }
    }
  }

  pool_set from;
  std::vector<std::unique_ptr<const stratum::extent>> extents;
  std::optional<stratum::values_elsewhere> values;  // to which rows refer
  std::vector<packed_row> rows;
  std::vector<place> places;
  std::vector<version_range> expired;
  icecore::retention kept;
  version clock = 0;
  version_ranges lost;
  std::string pool_id;
  bool has_queries = false;
};

record_log::record_log(const std::filesystem::path& path, const options& opening)
    : content_(std::make_unique<const content>(path, opening)) {}
record_log::~record_log() = default;
record_log::record_log(record_log&&) noexcept = default;
record_log& record_log::operator=(record_log&&) noexcept = default;

std::size_t record_log::size() const noexcept { return content_->places.size(); }
version record_log::clock() const noexcept { return content_->clock; }
const version_ranges& record_log::lost_versions() const noexcept { return content_->lost; }
const std::vector<version_range>& record_log::expired_versions() const noexcept { return content_->expired; }
const icecore::retention& record_log::retention() const noexcept { return content_->kept; }
bool record_log::has_queries() const noexcept { return content_->has_queries; }
const std::string& record_log::pool_id() const noexcept { return content_->pool_id; }

logged record_log::at(std::size_t position) const {
  const content::place& p = content_->places[position];
  if (p.depth == content::packed_depth) {
    const content::packed_row& row = content_->rows[p.from];
    logged one{.at = p.at,
               .what = row.record.is_removal() ? logged::kind::removal : logged::kind::small,
               .key = row.key,
               .value = row.record.value};
    if (!row.record.is_elsewhere()) return one;
    const auto& values = *content_->values;
    const auto number = values.find(row.record.reference());
    if (!number) {
      raise(errc::damaged, "{}: a packed record refers to a value that the manifest does not name",
            content_->from.file().path().native());
    }
    one.what = logged::kind::large;
    one.value = {};
    one.value_offset = link_offset(row.record.reference().at);
    one.value_size = static_cast<decltype(one.value_size)>(row.record.reference().size);
    one.value_crc = values.all()[*number].crc;
    return one;
  }
  const record r(content_->from.at(p.from));
  if (p.depth == 0) return {p.at, logged::kind::tag, r.as_tag().time_ns, r.key(), r.value()};
  const record entry = r.is_entry() ? r : record(content_->from.at(r.as_update().entry));
  logged one{.at = p.at, .what = r.is_removal() ? logged::kind::removal : logged::kind::small, .key = entry.key()};
  if (!r.has_large_value()) {
    one.value = r.value();
    return one;
  }
  one.what = logged::kind::large;
  one.value_offset = link_offset(p.from) + r.layout().value_offset();
  one.value_size = r.layout().value_size;
  one.value_crc = r.value_crc();
  return one;
}

void record_log::prefetch(std::size_t position) const noexcept {
  if (position >= size()) return;
  const content::place& p = content_->places[position];
  const bool is_packed = p.depth == content::packed_depth;
  __builtin_prefetch(is_packed ? static_cast<const void*>(&content_->rows[p.from]) : content_->from.at(p.from));
}

}  // namespace icecore

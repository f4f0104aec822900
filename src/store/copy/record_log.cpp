#include "icecore/record_log.hpp"

#include <algorithm>
#include <compare>
#include <vector>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/pool_set.hpp"
#include "pool/query/query_check.hpp"
#include "store/open/record_scan.hpp"

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
    std::uint32_t depth;
    link from;
    friend auto operator<=>(const place&, const place&) = default;
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
    if (from.roots().read().manifest != 0) {
      raise(errc::unsupported_format, "{}: has packed versions, which are in no log; open it as a store",
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
    std::ranges::sort(places);
  }

  pool_set from;
  std::vector<place> places;
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
bool record_log::has_queries() const noexcept { return content_->has_queries; }
const std::string& record_log::pool_id() const noexcept { return content_->pool_id; }

logged record_log::at(std::size_t position) const {
  const content::place& p = content_->places[position];
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
  if (position < size()) __builtin_prefetch(content_->from.at(content_->places[position].from));
}

}  // namespace icecore

#include <fmt/format.h>

#include <algorithm>

#include "base/threads.hpp"
#include "store/core.hpp"
#include "store/sorted_entries.hpp"
#include "store/survey.hpp"

namespace icecore {
namespace {

verify_report report_of(const detail::survey& found) {
  verify_report report;
  report.damages = found.damages();
  report.segments = found.segments().size();
  const record_totals totals = found.totals();
  report.entries = totals.keys;
  report.records = totals.inserts + totals.removes;
  for (const auto& part : found.parts()) {
    report.tags += part.tags.size();
    report.bytes += part.bytes;
  }
  return report;
}

/// A key is entered once only: opening, which sorts the entries, refuses a second one.
void check_keys(const detail::survey& found, const address_space& space, verify_report& report) {
  const auto twice = detail::sort_entries(found, space).of_one_key;
  if (!twice) return;
  const auto [one, other] = *twice;
  report.damages.push_back({link_offset(other), "entry",
                            fmt::format("the key is entered twice, also at byte {}", link_offset(one)),
                            std::string(space.record_at(other).key()), std::nullopt});
}

/// A root page that is neither valid nor empty. The other one serves, but a disk that spoils pages is worth knowing.
void check_root_pages(const std::byte* base, verify_report& report) {
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
    const auto* page = base + offset;
    const bool empty = std::all_of(page, page + format::page_size, [](std::byte b) { return b == std::byte{0}; });
    if (empty) continue;
    if (const auto defect = root_defect(*reinterpret_cast<const format::root*>(page))) {
      report.damages.push_back({offset, "root", *defect, std::nullopt, std::nullopt});
    }
  }
}

}  // namespace

verify_report detail::store_core::verify(const progress_function& on_progress) const {
  check_usable();
  std::vector<partial_segments::place> filled;
  {
    const writer_set::gate stopped(*writers_);
    writers_->for_each_place([&](const partial_segments::place& p) { filled.push_back(p); });
  }
  survey found(*pool_, {.threads = core_count(), .large_values = true, .filled = &filled, .on_progress = on_progress});
  found.check_chains();
  verify_report report = report_of(found);
  for (const auto& part : found.parts()) {
    for (const link entry : part.entries) {
      const std::string_view key = key_of(entry);
      if (index_->find(key) == entry) continue;
      report.damages.push_back(
          {link_offset(entry), "index", "the index does not lead to this entry", std::string(key), std::nullopt});
    }
  }
  if (read_only()) {
    for (auto& what : index_->check()) report.damages.push_back({0, "index", what, std::nullopt, std::nullopt});
  }
  return report;
}

verify_report verify_file(const std::filesystem::path& path, const progress_function& on_progress) {
  options reading;
  reading.access = access::read_only;
  reading.creation = creation::open_existing;
  reading.accept_copy = true;
  try {
    pool p(path, reading);
    detail::survey found(p, {.threads = core_count(), .large_values = true, .on_progress = on_progress});
    found.check_chains();
    verify_report report = report_of(found);
    if (report.ok()) check_keys(found, address_space(p.base()), report);
    check_root_pages(p.base(), report);
    return report;
  } catch (const error& e) {
    verify_report report;
    if (e.code() == errc::damaged) {
      report.damages.push_back({0, "root", e.message(), std::nullopt, std::nullopt});
      return report;
    }
    if (e.code() == errc::truncated) {
      report.damages.push_back({0, "file", e.message(), std::nullopt, std::nullopt});
      return report;
    }
    throw;
  }
}

}  // namespace icecore

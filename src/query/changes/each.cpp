#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/raise.hpp"
#include "icecore/store.hpp"
#include "icecore/timeline.hpp"
#include "query/changes/change.hpp"
#include "query/changes/entry_walk.hpp"
#include "query/changes/parts.hpp"
#include "query/once/collected.hpp"
#include "query/once/matching.hpp"

namespace icecore {

namespace {

/// A record, and which of the versions show it: those from place `first` to `last` in the list.
struct shown_record {
  detail::change_at what;
  std::size_t first;
  std::size_t last;
};

/// Appends the records of an entry that some of the versions show and that are no removals. O(log records) for each.
template <class Engine>
void append_shown(const Engine& engine, link entry, const std::vector<version>& versions,
                  std::vector<shown_record>& out) {
  const auto& histories = engine.histories();
  std::size_t end = versions.size();  // the versions from here on are done
  for (link l = histories.find_at(entry, versions.back()); l != null_link;) {
    const version stamped = histories.stamp_of(l);
    const auto from = std::lower_bound(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(end), stamped);
    const auto first = static_cast<std::size_t>(from - versions.begin());
    histories.verify_checksum(l);
    if (end == versions.size()) histories.persist_before_return(l);  // and so are the older ones (H2)
    if (!histories.is_removal(l)) out.push_back({{stamped, l}, first, end - 1});
    end = first;
    l = end == 0 ? null_link : histories.find_from(l, versions[end - 1]);
  }
}

/// Up to rows_max records with their places.
struct shown_block {
  detail::change_block rows;
  std::array<std::size_t, detail::rows_max> first;
  std::array<std::size_t, detail::rows_max> last;
};

/// Calls make(part count), then on threads visit(part, block, mask of those that match, memory).
template <typename Make, typename Visit>
void visit_versions(const pin& holds, const std::vector<version>& versions, const filter& where, detail::needs_of reads,
                    unsigned threads, const Make& make, const Visit& visit) {
  const auto& program = where.program();
  detail::refuse_changes(reads);
  detail::refuse_changes(program.needs());
  reads.value = reads.value || program.needs().value;
  const std::vector<detail::key_range> ranges = program.key_ranges();
  detail::with_engine(detail::usable_core(holds), [&](const auto& engine) {
    std::shared_ptr<const detail::sorted_keys> kept;
    const index::ordered_links& links = detail::in_key_order(engine, kept, threads);
    const key_bounds all;
    const auto parts = detail::parts_of_keys(engine, links, all, threads);
    make(parts.size());
    detail::run_parts(parts.size(), threads, [&](std::size_t p, const std::atomic<bool>& stopped) {
      detail::scratch memory;
      shown_block block;
      std::vector<shown_record> shown;
      detail::entry_walk entries(detail::within_ranges(ranges, parts[p]));
      std::size_t next = 0;
      for (bool more = true; more && !stopped.load(std::memory_order_relaxed);) {  // relaxed: a hint
        block.rows.clear();
        while (!block.rows.full()) {
          if (next < shown.size()) {
            block.first[block.rows.as_rows().size] = shown[next].first;
            block.last[block.rows.as_rows().size] = shown[next].last;
            block.rows.add(engine, shown[next++].what, reads);
            continue;
          }
          shown.clear();
          next = 0;
          const auto entry = entries.next(engine, links);
          more = entry.has_value();
          if (!more) break;
          append_shown(engine, *entry, versions, shown);
        }
        if (block.rows.as_rows().size == 0) break;
        if (const auto mask = program.test(block.rows.as_rows(), memory); mask != 0) visit(p, block, mask, memory);
      }
    });
  });
}

/// For each version in the block, calls add(place, mask of the rows that it shows).
template <typename Add>
void for_each_version(const shown_block& block, detail::row_mask mask, std::vector<detail::row_mask>& begins,
                      std::vector<detail::row_mask>& ends, const Add& add) {
  std::size_t least = begins.size();
  std::size_t greatest = 0;
  for (; mask != 0; mask &= mask - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(mask));
    begins[block.first[i]] |= mask & -mask;
    ends[block.last[i]] |= mask & -mask;
    least = std::min(least, block.first[i]);
    greatest = std::max(greatest, block.last[i]);
  }
  detail::row_mask now = 0;
  for (std::size_t v = least; v <= greatest; ++v) {
    now |= std::exchange(begins[v], 0);
    if (now != 0) add(v, now);
    now &= ~std::exchange(ends[v], 0);
  }
}

}  // namespace

many_versions::many_versions(pin holds, std::vector<icecore::version> versions)
    : holds_(std::move(holds)), versions_(std::move(versions)), sorted_(versions_) {
  std::ranges::sort(sorted_);
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
  for (const version v : versions_) {
    place_.push_back(static_cast<std::size_t>(std::ranges::lower_bound(sorted_, v) - sorted_.begin()));
  }
}

std::vector<std::uint64_t> many_versions::count(const filter& condition, unsigned threads) const {
  if (versions_.empty()) return {};
  // of each part: by how much the number of matches grows from one version to the next
  std::vector<std::vector<std::uint64_t>> grows;
  visit_versions(
      holds_, sorted_, condition, {}, thread_count(threads),
      [&](std::size_t parts) { grows.assign(parts, std::vector<std::uint64_t>(sorted_.size() + 1)); },
      [&](std::size_t part, const shown_block& block, detail::row_mask mask, detail::scratch&) {
        for (; mask != 0; mask &= mask - 1) {
          const auto i = static_cast<std::size_t>(std::countr_zero(mask));
          ++grows[part][block.first[i]];
          --grows[part][block.last[i] + 1];
        }
      });
  std::vector<std::uint64_t> counts(sorted_.size());
  std::uint64_t now = 0;
  for (std::size_t v = 0; v < sorted_.size(); ++v) {
    for (const auto& part : grows) now += part[v];
    counts[v] = now;
  }
  std::vector<std::uint64_t> answer;
  answer.reserve(place_.size());
  for (const std::size_t p : place_) answer.push_back(counts[p]);
  return answer;
}

namespace {

struct versions_of_store {
  const pin& holds;
  const std::vector<version>& sorted;
  const std::vector<std::size_t>& places;
};

std::vector<std::optional<result_number>> folded_versions(const versions_of_store& from, const filter& where,
                                                          detail::fold how, std::string_view expression,
                                                          unsigned threads) {
  const detail::aggregation total({{how, std::string(expression)}}, where.columns());
  std::vector<std::optional<result_number>> answer;
  if (from.places.empty()) return answer;
  const std::size_t count = from.sorted.size();
  struct part_state {
    std::vector<std::vector<detail::fold_state>> states;  // of each version
    std::vector<detail::row_mask> begins;
    std::vector<detail::row_mask> ends;
  };
  std::vector<part_state> parts;
  visit_versions(
      from.holds, from.sorted, where, total.needs(), thread_count(threads),
      [&](std::size_t number) {
        parts.assign(number, {std::vector(count, total.begin()), std::vector<detail::row_mask>(count),
                              std::vector<detail::row_mask>(count)});
      },
      [&](std::size_t part, const shown_block& block, detail::row_mask mask, detail::scratch& memory) {
        part_state& own = parts[part];
        for_each_version(block, mask, own.begins, own.ends, [&](std::size_t v, detail::row_mask rows) {
          total.add(block.rows.as_rows(), rows, memory, own.states[v]);
        });
      });
  for (const std::size_t p : from.places) {
    auto all = total.begin();
    for (const part_state& part : parts) total.merge(all, part.states[p]);
    answer.push_back(detail::number_of(total, 0, all.front()));
  }
  return answer;
}

}  // namespace

std::vector<std::optional<result_number>> many_versions::sum(const filter& condition, std::string_view expression,
                                                             unsigned threads) const {
  return folded_versions({holds_, sorted_, place_}, condition, detail::fold::sum, expression, threads);
}
std::vector<std::optional<result_number>> many_versions::min(const filter& condition, std::string_view expression,
                                                             unsigned threads) const {
  return folded_versions({holds_, sorted_, place_}, condition, detail::fold::min, expression, threads);
}
std::vector<std::optional<result_number>> many_versions::max(const filter& condition, std::string_view expression,
                                                             unsigned threads) const {
  return folded_versions({holds_, sorted_, place_}, condition, detail::fold::max, expression, threads);
}

many_versions store::each(std::vector<version> versions) const {
  auto c = opened().hold_for([&](const auto& core) {
    for (const version v : versions) core.check_readable(v);
  });
  return {std::move(c).holds(), std::move(versions)};
}

}  // namespace icecore

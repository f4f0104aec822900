#include "icecore/changes.hpp"

#include <atomic>
#include <bit>

#include "base/raise.hpp"
#include "filter/results/aggregation.hpp"
#include "icecore/store.hpp"
#include "query/changes/parts.hpp"
#include "query/changes/walk.hpp"
#include "query/once/collected.hpp"
#include "query/once/matching.hpp"
#include "store/feed/written_keys.hpp"

namespace icecore {

using detail::change_block;
using detail::change_walk;

namespace {

/// Links in key order to all keys within `ranges` and `bounds` that may have changes in (after, up_to]; `kept` as
/// in_key_order_if_written() says.
template <class Engine>
const index::ordered_links& keys_of_changes(const Engine& engine, const std::vector<detail::key_range>& ranges,
                                            const key_bounds& bounds, std::shared_ptr<const detail::sorted_keys>& kept,
                                            version after, version up_to, unsigned threads = 1) {
  if (detail::are_single_keys(ranges)) return detail::in_key_order_within(engine, ranges, kept, threads);
  detail::scan_bounds within(bounds);
  if (const auto parts = detail::within_ranges(ranges, within); !parts.empty()) {
    within.from = parts.front().from;
    within.to = parts.back().to;
    within.bounded_above = parts.back().bounded_above;
  }
  return detail::in_key_order_if_written(engine, kept, after, up_to, within, threads);
}

}  // namespace

struct [[gnu::visibility("hidden")]] change_range::walk {
  pin holds;
  icecore::version after;
  icecore::version up_to;
  key_bounds bounds;
  filter where;
  std::vector<detail::key_range> ranges{};
  std::shared_ptr<const detail::sorted_keys> kept{};
  const index::ordered_links* links = nullptr;
  std::optional<change_walk> changes{};
  detail::scratch memory{};
  change_block block{};
  std::vector<key_change> matches{};
  std::size_t position = 0;

  [[nodiscard]] std::vector<detail::scan_bounds> all_bounds() const {
    return detail::within_ranges(ranges, detail::scan_bounds(bounds));
  }
  void begin();
  /// The next block with matches; none at the end.
  void load();
};

void change_range::walk::begin() {
  kept.reset();
  links = detail::with_engine(detail::usable_core(holds), [&](const auto& engine) {
    return &keys_of_changes(engine, ranges, bounds, kept, after, up_to);
  });
  changes.emplace(after, up_to, all_bounds());
}

void change_range::walk::load() {
  matches.clear();
  position = 0;
  detail::with_engine(detail::usable_core(holds), [&](const auto& engine) {
    while (matches.empty() && changes->next(engine, *links, detail::whole_change, block)) {
      for (detail::row_mask found = where.program().test(block.as_rows(), memory); found != 0; found &= found - 1) {
        matches.push_back(block.change(static_cast<std::size_t>(std::countr_zero(found))));
      }
    }
  });
}

change_range::change_range(pin holds, icecore::version after, icecore::version up_to, key_bounds bounds, filter where)
    : walk_(new walk{std::move(holds), after, up_to, std::move(bounds), std::move(where)}) {
  walk_->ranges = walk_->where.program().key_ranges();
}
change_range::~change_range() = default;
change_range::change_range(change_range&&) noexcept = default;
change_range& change_range::operator=(change_range&&) noexcept = default;

change_range::iterator change_range::begin() & {
  walk_->begin();
  walk_->load();
  return iterator(this);
}
void change_range::step() {
  if (++walk_->position >= walk_->matches.size()) walk_->load();
}
bool change_range::at_end() const noexcept { return walk_ == nullptr || walk_->position >= walk_->matches.size(); }
const key_change& change_range::current() const noexcept { return walk_->matches[walk_->position]; }

/// Both conditions, with the columns that expressions of the caller may name.
filter change_range::with(const filter& condition) const {
  return filter::all_of({walk_->where, condition}).with_columns(condition.columns());
}

change_range change_range::where(const filter& condition) const {
  static_cast<void>(detail::usable_core(walk_->holds));
  return {walk_->holds, walk_->after, walk_->up_to, walk_->bounds, with(condition)};
}

// ---- Totals ----

namespace {

/// Cuts the keys into parts for threads; calls make(part count), then on the threads visit(part, rows, mask, memory).
template <class Engine, typename Make, typename Visit>
void visit_changes(const Engine& engine, version after, version up_to, const key_bounds& within, const filter& where,
                   detail::needs_of reads, unsigned threads, const Make& make, const Visit& visit) {
  const auto& program = where.program();
  reads.value = reads.value || program.needs().value;
  reads.changes = reads.changes || program.needs().changes;
  const std::vector<detail::key_range> ranges = program.key_ranges();
  std::shared_ptr<const detail::sorted_keys> kept;
  const index::ordered_links& links = keys_of_changes(engine, ranges, within, kept, after, up_to, threads);
  const auto parts = detail::parts_of_keys(engine, links, within, threads);
  make(parts.size());
  detail::run_parts(parts.size(), threads, [&](std::size_t p, const std::atomic<bool>& stopped) {
    detail::scratch memory;
    change_block block;
    change_walk walk(after, up_to, detail::within_ranges(ranges, parts[p]));
    // relaxed: a hint
    while (!stopped.load(std::memory_order_relaxed) && walk.next(engine, links, reads, block)) {
      if (const auto mask = program.test(block.as_rows(), memory); mask != 0) visit(p, block.as_rows(), mask, memory);
    }
  });
}

}  // namespace

std::uint64_t change_range::count(const filter& condition, unsigned threads) const {
  const filter both = with(condition);
  std::vector<std::uint64_t> counts;
  detail::with_engine(detail::usable_core(walk_->holds), [&](const auto& engine) {
    visit_changes(
        engine, walk_->after, walk_->up_to, walk_->bounds, both, {}, thread_count(threads),
        [&](std::size_t parts) { counts.resize(parts); },
        [&](std::size_t part, const detail::rows&, detail::row_mask mask, detail::scratch&) {
          counts[part] += static_cast<std::uint64_t>(std::popcount(mask));
        });
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t c : counts) sum += c;
  return sum;
}

namespace {

struct changes_of_store {
  const pin& holds;
  version after;
  version up_to;
  const key_bounds& bounds;
};

std::optional<result_number> folded_changes(const changes_of_store& from, const filter& where, detail::fold how,
                                            std::string_view expression, unsigned threads) {
  const detail::aggregation total({{how, std::string(expression)}}, where.columns());
  std::vector<std::vector<detail::fold_state>> states;
  detail::with_engine(detail::usable_core(from.holds), [&](const auto& engine) {
    visit_changes(
        engine, from.after, from.up_to, from.bounds, where, total.needs(), thread_count(threads),
        [&](std::size_t parts) { states.assign(parts, total.begin()); },
        [&](std::size_t part, const detail::rows& block, detail::row_mask mask, detail::scratch& memory) {
          total.add(block, mask, memory, states[part]);
        });
  });
  auto all = total.begin();
  for (const auto& part : states) total.merge(all, part);
  return detail::number_of(total, 0, all.front());
}

}  // namespace

std::optional<result_number> change_range::sum(const filter& condition, std::string_view expression,
                                               unsigned threads) const {
  return folded_changes({walk_->holds, walk_->after, walk_->up_to, walk_->bounds}, with(condition), detail::fold::sum,
                        expression, threads);
}
std::optional<result_number> change_range::min(const filter& condition, std::string_view expression,
                                               unsigned threads) const {
  return folded_changes({walk_->holds, walk_->after, walk_->up_to, walk_->bounds}, with(condition), detail::fold::min,
                        expression, threads);
}
std::optional<result_number> change_range::max(const filter& condition, std::string_view expression,
                                               unsigned threads) const {
  return folded_changes({walk_->holds, walk_->after, walk_->up_to, walk_->bounds}, with(condition), detail::fold::max,
                        expression, threads);
}

change_range store::changes(version after, version up_to, key_bounds bounds) const {
  auto c = opened().hold_for([&](const auto& core) { core.check_all_readable(after, up_to); });
  if (up_to < after) {
    raise(errc::invalid_argument, "changes after version {} up to version {}: the second must not be smaller", after,
          up_to);
  }
  return {std::move(c).holds(), after, up_to, std::move(bounds), filter()};
}

}  // namespace icecore

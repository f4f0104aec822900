#include "icecore/filtered.hpp"

#include <algorithm>
#include <bit>

#include "filter/results/aggregation.hpp"
#include "filter/results/projection.hpp"
#include "query/once/collected.hpp"
#include "query/once/matching.hpp"

namespace icecore {

using detail::matching;
using detail::usable_core;
using detail::with_engine;

double result_values::f64(std::size_t i) const noexcept { return std::bit_cast<double>(words[i]); }

// ---- Lazy ranges ----

/// Reads the index block by block; keeps the matches of some.
struct [[gnu::visibility("hidden")]] filtered_items::walk {
  walk(pin of, icecore::version v, filter condition)
      : holds(std::move(of)), at(v), where(std::move(condition)), ranges(where.program().key_ranges()) {}

  void begin() {
    blocks.emplace(detail::within_ranges(ranges, {}));
    at_once = 1;
    load();
  }
  void load() {
    with_engine(usable_core(holds), [&](const auto& engine) { load_from(engine); });
  }
  template <class Engine>
  void load_from(const Engine& engine);

  pin holds;
  icecore::version at;
  filter where;
  std::vector<detail::key_range> ranges;
  std::optional<detail::block_walk> blocks{};
  unsigned at_once = 1;  // blocks: more with each time, since who goes on is likely to go on
  std::shared_ptr<const detail::sorted_keys> kept{};
  std::vector<item> matches{};
  std::size_t position = 0;
};

template <class Engine>
void filtered_items::walk::load_from(const Engine& engine) {
  constexpr unsigned at_once_max = 8;
  matching<Engine> found(engine, at, where.program(), {.value = true});
  const index::ordered_links& links = detail::in_key_order_within(engine, ranges, kept);
  matches.clear();
  position = 0;
  for (unsigned read = 0; read < at_once || matches.empty(); ++read) {
    const detail::walked_entries entries = blocks->next(engine, links);
    if (entries.empty()) break;
    found.block(entries, detail::rows_max, [&](const detail::rows& b, const auto& test) {
      for (detail::row_mask mask = test(); mask != 0; mask &= mask - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(mask));
        matches.push_back({b.keys[i], b.values[i]});
      }
      return true;
    });
  }
  at_once = std::min(2 * at_once, at_once_max);
}

filtered_items::filtered_items(pin holds, icecore::version at, filter where)
    : walk_(std::make_unique<walk>(std::move(holds), at, std::move(where))) {}
filtered_items::~filtered_items() = default;
filtered_items::filtered_items(filtered_items&&) noexcept = default;
filtered_items& filtered_items::operator=(filtered_items&&) noexcept = default;

filtered_items::iterator filtered_items::begin() & {
  walk_->begin();
  return iterator(this);
}

void filtered_items::step() {
  if (++walk_->position == walk_->matches.size()) walk_->load();
}

bool filtered_items::at_end() const noexcept { return walk_ == nullptr || walk_->position >= walk_->matches.size(); }
const item& filtered_items::current() const noexcept { return walk_->matches[walk_->position]; }

filtered_items snapshot::where(const filter& condition) const {
  static_cast<void>(usable_core(holds_));
  return {holds_, at_, condition};
}

std::string snapshot::explain(const filter& condition) const {
  const auto& core = usable_core(holds_);
  std::string text = condition.explain() + "\norder: ";
  if (core.index().orders_keys()) return text + "by key; the ranges are sought";
  if (detail::are_single_keys(condition.program().key_ranges())) return text + "by key; each key is looked up";
  return text +
         "by hash; totals go through all keys, and what comes in key order (items, columns, pages) sorts them first";
}

// ---- Totals ----

std::uint64_t snapshot::count(const filter& condition, unsigned threads) const {
  return with_engine(usable_core(holds_), [&](const auto& engine) {
    std::vector<std::uint64_t> counts;
    detail::visit_matches(
        engine, at_, condition.program(), {}, thread_count(threads), detail::keys_come::in_any_order,
        [&](std::size_t parts) { counts.resize(parts); },
        [&](std::size_t part, const detail::rows&, detail::row_mask mask, detail::scratch&) {
          counts[part] += static_cast<std::uint64_t>(std::popcount(mask));
        });
    std::uint64_t sum = 0;
    for (const std::uint64_t c : counts) sum += c;
    return sum;
  });
}

namespace {

using detail::aggregation;
using detail::fold;

std::optional<result_number> folded(const pin& holds, version at, const filter& condition, fold how,
                                    std::string_view expression, unsigned threads) {
  const aggregation total({{how, std::string(expression)}}, condition.columns());
  return with_engine(usable_core(holds), [&](const auto& engine) {
    std::vector<std::vector<detail::fold_state>> states;
    detail::visit_matches(
        engine, at, condition.program(), total.needs(), thread_count(threads), detail::keys_come::in_any_order,
        [&](std::size_t parts) { states.assign(parts, total.begin()); },
        [&](std::size_t part, const detail::rows& block, detail::row_mask mask, detail::scratch& memory) {
          total.add(block, mask, memory, states[part]);
        });
    auto all = total.begin();
    for (const auto& part : states) total.merge(all, part);
    return detail::number_of(total, 0, all.front());
  });
}

}  // namespace

std::optional<result_number> snapshot::sum(const filter& condition, std::string_view expression,
                                           unsigned threads) const {
  return folded(holds_, at_, condition, fold::sum, expression, threads);
}
std::optional<result_number> snapshot::min(const filter& condition, std::string_view expression,
                                           unsigned threads) const {
  return folded(holds_, at_, condition, fold::min, expression, threads);
}
std::optional<result_number> snapshot::max(const filter& condition, std::string_view expression,
                                           unsigned threads) const {
  return folded(holds_, at_, condition, fold::max, expression, threads);
}

// ---- Columns ----

std::vector<result_values> snapshot::extract(const filter& condition, const std::vector<std::string>& select,
                                             unsigned threads) const {
  const detail::projection wanted(select, condition.columns());
  std::vector<std::vector<detail::result_column>> parts;
  with_engine(usable_core(holds_), [&](const auto& engine) {
    detail::visit_matches(
        engine, at_, condition.program(), wanted.needs(), thread_count(threads), detail::keys_come::in_key_order,
        [&](std::size_t count) {
          for (std::size_t i = 0; i < count; ++i) parts.push_back(wanted.columns());
        },
        [&](std::size_t part, const detail::rows& block, detail::row_mask mask, detail::scratch& memory) {
          wanted.evaluate(block, mask, memory, parts[part]);
        });
  });
  return detail::collected(wanted, parts);
}

}  // namespace icecore

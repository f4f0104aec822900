// Filters, totals and columns over rows that a query has kept: the store's keys are not looked at.
#include <atomic>
#include <bit>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "filter/program.hpp"
#include "filter/tree/operations.hpp"
#include "icecore/query.hpp"
#include "query/once/collected.hpp"
#include "query/rows/kept_rows.hpp"

namespace icecore {

using detail::column_type;
using detail::field_type;
using detail::fold;
using detail::fold_state;
using detail::kept_rows;
using detail::node;
using detail::operation;
using detail::row_mask;

namespace {

field_type field_of(column_type type) noexcept {
  switch (type) {
    case column_type::boolean:
      return field_type::boolean;
    case column_type::i64:
      return field_type::i64;
    case column_type::u64:
      return field_type::u64;
    case column_type::f64:
      return field_type::f64;
    case column_type::bytes:
      break;
  }
  return field_type::bytes;
}

/// Refuses what a query's rows do not have. errc::invalid_argument.
void require_of_rows(const node& one, const detail::projection& select) {
  switch (one.op) {
    case operation::column: {
      const bool is_there = one.place.kept && one.place.offset < select.size() &&
                            field_of(select.type(one.place.offset)) == one.place.type;
      if (!is_there) {
        raise(errc::invalid_argument, "column {} is not one of this query's rows; make the filter with their names()",
              detail::shown(one.text));
      }
      break;
    }
    case operation::key:
    case operation::value:
    case operation::version:
    case operation::before_value:
    case operation::before_column:
    case operation::removed:
    case operation::first:
    case operation::call:
      raise(errc::invalid_argument,
            "a filter over kept rows reads their columns alone; '{}' is known only if it was selected",
            one.op == operation::call ? one.text : std::string(detail::facts_of(one.op).name));
    default:
      break;
  }
  for (const node& operand : one.operands) require_of_rows(operand, select);
}

/// Visits the rows of all parts; a thread takes a part after the other. visit(part, block, mask, memory).
template <typename Make, typename Visit>
void visit_parts(detail::kept_query& q, const filter* condition, unsigned threads, const Make& make,
                 const Visit& visit) {
  const kept_rows rows(q);
  std::size_t parts = 0;  // those whose rows have numbers
  for (bool complete = true; complete && parts < q.definition().parts(); ++parts) complete = q.rows_of(parts).complete;
  make(parts);
  const detail::filter_program* const program = condition != nullptr ? &condition->program() : nullptr;
  const unsigned most = thread_count(threads);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(most, static_cast<unsigned>(parts)), [&](unsigned) {
    try {
      detail::scratch memory;
      detail::chunk_walk walk(q);
      // relaxed: a work counter and a hint; joining the threads orders what they hand over
      for (std::size_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
        for (bool more = walk.seek_part(p); more; more = walk.next_in_part()) {
          if (stopped.load(std::memory_order_relaxed)) return;
          const auto columns = rows.columns_of(walk.now());
          detail::visit_kept(columns, walk.rows(), program, memory,
                             [&](const detail::rows& block, row_mask mask) { visit(p, block, mask, memory); });
        }
      }
    } catch (...) {
      stopped.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

std::optional<result_number> folded(detail::kept_query& q, const filter* condition, const layout& names, fold how,
                                    std::string_view expression, unsigned threads) {
  const detail::aggregation total({{how, std::string(expression)}}, names);
  require_of_rows(total.tree(0), *q.kept().select);
  std::vector<std::vector<fold_state>> states;
  visit_parts(
      q, condition, threads, [&](std::size_t parts) { states.assign(parts, total.begin()); },
      [&](std::size_t part, const detail::rows& block, row_mask mask, detail::scratch& memory) {
        total.add(block, mask, memory, states[part]);
      });
  auto all = total.begin();
  for (const auto& part : states) total.merge(all, part);
  return detail::number_of(total, 0, all.front());
}

}  // namespace

layout selected_rows::names() const {
  const auto is_word = [](std::string_view name) {
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !name.empty() && (name[0] < '0' || name[0] > '9') && std::ranges::all_of(name, is_part);
  };
  const detail::projection& select = *of_->kept().select;
  std::vector<detail::named_field> fields;
  for (std::size_t i = 0; i < select.size(); ++i) {
    if (!is_word(select.name(i))) continue;
    fields.push_back(
        {.name = select.name(i),
         .place = {.type = field_of(select.type(i)), .kept = true, .offset = static_cast<std::uint32_t>(i)}});
  }
  return detail::columns_of_layout::made(std::move(fields));
}

selected_rows selected_rows::where(const filter& condition) const {
  require_of_rows(condition.program().tree(), *usable().kept().select);
  selected_rows some(*this);
  some.condition_ = condition_ ? filter::all_of({*condition_, condition}) : condition;
  return some;
}

std::uint64_t selected_rows::count(unsigned threads) const {
  auto& q = usable();
  if (!condition_) return size();
  std::vector<std::uint64_t> counts;
  visit_parts(
      q, &*condition_, threads, [&](std::size_t parts) { counts.resize(parts); },
      [&](std::size_t part, const detail::rows&, row_mask mask, detail::scratch&) {
        counts[part] += static_cast<std::uint64_t>(std::popcount(mask));
      });
  std::uint64_t all = 0;
  for (const std::uint64_t c : counts) all += c;
  return all;
}

std::optional<result_number> selected_rows::sum(std::string_view expression, unsigned threads) const {
  return folded(usable(), condition_ ? &*condition_ : nullptr, names(), fold::sum, expression, threads);
}
std::optional<result_number> selected_rows::min(std::string_view expression, unsigned threads) const {
  return folded(usable(), condition_ ? &*condition_ : nullptr, names(), fold::min, expression, threads);
}
std::optional<result_number> selected_rows::max(std::string_view expression, unsigned threads) const {
  return folded(usable(), condition_ ? &*condition_ : nullptr, names(), fold::max, expression, threads);
}

std::vector<result_values> selected_rows::extract(const std::vector<std::string>& select, unsigned threads) const {
  const detail::projection wanted(select, names());
  auto& q = usable();
  for (std::size_t i = 0; i < wanted.size(); ++i) require_of_rows(wanted.tree(i), *q.kept().select);
  std::vector<std::vector<detail::result_column>> parts;
  visit_parts(
      q, condition_ ? &*condition_ : nullptr, threads,
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) parts.push_back(wanted.columns());
      },
      [&](std::size_t part, const detail::rows& block, row_mask mask, detail::scratch& memory) {
        wanted.evaluate(block, mask, memory, parts[part]);
      });
  return detail::collected(wanted, parts);
}

}  // namespace icecore

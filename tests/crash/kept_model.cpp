#include "kept_model.hpp"

#include <algorithm>
#include <stdexcept>

namespace icecore::crash {

filter filter_of_stories(unsigned number) {
  switch (number) {
    case 1:
      return filter("length(value) % 2 = 0");
    case 2:
      return filter("starts_with(key, 'shared-') and length(value) > 4");
    case 3:
      return filter("not (ends_with(key, '1') or ends_with(key, '2'))");
    default:
      return {};
  }
}

bool matches_filter_of_stories(unsigned number, std::string_view key, std::string_view value) {
  switch (number) {
    case 1:
      return value.size() % 2 == 0;
    case 2:
      return key.starts_with("shared-") && value.size() > 4;
    case 3:
      return !key.ends_with('1') && !key.ends_with('2');
    default:
      return true;
  }
}

bool filter_of_stories_reads_values(unsigned number) { return number == 1 || number == 2; }

namespace {

/// Whether the filter's ranges of keys leave it to be examined.
bool is_examined(unsigned number, std::string_view key) { return number != 2 || key.starts_with("shared-"); }

}  // namespace

query_answer answer_of(const snapshot& then, unsigned filter) {
  query_answer all;
  for (const auto& [key, value] : then.range()) {
    if (is_examined(filter, key)) ++all.examined;
    if (matches_filter_of_stories(filter, key, value)) all.rows.emplace_back(key, value);
  }
  return all;
}

query_request request_of_stories(const std::string& name, unsigned filter, query_keeps keeps) {
  query_request made{.name = name, .where = filter_of_stories(filter), .keep = keeps};
  if (keeps == query_keeps::rows) made.select = {"key", "length(value) as size", "value"};
  if (keeps != query_keeps::keys) {
    made.aggregates = {{aggregate::count}, {aggregate::sum, "length(value)"}, {aggregate::sum, "length(value) / 3.0"}};
  }
  return made;
}

std::vector<std::pair<std::string, std::string>> kept_rows_from(const query& q, std::uint64_t from) {
  const std::vector<result_values> columns = q.rows().read(from);
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::size_t i = 0; i < columns[0].size; ++i) {
    if (columns[1].i64(i) != static_cast<std::int64_t>(columns[2].text(i).size()))
      throw std::logic_error("a row of " + q.name() + " has the length of another one");
    rows.emplace_back(columns[0].text(i), columns[2].text(i));
  }
  return rows;
}

std::string judge_totals(const query& q, const query_answer& answer, const std::vector<std::string>& borders) {
  const std::vector<query_total> totals = q.totals();
  const auto count = std::get<std::uint64_t>(totals[0].value.value_or(std::uint64_t{0}));
  if (count > answer.rows.size()) return q.name() + " has counted " + std::to_string(count) + " rows";
  std::int64_t bytes = 0;
  double all = 0;
  double part = 0;
  std::size_t border = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [key, value] = answer.rows[i];
    for (; border < borders.size() && key >= borders[border]; ++border) {
      all += part;
      part = 0;
    }
    bytes += static_cast<std::int64_t>(value.size());
    part += static_cast<double>(value.size()) / 3.0;
  }
  all += part;
  const bool none = count == 0;
  const bool right = none ? !totals[1].value && !totals[2].value
                          : totals[1].value == result_number(bytes) && totals[2].value == result_number(all);
  return right ? "" : q.name() + " has other totals than those of its first " + std::to_string(count) + " rows";
}

void kept_query::apply(const done_to_query& o, bool returned) {
  if (o.refused) return;
  switch (o.what) {
    case query_step::start:
      possibly = true;
      surely = returned;
      break;
    case query_step::acknowledge:
      if (returned) acknowledged.clear();
      acknowledged.push_back(o.acknowledged);
      break;
    case query_step::cancel:
      cancelled_possibly = true;
      if (returned) cancelled_surely = true;
      break;
    case query_step::drop:
      surely = false;
      dropped = true;
      if (returned) possibly = false;
      break;
    case query_step::run:
    case query_step::read:
      break;
  }
  if (!returned) return;
  surely = !dropped;  // it was found
  rows_min = std::max(rows_min, o.rows);
  examined_min = std::max(examined_min, o.examined);
  numbered_min = std::max(numbered_min, o.numbered);
  finished = finished || o.finished;
}

}  // namespace icecore::crash

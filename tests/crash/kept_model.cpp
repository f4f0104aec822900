#include "kept_model.hpp"

#include <algorithm>

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

namespace {

bool matches(unsigned number, std::string_view key, std::string_view value) {
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

/// Whether the filter's ranges of keys leave it to be examined.
bool is_examined(unsigned number, std::string_view key) { return number != 2 || key.starts_with("shared-"); }

}  // namespace

query_answer answer_of(const snapshot& then, unsigned filter) {
  query_answer all;
  for (const auto& [key, value] : then.range()) {
    if (is_examined(filter, key)) ++all.examined;
    if (matches(filter, key, value)) all.rows.emplace_back(key, value);
  }
  return all;
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

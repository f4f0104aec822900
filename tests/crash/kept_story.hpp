// What stories do with kept queries.
//
//   planned_query p = plan_query(draw);
//   run_query(s, into, number, p);          // as operation `number` of the story
//   answer_queries(finished, into);         // what each must answer; throws if something that was read differs
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "story.hpp"

namespace icecore::crash {

struct planned_query {
  query_step what = query_step::start;
  std::uint64_t which = 0;  ///< of those that are there
  unsigned filter = 0;
  query_keeps keeps = query_keeps::keys;
  unsigned parts = 1;
  unsigned threads = 1;
  bool every_item = false;
  std::optional<std::uint64_t> keys;  ///< that a run examines at most
  std::uint64_t from = 0;             ///< the row that is read first, or acknowledged
};

[[nodiscard]] planned_query plan_query(const std::function<std::uint64_t(std::uint64_t below)>& draw);
void run_query(store& s, story& into, unsigned number, const planned_query& p);
/// Sees which of the queries a crash has left.
void look_at(const store& s, std::vector<kept_query>& queries);
void answer_queries(const store& finished, story& into);

}  // namespace icecore::crash

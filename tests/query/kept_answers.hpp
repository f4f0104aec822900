// A store with kept queries of each kind, and what they must answer.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"

namespace icecore::testing {

using answers = std::vector<std::pair<std::string, std::string>>;

inline filter some() { return filter("value != 'no'"); }

inline constexpr int keys_of_queries = 70;  // enough for rows that are bits

/// A finished query, one that is paused, one of counts, and space of one that was dropped.
inline void make_queries(store& s) {
  for (int i = 0; i < keys_of_queries; ++i)
    s.insert("key " + std::to_string(100 + i), i % 3 == 0 ? "no" : std::to_string(i));
  const version v = s.tag();  // 1
  query dropped = s.start({.name = "dropped", .at = v});
  dropped.run({.every_item = true, .keys = 30});
  s.start({.name = "finished", .at = v, .where = some()}).run();
  s.start({.name = "paused", .at = v, .where = some()}).run({.every_item = true, .keys = 9});
  s.start({.name = "counted", .at = v, .where = some(), .keep = query_keeps::count}).run({.every_item = true});
  dropped.drop();
}

inline answers answer_of(const store& s, version v) {
  answers all;
  const auto then = s.at(v);
  for (const auto& i : then.range()) {
    if (i.value != "no") all.emplace_back(i.key, i.value);
  }
  return all;
}

/// Whether its rows are the first of the answer; all of them once it was run.
inline void expect_right(query& q, const answers& wanted, bool all) {
  if (q.keeps() == query_keeps::count) {
    if (all) {
      EXPECT_EQ(q.progress().rows, wanted.size());
    }
    return;
  }
  std::size_t n = 0;
  auto rows = q.results();
  for (const auto& row : rows) {
    ASSERT_LT(n, wanted.size());
    ASSERT_EQ(row.number, n);
    ASSERT_EQ(row.key, wanted[n].first);
    ASSERT_EQ(row.value, wanted[n].second);
    ++n;
  }
  if (all) {
    ASSERT_EQ(n, wanted.size());
  }
}

}  // namespace icecore::testing

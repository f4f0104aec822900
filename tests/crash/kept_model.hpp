// What a kept query of a story must be after a crash, by the test's own reckoning.
//
//   kept_query q{.name = "audit", .at = v, .filter = 2, .keeps = query_keeps::keys};
//   q.apply({.what = query_step::start}, /*returned=*/true);       // now it is surely there
//   q.answer = answer_of(s.at(v), q.filter);
//
// The filters of stories have numbers; each is there twice: as an expression for the store, as code for the judge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/icecore.hpp"

namespace icecore::crash {

inline constexpr unsigned filters_of_stories = 4;
[[nodiscard]] filter filter_of_stories(unsigned number);
[[nodiscard]] bool matches_filter_of_stories(unsigned number, std::string_view key, std::string_view value);
/// Whether it cannot be true where there is no value.
[[nodiscard]] bool filter_of_stories_reads_values(unsigned number);

struct query_answer {
  std::vector<std::pair<std::string, std::string>> rows;
  std::uint64_t examined = 0;

  friend bool operator==(const query_answer&, const query_answer&) = default;
};
[[nodiscard]] query_answer answer_of(const snapshot& then, unsigned filter);

/// A query of a story: of those that keep columns, key and value; of all but those that keep keys, totals.
[[nodiscard]] query_request request_of_stories(const std::string& name, unsigned filter, query_keeps keeps);
/// Rows from one on of a query that keeps columns.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> kept_rows_from(const query& q, std::uint64_t from);
/// What is wrong with its totals, if they are over the first rows of its answer. Its parts begin at these keys.
[[nodiscard]] std::string judge_totals(const query& q, const query_answer& answer,
                                       const std::vector<std::string>& borders);

enum class query_step : std::uint8_t { start, run, read, acknowledge, cancel, drop };

/// What one operation did to a query, or saw of it.
struct done_to_query {
  query_step what{};
  bool refused = false;  ///< it was gone, cancelled, or running elsewhere: nothing happened
  std::uint64_t rows = 0;
  std::uint64_t examined = 0;
  std::uint64_t numbered = 0;  ///< rows whose numbers were final
  std::uint64_t acknowledged = 0;
  bool finished = false;
  std::vector<std::pair<std::string, std::string>> read{};  ///< from the row `from` on
  std::uint64_t from = 0;
};

struct kept_query {
  std::string name;
  version at = 0;
  unsigned filter = 0;
  query_keeps keeps = query_keeps::keys;
  query_answer answer{};
  bool answer_certain = true;  ///< no write of its version is in flight
  bool is_answered = false;    ///< while its version could be read

  bool surely = false;  ///< it is there
  bool possibly = false;
  bool dropped = false;        ///< or that has begun
  std::uint64_t rows_min = 0;  ///< these were seen
  std::uint64_t examined_min = 0;
  std::uint64_t numbered_min = 0;
  std::vector<std::uint64_t> acknowledged{0};  ///< any of these
  bool finished = false;
  bool cancelled_surely = false;
  bool cancelled_possibly = false;

  void apply(const done_to_query& o, bool returned);
};

}  // namespace icecore::crash

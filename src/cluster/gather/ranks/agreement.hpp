// How all ranks learn that one of them failed.
//
//   together(all, [&] { room = pairs(size); });           // throws on all ranks if it throws on one
//
// Collective; by one thread of a rank at a time.
// Errors: those of team.hpp.
// Cost: a reduction of six numbers, and a broadcast if a rank failed.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "cluster/gather/ranks/failure.hpp"
#include "cluster/gather/ranks/team.hpp"

namespace icecore::ranks {

/// The least and the greatest of the numbers that the ranks contributed.
struct agreed {
  std::int64_t least;
  std::int64_t greatest;
};

/// What a rank reports in a step.
struct said {
  bool failed = false;             ///< it could not do its part
  std::optional<int> broken_by{};  ///< it takes part in no further step, because this rank failed
  std::int64_t step = 0;
  std::int64_t number = 0;
};

/// What all ranks know after a step.
struct heard {
  int first_failed;  ///< the lowest rank that failed; the number of ranks if none did
  int broken_by;     ///< the lowest broken_by that a rank reported
  agreed step;
  agreed number;
};

[[nodiscard]] heard say(const team& all, const said& mine);
/// Reports it and does not wait for the reports of the others.
void say_last_words(const team& all, const said& mine);
/// The failure of rank `first`, which passes its own exception.
[[nodiscard]] failure failure_of(const team& all, int first, const std::exception_ptr& own);

/// Throws on all ranks if `own` is an exception on any: a rank that has one throws its own; the others throw that of
/// the lowest such rank, with the rank in front of the message.
void agree(const team& all, const std::exception_ptr& own);

/// Runs `work` and returns what it threw. (No std::function: constructing one may throw outside the try block.)
template <typename Work>
[[nodiscard]] std::exception_ptr attempt(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Does local work, which sends no messages, and throws on all ranks if it throws on any.
template <typename Work>
void together(const team& all, Work&& local_work) {
  agree(all, attempt(local_work));
}

}  // namespace icecore::ranks

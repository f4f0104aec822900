// How all ranks learn that one of them failed.
//
//   together(all, [&] { room = pairs(size); });           // throws on all ranks if it throws on one
//
// Collective; by one thread of a rank at a time.
// Errors: those of team.hpp.
// Cost: a reduction of six numbers; a broadcast more if a rank failed.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "cluster/gather/ranks/failure.hpp"
#include "cluster/gather/ranks/team.hpp"

namespace icecore::ranks {

/// The least and the greatest of the numbers that the ranks gave.
struct agreed {
  std::int64_t least;
  std::int64_t greatest;
};

/// What a rank says in a step.
struct said {
  bool failed = false;             ///< it could not do its part
  std::optional<int> broken_by{};  ///< it takes part in nothing any more: this rank failed
  std::int64_t step = 0;
  std::int64_t number = 0;
};

/// What all ranks then know.
struct heard {
  int first_failed;  ///< the lowest such rank; as many as there are ranks if there is none
  int broken_by;     ///< the lowest rank that broke one
  agreed step;
  agreed number;
};

[[nodiscard]] heard say(const team& all, const said& mine);
/// Says it and does not wait for what others say.
void say_last_words(const team& all, const said& mine);
/// The failure of rank `first`, which gives it.
[[nodiscard]] failure failure_of(const team& all, int first, const std::exception_ptr& own);

/// Throws on all ranks if `own` is an exception on any: a rank that has one throws its own, the others throw that of
/// the lowest such rank, with the rank in front of the message.
void agree(const team& all, const std::exception_ptr& own);

/// Runs `work` and returns what it threw. (No std::function: making one may throw outside.)
template <typename Work>
[[nodiscard]] std::exception_ptr attempt(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Does local work, that is without messages, and throws on all ranks if it throws on any.
template <typename Work>
void together(const team& all, Work&& local_work) {
  agree(all, attempt(local_work));
}

}  // namespace icecore::ranks

#include "cluster/gather/ranks/agreement.hpp"

#include <array>

namespace icecore::ranks {
namespace {

// The greatest of a set is the negative of the least of the negatives, so one reduction is enough.
using numbers = std::array<std::int64_t, 6>;

numbers packed(const team& all, const said& mine) {
  return {mine.failed ? all.rank() : all.size(),
          mine.broken_by.value_or(all.size()),
          mine.step,
          -mine.step,
          mine.number,
          -mine.number};
}

}  // namespace

heard say(const team& all, const said& mine) {
  const numbers own = packed(all, mine);
  numbers least{};
  all.allreduce(own.data(), least.data(), static_cast<int>(own.size()), MPI_INT64_T, MPI_MIN);
  return {static_cast<int>(least[0]), static_cast<int>(least[1]), {least[2], -least[3]}, {least[4], -least[5]}};
}

void say_last_words(const team& all, const said& mine) {
  const numbers own = packed(all, mine);
  all.begin_allreduce(own.data(), static_cast<int>(own.size()), MPI_INT64_T, MPI_MIN);
}

failure failure_of(const team& all, int first, const std::exception_ptr& own) {
  failure reported;
  if (all.rank() == first) reported = failure::of(own);
  all.bcast(&reported, sizeof reported, first);
  return reported;
}

void agree(const team& all, const std::exception_ptr& own) {
  const heard all_said = say(all, {.failed = own != nullptr});
  all.set_failed_together(all_said.first_failed < all.size());
  if (!all.failed_together()) return;
  const failure reported = failure_of(all, all_said.first_failed, own);
  if (own) std::rethrow_exception(own);
  reported.raise(all_said.first_failed);
}

}  // namespace icecore::ranks

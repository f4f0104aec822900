#include "priorities.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace icecore::crash {

priority_schedule::priority_schedule(std::uint64_t seed, std::size_t steps) : random_(seed) {
  changes_.resize(1 + random_() % 3);
  for (std::size_t& at : changes_) at = random_() % std::max<std::size_t>(steps, 1);
  std::ranges::sort(changes_);
}

unsigned priority_schedule::choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) {
  if (priority_.empty()) {
    priority_.resize(next.size());
    std::iota(priority_.begin(), priority_.end(), 1);
    std::ranges::shuffle(priority_, random_);
    spins_.resize(next.size());
  }
  if (made_ > steps_max) {
    std::fprintf(stderr, "no end after %zu steps: the writers wait for each other\n", made_);
    std::abort();
  }
  const auto highest = [&] {
    unsigned chosen = current;
    for (unsigned w = 0; w < next.size(); ++w) {
      if (ready[w] && (!ready[chosen] || priority_[w] > priority_[chosen])) chosen = w;
    }
    return chosen;
  };
  unsigned chosen = highest();
  const bool changes = std::ranges::binary_search(changes_, made_);
  if (changes || spins_[chosen].repeats(next[chosen])) {
    spins_[chosen].reset();
    lower(chosen);
    chosen = highest();
  }
  ++made_;
  return chosen;
}

}  // namespace icecore::crash

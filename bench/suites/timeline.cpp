#include "timeline.hpp"

#include <algorithm>

#include "../measure.hpp"

namespace icecore::bench {

questions timeline::ask(std::uint64_t count, version newest, std::uint64_t seed) const {
  questions asked{.keys = key_list(keys_.key_size(), count), .at = {}, .expected = {}};
  asked.at.reserve(count);
  asked.expected.reserve(count);
  random_numbers random(seed);
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t i = random.below(keys_.size());
    const version at = 1 + random.below(newest);
    std::ranges::copy(keys_[i], asked.keys.at(n));
    asked.at.push_back(at);
    asked.expected.push_back(value_at(i, at));
  }
  return asked;
}

void timeline::changes_of(std::size_t i, std::vector<recorded_change>& out) const {
  if (i < removed_.size() && removed_[i] != 0) out.push_back({removed_[i], std::nullopt});
  out.push_back({inserted_[i], i});
}

void timeline::check_snapshot(const pair_columns& pairs, version at, std::span<const std::uint32_t> sorted) const {
  std::size_t found = 0;
  for (const std::uint32_t i : sorted) {
    if (value_at(i, at) == missing) continue;
    expect(found < pairs.count(), "a snapshot lacks pairs");
    expect(pairs.key(found) == keys_[i], "a key of a snapshot");
    expect(number_of(pairs.value(found)) == i, "a value of a snapshot");
    ++found;
  }
  expect(found == pairs.count(), "a snapshot has pairs nobody wrote");
}

}  // namespace icecore::bench

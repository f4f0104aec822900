#include "truth.hpp"

#include <algorithm>

namespace icecore::damaging {

void truth::add(const operation& o) {
  clock = std::max(clock, o.belongs_to);
  for (const auto& c : o.changes) {
    histories[c.key].emplace_back(o.belongs_to, c.value);
    if (c.value) {
      now[c.key] = *c.value;
    } else {
      now.erase(c.key);
    }
  }
  if (o.what != operation::kind::tick && o.what != operation::kind::tag) return;
  closed[o.belongs_to] = now;
  clock = o.belongs_to + 1;
  if (o.what == operation::kind::tag) tags.emplace_back(o.name, o.belongs_to);
}

truth truth_of(const std::vector<operation>& done, const std::set<std::size_t>& lost) {
  truth all;
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!lost.contains(i)) all.add(done[i]);
  }
  return all;
}

}  // namespace icecore::damaging

#include "service/snapshot/numbering.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace icecore::service {

numbering::numbering(const std::vector<std::vector<placed_tag>>& tags) : old_(tags.size()) {
  std::set<std::string, std::less<>> left;  // the names in left_out_
  std::vector<std::map<std::string, icecore::version, std::less<>>> known(tags.size());
  for (std::size_t s = 0; s < tags.size(); ++s) {
    for (const placed_tag& each : tags[s]) {
      if (!each.name.empty()) known[s].emplace(each.name, each.version);
    }
  }
  const bool alone = tags.size() == 1;
  // Versions of the last tag that was kept, old ones by server, and the new one.
  std::vector<icecore::version> last(tags.size(), 0);
  icecore::version last_new = 0;
  for (const placed_tag& each : tags.empty() ? std::vector<placed_tag>() : tags.front()) {
    std::vector<icecore::version> here{each.version};
    bool everywhere = alone || !each.name.empty();
    for (std::size_t s = 1; s < tags.size() && everywhere; ++s) {
      const auto found = known[s].find(each.name);
      everywhere = found != known[s].end();
      if (everywhere) here.push_back(found->second);
    }
    for (std::size_t s = 0; s < here.size() && everywhere; ++s) everywhere = tags_.empty() || here[s] > last[s];
    if (!everywhere) {
      left_out_.push_back(each.name.empty() ? "(one without a name)" : each.name);
      left.insert(each.name);
      continue;
    }
    icecore::version step = 0;
    for (std::size_t s = 0; s < here.size(); ++s) step = std::max(step, here[s] - last[s]);
    last_new += step;
    for (std::size_t s = 0; s < here.size(); ++s) {
      same_ = same_ && here[s] == last_new;
      old_[s].push_back(here[s]);
    }
    last = std::move(here);
    tags_.push_back({each.name, each.note, each.time_ns, last_new});
    kept_.insert(each.name);
  }
  for (std::size_t s = 1; s < tags.size(); ++s) {
    for (const placed_tag& each : tags[s]) {
      const std::string& name = each.name;
      if (name.empty() || known.front().contains(name) || !left.insert(name).second) continue;
      left_out_.push_back(name);
    }
  }
}

icecore::version numbering::of(std::size_t server, icecore::version old) const {
  const std::vector<icecore::version>& mine = old_[server];
  const auto tag = static_cast<std::size_t>(std::ranges::lower_bound(mine, old) - mine.begin());
  if (tag < mine.size()) return tags_[tag].version - (mine[tag] - old);
  if (mine.empty()) return old;
  return tags_.back().version + (old - mine.back());
}

icecore::version_ranges numbering::of(std::size_t server, const icecore::version_ranges& old) const {
  icecore::version_ranges made;
  for (const icecore::version_range& range : old.ranges()) {
    icecore::version first = range.first;
    while (first < range.end) {  // up to the next tag, versions follow one another
      const auto next = std::ranges::lower_bound(old_[server], first);
      const icecore::version end = next == old_[server].end() ? range.end : std::min(range.end, *next + 1);
      const icecore::version begins = of(server, first);
      made.add({begins, begins + (end - first)});
      first = end;
    }
  }
  return made;
}

bool numbering::keeps(std::string_view tag) const { return kept_.contains(tag); }

}  // namespace icecore::service

#include "written_model.hpp"

#include <algorithm>

namespace icecore::crash {
namespace {

/// Behind the range that has the version; the version itself if none has.
template <class Ranges>
version behind(const Ranges& ranges, version v) {
  for (const version_range& r : ranges) {
    if (r.first <= v && v < r.end) return r.end;
  }
  return v;
}

/// Whether a version of [from, end) can be read.
bool any_is_kept(const store& s, const std::vector<version_range>& expired, version from, version end) {
  for (version v = from; v < end;) {
    const version next = std::max(behind(expired, v), behind(s.lost_versions().ranges(), v));
    if (next == v) return true;
    v = next;
  }
  return false;
}

/// Drops what nothing shows that can be read, and then removals of what is not there. A group is one record of a
/// history, or written_group.
template <class Group, class IsRemoval>
void reduce(const store& s, std::vector<Group>& history, const IsRemoval& removes) {
  const auto expired = s.expired_versions();
  std::vector<Group> shown;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const bool is_newest = i + 1 == history.size();
    if (is_newest || any_is_kept(s, expired, history[i].at, history[i + 1].at)) shown.push_back(std::move(history[i]));
  }
  history.clear();
  for (Group& each : shown) {
    const bool is_there = !history.empty() && !removes(history.back());
    if (is_there || !removes(each)) history.push_back(std::move(each));
  }
}

/// The newest record of each version, the oldest first.
std::vector<story_write> found_in(const store& s, std::string_view key) {
  std::vector<story_write> found;
  for (const change& c : s.history(key).oldest_first()) {
    if (!found.empty() && found.back().at == c.version) found.pop_back();
    found.push_back({.key = {}, .at = c.version, .value = {}});
    if (c.value) found.back().value = *c.value;
  }
  return found;
}

std::string name_of(const story_write& w) { return w.value ? w.value->substr(0, 12) : std::string("a removal"); }

/// Whether the other operation's write of a key surely follows the one's.
bool comes_before(const story_writes& of, std::size_t one, std::size_t other) {
  const story_writes::operation& a = of.operations[one];
  const story_writes::operation& b = of.operations[other];
  if (a.writer == b.writer) return one < other;
  return a.returned != 0 && a.returned < b.called;
}

std::string judge_history(const store& s, const std::string& key, std::vector<written_group> wanted) {
  std::vector<story_write> found = found_in(s, key);
  for (const story_write& f : found) {
    const auto group = std::ranges::find(wanted, f.at, &written_group::at);
    const bool is_known = group != wanted.end() &&
                          std::ranges::any_of(group->all, [&](const story_write* w) { return w->value == f.value; });
    if (!is_known) return key + " has a record of version " + std::to_string(f.at) + " that nobody wrote";
  }
  reduce(s, found, [](const story_write& f) { return !f.value; });
  reduce(s, wanted, [](const written_group& g) { return !g.last.front()->value; });
  for (std::size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
    if (i == wanted.size()) return key + " has a record of version " + std::to_string(found[i].at) + " too many";
    const std::string named = key + " in version " + std::to_string(wanted[i].at);
    if (i == found.size() || found[i].at != wanted[i].at) {
      return named + " lacks " + name_of(*wanted[i].last.front());
    }
    const bool right =
        std::ranges::any_of(wanted[i].last, [&](const story_write* w) { return w->value == found[i].value; });
    if (!right) return named + " is not " + name_of(*wanted[i].last.front());
  }
  return {};
}

std::string judge_one(const store& s, const story_writes& of, std::uint64_t happened) {
  written_groups wanted = groups_of(of, happened);
  for (const std::string_view key : s.keys()) wanted.try_emplace(std::string(key));
  for (auto& [key, groups] : wanted) {
    if (auto wrong = judge_history(s, key, std::move(groups)); !wrong.empty()) return wrong;
  }
  std::uint64_t tags = of.tags_before;
  for (std::size_t i = 0; i < of.operations.size(); ++i) {
    if ((happened >> i & 1) != 0) tags += of.operations[i].tags;
  }
  for (const tag_info& t : s.tags()) tags -= tag_sum(t);
  return tags == 0 ? "" : "other tags than were made";
}

}  // namespace

story_writes story_writes::behind(const store& s) {
  story_writes all;
  for (const std::string_view key : s.keys()) {
    for (const change& c : s.history(key).oldest_first()) {
      story_write w{.key = std::string(key), .at = c.version, .value = {}};
      if (c.value) w.value = *c.value;
      all.before.push_back(std::move(w));
    }
  }
  for (const tag_info& t : s.tags()) all.tags_before += tag_sum(t);
  return all;
}

written_groups groups_of(const story_writes& of, std::uint64_t happened) {
  struct placed {
    const story_write* write;
    std::size_t by;
  };
  constexpr std::size_t before = ~std::size_t{0};
  std::map<std::string, std::map<version, std::vector<placed>>, std::less<>> all;
  for (const story_write& w : of.before) all[w.key][w.at].push_back({&w, before});
  for (std::size_t i = 0; i < of.operations.size(); ++i) {
    if ((happened >> i & 1) == 0) continue;
    for (const story_write& w : of.operations[i].writes) all[w.key][w.at].push_back({&w, i});
  }
  written_groups groups;
  for (const auto& [key, versions] : all) {
    for (const auto& [at, writes] : versions) {
      written_group g{.at = at, .last = {}, .all = {}};
      for (std::size_t i = 0; i < writes.size(); ++i) {
        g.all.push_back(writes[i].write);
        bool is_last = true;
        for (std::size_t k = 0; k < writes.size(); ++k) {
          const std::size_t one = writes[i].by;
          const std::size_t other = writes[k].by;
          const bool follows = one == other    ? k > i
                               : one == before ? true
                                               : other != before && comes_before(of, one, other);
          is_last = is_last && !follows;
        }
        if (is_last) g.last.push_back(writes[i].write);
      }
      groups[key].push_back(std::move(g));
    }
  }
  return groups;
}

std::string judge_writes(const store& s, const story_writes& of, const std::vector<std::uint64_t>& any) {
  std::string first;
  for (const std::uint64_t happened : any) {
    std::string wrong = judge_one(s, of, happened);
    if (wrong.empty()) return {};
    if (first.empty()) first = std::move(wrong);
  }
  return first.empty() ? "nothing may have happened" : first;
}

}  // namespace icecore::crash

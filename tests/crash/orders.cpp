#include "orders.hpp"

#include <algorithm>
#include <limits>

namespace icecore::crash {
namespace {

class search {
 public:
  search(const std::vector<answered>& operations, const all_histories& after)
      : operations_(operations), after_(after), done_(operations.size(), false) {}

  bool from(const all_histories& now, version clock, std::size_t left) {
    if (left == 0) return now == after_;
    std::uint64_t first_return = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (!done_[i]) first_return = std::min(first_return, operations_[i].returned);
    }
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (done_[i] || operations_[i].called > first_return) continue;
      all_histories next = now;
      version next_clock = clock;
      if (!explains(operations_[i], next, next_clock)) continue;
      done_[i] = true;
      if (from(next, next_clock, left - 1)) return true;
      if (operations_[i].what == answered::kind::sync && from(next, next_clock + 1, left - 1)) return true;
      done_[i] = false;
    }
    return false;
  }

 private:
  static std::optional<std::string> newest(const all_histories& in, const std::string& key) {
    const auto found = in.find(key);
    return found == in.end() || found->second.empty() ? std::nullopt : found->second.back().second;
  }

  static answered::items newest_of_all(const all_histories& in) {
    answered::items items;
    for (const auto& [key, history] : in) {
      if (const auto value = newest(in, key)) items.emplace(key, *value);
    }
    return items;
  }

  /// Does the operation to the model; false if it would have answered otherwise.
  static bool explains(const answered& o, all_histories& now, version& clock) {
    switch (o.what) {
      case answered::kind::insert:
      case answered::kind::batch:
        for (const auto& w : o.writes) {
          if (w.value || newest(now, w.key)) now[w.key].emplace_back(clock, w.value);
        }
        return o.belongs_to == clock;
      case answered::kind::remove:
        if (!newest(now, o.writes[0].key)) return o.belongs_to == 0;
        now[o.writes[0].key].emplace_back(clock, std::nullopt);
        return o.belongs_to == clock;
      case answered::kind::insert_new:
      case answered::kind::batch_new:
        for (const auto& w : o.writes) {
          if (newest(now, w.key)) return o.belongs_to == 0;
        }
        for (const auto& w : o.writes) now[w.key].emplace_back(clock, w.value);
        return o.belongs_to == clock;
      case answered::kind::replace: {
        const std::string& key = o.writes[0].key;
        if (!newest(now, key) || now[key].back().first != o.expected) return o.belongs_to == 0;
        now[key].emplace_back(clock, o.writes[0].value);
        return o.belongs_to == clock;
      }
      case answered::kind::find:
        return newest(now, o.writes[0].key) == o.found;
      case answered::kind::tag:
        return o.belongs_to == clock++ && (!o.shown || *o.shown == newest_of_all(now));
      case answered::kind::look:  // of the newest closed version, if nothing was written since
        if (o.belongs_to == clock) ++clock;
        return o.belongs_to == clock - 1 && *o.shown == newest_of_all(now);
      case answered::kind::sync:
        return true;
    }
    return false;
  }

  const std::vector<answered>& operations_;
  const all_histories& after_;
  std::vector<bool> done_;
};

}  // namespace

bool has_order(const all_histories& before, version clock, const std::vector<answered>& operations,
               const all_histories& after) {
  return search(operations, after).from(before, clock, operations.size());
}

}  // namespace icecore::crash

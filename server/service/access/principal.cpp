#include <fmt/format.h>

#include <algorithm>

#include "icecore/error.hpp"
#include "service/access.hpp"
#include "service/access/rules.hpp"

namespace icecore::service {

void user_rules::add(const permission& p) {
  allowed_range one;
  one.prefix = !p.database.empty() && p.database.back() == '*';
  one.database = p.database.substr(0, p.database.size() - (one.prefix ? 1 : 0));
  one.from = p.keys.from.value_or("");
  one.to = p.keys.to;
  one.what = p.allowed;
  ranges.push_back(std::move(one));
}

void user_rules::sort() {
  std::sort(ranges.begin(), ranges.end(),
            [](const allowed_range& a, const allowed_range& b) { return a.from < b.from; });
}

// All keys before `covered` that were asked for are allowed. Ranges are sorted by their begin: if the next one begins
// behind `covered`, so do all later ones, and the key `covered` is not allowed.
bool user_rules::cover(std::string_view database, const icecore::key_bounds& keys, right what) const {
  const std::string_view from = keys.from ? std::string_view(*keys.from) : std::string_view();
  if (keys.to && *keys.to <= from) {  // no key lies between: who may see the begin may hear so
    return cover(database, {std::string(from), std::string(from) + '\0'}, what);
  }
  std::string_view covered = from;
  for (const allowed_range& each : ranges) {
    if (each.from > covered) return false;
    if ((each.what & static_cast<rights>(what)) == 0 || !each.matches(database)) continue;
    if (!each.to) return true;
    if (*each.to <= covered) continue;
    covered = *each.to;
    if (keys.to && *keys.to <= covered) return true;
  }
  return false;
}

principal principal::anyone() {
  static const std::shared_ptr<const user_rules> everything = [] {
    auto all = std::make_shared<user_rules>();
    all->root = true;
    return all;
  }();
  return principal(everything);
}

const std::string& principal::name() const noexcept { return rules_->name; }
bool principal::is_root() const noexcept { return rules_->root && is_current(); }
bool principal::is_current() const noexcept { return rules_->current(); }

bool principal::allows(std::string_view database, std::string_view owner, const icecore::key_bounds& keys,
                       right what) const {
  if (!is_current()) return false;
  if (rules_->root || (!owner.empty() && owner == rules_->name)) return true;
  return rules_->cover(database, keys, what);
}

bool principal::allows(std::string_view database, std::string_view owner, std::string_view key, right what) const {
  if (!is_current()) return false;
  if (rules_->root || (!owner.empty() && owner == rules_->name)) return true;
  return std::any_of(rules_->ranges.begin(), rules_->ranges.end(), [&](const user_rules::allowed_range& each) {
    return (each.what & static_cast<rights>(what)) != 0 && each.from <= key && (!each.to || key < *each.to) &&
           each.matches(database);
  });
}

bool principal::knows(std::string_view database, std::string_view owner) const {
  if (!is_current()) return false;
  if (rules_->root || (!owner.empty() && owner == rules_->name)) return true;
  return std::any_of(rules_->ranges.begin(), rules_->ranges.end(),
                     [&](const user_rules::allowed_range& each) { return each.what != 0 && each.matches(database); });
}

void principal::require(std::string_view database, std::string_view owner, const icecore::key_bounds& keys,
                        right what) const {
  if (!allows(database, owner, keys, what)) deny(database);
}

void principal::require(std::string_view database, std::string_view owner, std::string_view key, right what) const {
  if (!allows(database, owner, key, what)) deny(database);
}

void deny(std::string_view database) {
  throw error(errc::denied, fmt::format("there is no database \"{}\", or no right to do this with it; ask who "
                                        "administers the server",
                                        database.substr(0, 255)));
}

}  // namespace icecore::service

#include "store/packed/retention/holds.hpp"

#include <utility>

#include "base/byte_stream.hpp"
#include "pool/query/feed_places.hpp"

namespace icecore::detail {
namespace {

/// The oldest version that the feed needs; all of them if its places are damaged.
version needed_by_feed(const query_space& space, link head) {
  const auto newest = feed_places(space, head).newest();
  if (!newest) return 0;
  const bool tells_at = (newest->line.flags & format::feed_in_snapshot) != 0;
  // A compaction makes it tell its version from the first change on again.
  return tells_at || newest->line.at == 0 ? newest->line.at : newest->line.at - 1;
}

[[nodiscard]] bool is_dropped(const query_space& space, link head) {
  return space.read(space.head_at(head).state) == static_cast<std::uint64_t>(format::query_phase::dropped);
}

}  // namespace

std::vector<version_range> versions_in_use(pool_set& pools, query_lock& lock, version newest_closed) {
  std::vector<version_range> held;
  const query_space space(pools, lock);
  if (!space.ever_used()) return held;
  const version end = newest_closed + 1;
  bool all_are_known = true;
  const bool may_have_holds = pools.roots().read().version_minor >= format::minor_with_holds;
  for (const link head : space.heads([&](link, const std::string&) { all_are_known = false; })) {
    // Its space may not be free yet. A release is durable by now: it is made under the lock that the caller has, and
    // what a killed process has stored of it is flushed by query_space::finish().
    if (is_dropped(space, head)) continue;
    if (feed_places::is_feed(space, head)) {
      held.push_back({needed_by_feed(space, head), end});
    } else if (const auto definition = space.definition_of(head)) {
      const version reads = title_of(*definition).version;
      held.push_back({reads, reads + 1});
    } else if (may_have_holds) {
      all_are_known = false;
    }
  }
  if (!all_are_known) held.push_back({0, end});
  return held;
}

std::vector<std::byte> hold_definition::encoded() const {
  byte_writer out;
  out.number(format::hold_definition_layout);
  out.text(name);
  out.number(at);
  out.number(created_ns);
  return out.bytes();
}

std::optional<hold_definition> hold_definition::decoded(std::span<const std::byte> bytes) {
  struct is_none {};
  try {
    byte_reader in(bytes, [] { throw is_none(); });
    if (in.number<std::uint16_t>() != format::hold_definition_layout) return std::nullopt;
    hold_definition found;
    found.name = in.text();
    found.at = in.number<version>();
    found.created_ns = in.number<std::int64_t>();
    return in.at_end() ? std::optional(std::move(found)) : std::nullopt;
  } catch (const is_none&) {
    return std::nullopt;
  }
}

std::vector<found_hold> holds_of(const query_space& space, std::size_t* damaged) {
  std::vector<found_hold> found;
  const auto count_damaged = [&] {
    if (damaged != nullptr) ++*damaged;
  };
  if (!space.ever_used()) return found;
  for (const link head : space.heads([&](link, const std::string&) { count_damaged(); })) {
    if (!space.is_hold(head) || is_dropped(space, head)) continue;
    const auto bytes = space.definition_of(head);
    if (auto what = bytes ? hold_definition::decoded(*bytes) : std::nullopt) {
      found.push_back({head, std::move(*what)});
    } else {
      count_damaged();
    }
  }
  return found;
}

}  // namespace icecore::detail

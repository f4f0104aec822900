// Holding versions by a call: store::hold_version(), release_version(), held_versions().
//
// A hold is one entry in the list of queries, which each compaction reads before it lets a version expire: under the
// lock of that list when it decides, and again, under the gate and that lock, before its manifest counts. Whether the
// version can still be read is asked under the same lock, before the entry is made. So a compaction that ends before
// the call has the lock has made the version expire, and the call throws and leaves nothing; one that ends later sees
// the hold and decides anew. No hold of an expired version is ever there, whatever crashes between.
//
// The version is durable before the entry is (as that of a query), and the entry before the call returns; a crash
// within query_space::add() leaves the whole entry or none (Q1, Q2). Releasing is one word, durable before the call
// returns; its space is given back behind that, as that of a query.
#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/raise.hpp"
#include "icecore/store.hpp"
#include "query/kept/catalog.hpp"
#include "store/packed/retention/holds.hpp"

namespace icecore {

using detail::query_catalog;

namespace {

void check_hold_name(std::string_view name) {
  if (name.empty() || name.size() > key_size_max) {
    raise(errc::invalid_argument, "a hold's name has 1 to {} bytes; this one has {}", key_size_max, name.size());
  }
}

}  // namespace

version store::hold_version(std::string_view name, std::optional<version> at) {
  const auto held = opened().hold();
  auto& core = *held;
  core.check_usable();
  // then a closed version is durable, too, and attached processes may hold versions
  const auto& pools = core.the_pool();
  if (pools.durability().mode != durability::operation || pools.persist().by_pages()) core.check_first();
  query_catalog& all = query_catalog::of(core);
  all.require_changeable();
  check_hold_name(name);
  detail::hold_definition made;
  made.name = name;
  made.at = at ? *at : core.close_version();
  core.check_readable(made.at);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  made.created_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  if (core.durable_up_to() < made.at) core.sync();  // a power cut cannot take the version any more
  const std::vector<std::byte> bytes = made.encoded();
  const std::scoped_lock mine(all.mutex());
  static_cast<void>(all.space().add({.parts = format::hold_parts, .definition = bytes, .require = [&] {
                                       all.store().hold()->check_readable(made.at);
                                     }}));
  return made.at;
}

void store::release_version(std::string_view name) {
  const auto held = opened().hold();
  held->check_usable();
  query_catalog& all = query_catalog::of(*held);
  all.require_changeable();
  const std::scoped_lock mine(all.mutex());
  {
    const recovering_lock shared = all.space().hold();
    std::size_t damaged = 0;
    const auto there = detail::holds_of(all.space(), &damaged);
    const auto found = std::ranges::find(there, name, [](const auto& h) -> std::string_view { return h.what.name; });
    if (found == there.end() && damaged != 0) {
      raise(errc::damaged,
            "no hold that can be read is named '{}', and {} cannot be read: repair the store (icecore repair)", name,
            damaged);
    }
    if (found == there.end()) raise(errc::no_such_query, "no hold is named '{}'", name);
    all.set_phase(found->head, detail::query_phase::dropped);
  }
  all.free_dropped();
}

std::vector<held_version> store::held_versions() const {
  const auto held = opened().hold();
  held->check_usable();
  query_catalog& in = query_catalog::of(*held);
  const std::scoped_lock mine(in.mutex());
  std::vector<detail::found_hold> found;
  if (held->read_only()) {
    found = detail::holds_of(in.space());
  } else {
    const recovering_lock unchanged = in.space().hold();
    found = detail::holds_of(in.space());
  }
  std::vector<held_version> all;
  for (auto& one : found) {
    const std::chrono::nanoseconds created(one.what.created_ns);
    all.push_back({std::move(one.what.name), one.what.at,
                   std::chrono::system_clock::time_point(
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(created))});
  }
  std::ranges::sort(all, {}, [](const held_version& h) { return std::tie(h.version, h.name); });
  return all;
}

}  // namespace icecore

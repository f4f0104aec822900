#include <algorithm>
#include <bit>

#include "base/raise.hpp"
#include "icecore/store.hpp"
#include "icecore/timeline.hpp"
#include "query/changes/change.hpp"
#include "query/changes/entry_walk.hpp"
#include "query/once/matching.hpp"

namespace icecore {

struct [[gnu::visibility("hidden")]] stretch_range::walk {
  pin holds;
  icecore::version from;
  icecore::version up_to;
  key_bounds bounds;
  filter where;
  std::vector<detail::key_range> ranges{};
  std::shared_ptr<const detail::sorted_keys> kept{};
  std::optional<detail::entry_walk> entries{};
  detail::scratch memory{};
  detail::change_block block{};
  std::vector<detail::change_at> shown{};  // of one key: one record for each version in which it changed
  std::vector<stretch> found{};
  std::size_t position = 0;

  void load();
  template <class Engine>
  void read(const Engine& engine, link entry);
  template <class Engine>
  void test(const Engine& engine);
};

/// The records of the entry that versions from `from` to `up_to` show, oldest first.
template <class Engine>
void stretch_range::walk::read(const Engine& engine, link entry) {
  const auto& histories = engine.histories();
  shown.clear();
  version newer = 0;
  for (link l = histories.find_at(entry, up_to); l != null_link; l = histories.older(l)) {
    const version stamped = histories.stamp_of(l);
    histories.verify_checksum(l);
    if (shown.empty() && newer == 0) histories.persist_before_return(l);
    if (stamped != newer) shown.push_back({stamped, l});  // of several in one version the newest is shown
    newer = stamped;
    if (stamped <= from) break;
  }
  std::ranges::reverse(shown);
}

/// Appends the stretches in which the records in `shown` match.
template <class Engine>
void stretch_range::walk::test(const Engine& engine) {
  for (std::size_t begin = 0; begin < shown.size(); begin += detail::rows_max) {
    const std::size_t size = std::min(detail::rows_max, shown.size() - begin);
    block.clear();
    for (std::size_t i = 0; i < size; ++i) block.add(engine, shown[begin + i], {.value = true, .version = true});
    const detail::rows& rows = block.as_rows();
    for (auto mask = where.program().test(rows, memory) & ~rows.removed; mask != 0; mask &= mask - 1) {
      const std::size_t i = begin + static_cast<std::size_t>(std::countr_zero(mask));
      const version first = std::max(shown[i].at, from);
      const version last = i + 1 < shown.size() ? shown[i + 1].at - 1 : up_to;
      const bool goes_on = !found.empty() && found.back().key == rows.keys[0] && found.back().last + 1 == first;
      if (goes_on) {
        found.back().last = last;
      } else {
        found.push_back({rows.keys[0], first, last});
      }
    }
  }
}

/// The stretches of the next keys that have any; none at the end.
void stretch_range::walk::load() {
  found.clear();
  position = 0;
  detail::with_engine(detail::usable_core(holds), [&](const auto& engine) {
    const index::ordered_links& links = detail::in_key_order(engine, kept);
    while (found.empty()) {
      const auto entry = entries->next(engine, links);
      if (!entry) return;
      read(engine, *entry);
      test(engine);
    }
  });
}

stretch_range::stretch_range(pin holds, icecore::version from, icecore::version up_to, key_bounds bounds, filter where)
    : walk_(new walk{std::move(holds), from, up_to, std::move(bounds), std::move(where)}) {
  detail::refuse_changes(walk_->where.program().needs());
  walk_->ranges = walk_->where.program().key_ranges();
}
stretch_range::~stretch_range() = default;
stretch_range::stretch_range(stretch_range&&) noexcept = default;
stretch_range& stretch_range::operator=(stretch_range&&) noexcept = default;

stretch_range::iterator stretch_range::begin() & {
  walk_->entries.emplace(detail::within_ranges(walk_->ranges, detail::scan_bounds(walk_->bounds)));
  walk_->load();
  return iterator(this);
}
void stretch_range::step() {
  if (++walk_->position >= walk_->found.size()) walk_->load();
}
bool stretch_range::at_end() const noexcept { return walk_ == nullptr || walk_->position >= walk_->found.size(); }
const stretch& stretch_range::current() const noexcept { return walk_->found[walk_->position]; }

stretch_range store::during(const filter& condition, version from, version up_to, key_bounds bounds) const {
  auto c = opened().hold_for([&](const auto& core) { core.check_all_readable(from, up_to); });
  if (up_to < from) {
    raise(errc::invalid_argument, "versions from {} to {}: the second must not be smaller", from, up_to);
  }
  return {std::move(c).holds(), from, up_to, std::move(bounds), condition};
}

}  // namespace icecore

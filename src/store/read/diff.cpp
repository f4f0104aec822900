#include <algorithm>
#include <array>

#include "icecore/snapshot.hpp"
#include "store/engine.hpp"
#include "store/feed/written_keys.hpp"
#include "store/read/scan.hpp"

namespace icecore {

struct [[gnu::visibility("hidden")]] diff_range::walk {
  pin holds;
  version before;
  version after;
  key_bounds bounds;
  std::shared_ptr<const detail::sorted_keys> kept{};
  const index::ordered_links* links = nullptr;
  std::optional<detail::block_walk> blocks{};

  void begin() {
    kept.reset();
    detail::scan_bounds within(bounds);
    within.of_closed_version = true;
    links = detail::with_engine(detail::usable_core(holds), [&](const auto& engine) {
      const bool one_key = bounds.from && bounds.to && *bounds.to == *bounds.from + '\0';
      return one_key ? &detail::in_key_order(engine, kept)
                     : &detail::in_key_order_if_written(engine, kept, std::min(before, after), std::max(before, after),
                                                        within);
    });
    blocks.emplace(std::vector{within});
  }

  /// Adds the differences at a block's entries to `found`. First it reads all entries, most of which show that they
  /// have none, so that the accesses to the records of the others overlap.
  template <class Engine>
  void append(const Engine& engine, const detail::walked_entries& entries, std::vector<difference>& found) const {
    const auto& histories = engine.histories();
    std::array<typename Engine::search_start, index::block::capacity> candidates;
    std::size_t n = 0;
    for (const link entry : entries) {
      const link start = histories.start_of_change(entry, std::min(before, after), std::max(before, after));
      if (start == null_link) continue;
      if (start != entry) histories.prefetch(start);
      candidates[n++] = {entry, start};
    }
    for (const auto& each : std::span(candidates).first(n)) {
      histories.check_start(each.entry, each.start);
      if (const auto d = at(engine, each.entry, each.start)) found.push_back(*d);
    }
  }

 private:
  template <class Engine>
  [[nodiscard]] static std::optional<std::string_view> value_at(const Engine& engine, link shown) {
    if (shown == null_link) return std::nullopt;
    return engine.value_of(shown);
  }

  /// The difference at one entry; empty if there is none.
  template <class Engine>
  [[nodiscard]] std::optional<difference> at(const Engine& engine, link entry, link start) const {
    const auto& histories = engine.histories();
    const version low = std::min(before, after);
    const version high = std::max(before, after);
    const link newer = histories.find_from(start, high);
    if (newer == null_link || histories.stamp_of(newer) <= low) return std::nullopt;  // the same record in both
    const link in_high = engine.visible_from(newer, high);
    const link in_low = engine.visible_from(newer, low);
    difference d{engine.key_of(entry), value_at(engine, before == low ? in_low : in_high),
                 value_at(engine, before == low ? in_high : in_low)};
    if (d.before == d.after) return std::nullopt;
    return d;
  }
};

diff_range::diff_range(pin holds, icecore::version before, icecore::version after, key_bounds bounds)
    : walk_(new walk{std::move(holds), before, after, std::move(bounds)}) {}
diff_range::~diff_range() = default;
diff_range::diff_range(diff_range&&) noexcept = default;
diff_range& diff_range::operator=(diff_range&&) noexcept = default;

const pin& diff_range::holds() const {
  static const pin nothing;
  if (walk_ == nullptr) static_cast<void>(nothing.core());
  return walk_->holds;
}
icecore::version diff_range::before() const { return walk_->before; }
icecore::version diff_range::after() const { return walk_->after; }
const key_bounds& diff_range::bounds() const { return walk_->bounds; }

diff_range::iterator diff_range::begin() & {
  static_cast<void>(holds());
  walk_->begin();
  load();
  return iterator(this);
}

void diff_range::step() {
  if (++position_ == block_.size()) load();
}

/// Fills block_ from the next index block that has a difference. Empty at the end.
void diff_range::load() {
  block_.clear();
  position_ = 0;
  detail::with_engine(detail::usable_core(walk_->holds), [&](const auto& engine) {
    while (block_.empty()) {
      const detail::walked_entries entries = walk_->blocks->next(engine, *walk_->links);
      if (entries.empty()) return;
      walk_->append(engine, entries, block_);
    }
  });
}

}  // namespace icecore

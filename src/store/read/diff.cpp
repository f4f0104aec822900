#include <algorithm>
#include <array>

#include "icecore/snapshot.hpp"
#include "store/engine.hpp"
#include "store/read/scan.hpp"

namespace icecore {

struct [[gnu::visibility("hidden")]] diff_range::walk {
  pin holds;
  version before;
  version after;
  key_bounds bounds;
  index::block block;
  std::shared_ptr<const detail::sorted_keys> kept;

  template <class Engine>
  [[nodiscard]] static std::optional<std::string_view> value_at(const Engine& engine, link shown) {
    if (shown == null_link) return std::nullopt;
    return engine.value_of(shown);
  }

  /// The difference at one entry; empty if there is none.
  template <class Engine>
  [[nodiscard]] std::optional<difference> at(const Engine& engine, link entry) const {
    const auto& histories = engine.histories();
    const version low = std::min(before, after);
    const version high = std::max(before, after);
    const link newer = histories.find_at(entry, high);
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
    : walk_(new walk{std::move(holds), before, after, std::move(bounds), {}, {}}) {}
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
  const auto& core = detail::usable_core(holds());
  walk_->kept.reset();
  detail::in_key_order(core, walk_->kept).seek(detail::scan_bounds(walk_->bounds).from, walk_->block);
  load();
  return iterator(this);
}

void diff_range::step() {
  if (++position_ < block_.size()) return;
  if (detail::in_key_order(detail::usable_core(walk_->holds), walk_->kept).next_block(walk_->block)) {
    load();
  } else {
    block_.clear();
  }
}

/// Fills block_ from the current index block, or from later ones if that has no difference. Empty at the end.
void diff_range::load() {
  const detail::scan_bounds bounds(walk_->bounds);
  block_.clear();
  position_ = 0;
  detail::with_engine(detail::usable_core(walk_->holds), [&](const auto& engine) {
    const index::ordered_links& links = detail::in_key_order(engine, walk_->kept);
    do {
      detail::prefetch_entries(engine, walk_->block);
      for (const link entry : detail::within(engine, walk_->block, bounds)) {
        if (const auto d = walk_->at(engine, entry)) block_.push_back(*d);
      }
      if (!block_.empty()) return;
      const std::size_t n = walk_->block.size;
      if (n > 0 && bounds.beyond(engine.key_of(walk_->block.entries[n - 1]))) return;
    } while (links.next_block(walk_->block));
  });
}

}  // namespace icecore

#include <array>
#include <bit>

#include "base/raise.hpp"
#include "filter/program.hpp"
#include "icecore/changes.hpp"
#include "query/once/matching.hpp"

namespace icecore {

struct [[gnu::visibility("hidden")]] filtered_differences::walk {
  pin holds;
  icecore::version before;
  icecore::version after;
  filter where;
  std::vector<key_bounds> bounds{};  // of the keys that can match, ascending
  std::size_t range = 0;
  std::optional<diff_range> differences{};  // of bounds[range - 1]
  std::optional<diff_range::iterator> at{};
  detail::scratch memory{};
  std::vector<difference> matches{};
  std::size_t position = 0;

  void load();
  void test(std::span<const difference> all);
};

void filtered_differences::walk::test(std::span<const difference> all) {
  std::array<std::string_view, detail::rows_max> keys;
  std::array<std::string_view, detail::rows_max> values;
  std::array<std::string_view, detail::rows_max> earlier;
  detail::rows block;
  block.size = all.size();
  block.keys = keys.data();
  block.values = values.data();
  block.before = earlier.data();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const detail::row_mask bit = detail::row_mask{1} << i;
    keys[i] = all[i].key;
    values[i] = all[i].after.value_or(std::string_view());
    earlier[i] = all[i].before.value_or(std::string_view());
    (all[i].before ? block.has_before : block.first) |= bit;
    if (!all[i].after) block.removed |= bit;
  }
  for (detail::row_mask found = where.program().test(block, memory); found != 0; found &= found - 1) {
    matches.push_back(all[static_cast<std::size_t>(std::countr_zero(found))]);
  }
}

/// The next block with matches; none at the end.
void filtered_differences::walk::load() {
  matches.clear();
  position = 0;
  std::vector<difference> some;
  while (matches.empty()) {
    if (!at) {
      if (range == bounds.size()) return;
      differences.emplace(holds, before, after, bounds[range++]);
      at.emplace(differences->begin());
    }
    some.clear();
    for (; some.size() < detail::rows_max && *at != std::default_sentinel; ++*at) some.push_back(**at);
    if (some.empty()) {
      at.reset();
    } else {
      test(some);
    }
  }
}

filtered_differences::filtered_differences(pin holds, icecore::version before, icecore::version after,
                                           const key_bounds& bounds, filter where)
    : walk_(new walk{std::move(holds), before, after, std::move(where)}) {
  const auto& program = walk_->where.program();
  if (program.needs().version) {
    raise(errc::invalid_argument,
          "`version` is not known of a difference, which may come from many versions; ask for changes()");
  }
  const std::vector<detail::key_range> ranges = program.key_ranges();
  for (const auto& b : detail::within_ranges(ranges, detail::scan_bounds(bounds))) {
    key_bounds& one = walk_->bounds.emplace_back();
    one.from = std::string(b.from);
    if (b.bounded_above) one.to = std::string(b.to);
  }
}
filtered_differences::~filtered_differences() = default;
filtered_differences::filtered_differences(filtered_differences&&) noexcept = default;
filtered_differences& filtered_differences::operator=(filtered_differences&&) noexcept = default;

filtered_differences::iterator filtered_differences::begin() & {
  walk_->range = 0;
  walk_->at.reset();
  walk_->load();
  return iterator(this);
}
void filtered_differences::step() {
  if (++walk_->position >= walk_->matches.size()) walk_->load();
}
bool filtered_differences::at_end() const noexcept {
  return walk_ == nullptr || walk_->position >= walk_->matches.size();
}
const difference& filtered_differences::current() const noexcept { return walk_->matches[walk_->position]; }

filtered_differences diff_range::where(const filter& condition) const {
  static_cast<void>(detail::usable_core(holds()));
  return {holds(), before(), after(), bounds(), condition};
}

std::uint64_t diff_range::count(const filter& condition) const {
  filtered_differences found = where(condition);
  std::uint64_t matches = 0;
  for (auto it = found.begin(); it != found.end(); ++it) ++matches;
  return matches;
}

}  // namespace icecore

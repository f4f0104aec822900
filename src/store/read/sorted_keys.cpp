#include "store/read/sorted_keys.hpp"

#include <algorithm>
#include <utility>

#include "store/open/sorted_entries.hpp"

namespace icecore::detail {

sorted_keys::sorted_keys(const store_core& core, unsigned threads)
    : space_(core.records().space()), packed_(core.packed()) {
  std::vector<link> found;
  found.reserve(core.index().size());
  index::block b;
  core.index().seek_first(b);
  do {
    found.insert(found.end(), b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size));
  } while (core.index().next_block(b));
  std::vector<std::span<const link>> parts;
  for (std::size_t t = 0; t < threads; ++t) {
    const std::size_t begin = found.size() * t / threads;
    parts.push_back(std::span<const link>(found).subspan(begin, found.size() * (t + 1) / threads - begin));
  }
  entries_ = sort_entries(std::move(parts), space_).entries;
  if (core.packed() != nullptr) with_packed_.emplace(*this, space_, *core.packed());
}

sorted_keys::sorted_keys(const store_core& core, std::vector<link> sorted)
    : space_(core.records().space()), packed_(core.packed()), entries_(std::move(sorted)) {}

std::size_t sorted_keys::bound(std::string_view key) const {
  const auto at = std::ranges::lower_bound(entries_, key, {}, [this](link l) { return key_of(l); });
  return static_cast<std::size_t>(at - entries_.begin());
}

void sorted_keys::read_from(std::size_t first, index::block& out) const {
  out.size = std::min(index::block::capacity, entries_.size() - first);
  std::ranges::copy_n(entries_.begin() + static_cast<std::ptrdiff_t>(first), static_cast<std::ptrdiff_t>(out.size),
                      out.entries.begin());
  out.next = first + out.size;
}

bool sorted_keys::read_before(std::size_t end, index::block& out) const {
  const std::size_t first = end - std::min(end, index::block::capacity);
  read_from(first, out);
  out.size = end - first;
  out.next = end;
  return out.size != 0;
}

std::vector<link> sorted_keys::split_points(std::size_t count) const {
  if (entries_.size() <= count) return entries_;
  std::vector<link> points;
  for (std::size_t i = 1; i <= count; ++i) points.push_back(entries_[i * entries_.size() / (count + 1)]);
  return points;
}

const index::ordered_links& in_key_order(const store_core& core, std::shared_ptr<const sorted_keys>& kept,
                                         unsigned threads) {
  if (core.index().orders_keys()) return core.ordered();
  if (kept == nullptr) kept = std::make_shared<const sorted_keys>(core, threads);
  return kept->all();
}

}  // namespace icecore::detail

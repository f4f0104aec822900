#include "dump/dump_order.hpp"

#include <algorithm>

namespace icecore::cli {
namespace {

/// A record to be sorted. Within a version, records keep the order in which they were collected.
struct collected {
  version at;
  const std::string_view* key;
  const char* value;
  std::uint32_t value_size;
  bool removed;
};
static_assert(sizeof(collected) == 32);

constexpr std::uint64_t parts_of_a_split = 1024;

}  // namespace

/// Calls `each` for the key's records of versions `first` to `last`, newest first.
template <typename Each>
void version_order::for_each_of(std::string_view key, version first, version last, Each&& each) const {
  for (const change& c : key_history(from_->hold(), key, last)) {
    if (c.version < first) return;
    each(c);
  }
}

version_order::version_order(const store& from, std::uint64_t records_in_memory)
    : from_(&from), records_in_memory_(records_in_memory), keys_(from.keys()) {
  for (const std::string_view key : keys_) {
    for_each_of(key, 0, version_max, [&](const change&) { ++records_; });
  }
}

void version_order::for_each(const visitor& visit) const { visit_span({0, from_->clock(), records_}, visit); }

void version_order::visit_span(const span& part, const visitor& visit) const {
  if (part.records == 0) return;
  if (part.records <= records_in_memory_) {
    visit_sorted(part, visit);
  } else if (part.first == part.last) {
    visit_single_version(part.first, visit);
  } else {
    for (const span& smaller : split(part)) visit_span(smaller, visit);
  }
}

/// Counts equal shares of the versions, then joins neighbours as long as they fit in memory together.
std::vector<version_order::span> version_order::split(const span& whole) const {
  const version step = (whole.last - whole.first) / parts_of_a_split + 1;
  std::vector<std::uint64_t> counts((whole.last - whole.first) / step + 1);
  for (const std::string_view key : keys_) {
    for_each_of(key, whole.first, whole.last, [&](const change& c) { ++counts[(c.version - whole.first) / step]; });
  }
  std::vector<span> out;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const span next{whole.first + i * step, std::min(whole.last, whole.first + (i + 1) * step - 1), counts[i]};
    if (!out.empty() && out.back().records + next.records <= records_in_memory_) {
      out.back().last = next.last;
      out.back().records += next.records;
    } else {
      out.push_back(next);
    }
  }
  return out;
}

void version_order::visit_sorted(const span& part, const visitor& visit) const {
  std::vector<collected> records;
  records.reserve(part.records);
  for (const std::string_view& key : keys_) {
    const auto begin = static_cast<std::ptrdiff_t>(records.size());
    for_each_of(key, part.first, part.last, [&](const change& c) {
      const std::string_view value = c.value.value_or(std::string_view{});
      records.push_back({c.version, &key, value.data(), static_cast<std::uint32_t>(value.size()), !c.value});
    });
    std::reverse(records.begin() + begin, records.end());
  }
  std::stable_sort(records.begin(), records.end(), [](const collected& a, const collected& b) { return a.at < b.at; });
  for (const collected& r : records) {
    versioned_record record{r.at, *r.key, std::nullopt};
    if (!r.removed) record.value = std::string_view(r.value, r.value_size);
    visit(record);
  }
}

void version_order::visit_single_version(version at, const visitor& visit) const {
  std::vector<change> changes;
  for (const std::string_view key : keys_) {
    changes.clear();
    for_each_of(key, at, at, [&](const change& c) { changes.push_back(c); });
    for (auto c = changes.rbegin(); c != changes.rend(); ++c) visit({at, key, c->value});
  }
}

}  // namespace icecore::cli

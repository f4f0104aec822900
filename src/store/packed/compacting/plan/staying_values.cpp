#include "store/packed/compacting/plan/staying_values.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/raise.hpp"

namespace icecore::detail {

using format::named_value;
using format::value_reference;

staying_values::staying_values(pool_set& pools, const manifest& now, const stratum::strata* packed, moves_values which)
    : pools_(&pools), now_(&now), packed_(packed), moves_(which) {
  for (const named_value& each : now.values) known_.emplace(each.at(), each);
}

void staying_values::look_at_segments() {
  if (moves_ != moves_values::none) return;
  segments_.clear();
  for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
    if (h.magic == format::segment_magic && h.era == now_->era && s.size >= size_min) segments_.push_back(s);
  });
  std::ranges::sort(segments_, {}, &segment::offset);
}

bool is_alone(const pool_set& pools, const named_value& value) {
  const segment s = pools.segment_at(value.segment);
  const auto is_zero = [&](link from, link to) { return all_zero(pools.at(from), to - from); };
  return is_zero(s.first_record(), s.offset + value.record) && is_zero(value.at() + value.size, s.end());
}

/// Whether the value is to be packed.
bool staying_values::moves(const named_value& value) const {
  if (moves_ != moves_values::unless_alone) return moves_ == moves_values::all;
  return !is_alone(*pools_, value);
}

void require_packable(std::uint64_t value_size) {
  if (value_size <= stratum::packed_value_max) return;
  raise(errc::value_too_large,
        "a value of {} bytes: at most {} are packed with its record, so the store is not. Without "
        "compression, and while nothing is to be forgotten, long values stay where they are",
        value_size, stratum::packed_value_max);
}

std::optional<value_reference> staying_values::stays(link at, const record& of) {
  const record_layout layout = of.layout();
  if (segments_.empty() || layout.value_size < size_min) return std::nullopt;
  const auto behind = std::ranges::upper_bound(segments_, at, {}, &segment::offset);
  if (behind == segments_.begin()) return std::nullopt;
  const segment& in = *(behind - 1);
  if (at >= in.end() || layout.value_size < in.size / 2) return std::nullopt;
  named_value value{};
  value.segment = in.offset;
  value.record = at - in.offset;
  value.offset = value.record + layout.value_offset();
  value.size = layout.value_size;
  value.crc = of.value_crc();
  const std::scoped_lock lock(mutex_);
  known_.emplace(value.at(), value);
  return value_reference{value.at(), value.size};
}

std::optional<std::string_view> staying_values::read(const value_reference& value) {
  {
    const std::scoped_lock lock(mutex_);
    read_.insert(value.at);
    const auto known = known_.find(value.at);
    if (known != known_.end() && !moves(known->second)) return std::nullopt;
  }
  require_packable(value.size);
  return packed_->values().at(value);  // errc::damaged, too, if the manifest does not name it
}

void staying_values::keep(const value_reference& value) {
  const std::scoped_lock lock(mutex_);
  kept_.insert(value.at);
}

std::vector<named_value> staying_values::next() const {
  const std::scoped_lock lock(mutex_);
  std::vector<named_value> all;
  for (const named_value& each : now_->values) {
    if (!read_.contains(each.at()) || kept_.contains(each.at())) all.push_back(each);
  }
  for (const link at : kept_) {
    if (!std::ranges::binary_search(now_->values, at, {}, &named_value::at)) all.push_back(known_.at(at));
  }
  std::ranges::sort(all, {}, &named_value::at);
  return all;
}

}  // namespace icecore::detail

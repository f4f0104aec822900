#include "store/packed/compacting/plan/merge_plan.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "store/packed/compacting/plan/staying_values.hpp"
#include "store/packed/compacting/segment_target.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
/// Changes that a merge is divided into if nobody says otherwise.
constexpr std::uint64_t changes_usual = 8;

[[nodiscard]] std::uint64_t records_in(const stratum::strata& of, const stratum::strata::range& in) {
  std::uint64_t records = 0;
  for (std::uint32_t i = in.begin; i < in.end; ++i) records += of.extent_at(i).header().records;
  return records;
}
[[nodiscard]] std::uint64_t bytes_in(const stratum::strata& of, const stratum::strata::range& in) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = in.begin; i < in.end; ++i) bytes += of.extent_at(i).media_size();
  return bytes;
}

/// Whether there is anything beside a value that stays where it was written.
[[nodiscard]] bool has_company(const store_core& core) {
  return std::ranges::any_of(core.packing().values, [&](const auto& each) { return !is_alone(core.the_pool(), each); });
}

/// Strata are merged while they are no more than twice what is merged without them: so their number grows with the
/// logarithm of the records, and each record is packed that often. If versions have expired, a stratum's records that
/// have a newer one in it count as well: they may go.
struct chosen_strata {
  explicit chosen_strata(const merge_asked& asked) {
    const stratum::strata& of = *asked.core.packed();
    std::uint64_t merged = asked.young_records;
    const version expiring = greatest_added(asked.core.packing().expired, asked.expired);
    for (const auto& each : of.all()) {
      const std::uint64_t records = records_in(of, each);
      const std::uint64_t keys = of.keys_in(each);
      const bool thins = may_thin(asked.core, expiring, each);
      const std::uint64_t may_go = merged + (thins ? records - std::min(records, keys) : 0);
      const bool whole = asked.how.whole && !asked.is_further;
      if (!whole && records > 2 * may_go) break;
      merged += records;
      any_thin = any_thin || thins;
      ++end;
    }
    // all that have a key that is to be forgotten
    for (std::size_t s = asked.forgotten.empty() ? of.all().size() : end; s < of.all().size(); ++s) {
      const pin holds = asked.core.take_pin();  // blocks may be inflated for the search
      if (asked.forgotten.are_in(of, of.all()[s])) end = s + 1;
    }
    // Beside a value that stays there may be older records of such a key which no stratum has any more.
    if (!asked.forgotten.empty() && has_company(asked.core)) end = of.all().size();
  }

  std::size_t end = 0;
  bool any_thin = false;
};

/// What a merge by ranges of keys has left, as the manifest marks it.
struct unfinished {
  std::size_t first = 0;  // strata
  std::size_t end = 0;
  std::string from;  // the least key of what is left
};
[[nodiscard]] std::optional<unfinished> unfinished_of(const store_core& core) {
  const stratum::strata& of = *core.packed();
  const manifest& now = core.packing();
  std::optional<unfinished> found;
  for (std::uint32_t i = 0; i < of.extents(); ++i) {
    const std::uint32_t flags = now.extents[i].flags;
    if ((flags & format::extent_awaits) != 0) {
      if (!found) found = {.first = of.stratum_of(i), .end = 0, .from = std::string(of.extent_at(i).first_key())};
      found->from = std::min(found->from, std::string(of.extent_at(i).first_key()));
    }
    if (found && (flags & (format::extent_awaits | format::extent_replaces)) != 0) found->end = of.stratum_of(i) + 1;
  }
  return found;
}

/// Whether no extent of these strata has keys both before `bound` and from it on.
[[nodiscard]] bool cuts_none(const store_core& core, std::size_t first, std::size_t end, std::string_view bound) {
  const stratum::strata& of = *core.packed();
  for (std::size_t s = first; s < end; ++s) {
    const stratum::strata::range& in = of.all()[s];
    std::uint32_t behind = in.begin;  // the first extent that begins at the bound or behind it
    while (behind < in.end && of.extent_at(behind).first_key() < bound) ++behind;
    if (behind == in.begin) continue;
    const pin holds = core.take_pin();
    const stratum::extent& before = of.extent_at(behind - 1);
    const stratum::block last = before.block_at(before.blocks() - 1);
    if (last.key(last.keys() - 1) >= bound) return false;
  }
  return true;
}

/// Where ranges of about `bytes` end that begin with `from`.
[[nodiscard]] std::vector<std::string> bounds_of(const store_core& core, std::size_t first, std::size_t end,
                                                 std::string_view from, std::uint64_t bytes) {
  const stratum::strata& of = *core.packed();
  std::size_t largest = first;
  std::uint64_t all = 0;
  for (std::size_t s = first; s < end; ++s) {
    all += bytes_in(of, of.all()[s]);
    if (bytes_in(of, of.all()[s]) > bytes_in(of, of.all()[largest])) largest = s;
  }
  const stratum::strata::range& in = of.all()[largest];
  // of this stratum, when all of them together have so many
  const auto share = static_cast<double>(bytes_in(of, in)) / static_cast<double>(std::max<std::uint64_t>(all, 1));
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(bytes));
  std::vector<std::string> bounds;
  std::uint64_t passed = 0;
  for (std::uint32_t i = in.begin; i < in.end; ++i) {
    const std::string_view begins = of.extent_at(i).first_key();
    if (begins > from && passed != 0 && passed >= wanted && !of.goes_on(i) && cuts_none(core, first, end, begins)) {
      bounds.emplace_back(begins);
      passed = 0;
    }
    if (begins >= from) passed += of.extent_at(i).media_size();
  }
  return bounds;
}

/// How many bytes one change merges; 0: all of them.
[[nodiscard]] std::uint64_t bytes_at_once(const merge_asked& asked, std::uint64_t of_all) {
  if (asked.how.bytes_at_once != 0) return asked.how.bytes_at_once;
  // Space, where it is to reach a steady size; and what has been done, where that is much.
  constexpr std::uint64_t much = std::uint64_t{4} << 30;
  const bool is_bounded = !asked.core.kept().keeps_all() || of_all > much;
  return is_bounded ? std::max(of_all / changes_usual, 4 * mib) : 0;
}

void take_range(merge_plan& plan, const store_core& core, std::string_view from, std::uint64_t bytes) {
  plan.from = from;
  plan.to.reset();
  plan.bounds = bounds_of(core, plan.first, plan.end, from, bytes);
  if (plan.bounds.empty()) return;
  plan.to = std::move(plan.bounds.front());
  plan.bounds.erase(plan.bounds.begin());
}

void count_records(merge_plan& plan, const merge_asked& asked) {
  const stratum::strata& of = *asked.core.packed();
  for (std::size_t s = 0; s < plan.with_young; ++s) plan.records += records_in(of, of.all()[s]);
  for (std::size_t s = plan.first; s < plan.end; ++s) {
    for (std::uint32_t i = of.all()[s].begin; i < of.all()[s].end; ++i) {
      const std::string_view begins = of.extent_at(i).first_key();
      const std::uint64_t records = of.extent_at(i).header().records;
      if (plan.has(begins)) plan.records += records;
      if (plan.to && begins >= *plan.to) plan.records_left += records;
    }
  }
  if (plan.leaves_rest() && !plan.goes_on) plan.records_left += asked.young_records;  // a part of them, twice
}

}  // namespace

bool is_unfinished(const manifest& m) noexcept {
  return std::ranges::any_of(m.extents, [](const auto& each) { return (each.flags & format::extent_awaits) != 0; });
}

bool may_thin(const store_core& core, version expiring, const stratum::strata::range& extents) {
  for (std::uint32_t i = extents.begin; i < extents.end; ++i) {
    if ((core.packing().extents[i].flags & format::extent_may_thin) != 0) return true;
    if (core.packed()->extent_at(i).header().least <= expiring) return true;
  }
  return false;
}

merge_plan plan_merge(const merge_asked& asked) {
  merge_plan plan{.extent_bytes = extent_bytes, .records = asked.young_records};
  const stratum::strata* const packed = asked.core.packed();
  if (packed == nullptr) {
    if (const std::uint64_t bytes = bytes_at_once(asked, asked.young_bytes)) {
      plan.extent_bytes = std::min(bytes / 2, extent_bytes);
    }
    return plan;
  }
  const chosen_strata chosen(asked);
  const auto left = unfinished_of(asked.core);
  plan.merges_thin_strata = chosen.any_thin;
  // Others have to take the same turns, or all that has a key must be merged at once, or nothing is written.
  if (asked.how.together != nullptr || !asked.forgotten.empty() || asked.how.dry_run) {
    plan.with_young = plan.first = plan.end = std::max(chosen.end, left ? left->end : 0);
    count_records(plan, asked);
    return plan;
  }
  plan.goes_on = left && (!asked.how.whole || asked.is_further);
  plan.end = plan.goes_on ? left->end : chosen.end;
  std::uint64_t packed_bytes = 0;
  std::uint64_t records = asked.young_records;
  for (std::size_t s = 0; s < plan.end; ++s) {
    packed_bytes += bytes_in(*packed, packed->all()[s]);
    records += records_in(*packed, packed->all()[s]);
  }
  const std::uint64_t bytes = bytes_at_once(asked, packed_bytes + asked.young_bytes);
  if (bytes != 0) plan.extent_bytes = std::min(bytes / 2, extent_bytes);
  plan.with_young = plan.first = plan.end;
  if (plan.goes_on) {
    plan.first = left->first;
    plan.with_young = std::min(chosen.end, left->first);
    if (cuts_none(asked.core, plan.first, plan.end, left->from)) {
      take_range(plan, asked.core, left->from, bytes == 0 ? UINT64_MAX : bytes);
    }
  } else if (bytes != 0 && bytes < packed_bytes) {
    // Strata whose extents end elsewhere are merged with all of their keys by the first change, if they are a small
    // part.
    std::uint64_t at_first = asked.young_records;
    std::size_t most = 0;
    merge_plan best = plan;
    for (std::size_t s = 0; s < plan.end && at_first <= records / 2 && most < packed_bytes / bytes / 2; ++s) {
      plan.with_young = plan.first = s;
      take_range(plan, asked.core, "", bytes);
      if (plan.to && plan.bounds.size() + 1 > most) {
        most = plan.bounds.size() + 1;
        best = plan;
      }
      at_first += records_in(*packed, packed->all()[s]);
    }
    plan = std::move(best);
  }
  count_records(plan, asked);
  return plan;
}

}  // namespace icecore::detail

// The keys that were written in a range of versions, without a look at the others: for differences and changes.
//
//   std::shared_ptr<const sorted_keys> kept;
//   const index::ordered_links& links = in_key_order_if_written(engine, kept, after, up_to, within, threads);
//
// Argument. Of packed records each block's versions are known (stratum/fence.hpp), so those blocks are read that may
// have some of the range, and no others. Young ones are newer than all packed ones (Y1). Where the range goes beyond
// these: the versions are closed, and settled (settling.hpp) before the writers' ranges are read; so their records are
// complete, and the ranges hold all of them (F2) but those that were forgotten, or that opening found. Whether there
// are such is asked last: what is overwritten while this reads was forgotten before. In a range stamps do not decrease
// (F3). So either all keys with a record in (after, up_to] are found, or it is seen that this is not known; then all
// young keys are taken, or all keys.
//
// Threads: pure. Nobody is waited for: while a write is under way that may still be stamped with one of the versions,
//   it is not known which were written.
// Cost: O(blocks + records of the blocks that may have such versions), and of young ones O(records written since
//   `after`, in whole segments), or O(young keys) if the store was opened, or packed, since. But only where the keys
//   found are at most a sixteenth of all, or 2,048; with 8 bytes of memory each, and for keys that lie both packed and
//   young, or in several strata, a find each.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/threads.hpp"
#include "store/feed/filled_ranges.hpp"
#include "store/feed/settling.hpp"
#include "store/feed/written_records.hpp"
#include "store/open/sorted_entries.hpp"
#include "store/read/scan.hpp"
#include "store/read/sorted_keys.hpp"

namespace icecore::detail {

/// The ranges with records of versions greater than `after`, and perhaps others. Empty if such records may be in other
/// places.
[[nodiscard]] inline std::optional<std::vector<filling::range>> ranges_written(const store_core& core, version after) {
  if (after < core.shared().newest_recovered) return std::nullopt;
  settling versions(core.clock(), core.writers());
  constexpr unsigned looks_max = 256;  // for writes that end about now
  for (unsigned looks = 0; !versions.is_done(); ++looks) {
    if (looks == looks_max) return std::nullopt;
    cpu_relax();
  }
  std::vector<filling::range> found;
  const auto add = [&](link from, link to) {
    if (from != to) found.push_back({from, to});
  };
  core.writers().for_each_slot([&](unsigned, const writer_slot& slot) {
    const filling::range now = slot.filled.read();
    add(now.from, now.to);
  });
  // behind the slots: F2
  const filled_ranges& list = core.writers().filled();
  const std::uint64_t count = list.count();
  for (std::uint64_t n = count - std::min(count, filled_ranges::kept); n < count; ++n) {
    if (const auto one = list.read(n); one && one->newest > after) add(one->from, one->to);
  }
  if (list.forgotten() > after) return std::nullopt;
  return found;
}

/// Of so many keys, so many at most are found one by one. Where more were written, all keys are gone through.
[[nodiscard]] constexpr std::uint64_t few_of(std::uint64_t keys) noexcept {
  return std::max<std::uint64_t>(keys / 16, 2048);
}

/// Of the young generation the entries with a record in (after, up_to], each once, in no order. Empty if they are not
/// known, or more than `most`.
template <class Engine>
[[nodiscard]] std::optional<std::vector<link>> entries_written(const Engine& engine, version after, version up_to,
                                                               std::uint64_t most) {
  const auto ranges = ranges_written(engine, after);
  if (!ranges) return std::nullopt;
  const auto& histories = engine.histories();
  std::vector<link> found;
  std::uint64_t looked_at = 0;
  for (const filling::range& each : *ranges) {
    for (link at = next_of_key(engine, each.from, each.to); at < each.to;
         at = next_of_key(engine, behind(engine, at), each.to)) {
      const version v = histories.stamp_of(at);
      if (v > up_to) break;
      if (++looked_at > most) return std::nullopt;
      if (v > after) found.push_back(histories.at(at).is_entry() ? at : histories.at(at).as_update().entry);
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  for (const link entry : found) histories.verify_checksum(entry);  // its key is read now
  return found;
}

/// The young generation's entries within bounds, and perhaps others; empty if they are more than `most`.
[[nodiscard]] inline std::optional<std::vector<link>> young_entries(const store_core& core, const scan_bounds& within,
                                                                    std::uint64_t most) {
  const bool has_order = core.index().orders_keys();
  std::vector<link> found;
  index::block b;
  has_order ? core.index().seek(within.from, b) : core.index().seek_first(b);
  do {
    if (found.size() + b.size > most) return std::nullopt;
    found.insert(found.end(), b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size));
    if (has_order && b.size > 0 && within.beyond(core.records().space().record_at(found.back()).key())) break;
  } while (core.index().next_block(b));
  return found;
}

/// Runs of links, each ascending by key, become one that has each key once.
template <class Engine>
class runs_of_links {
 public:
  explicit runs_of_links(const Engine& engine) noexcept : engine_(&engine) {}

  /// Precondition: its key is not less than that of the one before in this run.
  void add(link stands) {
    if (links_.size() > begin_ && links_.back() == stands) return;
    links_.push_back(stands);
  }
  void begin_run() {
    if (begin_ == links_.size()) return;
    merge();
    begin_ = links_.size();
  }
  [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }
  [[nodiscard]] std::vector<link> finish() {
    merge();
    // Links differ if somebody began to write a packed key meanwhile.
    const auto same = std::ranges::unique(links_, {}, [this](link l) { return engine_->key_of(l); });
    links_.erase(same.begin(), same.end());
    return std::move(links_);
  }

 private:
  void merge() {
    std::ranges::inplace_merge(links_, links_.begin() + static_cast<std::ptrdiff_t>(begin_), {},
                               [this](link l) { return engine_->key_of(l); });
  }

  const Engine* engine_;
  std::vector<link> links_;
  std::size_t begin_ = 0;  // of the last run
};

/// Links in key order to what stands for all keys within bounds that have a record in (after, up_to], and perhaps for
/// others. Empty if these are not known, or many.
template <class Engine>
[[nodiscard]] std::optional<std::vector<link>> links_written(const Engine& engine, version after, version up_to,
                                                             const scan_bounds& within) {
  const std::uint64_t most = few_of(engine.keys_at_most());
  const auto in_order = [&](const std::vector<link>& entries) {
    return sort_entries({std::span<const link>(entries)}, engine.records().space()).entries;
  };
  if constexpr (!Engine::is_layered) {
    const auto young = entries_written(engine, after, up_to, most);
    return young ? std::optional(in_order(*young)) : std::nullopt;
  } else {
    runs_of_links<Engine> all(engine);
    const stratum::strata& packed = *engine.packed();
    if (up_to > packed.greatest()) {  // Y1
      auto young = entries_written(engine, after, up_to, most);
      if (!young) young = young_entries(engine, within, most);
      if (!young) return std::nullopt;
      for (const link entry : in_order(*young)) all.add(entry);
    }
    const bool has_young = engine.index().size() != 0;
    std::optional<std::uint32_t> stratum;
    const bool are_few = packed.for_each_written(
        after, up_to, within.from, within.bounded_above ? std::optional(within.to) : std::nullopt,
        [&](const stratum::record_place& at) {
          if (const std::uint32_t now = packed.stratum_of(at.extent); stratum != now) {
            all.begin_run();
            stratum = now;
          }
          const link entry = has_young ? engine.index().find(packed.key(at)) : null_link;
          all.add(entry != null_link ? entry : packed_link(packed.newest_of(at)));
          return all.size() <= most;
        });
    return are_few ? std::optional(all.finish()) : std::nullopt;
  }
}

/// Links in key order to all keys within bounds that have a record in the closed versions (after, up_to], and perhaps
/// to others. `kept` must be null, and lives as long as what is returned.
template <class Engine>
[[nodiscard]] const index::ordered_links& in_key_order_if_written(const Engine& engine,
                                                                  std::shared_ptr<const sorted_keys>& kept,
                                                                  version after, version up_to,
                                                                  const scan_bounds& within, unsigned threads = 1) {
  auto found = links_written(engine, after, up_to, within);
  if (!found) return in_key_order(engine, kept, threads);
  kept = std::make_shared<const sorted_keys>(engine, *std::move(found));
  return *kept;
}

}  // namespace icecore::detail

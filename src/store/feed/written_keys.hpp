// The keys that were written in a range of versions, without a look at the others: for differences and changes of
// recent versions.
//
//   std::shared_ptr<const sorted_keys> kept;
//   const index::ordered_links& links = in_key_order_if_written(engine, kept, after, up_to, threads);
//
// Argument. The versions are closed, and settled (settling.hpp) before ranges are read: so their records are complete,
// and the ranges hold all of them (F2) but those that were forgotten, or that opening found. Whether there are such is
// asked last: what is overwritten while this reads was forgotten before. In a range stamps do not decrease (F3). So
// either all keys with a record in (after, up_to] are found, or it is seen that this is not known, and all keys are
// gone through.
//
// Threads: pure. Nobody is waited for: while a write is under way that may still be stamped with one of the versions,
//   all keys are gone through.
// Cost: O(records written since `after`, in whole segments + 2,048), but only where these are at most a sixteenth of
//   the keys, or few; with 8 bytes of memory each.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/threads.hpp"
#include "store/feed/filled_ranges.hpp"
#include "store/feed/settling.hpp"
#include "store/feed/written_records.hpp"
#include "store/open/sorted_entries.hpp"
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

/// The entries with a record in (after, up_to], each once, in no order. Empty if they are not known, or many.
template <class Engine>
[[nodiscard]] std::optional<std::vector<link>> entries_written(const Engine& engine, version after, version up_to) {
  constexpr std::uint64_t few = 2048;
  const std::uint64_t most = std::max<std::uint64_t>(engine.index().size() / 16, few);
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

/// Links in key order to all keys with a record in the closed versions (after, up_to], and perhaps to others. `kept`
/// must be null, and lives as long as what is returned.
template <class Engine>
[[nodiscard]] const index::ordered_links& in_key_order_if_written(const Engine& engine,
                                                                  std::shared_ptr<const sorted_keys>& kept,
                                                                  version after, version up_to, unsigned threads = 1) {
  const auto found = entries_written(engine, after, up_to);
  if (!found) return in_key_order(engine, kept, threads);
  kept = std::make_shared<const sorted_keys>(
      engine, std::move(sort_entries({std::span<const link>(*found)}, engine.records().space()).entries));
  return *kept;
}

}  // namespace icecore::detail

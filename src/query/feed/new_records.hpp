// Finds changes by the ranges that writers filled since the store was opened (store/feed/filled_ranges.hpp): the cost
// is that of the changes.
//
//   new_records since(core);
//   if (auto found = since.collect(engine, told, up_to, wanted)) ...     // else: pass_over_keys()
//
// Argument. Precondition of collect(): versions up to `up_to` are settled (store/feed/settling.hpp), and that was found
// out before collect() was called. So the records of these versions are complete, and the ranges that are read
// afterwards hold all of them (F2) but those that may have been forgotten. The other order, ranges first and then the
// clock, would miss what was written to a segment that was taken in between, in a version that was closed in between.
// Of each range it remembers how far it was read. What is before that place has versions that were told (F3).
//
// Threads: one object, one thread. Cost: O(new records + writers); after it was made O(2,048 ranges) once.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "query/feed/key_pass.hpp"
#include "store/feed/written_records.hpp"

namespace icecore::detail {

class new_records {
 public:
  explicit new_records(const store_core& core) noexcept : core_(&core) {}

  /// The changes in (told, up_to], or the oldest of them: at least about `wanted`, of whole versions. Empty if ranges
  /// do not lead to all of them. What it returns counts as told: later calls go on behind it.
  template <class Engine>
  [[nodiscard]] std::optional<whole_versions> collect(const Engine& engine, version told, version up_to,
                                                      std::size_t wanted) {
    if (told < core_->shared().newest_recovered) return std::nullopt;
    try {
      if (!refresh(told)) {
        begin_again();
        return std::nullopt;
      }
      return merge(engine, told, up_to, wanted);
    } catch (...) {  // what was read is not told
      begin_again();
      throw;
    }
  }

 private:
  struct range {
    link from;
    link at;  ///< everything before is told
    link to;
    bool left = false;  ///< nothing will be added
    version next = 0;   ///< of the record at `at`, while merging
  };

  void begin_again() noexcept {
    ranges_.clear();
    seen_ = 0;
    complete_ = false;
  }

  void add(link from, link to, bool left) {
    const auto known = std::ranges::find(ranges_, from, &range::from);
    if (known == ranges_.end()) {
      ranges_.push_back({from, from, to, left});
    } else {
      known->to = std::max(known->to, to);
      known->left = known->left || left;
    }
  }

  /// Finds out which ranges there are. False if records of versions greater than `told` may be in others.
  bool refresh(version told) {
    const filled_ranges& list = core_->writers().filled();
    core_->writers().for_each_slot([this](unsigned, const writer_slot& slot) {
      const auto now = slot.filled.read();
      if (now.from != now.to) add(now.from, now.to, false);
    });
    // behind the slots: F2
    const std::uint64_t restarts = list.restarts();
    const std::uint64_t count = list.count();
    bool missed = !complete_ || restarts != restarts_;
    const std::uint64_t first = count > filled_ranges::kept ? count - filled_ranges::kept : 0;
    missed = missed || first > seen_;
    for (std::uint64_t n = std::max(first, seen_); n < count; ++n) {
      const auto one = list.read(n);
      if (!one) {
        missed = true;
      } else if (one->newest > told) {
        add(one->from, one->to, true);
      } else if (const auto known = std::ranges::find(ranges_, one->from, &range::from); known != ranges_.end()) {
        // All of it is told. But it may be of an earlier generation, and the known one lie in space that is used again:
        // then a slot tells that one, and will do so again.
        known->left = true;
      }
    }
    seen_ = count;
    restarts_ = restarts;
    complete_ = true;
    return !missed || list.forgotten() <= told;
  }

  /// Goes to the range's next record that may be a change of a version greater than `told`; false at its end.
  template <class Engine>
  [[nodiscard]] bool seek(const Engine& engine, range& r, version told) const {
    for (;; r.at = behind(engine, r.at)) {
      r.at = next_of_key(engine, r.at, r.to);
      if (r.at >= r.to) return false;
      r.next = engine.histories().stamp_of(r.at);  // 0: of a batch that never takes effect
      if (r.next > told) return true;
    }
  }

  template <class Engine>
  [[nodiscard]] whole_versions merge(const Engine& engine, version told, version up_to, std::size_t wanted) {
    whole_versions found{{}, up_to};
    std::vector<range*> heap;
    const auto later = [](const range* a, const range* b) { return a->next > b->next; };
    for (range& r : ranges_) {
      if (seek(engine, r, told)) heap.push_back(&r);
    }
    std::ranges::make_heap(heap, later);
    while (!heap.empty()) {
      const version now = heap.front()->next;
      if (now > up_to) break;
      if (found.changes.size() >= wanted) {  // all before are whole
        found.up_to = now - 1;
        break;
      }
      while (!heap.empty() && heap.front()->next == now) {
        std::ranges::pop_heap(heap, later);
        range& r = *heap.back();
        if (take(engine, r, now, found.changes)) {
          std::ranges::push_heap(heap, later);
        } else {
          heap.pop_back();
        }
      }
    }
    std::erase_if(ranges_, [](const range& r) { return r.left && r.at >= r.to; });
    sort(engine, found.changes);
    return found;
  }

  /// Takes the range's changes of one version. False at the end of the range.
  template <class Engine>
  [[nodiscard]] bool take(const Engine& engine, range& r, version now, std::vector<change_at>& out) const {
    const auto& histories = engine.histories();
    do {
      histories.persist_before_return(r.at);
      if (!changes_nothing(engine, r.at)) out.push_back({now, r.at});
      r.at = behind(engine, r.at);
      if (!seek(engine, r, now - 1)) return false;
    } while (r.next == now);
    return true;
  }

  template <class Engine>
  static void sort(const Engine& engine, std::vector<change_at>& changes) {
    struct sorted {
      version at;
      std::string_view key;
      std::uint32_t depth;
      link record;
    };
    std::vector<sorted> all;
    all.reserve(changes.size());
    for (const change_at& c : changes) {
      all.push_back({c.at, key_of_record(engine, c.record), engine.histories().at(c.record).header().depth, c.record});
    }
    std::ranges::sort(all, [](const sorted& a, const sorted& b) {
      return std::tie(a.at, a.key, a.depth) < std::tie(b.at, b.key, b.depth);
    });
    for (std::size_t i = 0; i < all.size(); ++i) changes[i] = {all[i].at, all[i].record};
  }

  const store_core* core_;
  std::vector<range> ranges_;
  std::uint64_t seen_ = 0;      // ranges of the list that were looked at
  std::uint64_t restarts_ = 0;  // of the list, then
  bool complete_ = false;       // ranges_ holds all with versions that are not told
};

}  // namespace icecore::detail

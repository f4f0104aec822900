// What every compaction does, whether somebody uses the store meanwhile or not: decides what goes, merges the young
// generation with strata into extents, and makes the manifest that names them.
//
//   class packing_alone : packing      compaction.cpp: nobody else has the store open
//   class live_packing : packing       live_compaction.cpp: threads read and write meanwhile
//
// Nothing that this makes counts before a root leads to the manifest. The numbers are those of
// docs/design/0028-freezing-and-compaction.md.
//
// Threads: one object, one thread, which starts others.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "icecore/compaction.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/pace.hpp"
#include "store/packed/compacting/plan/merge_plan.hpp"
#include "store/packed/compacting/plan/staying_values.hpp"
#include "store/packed/retention/expiry.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "stratum/merge/merge.hpp"

namespace icecore::detail {

/// errc::invalid_argument
void check(const compaction_options& how);
/// What the files take on the device, or in memory.
[[nodiscard]] std::uint64_t bytes_on_device(const pool_set& pools);

/// Records that a call has read, by all of its changes.
struct changes_before {
  bool are_any = false;
  std::uint64_t read = 0;
};
/// Of one durable change.
struct change_done {
  compaction_report report;
  changes_before all;        ///< with this one
  bool leaves_rest = false;  ///< the call is to go on with the next range of keys
};
/// What a compaction tells of its progress.
[[nodiscard]] inline progress packing_progress(std::uint64_t done, std::uint64_t total) noexcept {
  return {"packing records", done, total, "records"};
}
/// Makes the report of a call's changes that of these and the next one.
void add_further(compaction_report& to, const compaction_report& next);
/// Makes all changes of a call: change(changes_before) returns change_done.
template <class Change>
[[nodiscard]] compaction_report make_changes(Change&& change) {
  change_done last = change(changes_before{});
  compaction_report all = last.report;
  while (last.leaves_rest) {
    last = change(last.all);
    add_further(all, last.report);
  }
  return all;
}
class packing {
 public:
  packing(const packing&) = delete;
  packing& operator=(const packing&) = delete;

 protected:
  /// Versions that are closed.
  struct interval {
    version low;   ///< not in it
    version high;  ///< in it
  };
  /// Keys that one thread merges.
  struct key_part {
    std::string from{};
    std::optional<std::string> to{};
    bool has_young = true;
    std::size_t first_stratum = 0;  ///< those from this one ..
    std::size_t end_stratum = 0;    ///< .. to before this one
    std::vector<format::named_extent> made{};
  };
  using stratum_parts = std::vector<key_part>;
  struct merged {
    stratum_parts young;  ///< the stratum that has young records
    stratum_parts range;  ///< what takes the place of extents of the plan's strata
  };

  packing(store_core& core, const compaction_options& how, changes_before before);
  ~packing() = default;
  [[nodiscard]] change_done done() const {
    return {report_, {true, before_.read + read_}, report_.packed && plan_.leaves_rest()};
  }
  [[nodiscard]] std::uint64_t records_read() const noexcept { return read_; }
  /// So many records more were merged. From any thread.
  virtual void note_packed_records(std::uint64_t /*records*/) {}

  [[nodiscard]] record_totals young_totals() const;
  [[nodiscard]] std::uint64_t young_records() const;
  /// Which versions expire (A8).
  void decide();
  /// The same by compaction_together, behind decide(). `held`: as versions_in_use().
  void choose_expired(range_list held);
  void choose_strata();
  [[nodiscard]] bool is_anything_to_do() const;
  /// Reports what merging that would leave, without writing it.
  void count(interval of, pace* slow);
  /// Merges all young records of the interval and what was chosen.
  [[nodiscard]] merged merge_all(interval of, pace* slow);
  /// Makes a stratum of the young records of the interval alone; it has no parts if there are none. `slow` as
  /// merge_all().
  [[nodiscard]] stratum_parts merge_new(interval of, pace* slow);
  /// The manifest with these strata, youngest first, with `range` in its place, and those that were not chosen.
  [[nodiscard]] manifest next_manifest(const std::vector<stratum_parts>& young, const stratum_parts& range,
                                       std::uint32_t era);
  /// Of any segment: one of a compaction that a crash cut off may still be there, with an era that must not come again.
  /// No thread makes a segment meanwhile.
  [[nodiscard]] std::uint32_t greatest_era() const;
  /// A feed that stands between changes of a version counts them. Of several writes of a key in one version only the
  /// last one stays: so it tells that version from its first change again.
  void begin_versions_of_feeds_again() const;
  /// Tags are records of the young generation: they are written anew, in segments of the next era. Returns these.
  std::vector<segment_tail> write_tags();
  /// What the root says of a store that has this manifest, and of whose young generation the tags alone are left.
  void note_packed(format::root& r, const manifest& next) const;
  /// For an error once a root may lead to what was packed: neither may a write come that the next opening does not look
  /// for, nor may closing certify what was there before.
  void poison() const noexcept;

  store_core* core_;
  pool_set* pools_;
  const compaction_options* how_;
  compaction_report report_;
  merge_plan plan_;
  forgotten_keys forgotten_;
  /// Such a key was written while the store was packed: by the call that has it forgotten perhaps, as a removal, which
  /// only a merge with all strata leaves out. So the request stays for the next compaction. One thread merges what was
  /// written meanwhile.
  bool is_forgotten_key_written_ = false;
  staying_values values_;
  range_list expired_;  // versions, once this is done
  std::uint64_t newly_expired_ = 0;
  record_totals left_;  // tags
  /// From then on no progress is told: a caller's function that writes would wait for itself.
  bool are_writers_stopped_ = false;

 private:
  [[nodiscard]] bool changes_form() const;
  template <class Engine>
  [[nodiscard]] stratum_parts cut_keys(const Engine& engine, unsigned threads) const;
  template <class Engine>
  void merge_parts(const Engine& engine, const index::ordered_links& young, interval of, stratum_parts& parts,
                   pace* slow);
  template <class Engine>
  [[nodiscard]] stratum::merge_totals merge_part(const Engine& engine, const index::ordered_links& young, interval of,
                                                 const key_part& part, stratum::extent_target& target);
  [[nodiscard]] std::vector<format::named_extent> extents_of(const stratum_parts& parts) const;
  void append_unmerged(manifest& next, const stratum_parts& range, std::uint32_t stratum) const;
  void count_packed(const manifest& next, const stratum::strata& all);
  void tell_progress() const;

  changes_before before_;
  std::uint64_t total_ = 0;
  std::uint64_t read_ = 0;  // records
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace icecore::detail

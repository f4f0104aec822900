// What damage cost: which records of which keys a survey did not find, and a store of what is left.
//
//   survey found(pool, {});
//   salvage rest(pool, found);
//   for (const finding& f : rest.findings()) ...       // verify stops here
//   rest.repair_records();  ...heads...  rest.repair_histories(past);   // a private mapping becomes readable
//
// How lost records are named. A record that is intact is believed, one that is not is never. So the key of a lost
// record is told by its neighbours: the one after it links to it and counts one more in depth; of a lost newest record
// the entry's head tells, which has no checksum, but is believed only where it leads into damage. What a damaged record
// says of itself counts only where it agrees with an intact one. Where an entry is lost its key is, and all that is
// left of the history.
//
// Versions of lost records: the stamp checks itself, whatever else is damaged; else they lie between those of the
// neighbours in the history (H1) and in the segment (W2).
//
// Threads: one. Cost: O(n log n) in the records, O(n) memory; nothing but a glance at the survey if all is well.
// Invariants:
//   D1. Nothing that failed a check is ever shown as a key, a value or the absence of one.
//   D2. Where a record of a history is lost, no older one is shown in its place: a stand-in, or a flag in the entry,
//       makes every read of these versions fail.
//   D3. What is on media is not changed: stand-ins lie in memory of their own, all else in a private mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "history/history.hpp"
#include "icecore/options.hpp"
#include "pool/pool_set.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

/// One damaged place, and whether anything was lost there.
struct finding {
  damage place;  ///< its offset is a link
  bool lost = true;
};

class salvage {
 public:
  /// Analyses; changes nothing but the survey: it gets the records whose version could be told, and loses those that
  /// belong to nothing.
  salvage(const pool_set& in, record_scan& found);

  /// In the order of their places.
  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] std::vector<damage> damages() const;

  /// Sets the stamps that could be told, flags entries whose first record's version could not. Before anything reads
  /// versions. Precondition, here and below: a private mapping.
  void repair_records();
  /// Mends links and links histories around what is missing, with stand-ins in its place, which live as long as the
  /// memory returned.
  [[nodiscard]] std::unique_ptr<std::byte[]> repair_histories(rebuilt_histories& histories);

 private:
  /// Records missing between two of one history, or above the newest.
  struct hole {
    link entry;
    link above;  // null: none
    link below;
    version first;  // from here on it is not known what the key held, until the version of `above`
  };
  struct range {
    lost_range what;
    bool explained = false;    // something that lay in it is named
    bool names_batch = false;  // the record of a batch lay in it, which its records tell
  };
  using updates_of_entry = std::span<const link>;

  // salvage.cpp: from the survey to holes
  void tell_versions();
  [[nodiscard]] bool holds_batch_alone(const range& g, link batch) const noexcept;
  void take_back(const range& from, version v);
  void read_histories();
  void read_history(link entry, updates_of_entry updates);
  void name_orphans(link entry, updates_of_entry updates);
  void find_owners();
  [[nodiscard]] bool was_intact(link entry, link head, link newest) const;
  [[nodiscard]] link lost_newest(link entry, link newest, updates_of_entry updates) const;
  void add_hole(link entry, link above, link below, link lost_newest);
  [[nodiscard]] bool is_linked(link update, link below) const noexcept;

  // findings.cpp: words for them
  void name_versionless(const range& of);
  void name_lost(const hole& of, const std::vector<std::pair<link, version>>& lost, std::uint32_t unplaced);
  void name_relinked(link update);
  void name_unexplained();
  void take_over_damages();
  [[nodiscard]] std::string perhaps(link from, link to) const;
  void add_finding(link place, std::string structure, std::string what, bool lost = true,
                   std::optional<std::string> key = {}, std::optional<version> v = {});

  [[nodiscard]] record at(link l) const noexcept { return record(pool_->at(l)); }
  [[nodiscard]] std::string key_of(link entry) const { return std::string(at(entry).key()); }
  [[nodiscard]] version version_of(link l) const;
  [[nodiscard]] range* range_of(link l) noexcept;
  [[nodiscard]] const range* range_of(link l) const noexcept;
  [[nodiscard]] bool is_entry(link l) const noexcept;
  /// The version that the stamp of a damaged record tells, if it lies between the bounds.
  [[nodiscard]] std::optional<version> told_by_stamp(link l, version least, version greatest) const noexcept;

  const pool_set* pool_;
  record_scan* found_;
  std::vector<range> ranges_;                   // by place
  std::unordered_map<link, version> told_;      // of records whose own stamp does not tell it
  std::vector<link> lost_entries_;              // keys are known, the first record's version is not
  std::vector<link> entries_;                   // that are intact, ascending
  std::unordered_multimap<link, link> owners_;  // entry -> places of damaged records that say they are of it
  std::vector<hole> holes_;
  std::vector<std::pair<link, link>> relinked_;  // updates whose links are wrong, with the record before
  std::int64_t named_records_ = 0;
  std::vector<finding> findings_;
};

}  // namespace icecore::detail

// What damage cost: which records of which keys a record scan did not find, and a store made of what is left.
//
//   record_scan found(pool, {});
//   salvage saved(pool, found);
//   for (const finding& f : saved.findings()) ...       // verify stops here
//   saved.repair_records();  ...heads...  saved.repair_histories(histories);   // a private mapping becomes readable
//
// How lost records are identified. An intact record is trusted; any other record never is. So the neighbours of a lost
// record show its key: the record after it links to it and has a depth that is greater by one. If the lost
// record was the newest, the entry's head leads to it; a head has no checksum, so it is trusted only if it leads into
// damage. What a damaged record says of itself counts only if it agrees with an intact one. If an entry is lost, so are
// its key and what is left of the history.
//
// Versions of lost records: the stamp has a check of its own, whatever else is damaged. If that fails, the version lies
// between those of the neighbours in the history (H1) and in the segment (W2).
//
// Threads: one. Cost: O(n log n) in the records, O(n) memory; if nothing is damaged, a look at the parts of the record
// scan.
// Invariants:
//   D1. Nothing that failed a check is ever shown as a key, as a value or as the absence of one.
//   D2. If a record of a history is lost, no older one is shown in its place: a stand-in, or a flag in the entry, makes
//       every read of these versions fail.
//   D3. What is on media is not changed: stand-ins lie in memory of their own, everything else in a private mapping.
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
  std::optional<std::string> perhaps_of = {};  ///< the key of a lost entry, as its damaged bytes say
  version least = 0;                           ///< of the versions that what is lost may have
};

class salvage {
 public:
  /// Analyses the damage. Changes only the record scan: adds the records whose version could be inferred, and removes
  /// those that belong to nothing.
  salvage(const pool_set& in, record_scan& found);

  /// In the order of their positions.
  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] std::vector<damage> damages() const;

  /// Sets the stamps that could be inferred, and flags entries if the version of their first record could not. Call
  /// before anything reads versions. Precondition, here and below: a private mapping.
  void repair_records();
  /// Repairs links, and links histories around what is missing, with stand-ins in its place. These live as long as the
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
    bool explained = false;    // a finding names something that lay in it
    bool names_batch = false;  // the record of a batch lay in it, as the batch's records show
  };
  using updates_of_entry = std::span<const link>;

  // salvage.cpp: from the record scan to holes
  void find_versions();
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

  // findings.cpp: puts them into words
  void name_versionless(const range& of);
  void name_lost(const hole& of, const std::vector<std::pair<link, version>>& lost, std::uint32_t unplaced);
  void name_relinked(link update);
  void name_unexplained();
  void take_over_damages();
  [[nodiscard]] std::string perhaps(link from, link to) const;
  [[nodiscard]] bool is_plausible(link from, link to) const;
  void note_perhaps(link from, link to, version least);
  void add_finding(link place, std::string structure, std::string what, bool lost = true,
                   std::optional<std::string> key = {}, std::optional<version> v = {});

  [[nodiscard]] record at(link l) const noexcept { return record(pool_->at(l)); }
  [[nodiscard]] std::string key_of(link entry) const { return std::string(at(entry).key()); }
  [[nodiscard]] version version_of(link l) const;
  [[nodiscard]] range* range_of(link l) noexcept;
  [[nodiscard]] const range* range_of(link l) const noexcept;
  [[nodiscard]] bool is_entry(link l) const noexcept;
  /// The version in the stamp of a damaged record, if it lies between the bounds.
  [[nodiscard]] std::optional<version> version_by_stamp(link l, version least, version greatest) const noexcept;

  const pool_set* pool_;
  record_scan* found_;
  std::vector<range> ranges_;                   // by position
  std::unordered_map<link, version> inferred_;  // of records whose own stamp does not show it
  std::vector<link> lost_entries_;              // their keys are known, the version of the first record is not
  std::vector<link> entries_;                   // that are intact, ascending
  std::unordered_multimap<link, link> owners_;  // entry -> damaged records that claim to belong to it
  std::vector<hole> holes_;
  std::vector<std::pair<link, link>> relinked_;  // updates whose links are wrong, with the record before
  std::int64_t named_records_ = 0;
  std::vector<finding> findings_;
};

}  // namespace icecore::detail

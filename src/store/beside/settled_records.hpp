// What readers beside the writer may show: the reader's part. It finds the records of settled versions in the files
// that another process writes, and reads each of them once. It changes nothing, and asks the writer for nothing.
//
//   settled_records records(pools, manifest);
//   if (const auto now = records.settled()) {                    // empty: the writer is still opening the store
//     auto parts = records.read(*now, threads, progress);        // all records of versions up to now->version
//     ...
//     records.keep();                                            // when they are shown: they are not read again
//     auto more = records.read(*records.settled(), 1, {});       // those that were settled since
//   }
//
// Why that finds all of them, and nothing else. A segment is filled front to back, by one thread at a time, and stamps
// in it never decrease (W2). All records of settled versions were complete before the version was published (B1), and
// their segments end before the published end of their file (B2). So in each segment they are a prefix: reading stops
// at zeros, at bytes that are no complete record, at a record without a stamp, and at one of a later version, and the
// next call goes on there. A record never moves and is never changed, but for words that nothing here reads: an entry's
// head, its second version, and the mark in a stamp that says that it is durable.
// Where a segment's fill end vouches for records, bytes that are none are damage.
//
// What is not a segment of records may become one: a hole, a segment of queries that were dropped, what compactions
// have replaced and, once another process has opened the store, a segment of a persistent index. So these are looked at
// again; what the manifest names is not. Their headers are read from the file and not through the mapping: who closes
// the store may cut them off.
//
// Threads: one at a time. for_each_left() from any thread, but not during keep().
// Errors: what read() has read is read again by the next one, unless keep() was called: so nothing is missing after an
//   error.
// Cost: read() a look at each segment, and the new records.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "icecore/options.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/pool_set.hpp"
#include "store/write/record_totals.hpp"
#include "store/write/segment_source.hpp"

namespace icecore::detail {

class record_scan;

/// What a writer has published in the live page, or has left when it closed the store.
struct settled_now {
  std::uint64_t epoch;
  icecore::version version;
  std::uint32_t manifest;                             ///< number of the one that the root leads to
  bool index_stays;                                   ///< until the root leads to another one
  std::array<std::uint64_t, format::files_max> ends;  ///< by file
  /// Of a closed store: everything that is there, up to the version that was open. Empty beside a writer.
  struct content {
    std::uint64_t records;
    std::uint64_t digest;
  };
  std::optional<content> closed_with;
};

/// What one thread has read.
struct settled_part {
  std::vector<link> entries;
  std::vector<link> updates;
  std::vector<link> tags;
  record_totals totals;
};

class settled_records final : public segment_source {
 public:
  /// Of who keeps this manifest: what it names stays. Segments of records of other eras than its own do not count.
  settled_records(pool_set& in, const manifest& of);
  /// Of no era, for who only asks what there is.
  explicit settled_records(pool_set& in) noexcept : pool_(&in) {}

  /// Empty while a process is opening the store, and of a store whose writer was in another boot of this machine, or
  /// on another machine: what that one has in its memory is not here.
  [[nodiscard]] std::optional<settled_now> settled() const;
  /// What the last process that wrote the store left when it closed it. Empty while a process has the store open for
  /// writing, if the last one did not close it, and if keep() was called for this already. From the first answer on a
  /// process that opens the store for writing begins a new version: so nothing is ever added to what is told here.
  [[nodiscard]] std::optional<settled_now> closed();
  /// Whether the process that writes the store has said that it publishes nothing.
  [[nodiscard]] bool are_withheld() const;
  /// Whether no process has the store open for writing, and the last one did not close it.
  [[nodiscard]] bool are_abandoned();
  /// Whether the store is closed, but a process that is to write it has begun to open it, or has not ended yet. What
  /// was settled last is less than what the store was closed with.
  [[nodiscard]] bool are_of_closed_store();
  /// errc::damaged if a record that is certified is not there; errc::no_space if the files have outgrown the addresses
  /// that were reserved for them.
  [[nodiscard]] std::vector<settled_part> read(const settled_now& now, unsigned threads,
                                               const progress_function& on_progress);
  /// Instead of read(), of a closed store that was read in another way.
  [[nodiscard]] std::vector<settled_part> take_over(const settled_now& now, const record_scan& scan);
  /// Instead of read(): the segments of records that there are now, from their first record on. Each record of a
  /// settled version lies in one of them, unless a header is damaged.
  [[nodiscard]] const std::vector<segment_tail>& find(const settled_now& now);
  /// Behind find(): whether one lies in bytes that are no segment, which a damaged header hides; and where.
  [[nodiscard]] std::vector<link> hidden_records(version settled) const;
  /// The next read() begins behind what the last one read.
  void keep() noexcept { std::swap(kept_, now_); }

  // ---- As the source of segments of a store that writes none ----
  [[noreturn]] segment_tail change(unsigned writer, const segment_tail& remaining, const record_totals& since_opening,
                                   version newest, std::uint64_t bytes, std::uint16_t in) override;
  /// With the end of what was read, and kept, in each.
  void for_each_left(const std::function<void(const segment_tail&)>& visit) const override {
    for (const segment_tail& place : kept_.places) visit(place);
  }

 private:
  enum class use : std::uint8_t { unknown, stays, other };
  struct area {
    link from;
    link to;
    use by;
  };
  struct progress_of_reading {
    std::uint64_t epoch = 0;
    bool all_of_epoch = false;  ///< the store was closed
    std::vector<segment_tail> places;
    std::vector<area> others;  ///< what is no segment of records, by place
    std::array<std::uint64_t, format::files_max> looked_up_to{};
  };

  void find_segments(const settled_now& now);
  void look_at(link from, link to, bool index_stays, std::vector<area>& others);
  void read_segment(segment_tail& place, version up_to, settled_part& into) const;
  void take(link at, version v, settled_part& into) const;
  [[noreturn]] void raise_missing(link at) const;

  pool_set* pool_;
  std::uint32_t era_ = 0;
  std::vector<link> named_;  ///< segments that the manifest names, ascending
  progress_of_reading kept_;
  progress_of_reading now_;  // of the last read()
};

}  // namespace icecore::detail

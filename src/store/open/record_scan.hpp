// Reads all pools front to back and finds which records there are, which of them count, and what is damaged. Recovery
// builds the store from the result; verify reports it. The scan changes nothing.
//
//   record_scan found(pool, {.threads = 2});
//   if (!found.damages().empty()) ...
//   for (const auto& part : found.parts()) for (link entry : part.entries) ...
//
// What counts (S3 in core.hpp). A record is certified if it lies before its segment's fill end or is stamped <= the
// root's durable version. All certified records must be there and add up to the certificate. Beyond them a session may
// have left more:
//   - closed cleanly: nothing;
//   - its memory survived (only the process died), or it persisted each operation: all intact, stamped records count;
//   - the machine stopped under durability `tag` or `none`: nothing counts, the store goes back to its durable point;
//   - it is not known which of the two happened: nothing counts, and opening fails if any might (refuse_unknown_crash).
// In each segment what counts is a prefix (W2): the scan reads until zeros, an unstamped record, a record that does not
// count, or bytes that are no record. Such bytes are an interrupted write if no record behind them counts, and damage
// otherwise. Behind damage the scan continues at the next record that counts. In a segment whose header is damaged it
// uses the generation that fits the records. So it finds everything intact, and salvage.hpp infers what was lost.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "history/history.hpp"
#include "icecore/options.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/pool_set.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

struct record_scan_options {
  unsigned threads = 1;
  /// Check large certified values too (verify); otherwise they are checked when first read.
  bool large_values = false;
  /// Where no header is that the manifest's segment needs, goes on: all of it is the segment (options::accept_damage).
  bool accept_damage = false;
  /// What ended the last session, if nothing else shows it (options::crash).
  icecore::crash_kind crash = crash_kind::unknown;
  progress_function on_progress;
};

/// Whether a record with a correct checksum lies at `at` in segment `s`, where a record can lie.
[[nodiscard]] bool is_intact_record(const pool_set& in, const segment& s, link at) noexcept;

/// Bytes that hold records that count and cannot be read, or can be read except for their version.
struct lost_range {
  link from;
  link to;                         ///< 0 while unknown
  link record;                     ///< where the first record seems to begin: at `from`, or behind zeros
  std::string what;                ///< what is wrong, in words
  bool versionless = false;        ///< a single record, intact but for its stamp
  bool maybe_empty = false;        ///< nothing shows that anything was there,
  bool harmless = false;           ///< and then nothing is wrong with it
  version least = 0;               ///< W2: the smallest version that it can hold,
  version greatest = version_max;  ///< and the greatest
};

/// What one thread found.
struct record_scan_part {
  std::vector<link> entries;
  std::vector<link> updates;
  std::vector<link> tags;
  std::vector<link> checked_values;  ///< large values that were checked
  std::vector<damage> damages;
  std::vector<lost_range> lost;
  record_totals totals;  ///< of all that counts
  record_totals certified;
  version newest = 0;            ///< the greatest stamp
  version newest_tag = 0;        ///< the greatest stamp of a tag
  std::uint64_t bytes = 0;       ///< that were checksummed
  std::uint64_t superseded = 0;  ///< superseded_bytes() of the records that check_chains() found to be replaced
  std::uint64_t undecided = 0;   ///< segments with a record that counts only if the process alone died
};

class record_scan {
 public:
  /// Reads a store that is not open yet. If a power cut came during the sync of a joint certificate, the store goes
  /// back to the root before: then from now on that is the newest one of `in`.
  [[nodiscard]] static record_scan of_unopened(const pool_set& in, const record_scan_options& how);
  /// Reads a store that is not open yet, and compares it with the certificate of its root.
  record_scan(const pool_set& in, const record_scan_options& how);
  /// Reads an open store up to the fill end of each segment; writers may be at work beyond these. Its root certifies
  /// less than is there. `packed`: the manifest of the generation whose segments these are.
  record_scan(const pool_set& in, const record_scan_options& how, std::vector<segment_tail> filled, manifest packed);
  /// Reads a store that another process writes: in these segments the records of versions up to `settled`, and those
  /// that fill ends vouch for. What lies behind them is the writer's.
  record_scan(const pool_set& in, const record_scan_options& how, const std::vector<segment_tail>& segments,
              manifest packed, version settled);

  [[nodiscard]] const std::vector<record_scan_part>& parts() const noexcept { return parts_; }
  /// For salvage, which adds records whose version it can infer and removes those that belong to nothing.
  [[nodiscard]] std::vector<record_scan_part>& parts() noexcept { return parts_; }
  /// Each segment with the end of what counts in it.
  [[nodiscard]] const std::vector<segment_tail>& segments() const noexcept { return segments_; }
  /// Granules that belong to no segment. They may hold leftovers of an interrupted session.
  [[nodiscard]] const std::vector<segment>& holes() const noexcept { return holes_; }
  /// The segments of a persistent index: they hold no records.
  [[nodiscard]] const std::vector<segment>& index_segments() const noexcept { return index_segments_; }
  /// The segments of kept queries: they hold no records.
  [[nodiscard]] const std::vector<segment>& query_segments() const noexcept { return query_segments_; }
  /// Those that the manifest names, its own, and requests to forget: they hold no records.
  [[nodiscard]] const std::vector<segment>& packed_segments() const noexcept { return packed_segments_; }
  /// Segments that are free space: zeros behind their headers.
  [[nodiscard]] const std::vector<segment>& free_segments() const noexcept { return free_segments_; }
  /// Segments of whatever kind that are part of the store no more: a manifest says so, or no manifest names them.
  [[nodiscard]] const std::vector<segment>& outdated_segments() const noexcept { return outdated_segments_; }
  /// To which the lists of queries lead, but whose headers are damaged.
  [[nodiscard]] const std::vector<segment>& damaged_query_segments() const noexcept { return damaged_query_segments_; }
  /// The end of the last segment in that file.
  [[nodiscard]] link used_end(std::uint16_t number) const noexcept { return of_pools_[number].used_end; }
  /// The damage found. Its offsets are links.
  [[nodiscard]] std::vector<damage> damages() const;
  /// errc::damaged, naming the first damage, if there is any.
  void refuse_damaged() const;
  /// errc::crash_unknown if it depends on what ended the last session whether some records count, and that is not
  /// known.
  void refuse_unknown_crash() const;
  [[nodiscard]] record_totals totals() const;
  /// Of those that the root certifies.
  [[nodiscard]] record_totals certified() const;
  /// Of all parts; what they take that are part of the store no more.
  [[nodiscard]] std::uint64_t superseded_bytes() const noexcept;
  [[nodiscard]] std::uint64_t outdated_bytes() const noexcept;
  [[nodiscard]] version newest() const;
  /// The number of records that the root certifies and that are missing. Negative if there are more than it certifies.
  [[nodiscard]] std::int64_t missing_records() const noexcept { return missing_records_; }
  [[nodiscard]] version newest_tag() const;
  /// Whether the last writer died with the store open.
  [[nodiscard]] bool crashed() const noexcept { return is_ == store_is::crashed; }
  /// Whether everything acknowledged counts, even if the last root does not say that it is durable.
  [[nodiscard]] bool keeps_all() const noexcept { return keep_all_; }
  /// Whether this is still the same boot of the machine: then the clock in memory counts.
  [[nodiscard]] bool same_boot() const noexcept { return same_boot_; }
  /// Whether the process alone died, as the boot or the user says, or the session was closed: then everything it wrote
  /// is there.
  [[nodiscard]] bool memory_survived() const noexcept { return ended_by_ == crash_kind::process; }

  /// Whether a record that counts begins at `l`, which may be a wrong link from media. Call when everything has been
  /// read.
  [[nodiscard]] bool begins(link l) const noexcept;
  /// Fetches what begins() reads, for a caller that asks later. `l` may be wrong, too.
  void prefetch_begins(link l) const noexcept {
    const of_pool& o = pool_of(l);
    if (link_offset(l) < o.size) __builtin_prefetch(&o.begins[link_offset(l) / bits_unit]);
  }
  /// Whether a record with a correct checksum starts at `l`, whether it counts or not.
  [[nodiscard]] bool is_intact_record(link l) const noexcept;
  /// The version of the intact record at this position; 0 if it has not taken effect (it is unstamped, or its batch was
  /// never completed); empty if its stamp is damaged.
  [[nodiscard]] std::optional<version> version_of(link at) const noexcept {
    const version v = readable_version(at);
    return v == unreadable ? std::nullopt : std::optional(v);
  }

  /// Checks that each update's older record is there and fits, and that no other update follows that record: then
  /// histories are chains, each from its newest record to its entry. Appends what is wrong to the parts' damages.
  void check_chains();

 private:
  struct reading;  // one segment being read
  [[nodiscard]] static std::uint64_t load_stamp(record r) noexcept {
    // acquire: verify reads beside writers; a stamped record is intact
    return r.header().stamp.load(std::memory_order_acquire);
  }
  /// In place of an optional, which compilers put into memory: the scan is 4 % faster.
  static constexpr version unreadable = ~version{0};
  [[nodiscard, gnu::always_inline]] version readable_version(link at) const noexcept {
    const record r(pool_->at(at));
    const std::uint64_t own = load_stamp(r);
    const std::uint64_t unmarked = own & ~format::stamp_persisted;
    if (unmarked != 0 && !pool_->codec().valid(own, at + format::stamp_offset)) return unreadable;
    if (!r.batched()) [[likely]]
      return unmarked & format::stamp_version_mask;
    return version_in_batch(r, unmarked);
  }
  [[nodiscard]] version version_in_batch(record r, std::uint64_t unmarked) const noexcept;
  enum class store_is : std::uint8_t { closed, crashed, open, written_elsewhere };

  record_scan(const pool_set& in, const record_scan_options& how, store_is is, manifest packed);
  void find_segments_in(const pool& p);
  enum class segment_kind : std::uint8_t { none, records, index, queries, packed, free, outdated };
  /// What the segment at `at` is; none if no valid header is there.
  [[nodiscard]] segment_kind kind_of(link at, link end) const noexcept;
  void note(const segment& s, segment_kind kind);
  [[nodiscard]] std::uint64_t size_of_damaged_query_segment(link at);
  void note_missing_files();
  void find_headerless(link from, link end);
  void drop_leftovers();
  [[nodiscard]] std::optional<std::uint32_t> generation_in(link from, link end) const noexcept;
  void map_granules();
  template <typename Begin>
  void read_segments(Begin begin);
  [[nodiscard]] reading by_header(const segment& s, record_scan_part& into) const;
  void read_records(reading& r) const;
  void read_behind_fills();
  bool read_record(reading& r) const;
  [[nodiscard]] bool hides_a_record(const reading& r, link start, version v) const noexcept;
  bool pass_damage(reading& r, lost_range range) const;
  bool pass_zeros(reading& r) const;
  void take(reading& r, link start, version v) const;
  [[nodiscard]] version own_version(link at) const noexcept;
  [[nodiscard]] bool counts(const reading& r, link start, version v) const noexcept;
  [[nodiscard]] std::optional<link> next_counted(const reading& r, link from) const noexcept;
  [[nodiscard]] bool is_of_abandoned_batch(link at) const noexcept;
  [[nodiscard]] bool has_undecided(const reading& r) const noexcept;
  template <typename Wanted>
  [[nodiscard]] std::optional<link> next_record(const reading& r, link from, Wanted wanted) const noexcept;
  [[nodiscard]] bool intact_record(const segment& s, link at) const noexcept {
    return detail::is_intact_record(*pool_, s, at);
  }
  [[nodiscard]] std::string what_is_wrong(link at) const;
  [[nodiscard]] const segment_tail* place_containing(link at) const noexcept;
  void check_certificate();
  void check_end(const pool& p);
  void check_tags();
  void check_chain(link update, record_scan_part& into);
  void prefetch_followed(link l) const noexcept;
  [[nodiscard]] bool follow(link older) noexcept;
  static void report(record_scan_part& into, link at, const char* structure, std::string what);
  void name_damages(record_scan_part& part) const;

  struct free_memory {
    void operator()(std::uint64_t* at) const noexcept { std::free(at); }
  };
  /// A bit for each 8 bytes of a pool. It comes from calloc, so it takes memory only where segments are.
  using bits = std::unique_ptr<std::uint64_t[], free_memory>;
  static constexpr std::uint64_t bits_unit = 8 * 64;
  [[nodiscard]] static bits bits_of(std::uint64_t size);
  /// Tables that are indexed by position.
  struct of_pool {
    bits begins{};                                    ///< where a record that counts begins
    bits followed{};                                  ///< records that an update follows; while chains are checked
    std::uint64_t size = 0;                           ///< 0 if it is missing
    std::vector<std::uint32_t> segment_of_granule{};  ///< index into segments_ + 1
    link used_end = 0;
  };
  std::array<of_pool, format::files_max> of_pools_;
  /// Accepts any link: one whose number no file can have leads to an empty pool.
  [[nodiscard]] const of_pool& pool_of(link l) const noexcept {
    static const of_pool none;
    return link_pool(l) < of_pools_.size() ? of_pools_[link_pool(l)] : none;
  }

  const pool_set* pool_;
  record_scan_options how_;
  store_is is_;
  format::root root_;
  manifest packed_;
  version counted_up_to_;  // whatever fill ends say
  bool same_boot_ = false;
  crash_kind ended_by_ = crash_kind::process;  // what ended the last session, if it was not closed
  bool keep_all_ = false;
  bool ordered_ = false;  // a segment's header is on media before its records (P3)
  std::vector<segment_tail> segments_;
  std::vector<link> headerless_;  // starts of those whose header is damaged
  std::vector<segment> holes_;
  std::vector<segment> index_segments_;
  std::vector<segment> query_segments_;
  std::vector<segment> packed_segments_;  // and those of the manifest and of keys to forget
  std::vector<segment> free_segments_;
  std::vector<segment> outdated_segments_;
  std::vector<segment> damaged_query_segments_;
  std::optional<std::vector<segment>> listed_;  // to which the queries' lists lead
  bool fills_unverified_ = false;               // fewer records were found than a clean close has certified
  std::int64_t missing_records_ = 0;
  std::vector<record_scan_part> parts_;
};

}  // namespace icecore::detail

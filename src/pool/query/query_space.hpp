// The space of kept queries: which segments belong to which query, which are free, and the list of all queries.
//
//   query_space space(pools, lock);
//   link head = space.add(bytes, [&](format::query_head& made) { ...fill...; });    // durable when it returns
//   segment more = space.take(head, 0, thread);                                     // for chunks of this query
//   const recovering_lock lock = space.hold();
//   space.free_dropped(is_used);                                   // segments of queries that were dropped are free
//
// The anchor leads to the newest query's head segment, each head to the one before it. Each head leads, by size class,
// to the query's newest segment, and each segment's header to the one before; the head segment itself is the last of
// its list. Free segments are in one list for each size class.
//
// Threads: add(), take() and unfinished steps from any thread of any process that shares the store: they hold the lock;
//   who calls free_dropped() or clear_free_space() holds it. heads() may run beside them: a list that changes meanwhile
//   may be told as damaged, or end too early. rebuild() runs alone.
// Errors: errc::no_space leaves everything as it was. Words that fail their check are errc::damaged.
// Invariants:
//   Q1. On media that are flushed by lines, each step below is durable before the next begins. So after a crash at most
//       one step is half done, finish() completes it, and no segment is lost or in two lists.
//   Q2. Sessions that sync let steps reach the device in any order: also a link without the header of the segment to
//       which it leads, where no other segment of queries is there. So after a crash there rebuild() makes all lists
//       anew, before any space is given out: each segment's header names its owner. Where that name is damaged, the
//       segment's first chunk tells whose it is (Q4 in chunk.hpp).
//   Q3. A segment counts as taken by a query only if its header is valid and it lies below the end of the file's used
//       part. The header is written before that end moves.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pool/pool_set.hpp"
#include "pool/query/query_format.hpp"
#include "pool/query/query_lock.hpp"

namespace icecore {

struct new_query {
  std::uint32_t parts;
  std::span<const std::byte> definition;
  std::uint64_t keys_expected = 0;
  std::uint64_t bytes_behind = 0;                ///< room behind the definition
  std::function<void(link head)> complete = {};  ///< writes more into its head segment before anyone finds it
  /// Called under the lock, before anything is changed: what it throws leaves everything as it was.
  std::function<void()> require = {};
};

class query_space {
 public:
  query_space(pool_set& in, query_lock& lock) noexcept : pool_(&in), lock_(&lock) {}

  // ---- Reading ----
  /// Whether the store ever kept a query.
  [[nodiscard]] bool ever_used() const noexcept;
  /// The head segments, newest query first. `damaged` is called with what is wrong where the list cannot be followed.
  [[nodiscard]] std::vector<link> heads(const std::function<void(link at, std::string what)>& damaged) const;
  [[nodiscard]] format::query_head& head_at(link segment) const noexcept {
    return *reinterpret_cast<format::query_head*>(pool_->at(segment + sizeof(format::segment_header)));
  }
  [[nodiscard]] static constexpr std::uint64_t capacity_of(unsigned size_class) noexcept {
    return format::query_segment_sizes[size_class] - sizeof(format::segment_header);
  }
  /// The bytes of a query's definition; empty if they, or what says where they are, fail their checksum.
  [[nodiscard]] std::optional<std::span<const std::byte>> definition_of(link head) const noexcept;
  /// Whether the head segment says that it is a hold's; it may be damaged.
  [[nodiscard]] bool is_hold(link head) const noexcept;
  /// The greatest definition, with its head and part lines.
  [[nodiscard]] static constexpr std::uint64_t head_capacity() noexcept {
    return capacity_of(format::query_size_classes - 1);
  }
  /// Bytes of segments of queries, word by word, since others may change some meanwhile. What lies in a hole is zero,
  /// and not read: see pool::next_data().
  [[nodiscard]] std::vector<std::byte> copied(link from, link end) const;
  [[nodiscard]] pool_set& pools() const noexcept { return *pool_; }

  // ---- Changing ----
  /// A new query, feed or hold, with an id of its own. Durable when it returns. errc::query_exists if one of its kind
  /// has its name, in whatever process it was made.
  link add(const new_query& what);
  /// A segment of a size class for the query's chunks; `near` chooses the file. Its old content, if it had one, is
  /// still there, and fails every checksum: its reuse count is a new one.
  [[nodiscard]] segment take(link head, unsigned size_class, unsigned near);
  /// Takes queries whose phase is `dropped` off the list and frees their segments, but for those that are used: nobody
  /// reads or writes in the others. Returns whether none is left. Call it under hold().
  bool free_dropped(const std::function<bool(link head)>& is_used);
  /// Leaves zeros in the free segments, durably: what dropped queries held is in no file then. Call it under hold().
  void clear_free_space();
  /// From now on, or no longer: see query_lock. Call it under hold().
  void clear_what_is_used_again(bool whether) noexcept { lock_->clears_segments = whether; }
  /// The same with what lies behind the definition of a hold: its segment may have been one of a query before. One that
  /// is damaged keeps what says that it is a hold.
  void clear_behind_definition(link hold);
  /// Completes what a crash left half done, a drop() too if it had begun to free segments.
  void finish() {
    const recovering_lock lock = hold();
    finish_claims();
  }
  /// Makes all lists anew from the segments that are there (Q2); frees those that belong to no query, if all queries
  /// can be found.
  void rebuild(std::span<const segment> all);

  /// The lock that processes share, for changes of heads. What a killed holder left half done is completed first.
  [[nodiscard]] recovering_lock hold() {
    return {lock_->lock, [this] { finish_claims(); }};
  }

  // ---- Words ----
  /// The number in a checked word of the pool; empty if it fails its check. Zero is zero.
  [[nodiscard]] std::optional<std::uint64_t> read(const std::atomic<std::uint64_t>& word) const noexcept;
  [[nodiscard]] std::optional<link> read_link(const std::atomic<std::uint64_t>& word) const noexcept;
  /// Stores it and starts its flush.
  void write(std::atomic<std::uint64_t>& word, std::uint64_t number) const noexcept;
  void write_link(std::atomic<std::uint64_t>& word, link l) const noexcept;
  /// The first half of the id of the query that took a segment. No checksum covers it: see rebuild().
  [[nodiscard]] std::uint64_t owner_of(link segment_at) const noexcept;
  /// Which query it is that has its head here: places are used again. Where the state was found by read() before, it is
  /// that query's, or one's that came later.
  [[nodiscard]] std::array<std::uint64_t, 2> id_at(link head) const noexcept;
  /// Where a structure of the pool lies.
  [[nodiscard]] link place_of(const void* at) const noexcept;

 private:
  [[nodiscard]] format::query_anchor& anchor() const noexcept {
    return *reinterpret_cast<format::query_anchor*>(pool_->first().base() + format::query_anchor_offset);
  }
  [[nodiscard]] link require_link(const std::atomic<std::uint64_t>& word) const;
  [[nodiscard]] link next_of(link segment_at) const;
  void set_next(link segment_at, link next) const noexcept;
  void set_owner(link segment_at, std::uint64_t owner) const noexcept;
  /// What was flushed so far is durable before what follows, where lines are flushed (Q1).
  void order() const noexcept { pool_->persist().fence(); }
  void step(std::atomic<std::uint64_t>& word, link l) const noexcept {
    write_link(word, l);
    order();
  }
  void require_free_name(std::span<const std::byte> definition) const;
  [[nodiscard]] bool is_in_use(link segment_at) const noexcept;
  [[nodiscard]] unsigned class_at(link segment_at) const;
  [[nodiscard]] segment obtain(std::atomic<std::uint64_t>& claim, std::uint64_t owner, unsigned size_class,
                               std::uint16_t in) const;
  [[nodiscard]] bool has_blocks(link at, std::uint64_t size) const;
  void clear_head(link at, std::array<std::uint64_t, 2> id, std::uint64_t bytes) const noexcept;
  [[nodiscard]] segment give_header(link at, std::uint64_t size, std::uint64_t owner) const;
  [[nodiscard]] std::pair<link, link> first_of_free(unsigned size_class) const;
  void finish_claims() const;
  void finish_claim(std::atomic<std::uint64_t>& claim, const format::query_head* of) const;
  [[nodiscard]] bool is_partly_freed(link head) const;
  void free_all_of(link head) const;
  void free_segments(const format::query_head& of) const;
  void take_off_list(link head) const;
  [[nodiscard]] link user_of(const segment& in, std::span<const link> queries) const;

  pool_set* pool_;
  query_lock* lock_;
};

/// What begins the definitions of all layouts.
struct query_title {
  std::string_view name;  ///< a view into the definition
  std::uint64_t version;
  format::query_kind kind;
};
[[nodiscard]] query_title title_of(std::span<const std::byte> definition) noexcept;

inline constexpr std::uint32_t query_parts_max = 512;

/// The segments to which the lists of queries and of free segments lead, also those whose headers are damaged: at least
/// as far as the links that say so are intact.
[[nodiscard]] std::vector<segment> listed_query_segments(const pool_set& pools);

/// The size class of segments in which `bytes` fit; empty if none is large enough.
[[nodiscard]] std::optional<unsigned> query_size_class(std::uint64_t bytes) noexcept;

}  // namespace icecore

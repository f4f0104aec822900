// One version of a cluster: finds, and all its keys in order, from all ranks.
//
//   icecore::cluster_snapshot then = c.at("hour-1");
//   for (const auto& [key, value] : then.range("a", "m")) ...
//
// Threads: a snapshot is a value of two words; copy it freely. Any number of threads may read it if any number may use
//   the cluster. One thread at a time may use a cursor or range.
// Collective: extract, stream and find_by_broadcast; every rank calls them, one thread of each. Any rank alone may call
//   all else.
// Lifetime: valid while the cluster is open. The item of a cursor is valid until the cursor moves.
// Cost: a cursor merges the items of the owners: O(log ranks) an item. It reads its own rank's store and those of the
//   storage group in mapped memory. From others it fetches blocks: the first has 512 bytes, each later one twice as
//   many, up to 256 KiB, and it requests a block while the one before is read. Owners that hold ranges are asked one
//   after the other. A seek of a key that is there asks only its owner until the cursor moves on (not with ownership by
//   a function).
// Source: IPDPS 2022, section IV-A: each rank's pairs in order, merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/cluster_extraction.hpp"
#include "icecore/filtered.hpp"
#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class cluster_core;
class merge;
}  // namespace mpi

/// One record of a key's history, copied.
struct versioned_value {
  icecore::version version;
  std::optional<std::string> value;  ///< empty: the key was removed
  friend bool operator==(const versioned_value&, const versioned_value&) = default;
};

/// A position among the keys of one version between bounds; moves both ways. A change of direction costs a seek.
class cluster_cursor {
 public:
  /// Has no position yet: seek first.
  cluster_cursor(const mpi::cluster_core& core, icecore::version at, key_bounds bounds);
  ~cluster_cursor();
  cluster_cursor(cluster_cursor&&) noexcept;
  cluster_cursor& operator=(cluster_cursor&&) noexcept;

  // All within the bounds. A seek asks every owner (if owners hold ranges: as many as it takes to find an item).
  void seek_first();                       ///< to the first key
  void seek_last();                        ///< to the last key
  void seek(std::string_view key);         ///< to the first key >= `key`
  void seek_after(std::string_view key);   ///< to the first key > `key`
  void seek_before(std::string_view key);  ///< to the last key < `key`

  [[nodiscard]] bool valid() const noexcept { return valid_; }
  explicit operator bool() const noexcept { return valid_; }

  /// The current item. Precondition: valid().
  [[nodiscard]] const item& operator*() const noexcept { return current_; }
  [[nodiscard]] const item* operator->() const noexcept { return &current_; }

  /// Moves by one; past an end the cursor becomes invalid. Precondition: valid().
  void next();
  void previous();

 private:
  template <typename Move>
  void move(Move&& how);
  void step(bool backward);

  const mpi::cluster_core* core_;
  icecore::version at_;
  key_bounds bounds_;
  std::unique_ptr<mpi::merge> merge_;
  bool valid_ = false;
  item current_{};
};

/// The items of a version between bounds, in order: a C++ input range.
class cluster_range : public std::ranges::view_interface<cluster_range> {
 public:
  using iterator = range_iterator<cluster_range, item>;

  explicit cluster_range(cluster_cursor cursor) noexcept : cursor_(std::move(cursor)) {}

  /// Starts (again) at the first item.
  [[nodiscard]] iterator begin() {
    cursor_.seek_first();
    return iterator(this);
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend iterator;
  void step() { cursor_.next(); }
  [[nodiscard]] bool at_end() const noexcept { return !cursor_.valid(); }
  [[nodiscard]] const item& current() const noexcept { return *cursor_; }

  cluster_cursor cursor_;
};

/// As icecore::page, with copies.
struct cluster_page {
  std::vector<std::pair<std::string, std::string>> items;  ///< keys and values
  std::string token;
  std::uint64_t examined = 0;
  bool end = false;
};

class cluster_snapshot {
 public:
  cluster_snapshot(const mpi::cluster_core& core, icecore::version at) noexcept : core_(&core), at_(at) {}

  [[nodiscard]] icecore::version version() const noexcept { return at_; }

  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const;
  /// Answer i belongs to keys[i]. Asks all owners at once, each in one message.
  [[nodiscard]] std::vector<std::optional<std::string>> find_many(std::span<const std::string_view> keys) const;

  /// A cursor without a position: seek first.
  [[nodiscard]] cluster_cursor cursor(key_bounds bounds = {}) const { return {*core_, at_, std::move(bounds)}; }

  [[nodiscard]] cluster_range range() const { return range(key_bounds{}); }
  [[nodiscard]] cluster_range range(std::string_view from, std::string_view to) const {
    return range(key_bounds{std::string(from), std::string(to)});
  }
  [[nodiscard]] cluster_range range(key_bounds bounds) const { return cluster_range(cursor(std::move(bounds))); }
  [[nodiscard]] cluster_range prefix(std::string_view prefix) const { return range(key_bounds::of_prefix(prefix)); }

  /// The number of keys present in this version. Every owner counts its own: O(keys of the largest store).
  [[nodiscard]] std::uint64_t size() const;
  /// The number of matches. Every owner evaluates the filter for its own keys. A filter that calls functions of the
  /// caller can be evaluated where the keys are reached directly; errc::unknown_function elsewhere.
  [[nodiscard]] std::uint64_t count(const filter& condition) const;
  /// The next matches behind the token's place: rank by rank (with `reverse` from the last to the first), in key order
  /// within each; in key order at all if owners hold ranges. The owner evaluates the filter, as for count(). Tokens are
  /// as those of snapshot::page, with 4 bytes more.
  [[nodiscard]] cluster_page page(const filter& condition, const page_limits& limits = {},
                                  std::string_view token = {}) const;

  // ---- Collective: every rank calls these, with the same arguments -------------------------------------------------

  /// Returns all pairs between the bounds, at the root; none elsewhere, unless the method is `distributed`. Errors, the
  /// same on all ranks: errc::invalid_argument if the root is not a rank, the bounds are out of order, the arguments
  /// differ between ranks, concatenate is used and owners do not hold ranges, or a rank needs more than
  /// memory_bytes_max; errc::damaged; std::bad_alloc.
  [[nodiscard]] extracted_pairs extract(extraction_method method, const extraction_options& how = {}) const;
  /// Calls `sink` at the root with all pairs between the bounds in order, some at a time. No rank holds more than two
  /// blocks of 64 KiB (or of one pair) for each rank it communicates with. An exception of `sink` ends the stream on
  /// all ranks. `sink` may call the cluster, but nothing collective. Errors as extract; the sink may have got some
  /// pairs before.
  void stream(const extraction_sink& sink, const extraction_options& how = {}) const;
  /// find() as in the paper: the root's question is sent to all ranks, and their answers are reduced to one. Returns
  /// the answer at the root; empty elsewhere. The keys that other ranks pass are ignored. O(log ranks) messages one
  /// after the other, where find() needs two.
  [[nodiscard]] std::optional<std::string> find_by_broadcast(std::string_view key, int root = 0) const;

 private:
  const mpi::cluster_core* core_;
  icecore::version at_;
};

}  // namespace icecore

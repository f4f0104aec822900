// One version of a cluster: finds, and all its keys in order, from whichever rank holds them.
//
//   icecore::cluster_snapshot then = c.at("hour-1");
//   for (const auto& [key, value] : then.range("a", "m")) ...
//
// Threads: a snapshot is a value of two words; copy it freely, read it from any number of threads if the cluster can
// be.
//   A cursor or range belongs to one thread at a time.
// Collective: extract, stream and find_by_broadcast; every rank calls them, one thread of each. All else is called by
//   any rank alone.
// Lifetime: valid while the cluster is open. What a cursor shows is valid until it moves.
// Cost: a cursor merges what the owners have: O(log ranks) an item. Of the own store and those of the storage group it
//   reads them where they are mapped. Of others it fetches blocks: one of 512 bytes first, each next one twice as long,
//   up to 256 KiB, asked for while the one before is read. Of owners that hold ranges it asks one after the other. A
//   seek of a key that is there asks its owner alone, until the cursor goes on (not with ownership by a function).
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
#include <vector>

#include "icecore/cluster_extraction.hpp"
#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class cluster_core;
class merge;
}  // namespace mpi

/// One record of a key's history, copied.
struct past_value {
  icecore::version version;
  std::optional<std::string> value;  ///< empty: the key was removed
  friend bool operator==(const past_value&, const past_value&) = default;
};

/// A place among the keys of one version between bounds; moves both ways. Turning round costs a seek.
class cluster_cursor {
 public:
  /// Nowhere yet: seek first.
  cluster_cursor(const mpi::cluster_core& core, icecore::version at, key_bounds bounds);
  ~cluster_cursor();
  cluster_cursor(cluster_cursor&&) noexcept;
  cluster_cursor& operator=(cluster_cursor&&) noexcept;

  // All between the bounds. A seek asks every owner (of ranges: those it takes to find an item).
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

  /// One step; past an end the cursor becomes invalid. Precondition: valid().
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
  class iterator {
   public:
    using value_type = item;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit iterator(cluster_range* range) noexcept : range_(range) {}
    [[nodiscard]] const item& operator*() const noexcept { return *range_->cursor_; }
    [[nodiscard]] const item* operator->() const noexcept { return range_->cursor_.operator->(); }
    iterator& operator++() {
      range_->cursor_.next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.at_end(); }

   private:
    [[nodiscard]] bool at_end() const noexcept { return !range_->cursor_.valid(); }

    cluster_range* range_;
  };

  explicit cluster_range(cluster_cursor cursor) noexcept : cursor_(std::move(cursor)) {}

  /// Starts (again) at the first item.
  [[nodiscard]] iterator begin() {
    cursor_.seek_first();
    return iterator(this);
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  cluster_cursor cursor_;
};

class cluster_snapshot {
 public:
  cluster_snapshot(const mpi::cluster_core& core, icecore::version at) noexcept : core_(&core), at_(at) {}

  [[nodiscard]] icecore::version version() const noexcept { return at_; }

  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const;
  /// Answer i belongs to keys[i]. All owners are asked at once, each in one message.
  [[nodiscard]] std::vector<std::optional<std::string>> find_many(std::span<const std::string_view> keys) const;

  /// A cursor that is not yet anywhere: seek it.
  [[nodiscard]] cluster_cursor cursor(key_bounds bounds = {}) const { return {*core_, at_, std::move(bounds)}; }

  [[nodiscard]] cluster_range range() const { return range(key_bounds{}); }
  [[nodiscard]] cluster_range range(std::string_view from, std::string_view to) const {
    return range(key_bounds{std::string(from), std::string(to)});
  }
  [[nodiscard]] cluster_range range(key_bounds bounds) const { return cluster_range(cursor(std::move(bounds))); }
  [[nodiscard]] cluster_range prefix(std::string_view prefix) const { return range(key_bounds::of_prefix(prefix)); }

  /// Keys present in this version. Every owner counts its own: O(keys of the largest store).
  [[nodiscard]] std::uint64_t size() const;

  // ---- Collective: every rank calls these, with the same arguments -------------------------------------------------

  /// All pairs between the bounds, at the root; elsewhere none, unless the method is `distributed`. Errors, on all
  /// ranks alike: errc::invalid_argument for a root that is no rank, bounds out of order, arguments that differ from
  /// rank to rank, concatenate where owners hold no ranges, and a rank that needs more than memory_bytes_max;
  /// errc::damaged; std::bad_alloc.
  [[nodiscard]] extracted_pairs extract(extraction_method method, const extraction_options& how = {}) const;
  /// Calls `sink` at the root with all pairs between the bounds in order, some at a time. No rank holds more than two
  /// blocks of 64 KiB (or of one pair) for each rank it deals with. What `sink` throws ends the stream on all ranks; it
  /// may call the cluster, but nothing collective. Errors as extract; the sink may have got some pairs before.
  void stream(const extraction_sink& sink, const extraction_options& how = {}) const;
  /// find() as the paper has it: the root's question goes to all ranks, and their answers are reduced to one. At the
  /// root; elsewhere empty. What others give as key is not looked at. O(log ranks) messages in a row, where find()
  /// needs two.
  [[nodiscard]] std::optional<std::string> find_by_broadcast(std::string_view key, int root = 0) const;

 private:
  const mpi::cluster_core* core_;
  icecore::version at_;
};

}  // namespace icecore

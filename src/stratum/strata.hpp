// All that is packed of a store: strata, youngest first, each a list of extents in the order of keys.
//
//   const strata packed(extents);
//   if (const auto at = packed.find("layer1/bias", v); at && !packed.record(*at).is_removal()) ...
//   for (auto older = packed.older(*at); older; older = packed.older(*older)) ...
//
//   strata_walk walk(packed);
//   for (walk.seek("layer1/"); !walk.at_end(); walk.next()) use(walk.key(), walk.newest());
//
// Threads: strata never change; any. A walk belongs to one thread.
// Errors: errc::damaged, which names the place, from each function that reads a block whose check fails.
// Cost: find() that of extent::find() in each stratum that is asked, youngest first, until one shows something.
// Invariants:
//   T1. A key's versions in a stratum are greater than those in the strata behind it. So the first that shows something
//       for a key decides. While a merge by ranges of keys goes on, a stratum may have, of another key, versions that
//       are greater than some before it.
//   T2. In a stratum records are in the order of (key ascending, version descending), over the bounds of extents too: a
//       history may go on in the next extent.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/search.hpp"
#include "stratum/block/values_elsewhere.hpp"
#include "stratum/extent.hpp"
#include "stratum/frames/frame_cache.hpp"

namespace icecore::stratum {

/// A record's place in all strata.
struct record_place {
  std::uint32_t extent;  ///< counted through all strata
  extent::record_at in;
};

struct packed_extent {
  std::uint32_t stratum;  ///< ascending: 0 is the youngest
  version first = 0;      ///< of its first record
  bool goes_on = false;   ///< it begins with older records of the last key of the extent before it
  std::unique_ptr<const extent> bytes;
};

class strata {
 public:
  /// A stratum's extents: from `begin` to before `end`.
  struct range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  /// In the order of strata, then of keys. No block is read. `values`: what the records refer to.
  explicit strata(std::vector<packed_extent> all, const std::shared_ptr<frame_cache>& frames = nullptr,
                  std::vector<values_elsewhere::one> values = {});

  /// The place of the newest record of `key` whose version is at most `v`.
  [[nodiscard]] std::optional<record_place> find(std::string_view key, version v) const;
  /// That record.
  [[nodiscard]] std::optional<packed_record> find_record(std::string_view key, version v) const {
    return arrive(expect_find(key, v), key, v);
  }
  /// The same in two steps, so that who has something else to do need not wait: expect_find() asks for what arrive()
  /// reads if the youngest stratum has the key.
  struct search {
    std::uint32_t extent;
    extent::search in;
  };
  [[nodiscard]] search expect_find(std::string_view key, version v) const {
    const sought_key sought(key);
    const range& youngest = strata_.front();
    const std::uint32_t extent = extent_for(youngest, sought, v);
    if (extent == youngest.end) return {extent, {}};
    return {extent, extent_at(extent).expect_find(sought, v)};
  }
  [[nodiscard]] std::optional<packed_record> arrive(const search& expected, std::string_view key, version v) const;
  /// Calls take(i, find_record(keys[i], at[i * stride])) for each i of which wanted(i) says so. The waits of the keys
  /// overlap. wanted(i) is asked several times before take(i), and has to say the same. Where it throws, some were
  /// told.
  template <class Wanted, class Take>
  void find_many(std::span<const std::string_view> keys, const version* at, std::size_t stride, const Wanted& wanted,
                 const Take& take) const;
  /// As extent::for_each_run(), over all extents. Precondition: there is one stratum.
  template <class Visit>
  bool for_each_run(version v, std::string_view from, Visit&& visit) const;
  /// Calls visit(place) for a record in (after, up_to] of each key from `from` to before `to` that has one, and perhaps
  /// of others, until it returns false; whether it never did. In the order of keys in each stratum; for a key several
  /// times if several blocks have such records.
  /// Cost: O(blocks), and the bytes of those blocks that may have such records: the others are not read.
  template <class Visit>
  bool for_each_written(version after, version up_to, std::string_view from, std::optional<std::string_view> to,
                        Visit&& visit) const;
  /// The newest record of this record's key.
  [[nodiscard]] record_place newest_of(const record_place& at) const;
  /// The next older record of the same key.
  [[nodiscard]] std::optional<record_place> older(const record_place& record) const;
  /// The newest record whose version is at most `v`, from this record of the key on.
  [[nodiscard]] std::optional<record_place> at_most(const record_place& from, version v) const;
  /// The same, unless it is a removal.
  [[nodiscard]] std::optional<record_place> shown_at_most(const record_place& from, version v) const {
    const block b = extent_at(from.extent).block_at(from.in.block);
    const block::read_row r = b.row_at(from.in.row);
    if (r.record.stamped <= v) [[likely]]
      return r.record.is_removal() ? std::nullopt : std::optional(from);
    const auto found = at_most(from, v);
    return found && record(*found).is_removal() ? std::nullopt : found;
  }

  [[nodiscard]] std::string_view key(const record_place& at) const {
    return extent_at(at.extent).block_at(at.in.block).key(at.in.key);
  }
  [[nodiscard]] packed_record record(const record_place& at) const {
    return extent_at(at.extent).block_at(at.in.block).row_at(at.in.row).record;
  }
  /// The value of a record that is no removal, wherever it lies.
  [[nodiscard, gnu::always_inline]] std::string_view value_of(const packed_record& of) const {
    if (of.is_elsewhere()) [[unlikely]]
      return values_.at(of.reference());
    return of.value;
  }
  /// The same; empty for a removal, and if there is no record.
  [[nodiscard, gnu::always_inline]] std::optional<std::string_view> shown(
      const std::optional<packed_record>& of) const {
    return of && !of->is_removal() ? std::optional(value_of(*of)) : std::nullopt;
  }
  [[nodiscard]] const values_elsewhere& values() const noexcept { return values_; }
  /// The older records of the same key behind this one in its block.
  [[nodiscard]] block::rows_behind rows_after(const record_place& at) const {
    return extent_at(at.extent).block_at(at.in.block).rows_after(at.in.key, at.in.row);
  }
  [[nodiscard]] std::pair<std::string_view, packed_record> key_and_record(const record_place& at) const {
    const block b = extent_at(at.extent).block_at(at.in.block);
    return {b.key(at.in.key), b.row_at(at.in.row).record};
  }

  [[nodiscard]] const extent& extent_at(std::uint32_t i) const noexcept { return *extents_[i].bytes; }
  [[nodiscard]] std::uint32_t extents() const noexcept { return static_cast<std::uint32_t>(extents_.size()); }
  [[nodiscard]] const std::vector<range>& all() const noexcept { return strata_; }
  [[nodiscard]] std::uint32_t stratum_of(std::uint32_t extent) const noexcept { return extents_[extent].stratum; }

  /// A key that lies in several strata counts in each.
  [[nodiscard]] std::uint64_t keys() const noexcept { return keys_; }
  /// Of one stratum, each key once.
  [[nodiscard]] std::uint64_t keys_in(const range& stratum) const noexcept;
  [[nodiscard]] std::uint64_t records() const noexcept { return records_; }
  [[nodiscard]] std::uint64_t removals() const noexcept { return removals_; }
  [[nodiscard]] std::uint64_t key_bytes() const noexcept { return key_bytes_; }
  [[nodiscard]] std::uint64_t value_bytes() const noexcept { return value_bytes_; }
  /// As they are inflated.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// With the values that lie elsewhere.
  [[nodiscard]] std::uint64_t media_bytes() const noexcept { return media_bytes_; }
  /// Into which compressed extents are inflated; null if none is compressed.
  [[nodiscard]] frame_cache* frames() const noexcept { return frames_.get(); }
  /// The greatest version of a record; 0 if there is none.
  [[nodiscard]] version greatest() const noexcept { return greatest_; }

  /// The extent of the stratum that a search for (key, v) begins in. If all keys are greater, the only one, or `end`.
  [[nodiscard]] std::uint32_t extent_for(const range& of, const sought_key& key, version v) const {
    if (of.end - of.begin == 1) return of.begin;
    if (prefix_.empty()) [[likely]] {
      const std::uint32_t behind = first_behind(of, key.head);
      // then the extent's first key is another one, whether it goes on or not
      if (behind > of.begin && heads_[behind - 1] != key.head) return behind - 1;
    }
    return extent_among(of, key, v);
  }
  /// Whether the history of this record's key goes on in the next block, or in the next extent.
  [[nodiscard]] bool goes_on_behind(const record_place& at) const;
  /// Whether the extent begins with older records of the last key of the one before it (T2).
  [[nodiscard]] bool goes_on(std::uint32_t extent) const noexcept { return firsts_[extent].goes_on; }

 private:
  /// What an extent begins with.
  struct first_record {
    std::string_view key;
    version stamped;
    bool goes_on;
  };
  /// What look(extent's number) finds, in the extents of a stratum that can have it.
  template <class Look>
  [[nodiscard]] auto find_in(const range& stratum, const sought_key& key, version v, Look look) const;
  /// The first extent of the stratum whose first key's head is greater.
  [[nodiscard]] std::uint32_t first_behind(const range& of, std::uint64_t head) const noexcept {
    const std::uint64_t* const heads = heads_.data() + of.begin;
    return of.begin + count_while(of.end - of.begin, [&](std::uint32_t i) { return heads[i] <= head; });
  }
  [[nodiscard]] std::uint32_t extent_among(const range& of, const sought_key& key, version v) const;
  [[nodiscard]] std::optional<record_place> find_from(std::uint32_t stratum, const sought_key& key, version v) const;

  std::shared_ptr<frame_cache> frames_;
  values_elsewhere values_;
  std::vector<packed_extent> extents_;
  std::vector<first_record> firsts_;  // by extent
  std::string_view prefix_;           // that all of their keys have
  std::vector<std::uint64_t> heads_;  // of those keys behind the prefix
  std::vector<range> strata_;
  std::uint64_t keys_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t removals_ = 0;
  std::uint64_t key_bytes_ = 0;
  std::uint64_t value_bytes_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t media_bytes_ = 0;
  version greatest_ = 0;
};

template <class Wanted, class Take>
void strata::find_many(std::span<const std::string_view> keys, const version* at, std::size_t stride,
                       const Wanted& wanted, const Take& take) const {
  constexpr std::size_t group = 16;
  std::array<search, group> all;
  std::array<std::uint8_t, group> not_near;  // keys that are not where they were expected
  const range& youngest = strata_.front();
  for (std::size_t first = 0; first < keys.size(); first += group) {
    const std::size_t count = std::min(group, keys.size() - first);
    const auto each_wanted = [&](auto step) {
      for (std::size_t i = 0; i < count; ++i) {
        if (wanted(first + i)) step(all[i], keys[first + i], at[(first + i) * stride], first + i);
      }
    };
    each_wanted([&](search& s, std::string_view key, version v, std::size_t) {
      const sought_key sought(key);
      s.extent = extent_for(youngest, sought, v);
      s.in.block = fence::none;
      if (s.extent != youngest.end) extent_at(s.extent).expect_begin(s.in, sought);
    });
    each_wanted([&](search& s, std::string_view key, version v, std::size_t) {
      if (s.in.block != fence::none) extent_at(s.extent).begin(s.in, sought_key(key), v);
    });
    std::size_t not_near_count = 0;
    each_wanted([&](search& s, std::string_view key, version, std::size_t i) {
      if (s.in.block == fence::none || extent_at(s.extent).seek_near(s.in, sought_key(key))) return;
      not_near[not_near_count++] = static_cast<std::uint8_t>(i - first);
    });
    for (const std::uint8_t i : std::span(not_near).first(not_near_count)) {
      extent_at(all[i].extent).seek(all[i].in, sought_key(keys[first + i]));
    }
    each_wanted([&](const search& s, std::string_view key, version v, std::size_t i) {
      std::optional<packed_record> found;
      if (s.in.block != fence::none) found = extent::newest(s.in, v);
      // Else in an older stratum or, of a history that goes over the bound of two extents, in the next one.
      if (!found && (strata_.size() > 1 || (s.extent + 1 < youngest.end && goes_on(s.extent + 1)))) [[unlikely]] {
        found = find_record(key, v);
      }
      take(i, found);
    });
  }
}

template <class Visit>
bool strata::for_each_run(version v, std::string_view from, Visit&& visit) const {
  const range& of = strata_.front();
  const std::uint32_t found = extent_for(of, sought_key(from), version_max);
  bool shown = false;
  for (std::uint32_t i = found == of.end ? of.begin : found; i < of.end; ++i) {
    shown = shown && goes_on(i);
    if (!extent_at(i).for_each_run(v, from, shown, visit)) return false;
  }
  return true;
}

template <class Visit>
bool strata::for_each_written(version after, version up_to, std::string_view from, std::optional<std::string_view> to,
                              Visit&& visit) const {
  for (const range& of : strata_) {
    const std::uint32_t first = extent_for(of, sought_key(from), version_max);
    for (std::uint32_t i = first == of.end ? of.begin : first; i < of.end; ++i) {
      if (to && extent_at(i).first_key() >= *to) break;
      const auto visit_here = [&](const extent::record_at& at) { return visit(record_place{i, at}); };
      if (!extent_at(i).for_each_written(after, up_to, from, to, visit_here)) return false;
    }
  }
  return true;
}

/// Goes through the keys of one stratum, each once, at its newest record there.
//
// A walk at a version passes over blocks all of whose records are newer, without reading them. So it leaves out keys
// that show nothing there, and may come to a key at an older record than its newest one. It must not go backwards.
class stratum_walk {
 public:
  stratum_walk(const strata& of, const strata::range& extents, version at = version_max) noexcept
      : of_(&of), range_(extents), at_(at) {}

  /// To the first key that is not less.
  void seek(std::string_view key) { expect(key), arrive(key); }
  /// The same in two steps: expect() asks for what arrive(), which must come next, reads.
  void expect(std::string_view key, bool forward = true);
  void arrive(std::string_view key);
  /// To the last key that is less; at the end if there is none.
  void seek_before(std::string_view key);
  void seek_last();
  [[nodiscard]] bool at_end() const noexcept { return extent_ == range_.end; }
  /// Precondition of the rest: !at_end().
  [[nodiscard]] std::string_view key() const { return now().key(key_); }
  [[nodiscard]] record_place newest() const { return {extent_, {block_, key_, now().rows_begin(key_)}}; }
  void next();
  /// Calls visit(newest record's place) for this key and those behind it in its block, at most `most`, as far as they
  /// are less than `bound`; and goes behind them. Whether it came to the end of the block.
  template <class Visit>
  bool visit_block(std::optional<std::string_view> bound, std::size_t most, Visit&& visit);
  /// Calls visit(block, first, end) for this key and those behind it in its block whose records all lie there, at most
  /// `most`, as far as they are less than `bound`; goes behind them if that returns true. Whether it did.
  template <class Visit>
  bool visit_run(std::optional<std::string_view> bound, std::size_t most, Visit&& visit);
  /// To a key of this stratum, from which next() goes on.
  void set(const record_place& at) noexcept {
    extent_ = at.extent;
    block_ = at.in.block;
    key_ = at.in.key;
  }
  /// At the end if this was the first key.
  void previous();

 private:
  [[nodiscard]] block now() const { return of_->extent_at(extent_).block_at(block_); }
  /// Whether the block's first key is that of the block before it.
  [[nodiscard]] bool goes_on() const noexcept {
    return block_ > 0 ? of_->extent_at(extent_).goes_on(block_) : extent_ != range_.begin && of_->goes_on(extent_);
  }
  void next_block();
  void to_last_of_block_before();
  void to_first_of_key();
  /// Where a visit of the block from this key on ends.
  [[nodiscard]] std::uint32_t end_in_block(const block& b, const std::optional<std::string_view>& bound,
                                           std::size_t most) const;
  /// Asks for what a walk reads from this key of the block on.
  [[gnu::always_inline]] void expect_walk_from(const block& b, std::uint32_t key, std::size_t count) const {
    if (key < b.keys()) {
      b.prefetch_from(key, static_cast<std::uint32_t>(count));
    } else {
      of_->extent_at(extent_).prefetch_block(block_ + 1);
    }
  }
  /// Goes to the next block if this one's keys are all behind; whether it did.
  bool leave(const block& b);

  const strata* of_;
  strata::range range_;
  version at_;
  std::uint32_t extent_ = 0;
  std::uint32_t block_ = 0;
  std::uint32_t key_ = 0;
};

inline std::uint32_t stratum_walk::end_in_block(const block& b, const std::optional<std::string_view>& bound,
                                                std::size_t most) const {
  constexpr std::uint32_t ahead = 8;  // so that the keys around the guess are those from this one on
  const auto last = static_cast<std::uint32_t>(std::min<std::uint64_t>(b.keys(), key_ + most));
  if (!bound || last == key_ || key_less(b.key(last - 1), *bound)) return last;
  return std::clamp(b.seek(sought_key(*bound), key_ + ahead).at, key_, last);
}

template <class Visit>
bool stratum_walk::visit_block(std::optional<std::string_view> bound, std::size_t most, Visit&& visit) {
  const block b = now();
  const std::uint32_t end = end_in_block(b, bound, most);
  for (; key_ < end; ++key_) visit(record_place{extent_, {block_, key_, b.rows_begin(key_)}});
  return leave(b);
}

template <class Visit>
bool stratum_walk::visit_run(std::optional<std::string_view> bound, std::size_t most, Visit&& visit) {
  const block b = now();
  std::uint32_t end = end_in_block(b, bound, most);
  expect_walk_from(b, end, 2 * most);
  if (end == b.keys() && of_->goes_on_behind({extent_, {block_, end - 1, 0}})) --end;
  if (end == key_ || !visit(b, key_, end)) return false;
  key_ = end;
  leave(b);
  return true;
}

inline bool stratum_walk::leave(const block& b) {
  if (key_ < b.keys()) return false;
  --key_;
  next();
  return true;
}

/// Goes through the keys of all strata, each once, at its newest record; at a version as stratum_walk says.
class strata_walk {
 public:
  explicit strata_walk(const strata& of, version at = version_max) {
    walks_.reserve(of.all().size());
    for (const strata::range& each : of.all()) walks_.emplace_back(of, each, at);
  }
  void seek(std::string_view key) { expect(key), arrive(key); }
  /// As those of stratum_walk.
  void expect(std::string_view key) {
    for (stratum_walk& each : walks_) each.expect(key);
  }
  void arrive(std::string_view key);
  /// To the first key that is greater than that of the record.
  void seek_behind(const record_place& at, std::string_view behind) {
    if (walks_.size() > 1) return seek(behind);
    walks_.front().set(at);
    walks_.front().next();
    choose();
  }
  [[nodiscard]] bool at_end() const noexcept { return at_ == nullptr; }
  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] record_place newest() const { return at_->newest(); }
  void next();
  /// As stratum_walk::visit_block(). Precondition: this key is less than `bound`.
  template <class Visit>
  bool visit_block(std::optional<std::string_view> bound, std::size_t most, Visit&& visit) {
    return in_one_stratum(
        bound, [&](stratum_walk& walk, const auto& before) { return walk.visit_block(before, most, visit); },
        [&] { visit(newest()); });
  }
  /// As stratum_walk::visit_run(), for keys that no other stratum has.
  template <class Visit>
  bool visit_run(std::optional<std::string_view> bound, std::size_t most, Visit&& visit) {
    bound = bound_of_others(bound);
    if ((bound && !key_less(key_, *bound)) || !at_->visit_run(bound, most, visit)) return false;
    choose();
    return true;
  }

 private:
  void choose();
  /// `bound`, or the least key that another stratum has if that is less.
  [[nodiscard, gnu::always_inline]] std::optional<std::string_view> bound_of_others(
      std::optional<std::string_view> bound) const;
  /// Calls go(walk, bound) with the stratum that has this key, as far as no other one has a key; or, if several have
  /// it, visit_one() and goes on behind it. What `go` returns.
  template <class Go, class VisitOne>
  bool in_one_stratum(std::optional<std::string_view> bound, Go go, VisitOne visit_one);

  std::vector<stratum_walk> walks_;
  stratum_walk* at_ = nullptr;
  std::string_view key_;
};

inline std::optional<std::string_view> strata_walk::bound_of_others(std::optional<std::string_view> bound) const {
  for (const stratum_walk& each : walks_) {
    if (&each == at_ || each.at_end()) continue;
    const std::string_view key = each.key();
    if (!bound || key_less(key, *bound)) bound = key;
  }
  return bound;
}

template <class Go, class VisitOne>
bool strata_walk::in_one_stratum(std::optional<std::string_view> bound, Go go, VisitOne visit_one) {
  bound = bound_of_others(bound);
  if (bound && *bound == key_) {
    visit_one();
    next();
    return false;
  }
  const bool ends = go(*at_, bound);
  choose();
  return ends;
}

/// The same, downwards.
class strata_walk_back {
 public:
  explicit strata_walk_back(const strata& of) {
    for (const strata::range& each : of.all()) walks_.emplace_back(of, each);
  }
  void seek_last();
  void seek_before(std::string_view key);
  [[nodiscard]] bool at_end() const noexcept { return at_ == nullptr; }
  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] record_place newest() const { return at_->newest(); }
  void previous();

 private:
  void choose();

  std::vector<stratum_walk> walks_;
  stratum_walk* at_ = nullptr;
  std::string_view key_;
};

}  // namespace icecore::stratum

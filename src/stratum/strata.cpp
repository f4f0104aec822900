#include "stratum/strata.hpp"

#include <algorithm>
#include <utility>

namespace icecore::stratum {

strata::strata(std::vector<packed_extent> all, const std::shared_ptr<frame_cache>& frames,
               std::vector<values_elsewhere::one> values)
    : values_(std::move(values)), extents_(std::move(all)) {
  for (std::uint32_t i = 0; i < extents(); ++i) {
    const extent& e = extent_at(i);
    if (i == 0 || stratum_of(i) != stratum_of(i - 1)) strata_.push_back({i, i});
    strata_.back().end = i + 1;
    const bool goes_on = extents_[i].goes_on;
    firsts_.push_back({e.first_key(), extents_[i].first, goes_on});
    keys_ += e.header().keys - (goes_on ? 1 : 0);
    records_ += e.header().records;
    removals_ += e.header().removals;
    key_bytes_ += e.header().key_bytes - (goes_on ? e.first_key().size() : 0);
    value_bytes_ += e.header().value_bytes;
    bytes_ += e.header().size;
    media_bytes_ += e.media_size();
    if (e.is_compressed()) frames_ = frames;
    greatest_ = std::max<version>(greatest_, e.header().greatest);
    prefix_ = i == 0 ? e.first_key() : prefix_.substr(0, common_prefix(prefix_, e.first_key()));
  }
  bytes_ += values_.bytes();
  media_bytes_ += values_.bytes();
  for (const first_record& each : firsts_) heads_.push_back(head_of(each.key, prefix_.size()));
}

std::uint64_t strata::keys_in(const range& stratum) const noexcept {
  std::uint64_t keys = 0;
  for (std::uint32_t i = stratum.begin; i < stratum.end; ++i) keys += extent_at(i).header().keys - (goes_on(i) ? 1 : 0);
  return keys;
}

std::uint32_t strata::extent_among(const range& of, const sought_key& key, version v) const {
  std::uint32_t behind = of.end;  // the first extent whose first key is greater
  int order = 0;
  if (!prefix_.empty()) order = key.bytes.substr(0, prefix_.size()).compare(prefix_);
  if (order < 0) return of.end;
  if (order == 0) {
    const std::uint64_t head = key.head_behind(prefix_.size());
    behind = first_behind(of, head);
    if (behind == of.begin) return of.end;
    if (heads_[behind - 1] == head) {  // those of the same head are compared as they are
      const auto all = heads_.begin();
      const auto same = std::lower_bound(all + of.begin, all + behind, head) - all;
      const auto firsts = firsts_.begin();
      behind = static_cast<std::uint32_t>(
          std::ranges::upper_bound(firsts + same, firsts + behind, key.bytes, {}, &first_record::key) - firsts);
      if (behind == of.begin) return of.end;
    }
  }
  std::uint32_t i = behind - 1;
  while (goes_on(i) && firsts_[i].key == key.bytes && firsts_[i].stamped < v) --i;  // newer ones lie before (T2)
  return i;
}

template <class Look>
auto strata::find_in(const range& stratum, const sought_key& key, version v, Look look) const {
  std::uint32_t i = extent_for(stratum, key, v);
  decltype(look(i)) found;
  if (i == stratum.end) return found;
  found = look(i);
  // The extent may end with newer records of the key, whose history goes on in the next one.
  while (!found && ++i < stratum.end && goes_on(i) && firsts_[i].key == key.bytes) found = look(i);
  return found;
}

std::optional<record_place> strata::find_from(std::uint32_t stratum, const sought_key& key, version v) const {
  for (; stratum < strata_.size(); ++stratum) {
    const auto found = find_in(strata_[stratum], key, v, [&](std::uint32_t i) -> std::optional<record_place> {
      const auto at = extent_at(i).locate(key, v);
      return at ? std::optional(record_place{i, *at}) : std::nullopt;
    });
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<record_place> strata::find(std::string_view key, version v) const {
  return find_from(0, sought_key(key), v);
}

std::optional<packed_record> strata::arrive(const search& expected, std::string_view key, version v) const {
  const sought_key sought(key);
  std::optional<packed_record> found;
  if (expected.in.block != fence::none) found = extent_at(expected.extent).arrive(expected.in, sought, v);
  const auto look_in = [&](const range& of) {
    found = find_in(of, sought, v, [&](std::uint32_t i) { return extent_at(i).find(sought, v); });
  };
  // The history may go over the bound of two extents, and on in the next one.
  const range& youngest = strata_.front();
  if (!found && expected.extent + 1 < youngest.end && goes_on(expected.extent + 1)) look_in(youngest);
  for (std::size_t i = 1; !found && i < strata_.size(); ++i) look_in(strata_[i]);
  return found;
}

bool strata::goes_on_behind(const record_place& at) const {
  const extent& e = extent_at(at.extent);
  const std::uint32_t next = at.in.block + 1;
  if (at.in.key + 1 != e.block_at(at.in.block).keys()) return false;
  if (next < e.blocks()) return e.goes_on(next);
  return at.extent + 1 < strata_[stratum_of(at.extent)].end && goes_on(at.extent + 1);
}

record_place strata::newest_of(const record_place& at) const {
  const extent& e = extent_at(at.extent);
  const bool has_newer_block = at.in.key == 0 && (at.in.block > 0 ? e.goes_on(at.in.block) : goes_on(at.extent));
  if (at.extent < strata_.front().end && !has_newer_block) {
    return {at.extent, {at.in.block, at.in.key, e.block_at(at.in.block).rows_begin(at.in.key)}};
  }
  return *find(key(at), version_max);
}

std::optional<record_place> strata::older(const record_place& record) const {
  const extent& e = extent_at(record.extent);
  if (const auto at = e.older(record.in)) return record_place{record.extent, *at};
  const std::uint32_t next = record.extent + 1;
  if (goes_on_behind(record)) return record_place{next, {0, 0, extent_at(next).block_at(0).rows_begin(0)}};
  return find_from(stratum_of(record.extent) + 1, sought_key(key(record)), version_max);
}

std::optional<record_place> strata::at_most(const record_place& from, version v) const {
  const block b = extent_at(from.extent).block_at(from.in.block);
  const bool may_have = v >= b.header().least;
  for (std::uint64_t row = from.in.row, end = b.rows_end(from.in.key); may_have && row < end;) {
    const block::read_row r = b.row_at(row);
    if (r.record.stamped <= v) return record_place{from.extent, {from.in.block, from.in.key, row}};
    row = r.end;
  }
  const std::uint32_t stratum = stratum_of(from.extent) + (goes_on_behind(from) ? 0 : 1);
  return find_from(stratum, sought_key(key(from)), v);
}

// ---- One stratum ----

void stratum_walk::next_block() {
  bool has_met_last_key = true;  // of the block before
  for (;;) {
    key_ = 0;
    if (++block_ == of_->extent_at(extent_).blocks()) {
      block_ = 0;
      if (++extent_ == range_.end) return;
    }
    const extent& e = of_->extent_at(extent_);
    e.walk_to(block_);
    const bool has_met_first_key = has_met_last_key && goes_on();
    if (e.may_have(block_, at_)) {
      if (has_met_first_key) key_ = 1;
      return;
    }
    has_met_last_key = has_met_first_key && e.keys_in(block_) == 1;
  }
}

void stratum_walk::next() {
  ++key_;
  while (extent_ != range_.end && key_ >= of_->extent_at(extent_).keys_in(block_)) next_block();
}

void stratum_walk::to_last_of_block_before() {
  if (block_ == 0) {
    if (extent_ == range_.begin) {
      extent_ = range_.end;
      return;
    }
    --extent_;
    block_ = of_->extent_at(extent_).blocks();
  }
  --block_;
  of_->extent_at(extent_).walk_back_to(block_);
  key_ = of_->extent_at(extent_).keys_in(block_) - 1;
}

void stratum_walk::to_first_of_key() {
  while (!at_end() && key_ == 0 && goes_on()) to_last_of_block_before();
}

void stratum_walk::previous() {
  if (key_ > 0) {
    --key_;
  } else {
    to_last_of_block_before();
  }
  to_first_of_key();
}

void stratum_walk::expect(std::string_view key, bool forward) {
  extent_ = of_->extent_for(range_, sought_key(key), version_max);
  if (extent_ == range_.end) return;
  const auto [block, at] = of_->extent_at(extent_).expect(sought_key(key), forward);
  block_ = block;
  key_ = at;
}

void stratum_walk::arrive(std::string_view key) {
  if (extent_ == range_.end) {  // all are greater
    extent_ = range_.begin;
    block_ = key_ = 0;
    return;
  }
  const auto [block, at] = of_->extent_at(extent_).seek(sought_key(key), {block_, key_});
  block_ = block;
  key_ = at;
  while (extent_ != range_.end && key_ >= of_->extent_at(extent_).keys_in(block_)) next_block();
}

void stratum_walk::seek_last() {
  extent_ = range_.end - 1;
  block_ = of_->extent_at(extent_).blocks() - 1;
  key_ = of_->extent_at(extent_).keys_in(block_) - 1;
  to_first_of_key();
}

void stratum_walk::seek_before(std::string_view key) {
  expect(key, false);
  arrive(key);
  if (at_end()) {
    seek_last();
  } else {
    previous();
  }
}

// ---- All of them ----

void strata_walk::choose() {
  at_ = nullptr;
  for (stratum_walk& each : walks_) {
    if (each.at_end()) continue;
    const std::string_view key = each.key();
    if (at_ != nullptr && key >= key_) continue;  // of equal ones the youngest, which comes first
    at_ = &each;
    key_ = key;
  }
}

void strata_walk::arrive(std::string_view key) {
  for (stratum_walk& each : walks_) each.arrive(key);
  choose();
}

void strata_walk::next() {
  for (stratum_walk& each : walks_) {
    if (&each != at_ && !each.at_end() && each.key() == key_) each.next();
  }
  at_->next();
  choose();
}

void strata_walk_back::choose() {
  at_ = nullptr;
  for (stratum_walk& each : walks_) {
    if (each.at_end()) continue;
    const std::string_view key = each.key();
    if (at_ != nullptr && key <= key_) continue;
    at_ = &each;
    key_ = key;
  }
}

void strata_walk_back::seek_last() {
  for (stratum_walk& each : walks_) each.seek_last();
  choose();
}

void strata_walk_back::seek_before(std::string_view key) {
  for (stratum_walk& each : walks_) each.seek_before(key);
  choose();
}

void strata_walk_back::previous() {
  for (stratum_walk& each : walks_) {
    if (&each != at_ && !each.at_end() && each.key() == key_) each.previous();
  }
  at_->previous();
  choose();
}

}  // namespace icecore::stratum

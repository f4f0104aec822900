#include "store/check/packed_salvage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "store/check/printable.hpp"
#include "store/packed/open_strata.hpp"
#include "stratum/extent_parts.hpp"
#include "stratum/frames/frame_format.hpp"

namespace icecore::detail {
namespace {

using format::block_header;
using format::extent_header;

constexpr std::uint64_t inflated_bytes_max = std::uint64_t{256} << 20;

/// What an error of packed records says behind the place.
std::string reason_of(const error& e) {
  constexpr std::string_view before = " records): ";
  const std::string& all = e.message();
  const std::size_t at = all.find(before);
  return at == std::string::npos ? all : all.substr(at + before.size());
}

/// The block that begins there, if one does.
std::optional<stratum::block> intact_block(std::span<const std::byte> extent, std::uint64_t at, std::uint64_t end,
                                           std::uint32_t seed) {
  block_header h;
  std::memcpy(&h, extent.data() + at, sizeof h);
  // Most places are none: few bytes tell, before all are read.
  if (h.size > end - at || h.keys == 0 || !all_zero(reinterpret_cast<const std::byte*>(h.zero), sizeof h.zero))
    return {};
  if (stratum::block::check(extent.data() + at, h.size, stratum::block_seed(seed, at)) != nullptr) return {};
  return stratum::block(extent.data() + at);
}

/// Whether what follows is a fence of these blocks, and of no others.
bool is_fence_of(std::span<const std::byte> bytes, const std::vector<std::uint32_t>& blocks, std::uint64_t end) {
  const auto count = static_cast<std::uint32_t>(blocks.size());
  const std::uint64_t least = stratum::fence_size(count, 0);
  if (count == 0 || bytes.size() < end || bytes.size() - end < least) return false;
  const std::uint64_t most = bytes.size() - end - least;
  for (std::uint64_t fills = 0; fills < 8 && fills <= most; ++fills) {
    if (stratum::fence_size(count, most - fills) != bytes.size() - end) continue;
    const stratum::fence f(bytes.data() + end, count, most - fills, 0, {1, version_max});
    if (f.fail() != nullptr || f.place(count) != end) continue;
    bool is = true;
    for (std::uint32_t i = 0; is && i < count; ++i) is = f.block_at(i).at == blocks[i];
    if (is) return true;
  }
  return false;
}

}  // namespace

packed_salvage::packed_salvage(const pool_set& pools, const manifest& of)
    : pools_(&pools),
      of_(&of),
      values_(values_of(pools, of)),
      frames_(std::make_shared<stratum::frame_cache>(inflated_bytes_max)) {
  frames_->watch(&looker_);
  for (std::uint32_t i = 0; i < of.extents.size(); ++i) {
    if (i == 0 || of.extents[i].stratum != of.extents[i - 1].stratum) {
      strata_.push_back({i, i});
      lost_.emplace_back();
    }
    strata_.back().end = i + 1;
    open(of.extents[i]);
    let_go();
  }
  for (std::uint32_t s = 0; s < strata_.size(); ++s) complete(s, of.greatest);
  let_go();
  std::ranges::stable_sort(findings_, {}, [](const finding& f) { return f.place.offset; });
}

// ---- What is intact ----

void packed_salvage::open(const format::named_extent& named) {
  extent_left& left = extents_.emplace_back();
  const link begin = named.segment + sizeof(format::segment_header);
  const auto number = static_cast<std::uint32_t>(extents_.size() - 1);
  const auto lose_all = [&](std::string why) {
    lost_.back().push_back(
        {.extent = number, .before = 0, .from = {}, .to = {}, .place = begin, .why = std::move(why)});
  };
  if (pools_->find(link_pool(named.segment)) == nullptr) {
    return lose_all(fmt::format("file {} of the store is missing", link_pool(named.segment) + 1));
  }
  if (named.size < sizeof(extent_header) || named.size > link_offset_mask || !pools_->contains(begin, named.size)) {
    return lose_all("the file ends before the packed records do");
  }
  left.begin = pools_->at(begin);
  try {
    left.opened = open_extent(*pools_, named, frames_);
    read_blocks(left, named);
  } catch (const error& e) {
    if (e.code() != errc::damaged || left.opened != nullptr) throw;
    std::uint32_t magic;
    std::memcpy(&magic, left.begin, sizeof magic);
    if (magic == format::framed_magic) return lose_all(reason_of(e));
    look_for_blocks(left, named, reason_of(e));
  }
}

void packed_salvage::read_blocks(extent_left& left, const format::named_extent& named) {
  const stratum::extent& all = *left.opened;
  left.least = all.header().least;
  left.greatest = all.header().greatest;
  left.knows_versions = true;
  bool is_amid_loss = false;
  for (std::uint32_t i = 0; i < all.blocks(); ++i) {
    try {
      const stratum::block b = all.block_at(i);
      left.blocks.push_back(i);
      left.last.reset();
      if (i + 1 == all.blocks()) left.last = std::string(b.key(b.keys() - 1));
      is_amid_loss = false;
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
      if (!is_amid_loss) {
        lost_records& lost = lost_.back().emplace_back();
        lost.extent = static_cast<std::uint32_t>(extents_.size() - 1);
        lost.before = static_cast<std::uint32_t>(left.blocks.size());
        lost.from = std::string(all.separator(i));
        lost.place = named.segment + sizeof(format::segment_header) + all.media_place(i);
        lost.why = reason_of(e);
      }
      lost_records& lost = lost_.back().back();
      lost.keys += all.keys_in(i);
      lost.to.reset();
      if (i + 1 < all.blocks()) {
        lost.to = std::string(all.separator(i + 1));
        lost.to_included = all.goes_on(i + 1);
      }
      is_amid_loss = true;
    }
  }
}

/// Of an extent that is not compressed, whose header or fence is damaged.
void packed_salvage::look_for_blocks(extent_left& left, const format::named_extent& named, std::string why) {
  const std::span<const std::byte> bytes(left.begin, named.size);
  extent_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool has_header = header.magic == format::extent_magic && header.size == named.size &&
                          header.crc == named.header_crc && stratum::header_crc(header, named.seed) == header.crc;
  const std::uint64_t end = has_header ? std::min(header.fence_at, named.size) : named.size;
  const link place = named.segment + sizeof(format::segment_header);
  const std::size_t lost_before = lost_.back().size();
  std::string last;
  std::uint64_t behind = sizeof header;  // the last intact block
  const auto lose_until = [&](std::optional<std::string> to) {
    lost_records& lost = lost_.back().emplace_back();
    lost.extent = static_cast<std::uint32_t>(extents_.size() - 1);
    lost.before = static_cast<std::uint32_t>(left.blocks.size());
    if (!left.blocks.empty()) lost.from = last;
    lost.to = std::move(to);
    lost.place = place + behind;
    lost.why = "no intact packed records are here";
  };
  for (std::uint64_t at = behind; at + sizeof(block_header) <= end;) {
    const auto b = intact_block(bytes, at, end, named.seed);
    if (!b) {
      at += format::block_alignment;
      continue;
    }
    if (at != behind) lose_until(std::string(b->key(0)));
    left.least = std::min<version>(left.least, b->header().least);
    left.greatest = std::max<version>(left.greatest, b->header().greatest);
    left.blocks.push_back(static_cast<std::uint32_t>(at / format::block_alignment));
    last = b->key(b->keys() - 1);
    at += b->header().size;
    behind = at;
  }
  if (has_header) {
    left.least = header.least;
    left.greatest = header.greatest;
    left.knows_versions = true;
  }
  const bool has_all = has_header ? behind == header.fence_at : is_fence_of(bytes, left.blocks, behind);
  if (has_all) {
    left.last = last;
  } else {
    lose_until({});
  }
  if (lost_.back().size() == lost_before) {
    findings_.push_back({{place, "packed", std::move(why) + "; all of its records are intact", {}, {}}, false});
  } else {
    lost_.back()[lost_before].why = std::move(why);
  }
}

// ---- What is lost ----

/// Completes what is lost of a stratum by what is known of its neighbours.
void packed_salvage::complete(std::uint32_t stratum, version greatest_of_all) {
  version least = 1;
  version greatest = greatest_of_all;
  // From the first one on that a merge by ranges of keys has not ended with, versions are in order by key alone.
  const auto awaits =
      std::ranges::find_if(of_->extents, [](const auto& each) { return (each.flags & format::extent_awaits) != 0; });
  const std::uint32_t unordered = awaits == of_->extents.end() ? UINT32_MAX : awaits->stratum;
  for (std::uint32_t s = 0; s < strata_.size(); ++s) {
    if (std::min(s, stratum) >= unordered) continue;
    for (std::uint32_t i = strata_[s].begin; i < strata_[s].end; ++i) {
      const extent_left& other = extents_[i];
      if (other.greatest == 0) continue;
      if (s > stratum) least = std::max(least, other.greatest + 1);  // T1
      if (s < stratum) greatest = std::min(greatest, other.least - 1);
    }
  }
  for (lost_records& lost : lost_[stratum]) {
    const extent_left& of = extents_[lost.extent];
    lost.least = of.knows_versions ? of.least : least;
    lost.greatest = of.knows_versions ? of.greatest : greatest;
    complete_keys(lost, strata_[stratum]);
    name(lost);
  }
}

void packed_salvage::complete_keys(lost_records& lost, const stratum::strata::range& in) const {
  const auto goes_on = [&](std::uint32_t extent) { return (of_->extents[extent].flags & format::extent_goes_on) != 0; };
  for (std::uint32_t i = lost.extent; !lost.from && i-- > in.begin;) {
    const extent_left& before = extents_[i];
    if (before.blocks.empty()) continue;
    const stratum::block b = block_of(i, static_cast<std::uint32_t>(before.blocks.size() - 1));
    lost.from = std::string(b.key(b.keys() - 1));
    lost.from_included = !before.last || i + 1 != lost.extent || goes_on(lost.extent);
  }
  for (std::uint32_t i = lost.extent + 1; !lost.to && i < in.end; ++i) {
    const extent_left& behind = extents_[i];
    if (behind.blocks.empty() && behind.opened == nullptr) continue;
    lost.to = first_key(i);
    lost.to_included = behind.opened == nullptr || i != lost.extent + 1 || goes_on(i);
  }
}

std::string packed_salvage::first_key(std::uint32_t extent) const {
  const extent_left& of = extents_[extent];
  return std::string(of.opened != nullptr ? of.opened->first_key() : block_of(extent, 0).key(0));
}

void packed_salvage::name(const lost_records& lost) {
  std::string keys = "all keys";
  if (lost.from) keys = fmt::format("the keys {} '{}'", lost.from_included ? "from" : "behind", printable(*lost.from));
  if (lost.to) {
    keys += fmt::format("{} to {}'{}'", lost.from ? "" : " up", lost.to_included ? "" : "before ", printable(*lost.to));
  } else if (lost.from) {
    keys += " on";
  }
  const std::string count =
      lost.keys == 0 ? "" : fmt::format("; {} such {} here", lost.keys, lost.keys == 1 ? "key was" : "keys were");
  findings_.push_back({{lost.place,
                        "packed",
                        fmt::format("{}; what {} held in versions {} to {} is lost where it was here{}", lost.why, keys,
                                    lost.least, lost.greatest, count),
                        {},
                        {}},
                       true});
}

// ---- Key by key ----

stratum::block packed_salvage::block_of(std::uint32_t extent, std::uint32_t intact) const {
  const extent_left& of = extents_[extent];
  const std::uint32_t at = of.blocks[intact];
  return of.opened != nullptr ? of.opened->block_at(at)
                              : stratum::block(of.begin + std::uint64_t{at} * format::block_alignment);
}

stratum::packed_record packed_salvage::record(link packed) const {
  const stratum::record_place at = place_of(packed);
  return block_of(at.extent, at.in.block).row_at(at.in.row).record;
}

std::string_view packed_salvage::key(link packed) const {
  const stratum::record_place at = place_of(packed);
  return block_of(at.extent, at.in.block).key(at.in.key);
}

/// Goes through the intact blocks of a stratum.
struct packed_salvage::cursor {
  const packed_salvage* of;
  std::uint32_t stratum;
  std::uint32_t extent;
  std::uint32_t block = 0;
  std::uint32_t number = 0;  // of the key in the block
  std::string key{};

  [[nodiscard]] std::uint32_t end() const { return of->strata_[stratum].end; }
  [[nodiscard]] bool at_end() const { return extent == end(); }
  void settle() {
    while (extent < end() && block == of->extents_[extent].blocks.size()) {
      ++extent;
      block = number = 0;
    }
    if (!at_end()) key = of->block_of(extent, block).key(number);
  }
  void next() {
    if (++number == of->block_of(extent, block).keys()) {
      ++block;
      number = 0;
    }
    settle();
  }
  /// Moves on to the next key.
  void take_all(std::vector<known_record>& into) {
    const std::string taken = key;
    while (!at_end() && key == taken) {
      const stratum::block b = of->block_of(extent, block);
      for (std::uint64_t row = b.rows_begin(number); row < b.rows_end(number);) {
        const auto [record, row_end] = b.row_at(row);
        const link at = packed_link({extent, {block, number, static_cast<std::uint32_t>(row)}});
        into.push_back({stratum, extent, block, {record.stamped, at}});
        row = row_end;
      }
      next();
    }
  }
};

void packed_salvage::for_each_key(const std::function<void(std::string_view key, const history& events)>& visit) {
  std::vector<cursor> cursors;
  for (std::uint32_t s = 0; s < strata_.size(); ++s) {
    cursors.push_back({.of = this, .stratum = s, .extent = strata_[s].begin});
    cursors.back().settle();
  }
  std::vector<known_record> known;
  for (;;) {
    const cursor* first = nullptr;
    for (const cursor& c : cursors) {
      if (!c.at_end() && (first == nullptr || c.key < first->key)) first = &c;
    }
    if (first == nullptr) return;
    const std::string key = first->key;
    known.clear();
    for (cursor& c : cursors) {
      if (!c.at_end() && c.key == key) c.take_all(known);
    }
    visit(key, events_of(key, known));
    let_go();
  }
}

packed_salvage::history packed_salvage::events_of(std::string_view key, std::span<const known_record> known) const {
  history events;
  for (const known_record& k : known) events.push_back(k.what);
  for (std::uint32_t s = 0; s < lost_.size(); ++s) {
    const auto ends_before = [&](const lost_records& l) {
      return l.to && (*l.to < key || (*l.to == key && !l.to_included));
    };
    for (auto l = std::ranges::partition_point(lost_[s], ends_before); l != lost_[s].end(); ++l) {
      if (l->from && (*l->from > key || (*l->from == key && !l->from_included))) break;
      // Records of the key in the same stratum that lie before the lost ones are newer, those behind them older (T2).
      version least = l->least;
      version greatest = l->greatest;
      for (const known_record& k : known) {
        if (k.stratum != s) continue;
        const bool is_before = std::pair(k.extent, k.block) < std::pair(l->extent, l->before);
        if (is_before) {
          greatest = std::min(greatest, k.what.stamped - 1);
        } else {
          least = std::max(least, k.what.stamped + 1);
        }
      }
      if (least > greatest) continue;
      events.push_back({least, null_link});
      for (const known_record& k : known) {
        if (k.what.stamped >= least && k.what.stamped < greatest) events.push_back({k.what.stamped + 1, null_link});
      }
    }
  }
  // of one version a record decides, whatever else was lost
  std::ranges::stable_sort(events, {}, [](const event& e) { return std::pair(e.stamped, e.record != null_link); });
  return events;
}

}  // namespace icecore::detail

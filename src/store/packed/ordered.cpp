#include "store/packed/ordered.hpp"

#include <algorithm>
#include <string>

#include "store/packed/packed_link.hpp"

namespace icecore::detail {

std::string_view layered_links::key_of(link l) const {
  return is_packed(l) ? packed_->key(place_of(l)) : space_.record_at(l).key();
}

void layered_links::fill(std::string_view key, index::block& out) const {
  stratum::strata_walk packed(*packed_);
  packed.seek(key);
  merge(key, packed, out);
}

void layered_links::merge(std::string_view key, stratum::strata_walk& packed, index::block& out) const {
  // A part of the links that goes on to the end of a packed block is enough: the rest would be read in vain by a short
  // scan.
  constexpr std::size_t enough = index::block::capacity / 8;
  index::block young;
  young_->seek(key, young);
  std::size_t at = 0;
  while (at < young.size && key_of(young.entries[at]) < key) ++at;
  if (at == young.size && young_->next_block(young)) at = 0;  // the lower bound is there
  const bool young_ends = young.size == 0 || young.next == 0;
  out.size = 0;
  const auto take = [&out](const stratum::record_place& place) { out.entries[out.size++] = packed_link(place); };
  std::string_view young_key = at < young.size ? key_of(young.entries[at]) : std::string_view();
  while (out.size < index::block::capacity) {
    const std::size_t room = index::block::capacity - out.size;
    if (at >= young.size) {
      // what the index has behind this block is not known here
      if (packed.at_end() || (!young_ends && young.size > 0)) break;
      if (packed.visit_block(std::nullopt, room, take) && out.size >= enough) break;
      continue;
    }
    const int order = packed.at_end() ? -1 : young_key.compare(packed.key());
    if (order > 0) {
      if (packed.visit_block(young_key, room, take) && out.size >= enough) break;
      continue;
    }
    out.entries[out.size++] = young.entries[at];
    if (order == 0) packed.next();
    if (++at < young.size) young_key = key_of(young.entries[at]);
  }
  const bool ends = at >= young.size && young_ends && packed.at_end();
  out.next = ends || out.size == 0 ? 0 : out.entries[out.size - 1];
}

bool layered_links::next_block(index::block& b) const {
  if (b.next == 0) {
    b.size = 0;
    return false;
  }
  const link last = b.next;
  std::string behind(key_of(last));
  behind.push_back('\0');
  stratum::strata_walk packed(*packed_);
  if (is_packed(last)) {
    packed.seek_behind(place_of(last), behind);
  } else {
    packed.seek(behind);
  }
  merge(behind, packed, b);
  return b.size != 0;
}

void layered_links::fill_back(const index::block& young, stratum::strata_walk_back& packed, index::block& out) const {
  std::array<link, index::block::capacity> found;  // the greatest key first
  std::size_t count = 0;
  std::size_t left = young.size;
  while (count < found.size()) {
    if (left == 0) {
      // what the index has before this block is not known here
      if (packed.at_end() || young.size > 0) break;
      found[count++] = packed_link(packed.newest());
      packed.previous();
      continue;
    }
    const link entry = young.entries[left - 1];
    const int order = packed.at_end() ? 1 : key_of(entry).compare(packed.key());
    if (order < 0) {
      found[count++] = packed_link(packed.newest());
      packed.previous();
      continue;
    }
    found[count++] = entry;
    --left;
    if (order == 0) packed.previous();
  }
  out.size = count;
  std::reverse_copy(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), out.entries.begin());
  out.next = count == 0 ? 0 : out.entries[count - 1];
}

void layered_links::seek_last(index::block& out) const {
  index::block young;
  young_->seek_last(young);
  stratum::strata_walk_back packed(*packed_);
  packed.seek_last();
  fill_back(young, packed, out);
}

bool layered_links::block_before(std::string_view key, index::block& out) const {
  index::block young;
  young_->block_before(key, young);
  stratum::strata_walk_back packed(*packed_);
  packed.seek_before(key);
  fill_back(young, packed, out);
  return out.size != 0;
}

/// The greater part, the packed keys as a rule, is cut evenly.
std::vector<link> layered_links::split_points(std::size_t count) const {
  std::vector<link> points;
  std::uint64_t blocks = 0;
  for (std::uint32_t i = 0; i < packed_->extents(); ++i) blocks += packed_->extent_at(i).blocks();
  if (blocks <= count) return young_->split_points(count);
  std::uint64_t passed = 0;
  // of the oldest stratum, which is the largest as a rule
  const stratum::strata::range& of = packed_->all().back();
  std::uint64_t of_stratum = 0;
  for (std::uint32_t i = of.begin; i < of.end; ++i) of_stratum += packed_->extent_at(i).blocks();
  if (of_stratum <= count) return young_->split_points(count);
  std::uint64_t next = 1;
  for (std::uint32_t i = of.begin; i < of.end; ++i) {
    const stratum::extent& e = packed_->extent_at(i);
    for (; next <= count; ++next) {
      const std::uint64_t at = next * of_stratum / (count + 1);
      if (at >= passed + e.blocks()) break;
      const auto block = static_cast<std::uint32_t>(at - passed);
      if (e.goes_on(block) || (block == 0 && packed_->goes_on(i))) continue;  // within a history
      points.push_back(packed_link({i, {block, 0, e.block_at(block).rows_begin(0)}}));
    }
    passed += e.blocks();
  }
  return points;
}

}  // namespace icecore::detail

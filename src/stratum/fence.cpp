#include "stratum/fence.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/search.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

[[nodiscard]] std::uint64_t above(std::uint64_t count) noexcept { return (count + fence_fanout - 1) / fence_fanout; }
[[nodiscard]] std::uint64_t rounded(std::uint64_t size) noexcept { return (size + 7) & ~std::uint64_t{7}; }

/// Of all levels together.
[[nodiscard]] std::uint64_t head_count(std::uint64_t blocks) noexcept {
  std::uint64_t all = blocks;
  for (std::uint64_t count = blocks; count > fence_fanout; all += count) count = above(count);
  return all;
}

struct columns {
  std::uint64_t newest, places, versions, ends, separators, size;

  columns(std::uint64_t blocks, std::uint64_t separators_size) noexcept
      : newest(head_count(blocks) * sizeof(std::uint64_t)),
        places(newest + blocks * sizeof(version)),
        versions(places + (blocks + 1) * sizeof(block_place)),
        ends(versions + blocks * sizeof(block_versions)),
        separators(rounded(ends + blocks * sizeof(std::uint32_t))),
        size(rounded(separators + separators_size)) {}
};

}  // namespace

std::uint64_t fence_size(std::uint64_t blocks, std::uint64_t separators) noexcept {
  return columns(blocks, separators).size;
}

void fence_builder::add(std::string_view separator, version newest, block_place place,
                        const version_interval& versions) {
  separators_ += separator;
  ends_.push_back(static_cast<std::uint32_t>(separators_.size()));
  newest_.push_back(newest);
  places_.push_back(place);
  versions_.push_back(versions);
}

std::string_view fence_builder::separator(std::size_t i) const noexcept {
  const std::size_t from = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(separators_).substr(from, ends_[i] - from);
}

std::uint64_t fence_builder::size_with(std::uint64_t separator) const noexcept {
  return fence_size(newest_.size() + 1, separators_.size() + separator);
}

std::uint64_t fence_builder::size() const noexcept { return fence_size(newest_.size(), separators_.size()); }

void fence_builder::write(std::byte* to, std::uint32_t end, std::size_t prefix_size) const {
  const columns at(newest_.size(), separators_.size());
  std::memset(to, 0, at.size);
  std::vector<std::uint64_t> heads(newest_.size());
  for (std::size_t i = 0; i < heads.size(); ++i) heads[i] = head_of(separator(i), prefix_size);
  std::byte* out = to;
  for (;;) {
    std::memcpy(out, heads.data(), heads.size() * sizeof(std::uint64_t));
    out += heads.size() * sizeof(std::uint64_t);
    if (heads.size() <= fence_fanout) break;
    for (std::size_t i = 0; i < above(heads.size()); ++i) heads[i] = heads[i * fence_fanout];
    heads.resize(above(heads.size()));
  }
  assert(out == to + at.newest);
  std::memcpy(to + at.newest, newest_.data(), newest_.size() * sizeof(version));
  std::memcpy(to + at.places, places_.data(), places_.size() * sizeof(block_place));
  const block_place behind{.at = end, .keys = 0, .rows_at = 0};
  std::memcpy(to + at.places + places_.size() * sizeof behind, &behind, sizeof behind);
  const version_units units({std::ranges::min(versions_, {}, &version_interval::least).least,
                             std::ranges::max(versions_, {}, &version_interval::greatest).greatest});
  for (std::size_t i = 0; i < versions_.size(); ++i) {
    const block_versions in_units = units.of(versions_[i]);
    std::memcpy(to + at.versions + i * sizeof in_units, &in_units, sizeof in_units);
  }
  std::memcpy(to + at.ends, ends_.data(), ends_.size() * sizeof(std::uint32_t));
  std::memcpy(to + at.separators, separators_.data(), separators_.size());
}

fence::fence(const std::byte* at, std::uint32_t blocks, std::uint64_t separators, std::size_t prefix_size,
             const version_interval& versions) noexcept
    : blocks_(blocks), units_(versions), separators_size_(separators) {
  const columns c(blocks, separators);
  const std::byte* heads = at;
  for (std::uint32_t count = blocks;; count = static_cast<std::uint32_t>(above(count))) {
    levels_[level_count_++] = {heads, count};
    heads += count * sizeof(std::uint64_t);
    if (count <= fence_fanout) break;
  }
  const level& top = levels_[level_count_ - 1];
  for (std::uint32_t i = 0; i < fence_fanout; ++i) {
    top_[i] = i < top.count ? number<std::uint64_t>(top.heads, i) : ~std::uint64_t{0};
  }
  newest_ = at + c.newest;
  places_ = at + c.places;
  versions_ = at + c.versions;
  ends_ = at + c.ends;
  separators_ = reinterpret_cast<const char*>(at + c.separators);
  prefix_ = std::string_view(separators_, std::min<std::uint64_t>(prefix_size, separators));
}

std::string_view fence::separator(std::uint32_t i) const noexcept {
  const std::uint32_t from = i == 0 ? 0 : number<std::uint32_t>(ends_, i - 1);
  return {separators_ + from, number<std::uint32_t>(ends_, i) - from};
}

inline std::uint32_t fence::top_heads_to(std::uint64_t head) const noexcept {
  const std::uint32_t to = count_while_of_16([&](std::uint32_t i) { return top_[i] <= head; });
  return std::min(to, levels_[level_count_ - 1].count);
}

inline std::uint32_t fence::heads_to(const level& in, std::uint32_t from, std::uint64_t head) noexcept {
  // 16 in any case, of which the last group may have less: all before it are at most `head`, too
  const std::uint32_t begin = std::min(from, in.count - fence_fanout);
  const std::byte* const group = in.heads + std::uint64_t{begin} * sizeof(std::uint64_t);
  return begin + count_while_of_16([&](std::uint32_t i) { return number<std::uint64_t>(group, i) <= head; });
}

std::uint32_t fence::group_of(const sought_key& key) const noexcept {
  if (level_count_ == 1) return 0;
  const std::uint64_t head = key.head_behind(prefix_.size());
  std::uint32_t to = top_heads_to(head);
  if (to == 0) return 0;  // all are greater
  for (std::uint32_t l = level_count_ - 2; l > 0; --l) to = heads_to(levels_[l], (to - 1) * fence_fanout, head);
  return (to - 1) * fence_fanout;
}

bool fence::is_behind(std::uint32_t i, std::string_view key, version v) const noexcept {
  const int order = separator(i).compare(key);
  return order > 0 || (order == 0 && goes_on(i) && newest(i) < v);  // a key's first block has all that is newer
}

inline std::uint32_t fence::block_in(std::uint32_t group, std::uint64_t head, const sought_key& key,
                                     version v) const noexcept {
  if (!prefix_.empty()) {
    const int order = key.bytes.substr(0, prefix_.size()).compare(prefix_);
    if (order != 0) return order < 0 ? none : blocks_ - 1;
  }
  const std::uint32_t end = level_count_ == 1 ? top_heads_to(head) : heads_to(levels_[0], group, head);
  if (end == 0) return none;
  // Those of a smaller head are not behind the key. Those of the same head are asked.
  return head_at(end - 1) == head ? last_not_behind(end, head, key.bytes, v) : end - 1;
}

inline std::uint32_t fence::key_in(std::uint32_t block, std::uint64_t head) const noexcept {
  const std::uint32_t keys = block_at(block).keys;
  const std::uint64_t first = head_at(block);
  const std::uint64_t end = block + 1 < blocks_ ? head_at(block + 1) : ~std::uint64_t{0};
  if (head <= first) return 0;
  if (head >= end) return keys;
  // Halved they are numbers with a sign, which processors make into fractions without a branch.
  const auto fraction = [](std::uint64_t n) { return static_cast<double>(static_cast<std::int64_t>(n / 2)); };
  return static_cast<std::uint32_t>(fraction(head - first) / (fraction(end - first) + 1) * keys);
}

fence::guess fence::find_in(std::uint32_t group, const sought_key& key, version v) const noexcept {
  const std::uint64_t head = key.head_behind(prefix_.size());
  const std::uint32_t block = block_in(group, head, key, v);
  return {block, block == none ? 0 : key_in(block, head)};
}

std::uint32_t fence::last_not_behind(std::uint32_t end, std::uint64_t head, std::string_view key,
                                     version v) const noexcept {
  std::uint32_t from = end;
  for (std::uint32_t step = 1; from > 0 && head_at(from - 1) == head; step *= 2) from -= std::min(from, step);
  while (from < end) {
    const std::uint32_t middle = from + (end - from) / 2;
    if (is_behind(middle, key, v)) {
      end = middle;
    } else {
      from = middle + 1;
    }
  }
  return end == 0 ? none : end - 1;
}

const char* fence::fail() const noexcept {
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    const std::uint32_t end = number<std::uint32_t>(ends_, i);
    if (end < before || end > separators_size_) return "the separators' ends cannot be true";
    before = end;
  }
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (!separator(i).starts_with(prefix_)) return "a separator lacks the extent's prefix";
    if (head_at(i) != head_of(separator(i), prefix_.size())) {
      return "a head is not its separator's";
    }
    if (i > 0) {
      const int order = separator(i - 1).compare(separator(i));
      if (order > 0 || (order == 0 && newest(i) >= newest(i - 1))) return "the separators are not in order";
    }
    if (newest(i) == 0 || newest(i) > version_max) return "a version cannot be true";
    if (place(i) >= place(i + 1)) return "the places do not ascend";
    if (versions_at(i).least > versions_at(i).greatest) return "a block's versions cannot be true";
  }
  for (std::uint32_t l = 1; l < level_count_; ++l) {
    for (std::uint32_t i = 0; i < levels_[l].count; ++i) {
      if (number<std::uint64_t>(levels_[l].heads, i) != number<std::uint64_t>(levels_[l - 1].heads, i * fence_fanout)) {
        return "a head is not the one below it";
      }
    }
  }
  return nullptr;
}

}  // namespace icecore::stratum

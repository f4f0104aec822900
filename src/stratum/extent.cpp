#include "stratum/extent.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "stratum/extent_parts.hpp"

namespace icecore::stratum {

using namespace format;

extent::extent(std::span<const std::byte> bytes, extent_place place)
    : bytes_(bytes),
      place_(std::move(place)),
      header_(checked_header()),
      fence_(checked_fence()),
      slot_bytes_(slot_bytes()),
      checked_((header_.blocks + 63) / 64) {}

void extent::raise_damaged(std::uint64_t offset, std::string_view what) const {
  raise(errc::damaged, "{}: damaged at byte {} (packed records): {}", place_.file, place_.offset + offset, what);
}

extent_header extent::checked_header() const {
  extent_header h;
  if (bytes_.size() < sizeof h) raise_damaged(0, "the file ends within the header");
  std::memcpy(&h, bytes_.data(), sizeof h);
  if (h.magic != extent_magic) raise_damaged(0, "no header is here");
  if (header_crc(h, place_.seed) != h.crc) raise_damaged(0, "checksum mismatch of the header");
  // The numbers are as they were written, if no one forged them; who did must not lead beyond the bytes.
  const std::uint64_t room = bytes_.size();
  if (h.size > room || h.fence_at > h.size || h.fence_at % 8 != 0 || h.blocks == 0 || h.separators > h.size ||
      h.blocks > h.size / block_alignment || fence_size(h.blocks, h.separators) != h.size - h.fence_at ||
      h.prefix_size > h.separators || h.least == 0 || h.least > h.greatest || h.greatest > version_max) {
    raise_damaged(0, "the header cannot be true");
  }
  return h;
}

fence extent::checked_fence() const {
  const std::byte* const at = bytes_.data() + header_.fence_at;
  if (crc32c(place_.seed, at, header_.size - header_.fence_at) != header_.fence_crc) {
    raise_damaged(header_.fence_at, "checksum mismatch of the fence");
  }
  const fence f(at, header_.blocks, header_.separators, header_.prefix_size);
  if (const char* what = f.fail()) raise_damaged(header_.fence_at, what);
  if (f.place(0) != sizeof(extent_header) || f.place(header_.blocks) != header_.fence_at) {
    raise_damaged(header_.fence_at, "the places cannot be true");
  }
  return f;
}

std::uint32_t extent::slot_bytes() const noexcept {
  block_header h;
  std::memcpy(&h, bytes_.data() + fence_.place(0), sizeof h);  // not checked: only a guess
  return h.slot_bytes;
}

const char* extent::block_fails(std::uint32_t i) const noexcept {
  const std::uint64_t from = fence_.place(i);
  const std::byte* const at = bytes_.data() + from;
  if (const char* what = block::check(at, fence_.place(i + 1) - from, block_seed(place_.seed, from))) return what;
  const block b(at);
  if (std::bit_cast<std::uint64_t>(place_of(at, from)) != std::bit_cast<std::uint64_t>(fence_.block_at(i))) {
    return "the block's parts are not where the fence says";
  }
  const std::string_view first = b.key(0);
  const std::string_view last = b.key(b.keys() - 1);
  if (fence_.separator(i) > first || (fence_.goes_on(i) && fence_.separator(i) != first)) {
    return "the block's first key is not where the fence says";
  }
  if (fence_.goes_on(i) && b.newest_at(0, version_max)->stamped > fence_.newest(i)) {
    return "the block's first version is not where the fence says";
  }
  if (i + 1 < fence_.blocks() &&
      (fence_.goes_on(i + 1) ? last != fence_.separator(i + 1) : last >= fence_.separator(i + 1))) {
    return "the block's last key is not where the fence says";
  }
  return nullptr;
}

void extent::check_block(std::uint32_t i) const {
  if (const char* what = block_fails(i)) raise_damaged(fence_.place(i), what);
  checked_[i / 64].fetch_or(std::uint64_t{1} << (i % 64), std::memory_order_relaxed);  // E1
}

std::optional<packed_record> extent::find(std::string_view key, version v) const {
  const sought_key sought(key);
  const std::uint32_t at = fence_.block_of(sought, v);
  if (at == fence::none) return std::nullopt;
  const std::uint32_t guess = fence_.guess(at, sought);
  prefetch_slots_and_rows(at, guess);
  const block b = block_at(at);
  const auto [i, is_there] = b.seek(sought, guess);
  return is_there ? b.newest_at(i, v) : std::nullopt;
}

void extent::find_many(std::span<const std::string_view> keys, std::span<const version> versions,
                       std::span<std::optional<packed_record>> out) const {
  assert(keys.size() == versions.size() && keys.size() == out.size());
  constexpr std::size_t group = 32;
  std::array<search, group> all;
  for (std::size_t first = 0; first < keys.size(); first += group) {
    const std::size_t count = std::min(group, keys.size() - first);
    for (std::size_t i = 0; i < count; ++i) all[i] = begin(sought_key(keys[first + i]), versions[first + i]);
    for (std::size_t i = 0; i < count; ++i) seek(all[i], sought_key(keys[first + i]));
    for (std::size_t i = 0; i < count; ++i) out[first + i] = newest(all[i], versions[first + i]);
  }
}

void extent::verify(const std::function<void(std::string_view what, std::uint64_t offset)>& report) const {
  std::uint64_t records = 0;
  std::uint64_t keys = 0;
  std::uint64_t removals = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t sum = 0;
  version least = version_max;
  version greatest = 0;
  bool whole = true;
  for (std::uint32_t i = 0; i < fence_.blocks(); ++i) {
    const std::uint64_t from = fence_.place(i);
    if (const char* what = block_fails(i)) {
      report(what, place_.offset + from);
      whole = false;
      continue;
    }
    const block b(bytes_.data() + from);
    keys += b.keys() - (fence_.goes_on(i) ? 1 : 0);
    records += b.header().records;
    for (std::uint32_t k = 0; k < b.keys(); ++k) {
      if (k > 0 || !fence_.goes_on(i)) key_bytes += b.key(k).size();
      b.for_each_of(k, version_max, [&](const packed_record& r) {
        removals += r.is_removal() ? 1 : 0;
        value_bytes += r.value.size();
        return true;
      });
    }
    sum += block_digest(bytes_.data() + from, from);
    least = std::min(least, b.header().least);
    greatest = std::max(greatest, b.header().greatest);
  }
  if (whole && (keys != header_.keys || records != header_.records || removals != header_.removals ||
                key_bytes != header_.key_bytes || value_bytes != header_.value_bytes || sum != header_.blocks_sum ||
                least != header_.least || greatest != header_.greatest)) {
    report("the header's counts are not those of the blocks", place_.offset);
  }
}

}  // namespace icecore::stratum

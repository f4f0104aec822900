#include "stratum/extent.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "stratum/extent_parts.hpp"
#include "stratum/frames/frame_parts.hpp"
#include "stratum/frames/framed_blocks.hpp"

namespace icecore::stratum {

using namespace format;

extent::extent(std::span<const std::byte> bytes, extent_place place)
    : place_(std::move(place)),
      media_(bytes),
      header_(checked_header(bytes, bytes.size())),
      fence_(checked_fence(bytes.data(), header_.fence_at)),
      checked_((header_.blocks + 63) / 64),
      blocks_(bytes.data()),
      media_crc_(header_.crc),
      media_size_(header_.size) {
  media_ = media_.first(header_.size);
  block_header first;
  std::memcpy(&first, blocks_ + fence_.place(0), sizeof first);  // not checked: only a guess
  slot_bytes_ = first.slot_bytes;
  expect_random_reads();
}

extent::extent(std::span<const std::byte> media, const framed_header& header, extent_place place,
               std::shared_ptr<frame_cache> frames)
    : place_(std::move(place)),
      media_(media.first(header.size)),
      header_(checked_header(media.subspan(sizeof header), framed_extent_size_max)),
      fence_(checked_fence(media.data(), framed_fence_of(media, header))),
      checked_((header_.blocks + 63) / 64),
      frames_(std::make_unique<const framed_blocks>(media, header, fence_, place_, checked_.data(), std::move(frames))),
      blocks_(frames_->begin()),
      slot_bytes_(header.slot_bytes),
      media_crc_(header.crc),
      media_size_(header.size) {
  expect_random_reads();
}

extent::~extent() = default;
extent::extent(extent&&) noexcept = default;

extent extent::open(std::span<const std::byte> bytes, extent_place place, std::shared_ptr<frame_cache> frames) {
  if (place.on_device) ask_for(bytes.first(std::min(bytes.size(), sizeof(framed_header) + sizeof(extent_header))));
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes.data(), std::min(sizeof magic, bytes.size()));
  if (magic != framed_magic) return extent(bytes, std::move(place));
  const framed_header header = checked_framed_header(bytes, place);
  return extent(bytes, header, std::move(place), std::move(frames));
}

std::shared_ptr<const void> extent::inflated_memory() const noexcept {
  return frames_ == nullptr ? nullptr : frames_->memory();
}

void extent::raise_damaged(std::uint64_t offset, std::string_view what) const {
  raise(errc::damaged, "{}: damaged at byte {} (packed records): {}", place_.file, place_.offset + offset, what);
}

extent_header extent::checked_header(std::span<const std::byte> at, std::uint64_t room) const {
  extent_header h;
  if (at.size() < sizeof h) raise_damaged(0, "the file ends within the header");
  std::memcpy(&h, at.data(), sizeof h);
  if (h.magic != extent_magic) raise_damaged(0, "no header is here");
  if (header_crc(h, place_.seed) != h.crc) raise_damaged(0, "checksum mismatch of the header");
  // The numbers are as they were written, if no one forged them; who did must not lead beyond the bytes.
  if (h.size > room || h.fence_at > h.size || h.fence_at % 8 != 0 || h.blocks == 0 || h.separators > h.size ||
      h.blocks > h.size / block_alignment || fence_size(h.blocks, h.separators) != h.size - h.fence_at ||
      h.prefix_size > h.separators || h.least == 0 || h.least > h.greatest || h.greatest > version_max) {
    raise_damaged(0, "the header cannot be true");
  }
  return h;
}

std::uint64_t extent::framed_fence_of(std::span<const std::byte> media, const framed_header& header) const {
  const std::uint64_t end = framed_fence_at + header_.size - header_.fence_at;
  if (table_at(header_.size - header_.fence_at) != header.table_at) raise_damaged(0, "the header cannot be true");
  if (std::ranges::any_of(media.subspan(end, header.table_at - end), [](std::byte b) { return b != std::byte{0}; })) {
    raise_damaged(end, "bytes that are not zero behind the fence");
  }
  return framed_fence_at;
}

fence extent::checked_fence(const std::byte* media, std::uint64_t offset) const {
  const std::byte* const at = media + offset;
  if (place_.on_device) ask_for({at, header_.size - header_.fence_at});
  if (crc32c(place_.seed, at, header_.size - header_.fence_at) != header_.fence_crc) {
    raise_damaged(offset, "checksum mismatch of the fence");
  }
  const fence f(at, header_.blocks, header_.separators, header_.prefix_size, {header_.least, header_.greatest});
  if (const char* what = f.fail()) raise_damaged(offset, what);
  if (f.place(0) != sizeof(extent_header) || f.place(header_.blocks) != header_.fence_at) {
    raise_damaged(offset, "the places cannot be true");
  }
  return f;
}

std::uint64_t extent::media_place(std::uint32_t i) const noexcept {
  return frames_ == nullptr ? fence_.place(i) : frames_->media_place(i);
}

const char* extent::block_fails(std::uint32_t i) const noexcept {
  const std::uint64_t from = fence_.place(i);
  const std::byte* const at = blocks_ + from;
  if (const char* what = block::check(at, fence_.place(i + 1) - from, block_seed(place_.seed, from))) return what;
  const block b(at);
  if (std::bit_cast<std::uint64_t>(place_of(at, from)) != std::bit_cast<std::uint64_t>(fence_.block_at(i))) {
    return "the block's parts are not where the fence says";
  }
  if (!fence_.says(i, {b.header().least, b.header().greatest})) {
    return "the block's versions are not what the fence says";
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
  if (i + 1 < fence_.blocks() && fence_.goes_on(i + 1)) {
    // A greater number would lead who seeks this block's last records past them, a smaller one to where they are not.
    version oldest = 0;
    b.for_each_of(b.keys() - 1, version_max, [&](const packed_record& r) {
      oldest = r.stamped;
      return true;
    });
    if (fence_.newest(i + 1) != oldest - 1) return "the block's last version is not where the fence says";
  }
  return nullptr;
}

void extent::check_block(std::uint32_t i) const {
  if (frames_ != nullptr) frames_->bring(i);
  if (const char* what = block_fails(i)) raise_damaged(media_place(i), what);
  checked_[i / 64].fetch_or(std::uint64_t{1} << (i % 64), std::memory_order_release);  // E1
}

void extent::expect_random_reads() const noexcept {
  if (!place_.on_device) return;
  if (frames_ != nullptr) {  // each is asked for as a whole
    icecore::expect_random_reads(media_);
    return;
  }
  // The kernel has a limit for parts of a mapping that differ, so that short parts between long records do not. The
  // fence is a part as well: were it read in order, a page of it that memory was short of would come with the device's
  // read-ahead around it, and drive out more.
  constexpr std::uint64_t long_block_bytes = std::uint64_t{64} << 10;
  constexpr std::uint64_t part_bytes_min = std::uint64_t{2} << 20;
  std::uint64_t begin = 0;
  const auto ends = [&](std::uint64_t end) {
    if (end - begin >= std::min(part_bytes_min, header_.size)) {
      icecore::expect_random_reads(media_.subspan(begin, end - begin));
    }
  };
  for (std::uint32_t i = 0; i < fence_.blocks(); ++i) {
    if (fence_.place(i + 1) - fence_.place(i) < long_block_bytes) continue;
    ends(fence_.place(i));
    begin = fence_.place(i + 1);
  }
  icecore::expect_random_reads(media_.subspan(begin, header_.size - begin));
}

void extent::ask_for_blocks_before(std::uint32_t i) const noexcept {
  if (!device_reads::renewed()) return;
  constexpr std::uint64_t behind_bytes = 4 * walk_step_bytes;
  const std::uint64_t end = media_place(i);
  const std::uint64_t begin = end - std::min(end, behind_bytes);
  ask_for(media_.subspan(begin, end - begin));
}

extent::search extent::expect_find(const sought_key& key, version v) const {
  search s;
  const auto [block, guess] = fence_.find(key, v);
  s.block = block;
  s.key = guess;
  if (block == fence::none) return s;
  ask_for_block(block);
  prefetch_slots_and_rows(block, guess);
  return s;
}

std::optional<packed_record> extent::find(const sought_key& sought, version v) const {
  return arrive(expect_find(sought, v), sought, v);
}

std::optional<std::string> extent::inflated_block_fails(std::uint32_t i) const {
  try {
    if (frames_ != nullptr) frames_->bring(i);
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;
    return e.message();
  }
  const char* const what = block_fails(i);
  return what == nullptr ? std::nullopt : std::optional<std::string>(what);
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
  std::vector<bool> lost;  // by frame
  if (frames_ != nullptr) {
    lost = frames_->verify([&](std::string_view what, std::uint64_t at) { report(what, place_.offset + at); });
  }
  for (std::uint32_t i = 0; i < fence_.blocks(); ++i) {
    const std::uint64_t from = fence_.place(i);
    walk_to(i);
    if (frames_ != nullptr && lost[frames_->frame_of(i)]) {
      whole = false;
      continue;
    }
    if (const auto what = inflated_block_fails(i)) {
      report(*what, place_.offset + media_place(i));
      whole = false;
      continue;
    }
    const block b(blocks_ + from);
    keys += b.keys() - (fence_.goes_on(i) ? 1 : 0);
    records += b.header().records;
    for (std::uint32_t k = 0; k < b.keys(); ++k) {
      if (k > 0 || !fence_.goes_on(i)) key_bytes += b.key(k).size();
      b.for_each_of(k, version_max, [&](const packed_record& r) {
        removals += r.is_removal() ? 1 : 0;
        value_bytes += r.value_size();
        return true;
      });
    }
    sum += block_digest(blocks_ + from, from);
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

#include "stratum/extent_builder.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "stratum/block/block.hpp"
#include "stratum/extent_parts.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

constexpr std::uint64_t fence_bytes_of_block = 64;  // at most, without the separator
constexpr std::uint64_t extent_bytes_max = std::uint64_t{UINT32_MAX} * block_alignment;

}  // namespace

extent_builder::extent_builder(std::span<std::byte> to, std::uint32_t seed, std::uint64_t block_bytes,
                               std::optional<std::uint64_t> in_page)
    : to_(to.first(std::min(to.size(), extent_bytes_max))),
      seed_(seed),
      block_bytes_(std::min(block_bytes, block_bytes_max)),
      in_page_(block_bytes < media_page ? std::nullopt : in_page) {
  header_.least = version_max;
}

bool extent_builder::goes_on_with_last_key(std::string_view key, const packed_record& record) const {
  if (key.size() > key_size_max)
    raise(errc::invalid_argument, "a key of {} bytes: at most {}", key.size(), key_size_max);
  if (record.value.size() > packed_value_max) {
    raise(errc::invalid_argument, "a value of {} bytes: at most {} are packed", record.value.size(), packed_value_max);
  }
  if (record.kind > packed_kind::elsewhere || (record.is_removal() && !record.value.empty()) ||
      (record.is_elsewhere() && record.value.size() != sizeof(value_reference))) {
    raise(errc::invalid_argument,
          "a record of kind {} with a value of {} bytes: kinds are 0, a value, 1, a removal without one, and 2, a "
          "reference of {} bytes",
          static_cast<unsigned>(record.kind), record.value.size(), sizeof(value_reference));
  }
  if (record.stamped == 0 || record.stamped > version_max) {
    raise(errc::invalid_argument, "a record of version {}: from 1 to {}", record.stamped, version_max);
  }
  if (header_.records == 0) return false;
  const int order = std::string_view(last_key_).compare(key);
  if (order > 0 || (order == 0 && last_version_ <= record.stamped)) {
    raise(errc::invalid_argument,
          "a record of version {} behind one of version {} of {}: records are packed in the order of "
          "their keys, and the newest of a key first",
          record.stamped, last_version_, order == 0 ? "its key" : "a greater key");
  }
  return order == 0;
}

bool extent_builder::add(std::string_view key, const packed_record& record) {
  const bool known_key = goes_on_with_last_key(key, record);
  // What the record adds, and what it makes of the slots and rows that are there: longer numbers, sizes and versions,
  // aligned values (X1).
  constexpr std::uint64_t slot_max = 2 * sizeof(std::uint64_t);
  constexpr std::uint64_t row_max = packed_version_bytes_max + sizeof(std::uint32_t) + 7;
  const std::uint64_t more = (known_key ? 0 : slot_max + key.size()) + row_max + record.value.size();
  const std::uint64_t block = (block_.empty() ? 0 : block_.size() + block_.records() * (slot_max + row_max)) + more;
  // The record may begin a new block, which has the key again; or all records of its key move to a new block.
  const std::uint64_t second_block = key.size() + 4 * block_alignment + 2 * block_builder::filling_max;
  // The separator of the block that is being filled may be all of its first key.
  const std::uint64_t separators =
      (block_.empty() ? 0 : block_.key(0).size()) + 2 * (std::max(key.size(), last_key_.size()) + fence_bytes_of_block);
  if (end_ + block + second_block + fence_.size_with(separators) > to_.size()) return false;
  if (fence_.separators_size() + separators > UINT32_MAX) return false;  // their ends have 32 bits

  const bool by_pages = in_page_ && more <= block_builder::filling_max;
  if (!block_.empty() && is_full_for(more, by_pages)) {
    if (known_key && block_.keys() > 1) {
      block_.move_last_key(carried_);  // X2
      write_block(by_pages);
      std::swap(block_, carried_);
      if (is_full_for(more, by_pages)) write_block(by_pages);
    } else {
      write_block(by_pages);
    }
  }
  block_.add(key, record);
  count(key, record, known_key);
  return true;
}

void extent_builder::count(std::string_view key, const packed_record& record, bool known_key) {
  if (header_.records == 0) first_key_ = key;
  if (!known_key) {
    ++header_.keys;
    header_.key_bytes += key.size();
    last_key_ = key;
  }
  last_version_ = record.stamped;
  ++header_.records;
  header_.value_bytes += record.value_size();
  header_.removals += record.is_removal() ? 1 : 0;
  header_.least = std::min(header_.least, record.stamped);
  header_.greatest = std::max(header_.greatest, record.stamped);
}

bool extent_builder::is_full_for(std::uint64_t more, bool by_pages) const noexcept {
  if (!block_.has_room()) return true;
  const std::uint64_t limit = by_pages ? page_limit() : block_bytes_;
  return block_.size() + more > limit && block_.exact_size() + more > limit;  // the second one may cost more
}

std::uint64_t extent_builder::page_limit() const noexcept {
  const std::uint64_t at = *in_page_ + end_;
  return (at + block_bytes_ / 2 + media_page - 1) / media_page * media_page - at;
}

void extent_builder::write_block(bool by_pages) {
  const std::string_view first = block_.key(0);
  const bool goes_on = fence_.blocks() != 0 && first == written_key_;
  std::string_view separator = first;
  if (fence_.blocks() != 0 && !goes_on) separator = first.substr(0, common_prefix(written_key_, first) + 1);
  assert(end_ + block_.size() + block_builder::filling_max + fence_.size_with(separator.size()) <= to_.size());
  std::byte* const to = to_.data() + end_;
  const auto in_page = by_pages ? std::optional((*in_page_ + end_) % media_page) : std::nullopt;
  const std::uint64_t size = block_.write(to, block_seed(seed_, end_), in_page);
  header_.blocks_sum += block_digest(to, end_);
  const block_header& written = block(to).header();
  fence_.add(separator, goes_on ? written_version_ - 1 : version_max, place_of(to, end_),
             {written.least, written.greatest});
  end_ += size;
  written_key_ = block_.key(block_.keys() - 1);
  written_version_ = block_.oldest_of_last_key();
  block_.clear();
}

std::uint64_t extent_builder::finish() {
  assert(!block_.empty());
  write_block(false);
  const std::size_t prefix = common_prefix(first_key_, last_key_);
  fence_.write(to_.data() + end_, static_cast<std::uint32_t>(end_ / block_alignment), prefix);
  header_.magic = extent_magic;
  header_.fence_at = end_;
  header_.separators = fence_.separators_size();
  header_.blocks = fence_.blocks();
  header_.prefix_size = static_cast<std::uint32_t>(prefix);
  header_.fence_crc = crc32c(seed_, to_.data() + end_, fence_.size());
  header_.size = end_ + fence_.size();
  header_.crc = header_crc(header_, seed_);
  std::memcpy(to_.data(), &header_, sizeof header_);
  return header_.size;
}

}  // namespace icecore::stratum

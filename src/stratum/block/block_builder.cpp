#include "stratum/block/block_builder.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "base/checksum.hpp"
#include "base/key_head.hpp"

namespace icecore::stratum {

using namespace format;

namespace {

constexpr std::uint64_t aligned_size = 32;  // values of this mean size begin at multiples of 8

[[nodiscard]] std::uint64_t rounded(std::uint64_t size, std::uint64_t to) noexcept { return (size + to - 1) / to * to; }

/// Writes bytes from a place on.
class byte_placer {
 public:
  byte_placer(std::byte* to, std::uint64_t at) noexcept : to_(to), at_(at) {}
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  void number(std::uint64_t value, std::size_t bytes) noexcept {
    std::memcpy(to_ + at_, &value, bytes);  // little-endian
    at_ += bytes;
  }
  void text(std::string_view bytes) noexcept {
    if (!bytes.empty()) std::memcpy(to_ + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void align() noexcept { at_ = rounded(at_, 8); }

 private:
  std::byte* to_;
  std::uint64_t at_;
};

}  // namespace

void block_builder::add(std::string_view key, const packed_record& record) {
  assert(has_room());
  if (keys_.empty() || key != this->key(keys_.size() - 1)) {
    assert(keys_.empty() || key > this->key(keys_.size() - 1));
    key_bytes_ += key;
    keys_.push_back({static_cast<std::uint32_t>(key_bytes_.size()), static_cast<std::uint32_t>(records_.size())});
    count_key(keys_.size() - 1);
  } else {
    assert(record.stamped < records_.back().stamped);
  }
  values_ += record.value;
  records_.push_back({record.stamped, record.kind, static_cast<std::uint32_t>(values_.size())});
  count_record(records_.size() - 1);
}

void block_builder::count_key(std::size_t i) noexcept { totals_.keys_vary |= key(i).size() != key(0).size(); }

void block_builder::count_record(std::size_t r) noexcept {
  const std::uint64_t size = value(r).size();
  totals_.least = std::min(totals_.least, records_[r].stamped);
  totals_.greatest = std::max(totals_.greatest, records_[r].stamped);
  if (records_[r].kind == packed_kind::removal) return;
  totals_.values_vary |= totals_.values > 0 && size != totals_.value_size_max;
  totals_.value_size_max = std::max(totals_.value_size_max, size);
  ++totals_.values;
}

std::string_view block_builder::key(std::size_t i) const noexcept {
  const std::size_t from = i == 0 ? 0 : keys_[i - 1].end;
  return std::string_view(key_bytes_).substr(from, keys_[i].end - from);
}

std::string_view block_builder::value(std::size_t r) const noexcept {
  const std::size_t from = r == 0 ? 0 : records_[r - 1].value_end;
  return std::string_view(values_).substr(from, records_[r].value_end - from);
}

void block_builder::clear() noexcept {
  key_bytes_.clear();
  keys_.clear();
  values_.clear();
  records_.clear();
  totals_ = {};
}

void block_builder::move_last_key(block_builder& next) {
  assert(keys_.size() >= 2);
  const std::size_t first = keys_.back().first_record;
  for (std::size_t r = first; r < records_.size(); ++r) {
    next.add(key(keys_.size() - 1), {records_[r].stamped, records_[r].kind, value(r)});
  }
  records_.resize(first);
  values_.resize(records_.back().value_end);
  keys_.pop_back();
  key_bytes_.resize(keys_.back().end);
  totals_ = {};
  for (std::size_t i = 0; i < keys_.size(); ++i) count_key(i);
  for (std::size_t r = 0; r < records_.size(); ++r) count_record(r);
}

block_header block_builder::plan() const noexcept {
  const std::uint64_t keys = keys_.size();
  const std::uint64_t records = records_.size();
  const std::uint64_t key_size = key(0).size();
  const std::uint64_t versions = (totals_.greatest - totals_.least) << packed_kind_bits | 1;
  block_header h{};
  h.keys = static_cast<std::uint16_t>(keys);
  h.records = static_cast<std::uint16_t>(records);
  h.version_bytes = static_cast<std::uint8_t>((std::bit_width(versions) + 7) / 8);
  h.least = totals_.least;
  h.greatest = totals_.greatest;
  if (!totals_.keys_vary) {
    h.flags |= block_flags::keys_of_one_size;
    h.key_size = static_cast<std::uint16_t>(key_size);
    if (key_size > 0 && key_size <= sizeof(std::uint64_t)) h.flags |= block_flags::keys_in_slots;
  }
  if (totals_.values_vary) {
    h.size_bytes = totals_.value_size_max <= UINT8_MAX ? 1 : totals_.value_size_max <= UINT16_MAX ? 2 : 4;
  } else {
    h.value_size = static_cast<std::uint32_t>(totals_.value_size_max);
  }
  const bool aligned = totals_.values > 0 && values_.size() >= aligned_size * totals_.values;
  const bool rows_of_one_size = !aligned && h.size_bytes == 0 && keys == records && totals_.values == records;
  if (aligned) h.flags |= block_flags::aligned;
  if (rows_of_one_size) h.flags |= block_flags::rows_of_one_size;

  const std::uint64_t rows =
      records * h.version_bytes + totals_.values * (h.size_bytes + (aligned ? 7U : 0U)) + values_.size();
  const bool wide = key_bytes_.size() > UINT16_MAX || rows > UINT16_MAX;
  if (wide) h.flags |= block_flags::wide;
  const std::uint64_t number_bytes = wide ? 4 : 2;
  const bool in_slots = (h.flags & block_flags::keys_in_slots) != 0;
  h.slot_bytes =
      static_cast<std::uint8_t>((in_slots ? key_size : sizeof(std::uint64_t)) + (rows_of_one_size ? 0 : number_bytes) +
                                (totals_.keys_vary ? number_bytes : 0));
  h.keys_at = static_cast<std::uint32_t>(sizeof h + keys * h.slot_bytes);
  h.rows_at = static_cast<std::uint32_t>(h.keys_at + (in_slots ? 0 : key_bytes_.size()));
  h.size = static_cast<std::uint32_t>(rounded(h.rows_at + rows + block_padding, block_alignment));
  return h;
}

std::uint64_t block_builder::exact_size() const noexcept {
  const block_header h = plan();
  if ((h.flags & block_flags::aligned) == 0) return h.size;
  std::uint64_t at = h.rows_at;
  for (std::size_t r = 0; r < records_.size(); ++r) {
    at += h.version_bytes;
    if (records_[r].kind != packed_kind::removal) at = rounded(at + h.size_bytes, 8) + value(r).size();
  }
  return rounded(at + block_padding, block_alignment);
}

std::uint64_t block_builder::write(std::byte* to, std::uint32_t seed, std::optional<std::uint64_t> in_page) const {
  block_header h = plan();
  const auto has = [&h](std::uint8_t flag) { return (h.flags & flag) != 0; };
  const bool in_slots = has(block_flags::keys_in_slots);
  const std::size_t number_bytes = has(block_flags::wide) ? 4 : 2;
  if (!in_slots) h.prefix_size = static_cast<std::uint16_t>(common_prefix(key(0), key(keys_.size() - 1)));
  std::memset(to, 0, h.size + (in_page ? filling_max : 0));

  byte_placer rows(to, h.rows_at);
  const auto write_row = [&](std::size_t r) {
    const bool is_value = records_[r].kind != packed_kind::removal;
    rows.number((records_[r].stamped - h.least) << packed_kind_bits | static_cast<std::uint64_t>(records_[r].kind),
                h.version_bytes);
    if (!is_value) return;
    rows.number(value(r).size(), h.size_bytes);
    if (has(block_flags::aligned)) rows.align();
    rows.text(value(r));
  };
  byte_placer slots(to, sizeof h);
  for (std::size_t i = 0, r = 0; i < keys_.size(); ++i) {
    if (in_slots) {
      slots.text(key(i));
    } else {
      slots.number(__builtin_bswap64(head_of(key(i), h.prefix_size)), sizeof(std::uint64_t));
    }
    if (!has(block_flags::rows_of_one_size)) slots.number(rows.at() - h.rows_at, number_bytes);
    if (totals_.keys_vary) slots.number(keys_[i].end, number_bytes);
    const std::size_t end = i + 1 < keys_.size() ? keys_[i + 1].first_record : records_.size();
    for (; r < end; ++r) write_row(r);
  }
  if (!in_slots) byte_placer(to, h.keys_at).text(key_bytes_);
  h.end = static_cast<std::uint32_t>(rows.at());
  h.size = static_cast<std::uint32_t>(rounded(h.end + block_padding, block_alignment));
  if (in_page) {
    const std::uint64_t end = *in_page + h.size;
    const std::uint64_t left = rounded(end, media_page) - end;
    if (left <= filling_max) h.size += static_cast<std::uint32_t>(left);
  }
  std::memcpy(to, &h, sizeof h);
  const std::uint32_t crc = crc32c(seed, to + sizeof h.crc, h.size - sizeof h.crc);
  std::memcpy(to, &crc, sizeof crc);
  return h.size;
}

}  // namespace icecore::stratum

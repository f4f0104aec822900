#include "stratum/block/block.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/search.hpp"

namespace icecore::stratum {

using namespace format;

template <bool IsWhole, class Beyond>
inline std::uint32_t block::first_not_less(std::uint64_t sought, std::uint32_t guess,
                                           const Beyond& beyond) const noexcept {
  const std::uint64_t slot_bytes = header().slot_bytes;
  const auto is_head_less = [mask = head_mask(), sought](const std::byte* slot) {
    const std::uint64_t word = __builtin_bswap64(word_at(slot));
    return (IsWhole ? word : word & mask) < sought;
  };
  const auto is_less = [&, slots = slot(0)](std::uint32_t i) { return is_head_less(slots + i * slot_bytes); };
  const std::uint32_t all = keys();
  if (all <= heads_at_once) return count_while(all, is_less);
  const std::uint32_t begin = std::min(guess - std::min(guess, heads_at_once / 2), all - heads_at_once);
  const std::uint32_t less =
      count_while_of_16([&, first = slot(begin)](std::uint32_t i) { return is_head_less(first + i * slot_bytes); });
  if ((less > 0 || begin == 0) && (less < heads_at_once || begin + heads_at_once == all)) [[likely]]
    return begin + less;
  return beyond(begin, less, is_less);
}

/// Outwards from there, in doubling steps. For a single find, the first ones are in lines that were asked for.
template <class IsLess>
[[gnu::noinline]] std::uint32_t block::first_not_less_beyond(std::uint32_t begin, std::uint32_t less,
                                                             IsLess is_less) const noexcept {
  constexpr std::uint32_t first_step = heads_at_once / 4;
  std::uint32_t from = begin + heads_at_once;
  std::uint32_t end = keys();
  if (less > 0) {
    for (std::uint32_t step = first_step; step < end - from; step *= 2) {
      if (!is_less(from + step - 1)) {
        end = from + step - 1;
        break;
      }
      from += step;
    }
  } else {
    from = 0;
    end = begin;
    for (std::uint32_t step = first_step; step <= end; step *= 2) {
      if (is_less(end - step)) {
        from = end - step + 1;
        break;
      }
      end -= step;
    }
  }
  return from + count_while(end - from, [&](std::uint32_t i) { return is_less(from + i); });
}

template <class Beyond>
inline block::place block::seek_with(const sought_key& key, std::uint32_t guess, const Beyond& beyond) const noexcept {
  std::uint64_t sought = key.head;
  if (!has(block_flags::keys_in_slots) && header().prefix_size > 0) {
    const std::string_view prefix = this->key(0).substr(0, header().prefix_size);
    const int order = key.bytes.substr(0, prefix.size()).compare(prefix);
    if (order != 0) return {order < 0 ? 0 : keys(), false};
    sought = key.head_behind(header().prefix_size);
  }
  std::uint32_t at = head_bytes() == sizeof sought ? first_not_less<true>(sought, guess, beyond)
                                                   : first_not_less<false>(sought, guess, beyond);
  if (has(block_flags::keys_in_slots) && key.bytes.size() == header().key_size) {  // the head is the key
    return {at, at < keys() && head(at) == sought};
  }
  // Heads may tie. Mostly the first one's key is the one sought.
  for (std::uint32_t end = keys(), middle = at; at < end; middle = at + (end - at) / 2) {
    const int order = this->key(middle).compare(key.bytes);
    if (order == 0) return {middle, true};
    if (order > 0) {
      end = middle;
    } else {
      at = middle + 1;
    }
  }
  return {at, false};
}

block::place block::seek(const sought_key& key, std::uint32_t guess) const noexcept {
  return seek_with(key, guess, [this](std::uint32_t begin, std::uint32_t less, const auto& is_less) {
    return first_not_less_beyond(begin, less, is_less);
  });
}

block::near_place block::seek_near(const sought_key& key, std::uint32_t guess) const noexcept {
  near_place near{};
  near.is_known = true;
  const place found = seek_with(key, guess, [&](std::uint32_t begin, std::uint32_t less, const auto&) {
    near.is_known = false;
    // The next window has one head of this one, which tells that it begins, or ends, where it should.
    constexpr std::uint32_t to_next = heads_at_once - 1;
    near.at = (less > 0 ? begin + to_next : begin - std::min(begin, to_next)) + heads_at_once / 2;
    return keys();
  });
  if (near.is_known) {
    near.at = found.at;
    near.is_there = found.is_there;
  }
  return near;
}

const char* block::check(const std::byte* at, std::uint64_t size, std::uint32_t seed) noexcept {
  block_header header;
  if (size < sizeof header + block_padding) return "no block has so few bytes";
  std::memcpy(&header, at, sizeof header);
  if (header.size != size || size % block_alignment != 0) return "the block's size is not what the fence says";
  if (crc32c(seed, at + sizeof header.crc, header.size - sizeof header.crc) != header.crc) return "checksum mismatch";
  const block b(at);
  if (const char* what = b.parts_fail()) return what;
  if (const char* what = b.keys_fail()) return what;
  return b.rows_fail();
}

const char* block::parts_fail() const noexcept {
  const block_header& h = header();
  if (h.keys == 0 || h.records < h.keys || (h.flags & ~block_flags::known) != 0) return "the counts cannot be true";
  if (h.version_bytes == 0 || h.version_bytes > packed_version_bytes_max || h.least == 0 || h.least > h.greatest ||
      h.greatest > version_max) {
    return "the versions cannot be true";
  }
  if (h.size_bytes == 3 || h.size_bytes > 4) return "the sizes cannot be true";
  if (has(block_flags::keys_in_slots) &&
      (!has(block_flags::keys_of_one_size) || h.key_size == 0 || h.key_size > sizeof(std::uint64_t))) {
    return "the keys' size cannot be true";
  }
  if (has(block_flags::rows_of_one_size) && (h.size_bytes != 0 || h.keys != h.records || has(block_flags::aligned))) {
    return "the rows' size cannot be true";
  }
  const std::uint32_t slot = head_bytes() + (has(block_flags::rows_of_one_size) ? 0 : number_bytes()) +
                             (has(block_flags::keys_of_one_size) ? 0 : number_bytes());
  if (h.slot_bytes != slot) return "the slots cannot be true";
  // 64-bit numbers, so that nothing overflows.
  if (h.end > h.size - block_padding) return "the parts cannot be true";
  std::uint64_t at = sizeof h + std::uint64_t{h.keys} * slot;
  if (h.keys_at != at || at > h.end) return "the parts cannot be true";
  if (!has(block_flags::keys_in_slots)) {
    at += has(block_flags::keys_of_one_size) ? std::uint64_t{h.keys} * h.key_size : key_end(h.keys - 1U);
  }
  if (h.rows_at != at || at > h.end) return "the parts cannot be true";
  if (has(block_flags::rows_of_one_size) &&
      h.rows_at + std::uint64_t{h.keys} * (std::uint64_t{h.version_bytes} + h.value_size) != h.end) {
    return "the parts cannot be true";
  }
  return nullptr;
}

const char* block::keys_fail() const noexcept {
  if (!has(block_flags::keys_of_one_size)) {
    for (std::uint32_t i = 1; i < header().keys; ++i) {
      if (key_end(i) < key_end(i - 1)) return "the keys' ends do not ascend";
    }
  }
  if (header().prefix_size > key(0).size()) return "the prefix cannot be true";
  const std::string_view prefix = key(0).substr(0, header().prefix_size);
  for (std::uint32_t i = 0; i < header().keys; ++i) {
    if (i > 0 && key(i - 1) >= key(i)) return "the keys are not in order";
    if (!key(i).starts_with(prefix) || key(i).size() > key_size_max) return "a key cannot be true";
    if (!has(block_flags::keys_in_slots) && head(i) != head_of(key(i), prefix.size())) return "a head is not its key's";
  }
  return nullptr;
}

const char* block::rows_fail() const noexcept {
  version least = version_max;
  version greatest = 0;
  std::uint64_t records = 0;
  const row_reader rows(*this);
  std::uint64_t at = header().rows_at;
  for (std::uint32_t i = 0; i < header().keys; ++i) {
    if (header().rows_at + row(i) != at) return "a key's rows do not begin where the one before ends";
    const std::uint64_t end = rows_end(i);
    if (end <= at || end > header().end) return "a key has no rows";
    version newer = version_max + 1;
    while (at < end) {
      const read_row r = rows.read(at);  // reads less than 16 bytes behind `at`
      if (r.end > end) return "a row is longer than what there is";
      if (r.record.kind > packed_kind::elsewhere) return "a record's kind is unknown";
      if (r.record.is_elsewhere() && r.record.value.size() != sizeof(value_reference)) {
        return "a reference to a value cannot be true";
      }
      if (r.record.stamped >= newer) return "the versions of a key do not descend";
      newer = r.record.stamped;
      least = std::min(least, newer);
      greatest = std::max(greatest, newer);
      ++records;
      at = r.end;
    }
  }
  if (at != header().end || records != header().records) return "the counts cannot be true";
  if (least != header().least || greatest != header().greatest) return "the versions cannot be true";
  return nullptr;
}

}  // namespace icecore::stratum

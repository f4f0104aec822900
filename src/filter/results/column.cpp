#include "filter/results/column.hpp"

#include <bit>

namespace icecore::detail {
namespace {

/// The bits of `of` at the places of `mask`, moved together to the low end.
std::uint64_t gathered(std::uint64_t of, row_mask mask) noexcept {
  if (mask == ~0ULL) return of;
  std::uint64_t out = 0;
  unsigned at = 0;
  for_each_row(mask, [&](std::size_t i) { out |= (of >> i & 1U) << at++; });
  return out;
}

}  // namespace

column_type column_type_of(const node& tree) noexcept {
  switch (tree.type) {
    case kind::boolean:
      return column_type::boolean;
    case kind::integer:
      return tree.is_unsigned ? column_type::u64 : column_type::i64;
    case kind::real:
      return column_type::f64;
    default:
      return column_type::bytes;
  }
}

row_mask result_column::fitting(const slot& of) const noexcept {
  if (type_ == column_type::i64) return of.valid & ~of.big;
  if (type_ != column_type::u64) return of.valid;
  row_mask negative = 0;
  for (std::size_t i = 0; i < rows_max; ++i) negative |= (of.word[i] >> 63) << i;
  return of.valid & ~(negative & ~of.big);
}

void result_column::append_bits(std::vector<std::uint64_t>& to, std::size_t size, std::uint64_t bits,
                                std::size_t count) {
  const std::size_t used = size % 64;
  if (used == 0) {
    to.push_back(bits);
    return;
  }
  to.back() |= bits << used;
  if (used + count > 64) to.push_back(bits >> (64 - used));
}

void result_column::append(const slot& of, row_mask mask) {
  const auto count = static_cast<std::size_t>(std::popcount(mask));
  if (count == 0) return;
  const row_mask valid = fitting(of);
  const std::uint64_t present = gathered(valid & mask, mask);
  if (type_ == column_type::boolean) {
    append_bits(words_, size_, gathered(of.truth & valid & mask, mask), count);
  } else if (type_ == column_type::bytes) {
    for_each_row(mask, [&](std::size_t i) {
      if ((valid >> i & 1U) != 0) bytes_.insert(bytes_.end(), of.views[i].begin(), of.views[i].end());
      offsets_.push_back(bytes_.size());
    });
  } else {
    std::size_t at = words_.size();
    words_.resize(at + count);
    for_each_row(mask, [&](std::size_t i) {
      const std::uint64_t word = type_ == column_type::f64 ? std::bit_cast<std::uint64_t>(of.real[i]) : of.word[i];
      words_[at++] = (valid >> i & 1U) != 0 ? word : 0;
    });
  }
  append_bits(validity_, size_, present, count);
  size_ += count;
  nulls_ += count - static_cast<std::size_t>(std::popcount(present));
}

void result_column::clear() noexcept {
  size_ = 0;
  nulls_ = 0;
  validity_.clear();
  words_.clear();
  offsets_.resize(1);
  bytes_.clear();
}

datum result_column::at(std::size_t i) const noexcept {
  if (!bit_of(validity_, i)) return {};
  switch (type_) {
    case column_type::boolean:
      return {.type = kind::boolean, .word = bit_of(words_, i) ? 1U : 0U};
    case column_type::f64:
      return {.type = kind::real, .word = words_[i]};
    case column_type::bytes:
      return {.type = kind::bytes, .text = {bytes_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]}};
    default:
      return {.type = kind::integer, .big = type_ == column_type::u64 && words_[i] >> 63 != 0, .word = words_[i]};
  }
}

}  // namespace icecore::detail

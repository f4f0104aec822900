#include "query/media/gathered.hpp"

#include <bit>
#include <cstring>

#include "base/raise.hpp"
#include "query/media/column_rows.hpp"

namespace icecore::detail {
namespace {

/// A segment of the largest size holds a chunk of this size, with a key and totals.
constexpr std::size_t row_bytes_max = std::size_t{768} << 10;

std::size_t bytes_of(const std::vector<result_column>& columns) noexcept {
  std::size_t all = 0;
  for (const result_column& one : columns) {
    all += one.words().size_bytes() + one.bytes().size() + one.validity().size_bytes();
    all += one.type() == column_type::bytes ? one.offsets().size() * sizeof(std::uint32_t) : 0;
  }
  return all;
}

}  // namespace

gathered::gathered(const kept_of_matches& what) : what_(what) {
  if (what_.select != nullptr) {
    columns_ = what_.select->columns();
    one_row_ = what_.select->columns();
    for (const result_column& one : columns_) texts_ += one.type() == column_type::bytes ? 1 : 0;
  }
  if (what_.totals != nullptr) totals_ = what_.totals->begin();
}

void gathered::begin(const part_log& log) {
  clear();
  last_key_ = log.position().value_or(std::string_view());
  if (what_.totals == nullptr) return;
  totals_ = log.content() ? totals_in(log.chunks(), *log.content(), *what_.totals) : what_.totals->begin();
}

std::size_t gathered::bytes_of_row(const rows& block, std::size_t i) const noexcept {
  std::size_t all = 0;
  if (what_.keeps == query_keeps::keys) all += block.keys[i].size() + 16;
  if (what_.select != nullptr) {
    const std::size_t value = block.values[i].size();
    all += texts_ * (block.keys[i].size() + value) + columns_.size() * column_bytes_of_row;
  }
  return all;
}

std::size_t gathered::bytes_for(const rows& block, row_mask matches) const noexcept {
  std::size_t all = 0;
  if (what_.keeps != query_keeps::count) {
    for_each_row(matches, [&](std::size_t i) { all += bytes_of_row(block, i); });
  }
  return all;
}

void gathered::require_fit(const rows& block, std::size_t i, scratch& memory) {
  if (what_.select == nullptr || bytes_of_row(block, i) <= row_bytes_max) return;
  for (result_column& one : one_row_) one.clear();
  what_.select->evaluate(block, row_mask{1} << i, memory, one_row_);
  const std::size_t size = bytes_of(one_row_);
  for (result_column& one : one_row_) one.clear();
  if (size <= row_bytes_max) return;
  raise(errc::invalid_argument, "the selected columns of one key take {} bytes; a query keeps at most {}: select less",
        size, row_bytes_max);
}

void gathered::add(const rows& block, std::size_t first, std::size_t count, row_mask matches, scratch& memory) {
  const row_mask all = count >= rows_max ? ~0ULL : (row_mask{1} << count) - 1;
  const row_mask mask = matches & all << first;
  whole_ = false;
  if (what_.keeps == query_keeps::keys) {
    for_each_row(mask, [&](std::size_t i) { matches_.push_back(block.keys[i]); });
    for_each_row(mask, [&](std::size_t i) { match_bytes_ += bytes_of_row(block, i); });
    if (what_.bits) bits_.add(block.keys[first], mask >> first, count);
  }
  if (what_.select != nullptr) what_.select->evaluate(block, mask, memory, columns_);
  if (what_.totals != nullptr) what_.totals->add(block, mask, memory, totals_);
  whole_ = true;
  rows_ += static_cast<std::uint32_t>(std::popcount(mask));
  examined_ += static_cast<std::uint32_t>(count);
  last_key_ = block.keys[first + count - 1];
}

std::size_t gathered::bytes() const noexcept { return match_bytes_ + bytes_of(columns_); }

chunk_content gathered::content(bool is_last) {
  chunk_content made{.kind = format::chunk_kind::counted,
                     .is_last = is_last,
                     .last_key = last_key_,
                     .folded = std::as_bytes(std::span<const fold_state>(totals_)),
                     .rows = {},
                     .row_count = rows_,
                     .examined = examined_};
  if (what_.keeps == query_keeps::keys) {
    if (bits_.suits(matches_.size())) {
      made.kind = format::chunk_kind::bits;
      encoded_.clear();
      bits_.append_to(encoded_);
      made.rows = encoded_;
    } else {
      made.kind = format::chunk_kind::keys;
      keys_.clear();
      for (const std::string_view key : matches_) keys_.add(key);
      made.rows = keys_.bytes();
    }
  } else if (what_.keeps == query_keeps::rows) {
    made.kind = format::chunk_kind::columns;
    encoded_.clear();
    if (rows_ > 0) {
      append_columns(columns_, (sizeof(format::query_chunk) + made.last_key.size() + made.folded.size()) % 8, encoded_);
    }
    made.rows = encoded_;
  }
  return made;
}

chunk_content gathered::skipping(std::string_view key, std::span<const std::byte> note) noexcept {
  last_key_ = key;
  return {.kind = format::chunk_kind::skipped,
          .is_last = false,
          .last_key = key,
          .folded = std::as_bytes(std::span<const fold_state>(totals_)),
          .rows = note,
          .row_count = 0,
          .examined = 1};
}

void gathered::clear() noexcept {
  matches_.clear();
  match_bytes_ = 0;
  bits_.clear();
  for (result_column& one : columns_) one.clear();
  rows_ = 0;
  examined_ = 0;
  whole_ = true;
}

std::vector<fold_state> totals_in(const chunk_source& chunks, const chunk& of, const aggregation& totals) {
  std::vector<fold_state> made = totals.begin();
  const auto from = of.folded();
  if (from.size() != made.size() * sizeof(fold_state)) {
    raise(errc::damaged, "{}: damaged at byte {} (query): a chunk has totals of {} bytes, not {}",
          chunks.space().pools().origin(of.place()), link_offset(of.place()), from.size(),
          made.size() * sizeof(fold_state));
  }
  std::memcpy(made.data(), from.data(), from.size());
  return made;
}

}  // namespace icecore::detail

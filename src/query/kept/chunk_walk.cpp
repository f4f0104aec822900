#include "query/kept/chunk_walk.hpp"

#include "base/raise.hpp"

namespace icecore::detail {

void chunk_walk::load() {
  const auto shown = of_->rows_of(part_);
  shown_of_part_ = shown.rows;
  part_complete_ = shown.complete;
}

/// The chunk of the part that has its row `row`, found from the newest by jumps.
chunk chunk_walk::chunk_with(std::uint64_t row) const {
  const auto part = static_cast<std::uint16_t>(part_);
  const chunk_source chunks = of_->chunks();
  const auto newest = shown_chunk(chunks, of_->head_place(), part);
  if (!newest) {
    raise(errc::damaged, "part {} of query '{}' has no rows any more: it was restarted, or is damaged", part_,
          of_->definition().name);
  }
  chunk c = *newest;
  const auto older = [&](link to) {
    const chunk found = chunks.require(to, part);
    if (found.header().sequence >= c.header().sequence) {
      raise(errc::damaged, "{}: damaged at byte {} (query): a chunk leads to one that is not older than itself",
            chunks.space().pools().origin(c.place()), link_offset(c.place()));
    }
    return found;
  };
  while (row < c.header().rows_before) {
    if (const link jump = c.header().jump; jump != null_link) {
      if (const chunk far = older(jump); row < far.rows_so_far()) {
        c = far;
        continue;
      }
    }
    c = older(c.header().older);
  }
  return c;
}

bool chunk_walk::seek(std::uint64_t row) {
  part_ = 0;
  before_part_ = 0;
  now_.reset();
  next_row_ = row;
  for (;; ++part_) {
    load();
    if (row < before_part_ + shown_of_part_ || !part_complete_ || part_ + 1 == of_->definition().parts()) break;
    before_part_ += shown_of_part_;
  }
  if (row >= before_part_ + shown_of_part_) return false;
  now_ = chunk_with(row - before_part_);
  next_row_ = first_row() + rows();
  return true;
}

bool chunk_walk::next_in_part() {
  const chunk_source chunks = of_->chunks();
  for (;;) {
    if (now_ && now_->rows_so_far() < shown_of_part_) {
      now_ = chunks.require(chunks.place_after(*now_), static_cast<std::uint16_t>(part_));
    } else if (!now_ && next_row_ < before_part_ + shown_of_part_) {
      now_ = chunk_with(next_row_ - before_part_);
    } else {
      return false;
    }
    if (now_->header().rows == 0) continue;
    next_row_ = first_row() + rows();
    return true;
  }
}

bool chunk_walk::next() {
  while (!next_in_part()) {
    if (!part_complete_ || part_ + 1 == of_->definition().parts()) return false;
    before_part_ += shown_of_part_;
    ++part_;
    now_.reset();
    load();
  }
  return true;
}

bool chunk_walk::seek_part(std::size_t part) {
  part_ = part;
  before_part_ = 0;
  next_row_ = 0;
  now_.reset();
  load();
  return next_in_part();
}

}  // namespace icecore::detail

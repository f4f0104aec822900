#include "stratum/merge/record_source.hpp"

namespace icecore::stratum {

extent_records::extent_records(const extent& of, std::string_view from) : of_(&of) {
  const sought_key sought(from);
  const extent::position start = of.seek(sought);
  block_ = start.block;
  if (start.key < of.block_at(block_).keys()) {
    enter_block(start.key);
  } else {
    ++block_;
    if (!at_end()) enter_block(0);
  }
}

void extent_records::enter_block(std::uint32_t first_key) {
  if (first_key == 0) of_->walk_to(block_);
  const block b = of_->block_at(block_);
  key_at_ = first_key;
  key_ = b.key(first_key);
  row_end_ = b.rows_begin(first_key);
  read_row();
}

void extent_records::read_row() {
  const block::read_row r = of_->block_at(block_).row_at(row_end_);
  record_ = r.record;
  row_end_ = r.end;
}

void extent_records::next() {
  const block b = of_->block_at(block_);
  if (row_end_ == b.rows_end(key_at_)) {
    if (++key_at_ == b.keys()) {
      if (++block_ != of_->blocks()) enter_block(0);
      return;
    }
    key_ = b.key(key_at_);
  }
  read_row();
}

}  // namespace icecore::stratum

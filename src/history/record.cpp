#include "history/record.hpp"

#include <cstring>

namespace icecore {

link record::batch() const noexcept {
  link l;
  std::memcpy(&l, at_ + layout().batch_link_offset(), sizeof l);
  return l;
}

void record::set_batch(record_layout layout, link batch) const noexcept {
  std::memcpy(at_ + layout.batch_link_offset(), &batch, sizeof batch);
}

void record::set_value_crc(record_layout layout, std::uint32_t crc) const noexcept {
  std::memcpy(at_ + layout.value_crc_offset(), &crc, sizeof crc);
}

bool record::value_intact() const noexcept {
  const auto l = layout();
  if ((l.flags & format::flag_large_value) == 0) return true;
  return value_crc() == crc32c(0, at_ + l.value_offset(), l.value_size);
}

std::uint32_t record::value_crc() const noexcept {
  std::uint32_t crc;
  std::memcpy(&crc, at_ + layout().value_crc_offset(), sizeof crc);
  return crc;
}

std::uint32_t record::intact_seed() const noexcept {
  const auto [from, to] = covered(layout());
  constexpr std::uint64_t words_before = 2;  // see compute_crc()
  return crc32c_before(header().crc, compute_crc(layout(), 0), words_before * sizeof(std::uint64_t) + to - from);
}

}  // namespace icecore

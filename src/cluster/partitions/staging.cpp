#include "cluster/partitions/staging.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace icecore::mpi {
namespace {

write_view write_at(std::string_view bytes, std::uint32_t offset) {
  unpacker in(bytes.substr(offset));
  return unpack_write(in);
}

}  // namespace

std::size_t staged_index::slot_of(std::string_view bytes, std::string_view key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key)&mask;
  while (slots_[slot] != none && write_at(bytes, slots_[slot]).key != key) slot = (slot + 1) & mask;
  return slot;
}

void staged_index::grow(std::string_view bytes) {
  constexpr std::size_t slots_min = 64;
  const std::vector<std::uint32_t> before =
      std::exchange(slots_, std::vector<std::uint32_t>(std::max(slots_min, 2 * slots_.size()), none));
  for (const std::uint32_t offset : before) {
    if (offset != none) slots_[slot_of(bytes, write_at(bytes, offset).key)] = offset;
  }
}

void staged_index::add(std::string_view bytes, std::uint32_t offset) {
  if (2 * used_ >= slots_.size()) grow(bytes);
  std::uint32_t& slot = slots_[slot_of(bytes, write_at(bytes, offset).key)];
  if (slot == none) ++used_;
  slot = offset;
}

std::optional<write_view> staged_index::find(std::string_view bytes, std::string_view key) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t offset = slots_[slot_of(bytes, key)];
  if (offset == none) return std::nullopt;
  return write_at(bytes, offset);
}

void staged_writes::append(const write_view& one) {
  const auto offset = static_cast<std::uint32_t>(packed_.size());
  try {
    pack(packed_, one);
    index_.add(packed_.bytes(), offset);
  } catch (...) {
    packed_.shorten(offset);
    throw;
  }
}

void staged_writes::put_back(std::string request, staged_index index) noexcept {
  packed_ = packer(std::move(request));
  index_ = std::move(index);
}

std::string staged_writes::take_request() { return std::exchange(packed_, packer(kind::write)).take(); }

}  // namespace icecore::mpi

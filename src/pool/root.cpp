#include "pool/root.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/checksum.hpp"

namespace icecore {
namespace {

std::uint32_t crc_of(const format::root& r) noexcept { return crc32c(0, &r, offsetof(format::root, crc)); }

format::root copy_page(const std::byte* page) noexcept {
  format::root r;
  std::memcpy(&r, page, sizeof r);
  return r;
}

}  // namespace

std::optional<std::string> root_defect(const format::root& r) {
  if (r.magic != format::magic) return "no icecore magic";
  if (r.byte_order != format::byte_order_mark) return "written by a machine of other byte order";
  if (r.crc != crc_of(r)) return "checksum mismatch";
  return std::nullopt;
}

std::optional<format::root> newest_root(const std::byte* base) {
  const format::root a = copy_page(base + format::root_a_offset);
  const format::root b = copy_page(base + format::root_b_offset);
  const bool a_good = !root_defect(a);
  const bool b_good = !root_defect(b);
  if (a_good && b_good) return a.sequence > b.sequence ? a : b;
  if (a_good) return a;
  if (b_good) return b;
  return std::nullopt;
}

format::root root_pages::read() const {
  const std::scoped_lock lock(mutex_);
  return current_;
}

void root_pages::update(const std::function<void(format::root&)>& change) {
  const std::scoped_lock lock(mutex_);
  format::root next = current_;
  change(next);
  ++next.sequence;
  next.crc = crc_of(next);
  // P1: the page not holding the newest root; sequence numbers alternate between the two
  std::byte* page = base_ + ((next.sequence & 1) != 0 ? format::root_b_offset : format::root_a_offset);
  std::memcpy(page, &next, sizeof next);
  persist_->persist(page, sizeof next);
  current_ = next;
}

}  // namespace icecore

#include "pool/root/root.hpp"

#include <fmt/format.h>
#include <cassert>

#include <algorithm>
#include <cstring>
#include <utility>

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

std::uint64_t root_offset(const format::root& r) noexcept {
  return (r.sequence & 1) != 0 ? format::root_b_offset : format::root_a_offset;
}

void seal_root(format::root& r) noexcept { r.crc = crc_of(r); }

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

version_ranges lost_versions_of(const format::root& r) {
  version_ranges lost;
  for (const format::lost_versions& each : r.lost) lost.add({each.first, each.end});
  return lost;
}

void set_lost_versions(format::root& r, const version_ranges& lost) noexcept {
  static_assert(version_ranges::count_max == format::lost_max);
  std::memset(r.lost, 0, sizeof r.lost);
  std::ranges::transform(lost.ranges(), r.lost, [](const version_range& each) {
    return format::lost_versions{each.first, each.end};
  });
  // an icecore that does not know lost versions would show wrong states for them
  if (!lost.empty()) r.version_minor = std::max(r.version_minor, format::minor_with_lost_versions);
}

format::root root_pages::read() const {
  if (lock_ == nullptr) {
    const std::scoped_lock lock(current_mutex_);
    return current_;
  }
  const std::scoped_lock lock(mutex_);
  const auto among_processes = hold();
  return current_;
}

std::optional<format::root> root_pages::previous() const {
  format::root before = current_;
  --before.sequence;
  before = copy_page(page_of(before));
  const bool fits = !root_defect(before) && before.sequence + 1 == current_.sequence &&
                    std::memcmp(before.pool_id, current_.pool_id, sizeof before.pool_id) == 0 &&
                    before.state == current_.state && before.epoch == current_.epoch;
  return fits ? std::optional(before) : std::nullopt;
}

/// Another process may have written a newer root. Caller holds both locks.
void root_pages::look_again() const {
  if (const auto newest = newest_root(base_)) current_ = *newest;
}

/// Keeps other processes away and reads what they wrote. A process that was killed here may have left a root that is
/// not durable, or a torn one, just like one that was killed before an opening. The next update must not overwrite the
/// durable root.
std::optional<recovering_lock> root_pages::hold() const {
  if (lock_ == nullptr) return std::nullopt;
  std::optional<recovering_lock> held(std::in_place, *lock_, [this] {
    look_again();
    make_durable_locked();
  });
  look_again();
  return held;
}

std::byte* root_pages::page_of(const format::root& r) const noexcept { return base_ + root_offset(r); }

void root_pages::make_durable() {
  const std::scoped_lock lock(mutex_);
  make_durable_locked();
}

void root_pages::make_durable_locked() const {
  format::root before = current_;
  --before.sequence;
  std::byte* const other = page_of(before);
  std::uint32_t crc;
  std::memcpy(&crc, other + offsetof(format::root, crc), sizeof crc);
  if (crc != 0 && root_defect(copy_page(other))) {
    crc = 0;
    std::memcpy(other + offsetof(format::root, crc), &crc, sizeof crc);
    persist_->flush(other + offsetof(format::root, crc), sizeof crc);
  }
  persist_->persist(page_of(current_), format::page_size);
}

void root_pages::publish(const std::function<void(format::root&)>& change) {
  const std::scoped_lock lock(mutex_);
  change(current_);
  seal_root(current_);
  std::memcpy(page_of(current_), &current_, sizeof current_);
  persist_->persist(page_of(current_), format::page_size);
}

void root_pages::update(const std::function<void(format::root&)>& change) {
  const std::scoped_lock lock(mutex_);
  const auto among_processes = hold();
  format::root next = current_;
  change(next);
  write_next(next);
}

// A crash between the two writes leaves the first one, which is a valid root: nothing relies on its content yet.
void root_pages::update_both(const std::function<void(format::root&)>& change) {
  const std::scoped_lock lock(mutex_);
  const auto among_processes = hold();
  format::root next = current_;
  change(next);
  write_next(next);
  write_next(next);
}

/// Durable on return. Caller holds both locks.
void root_pages::write_next(format::root next) {
  persist_->verify_file_sizes();
  next.sequence = current_.sequence + 1;
  seal_root(next);
  std::byte* page = page_of(next);
  assert(page != page_of(current_));  // P1: not the one that holds the newest root
  std::memcpy(page, &next, sizeof next);
  persist_->persist(page, sizeof next);
  const std::scoped_lock lock(current_mutex_);
  current_ = next;
}

}  // namespace icecore

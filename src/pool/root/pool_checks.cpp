// What must hold for a root before anything else in its file is trusted.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "pool/pool.hpp"
#include "pool/root/placements.hpp"

namespace icecore {
namespace {

/// Whether the ranges are as set_lost_versions() writes them, and all lie in versions that are closed, or will be once
/// the store is opened.
bool has_sound_lost_versions(const format::root& r) noexcept {
  const std::uint64_t closed_before = r.state == format::root_state::clean ? r.clock : r.clock_limit;
  std::uint64_t end = 0;
  bool is_last = false;
  for (const format::lost_versions& each : r.lost) {
    if (each.first == 0 && each.end == 0) {
      is_last = true;
      continue;
    }
    if (is_last || each.first <= end || each.end <= each.first || each.end > closed_before) return false;
    end = each.end;
  }
  return true;
}

}  // namespace

void pool::raise_no_root(const std::byte* pages) const {
  const std::string& path = origin();
  const auto& a = *reinterpret_cast<const format::root*>(pages);
  const bool swapped = a.magic == __builtin_bswap64(format::magic) ||
                       (a.magic == format::magic && a.byte_order == __builtin_bswap32(format::byte_order_mark));
  if (all_zero(pages, 2 * format::page_size)) {
    raise(errc::not_a_store,
          "{}: has {} bytes, with zeros where a store's roots are: it is not a store, or was overwritten; remove it to "
          "make a new store here",
          path, file_.size());
  }
  if (!swapped && a.magic != format::magic) {
    raise(errc::not_a_store, "{}: is not an icecore store (no magic at its start)", path);
  }
  if (swapped) {
    raise(errc::unsupported_format, "{}: written by a machine of other byte order; dump it there and load it here",
          path);
  }
  raise(errc::damaged, "{}: both root pages are damaged (bytes 0-8191): {}", path, *root_defect(a));
}

void pool::follow_root() {
  const auto newest = newest_root(base_);
  if (!newest) return;  // it is being written
  check_format(*newest);
  roots_->follow(*newest);
}

void pool::check_format(const format::root& r) const {
  const std::string& path = origin();
  const bool is_of_a_preview =
      r.version_major > format::version_major_with_queries && r.version_major <= format::version_major_without_versions;
  if (r.version_major < format::version_major || r.version_major > format::version_major_with_values ||
      is_of_a_preview) {
    raise(errc::unsupported_format, "{}: has format {}.{}; this icecore reads the formats {}, {} and {} to {}{}", path,
          r.version_major, r.version_minor, format::version_major, format::version_major_with_queries,
          format::version_major_with_manifest, format::version_major_with_values,
          is_of_a_preview ? "; dump it with the icecore that wrote it, and load it here" : "");
  }
  if (r.version_minor > format::version_minor && shared_) {
    raise(errc::unsupported_format, "{}: has format {}.{}, newer than {}.{}: it can be opened for reading only", path,
          r.version_major, r.version_minor, format::version_major, format::version_minor);
  }
  if (r.granule_size != format::granule_size || r.pool_count > format::files_max || r.pool_number >= r.pool_count ||
      !has_sound_paths(r)) {
    raise(errc::unsupported_format, "{}: has granules of {} bytes and is file {} of {}; this icecore cannot read that",
          path, r.granule_size, r.pool_number + 1, r.pool_count);
  }
  const auto index = static_cast<index_kind>(r.index);
  if (index < index_kind::btree || index > index_kind::hash) {
    raise(errc::unsupported_format, "{}: uses index {}, which this icecore does not have", path, r.index);
  }
}

void pool::check_size(const format::root& r, const std::byte* pages, std::uint64_t size, const options& opening,
                      const file_role& as) const {
  const std::string& path = origin();
  if (r.file_size < format::first_segment_offset || r.file_size % format::page_size != 0) {
    raise(errc::damaged, "{}: the newest root page says that the file has {} bytes, which is impossible", path,
          r.file_size);
  }
  const bool clean = r.state == format::root_state::clean;
  if (clean && (r.used_end < format::first_segment_offset || r.used_end > r.file_size ||
                r.used_end % format::granule_size != 0)) {
    raise(errc::damaged, "{}: the newest root page says that {} of the file's {} bytes are used, which is impossible",
          path, r.used_end, r.file_size);
  }
  if (r.clock == 0 || r.clock > r.clock_limit || r.clock_limit > version_max) {
    raise(errc::damaged,
          "{}: the newest root page says that version {} is open and {} is the limit, which is impossible", path,
          r.clock, r.clock_limit);
  }
  if (!has_sound_lost_versions(r)) {
    raise(errc::damaged, "{}: the newest root page has an impossible list of lost versions", path);
  }
  constexpr std::uint64_t roots_max = std::uint64_t{1} << 62;  // a root per nanosecond for a century; it never wraps
  if (r.sequence > roots_max) {
    raise(errc::damaged, "{}: the newest root page has the sequence number {}, which is impossible", path, r.sequence);
  }
  if (size < r.file_size && !opening.accept_damage) {
    for (const std::uint64_t page : {format::root_a_offset, format::root_b_offset}) {
      const auto defect = root_defect(*reinterpret_cast<const format::root*>(pages + page));
      if (!defect || all_zero(pages + page, format::page_size)) continue;
      raise(errc::damaged,
            "{}: the root page at byte {} is damaged ({}); the older one says that the file has {} bytes, but it has "
            "{}; icecore repair makes a new store of what is intact",
            path, page, *defect, r.file_size, size);
    }
    raise(errc::truncated, "{}: is {} bytes long but was {}: its end is missing", path, size, r.file_size);
  }
  // if an interrupted opening left this file open, the root of the first file decides
  if (as.closed_elsewhere()) return;
  if (r.state == format::root_state::open && r.inode != file_.inode() && !opening.accept_copy) {
    raise(errc::copied,
          "{}: is a copy, made or moved before its writer had closed it; if that writer was dead by then, accept the "
          "copy (options::accept_copy, --accept-copy)",
          path);
  }
}

/// The first segment behind the end of the file that `r` names. Not read through the mapping: an interrupted growth
/// leaves holes there, and reading these through it fails if memory is full.
std::optional<std::uint64_t> pool::segment_behind_end(const format::root& r) const {
  const std::uint32_t seed = pool_seed_of(r);
  for (std::uint64_t at = format::round_up(r.file_size, format::granule_size);; at += format::granule_size) {
    const auto data = source_->next_data(at);
    if (!data) return std::nullopt;
    at = std::max(at, *data / format::granule_size * format::granule_size);
    format::segment_header h;
    if (!source_->read(&h, sizeof h, at)) return std::nullopt;
    const bool known = h.magic == format::segment_magic || h.magic == format::index_segment_magic;
    if (known && h.granules != 0 && h.crc == header_crc(h, seed, make_link(number_, at))) return at;
  }
}

/// A root that names a longer file is durable before anything is written there (P2), and by then is in both pages (P6).
/// So if there is something, the newest roots are lost, and with them the clock's limit and the certificate. A store
/// that went on from this root would truncate what the root does not know of.
void pool::check_behind_end(format::root& r, std::uint64_t whole_pages, const options& opening) {
  if (whole_pages <= r.file_size) return;
  const auto at = segment_behind_end(r);
  if (!at) return;
  root_loss_ = fmt::format(
      "the newest root is lost: the one before says that the file has {} bytes, but a segment of the store lies at "
      "byte {}",
      r.file_size, *at);
  if (!opening.accept_damage) {
    raise(errc::damaged, "{}: {}; icecore repair makes a new store of what is intact", origin(), root_loss_);
  }
  // as where no root is left: every record is checked by its own checksum
  r.file_size = whole_pages;
  r.used_end = whole_pages;
  r.state = format::root_state::open;
  r.durability = static_cast<std::uint8_t>(durability::operation);
}

}  // namespace icecore

#include "pool/root/lost_root.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/checksum.hpp"
#include "icecore/options.hpp"
#include "pool/root/root.hpp"

namespace icecore {
namespace {

/// The seed for which the header's checksum is right.
std::uint32_t seed_of_header(const format::segment_header& h, std::uint64_t offset) {
  std::array<std::byte, sizeof offset + offsetof(format::segment_header, crc)> covered;
  std::memcpy(covered.data(), &offset, sizeof offset);
  std::memcpy(covered.data() + sizeof offset, &h, offsetof(format::segment_header, crc));
  return crc32c_before(h.crc, crc32c(0, covered.data(), covered.size()), covered.size());
}

}  // namespace

std::optional<format::root> root_from_segments(const pool_file& file, std::uint64_t size) {
  std::map<std::uint32_t, std::uint64_t> votes;
  for (std::uint64_t at = format::first_segment_offset; at + sizeof(format::segment_header) <= size;
       at += format::granule_size) {
    const auto data = file.next_data(at);  // a file may be long and empty
    if (!data) break;
    at = std::max(at, *data / format::granule_size * format::granule_size);
    format::segment_header h;
    if (!file.read(&h, sizeof h, at)) break;
    if (h.magic == format::segment_magic) ++votes[seed_of_header(h, at)];
  }
  if (votes.empty()) return std::nullopt;
  const std::uint32_t seed = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; })->first;

  format::root r{};
  r.magic = format::magic;
  r.byte_order = format::byte_order_mark;
  r.version_major = format::version_major;
  r.version_minor = format::version_minor;
  // an id that gives this seed: all of its bytes but the first four are zero
  const std::uint32_t first_word = pool_seed_start ^ crc32c_before(seed, 0, sizeof r.pool_id);
  std::memcpy(r.pool_id, &first_word, sizeof first_word);
  r.pool_count = 1;
  r.granule_size = format::granule_size;
  r.file_size = size;
  r.clock = 1;
  r.clock_limit = 1;
  r.state = format::root_state::open;
  r.durability = static_cast<std::uint8_t>(durability::operation);  // every record is checked by its own checksum
  r.index = static_cast<std::uint8_t>(index_kind::btree);
  return r;
}

}  // namespace icecore

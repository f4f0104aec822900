#include "pool/lost_root.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>

#include "base/checksum.hpp"
#include "icecore/options.hpp"
#include "pool/root.hpp"

namespace icecore {
namespace {

/// Undoes CRC32C: before() gives the register before the bytes whose checksum is known.
class crc_reversal {
 public:
  crc_reversal() noexcept {
    constexpr std::byte zero{0};
    for (std::uint32_t i = 0; i < table_.size(); ++i) {
      table_[i] = crc32c(i, &zero, 1);  // the register's other bytes are 0: this is the table's entry
      index_of_top_[table_[i] >> 24] = static_cast<std::uint8_t>(i);
    }
  }

  [[nodiscard]] std::uint32_t before(std::span<const std::byte> bytes, std::uint32_t after) const noexcept {
    for (std::size_t i = bytes.size(); i-- > 0;) {
      const std::uint8_t index = index_of_top_[after >> 24];
      after = ((after ^ table_[index]) << 8) | (index ^ std::to_integer<std::uint32_t>(bytes[i]));
    }
    return after;
  }

 private:
  std::array<std::uint32_t, 256> table_{};
  std::array<std::uint8_t, 256> index_of_top_{};
};

/// The seed that makes the header's checksum right.
std::uint32_t seed_of_header(const crc_reversal& undo, const format::segment_header& h, std::uint64_t offset) {
  std::array<std::byte, sizeof offset + offsetof(format::segment_header, crc)> covered;
  std::memcpy(covered.data(), &offset, sizeof offset);
  std::memcpy(covered.data() + sizeof offset, &h, offsetof(format::segment_header, crc));
  return undo.before(covered, h.crc);
}

}  // namespace

std::optional<format::root> root_from_segments(const pool_file& file, std::uint64_t size) {
  const crc_reversal undo;
  std::map<std::uint32_t, std::uint64_t> votes;
  for (std::uint64_t at = format::first_segment_offset; at + sizeof(format::segment_header) <= size;
       at += format::granule_size) {
    const auto data = file.next_data(at);  // a file may be long and have nothing in it
    if (!data) break;
    at = std::max(at, *data / format::granule_size * format::granule_size);
    format::segment_header h;
    if (!file.read(&h, sizeof h, at)) break;
    if (h.magic == format::segment_magic) ++votes[seed_of_header(undo, h, at)];
  }
  if (votes.empty()) return std::nullopt;
  const std::uint32_t seed = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; })->first;

  format::root r{};
  r.magic = format::magic;
  r.byte_order = format::byte_order_mark;
  r.version_major = format::version_major;
  r.version_minor = format::version_minor;
  // an id that gives this seed: of its bytes all but the first four are zero
  constexpr std::array<std::byte, sizeof r.pool_id> zeros{};
  const std::uint32_t first_word = pool_seed_start ^ undo.before(zeros, seed);
  std::memcpy(r.pool_id, &first_word, sizeof first_word);
  r.pool_count = 1;
  r.granule_size = format::granule_size;
  r.file_size = size;
  r.state = format::root_state::open;
  r.durability = static_cast<std::uint8_t>(durability::operation);  // every record stands by its own checksum
  r.index = static_cast<std::uint8_t>(index_kind::btree);
  return r;
}

}  // namespace icecore

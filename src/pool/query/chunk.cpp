#include "pool/query/chunk.hpp"

#include <cstring>

#include "base/byte_stream.hpp"
#include "base/raise.hpp"

namespace icecore::detail {

/// Q4.
std::uint32_t chunk_source::crc_of(const format::query_chunk& h, link place, std::uint32_t generation) const noexcept {
  constexpr std::size_t from = offsetof(format::query_chunk, before_crc);
  std::uint32_t crc = space_->pools().codec().record_seed(generation, place);
  crc = crc32c(crc32c(crc, head_->id[0]), head_->id[1]);
  return crc32c(crc, reinterpret_cast<const std::byte*>(&h) + from, chunk::size_of(h) - from);
}

std::optional<chunk> chunk_source::at(link place, std::uint16_t part) const noexcept {
  const pool_set& pools = space_->pools();
  if (place == null_link || place % format::cache_line_size != 0) return std::nullopt;
  if (!pools.contains_by_now(place, sizeof(format::query_chunk))) return std::nullopt;
  const auto& h = *reinterpret_cast<const format::query_chunk*>(pools.at(place));
  if (h.magic != format::query_chunk_magic || h.part != part) return std::nullopt;
  if (h.in_segment > link_offset(place) || (place - h.in_segment) % format::granule_size != 0) return std::nullopt;
  const link segment_at = place - h.in_segment;
  if (!pools.valid_header(segment_at, format::query_segment_magic)) return std::nullopt;
  const segment in = pools.segment_at(segment_at);
  if (h.in_segment < sizeof(format::segment_header) || h.in_segment >= in.size) return std::nullopt;
  if (chunk::size_of(h) > in.size - h.in_segment) return std::nullopt;
  if (checked_ == nullptr || !checked_->knows(place, h.crc)) {
    if (h.crc != crc_of(h, place, in.generation)) return std::nullopt;
    if (checked_ != nullptr) checked_->add(place, h.crc);
  }
  if (h.kind == format::chunk_kind::moved && h.rows_size != sizeof(link)) return std::nullopt;
  return chunk(h, place);
}

std::optional<chunk> chunk_source::after(const std::optional<chunk>& before, link place,
                                         std::uint16_t part) const noexcept {
  const auto found = at(place, part);
  if (!found) return std::nullopt;
  const auto& h = found->header();
  if (!before) return h.sequence == 1 && h.before_crc == 0 && h.older == null_link ? found : std::nullopt;
  const auto& b = before->header();
  const bool follows = h.sequence == b.sequence + 1 && h.before_crc == b.crc && h.older == before->place() &&
                       h.rows_before == before->rows_so_far() && h.examined_before == before->examined_so_far();
  return follows ? found : std::nullopt;
}

bool chunk_source::begins(const segment& in) const noexcept {
  const link first = in.first_record();
  const pool_set& pools = space_->pools();
  if (!pools.contains(first, sizeof(format::query_chunk))) return false;
  return at(first, reinterpret_cast<const format::query_chunk*>(pools.at(first))->part).has_value();
}

chunk chunk_source::require(link place, std::uint16_t part) const {
  if (const auto found = at(place, part)) return *found;
  raise(errc::damaged, "{}: damaged at byte {} (query): a chunk of part {} is not intact; its rows cannot be read",
        space_->pools().origin(place), link_offset(place), part);
}

bool checked_chunks::knows(link place, std::uint32_t crc) const noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(place);
  return found != known_.end() && found->second == crc;
}

void checked_chunks::add(link place, std::uint32_t crc) noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    known_[place] = crc;
  } catch (const std::bad_alloc&) {  // then it is summed up again
    return;
  }
}

namespace {

/// Of a message that is too long its beginning and, since a traceback says last what was wrong, its end.
std::string shortened(const std::string& message) {
  if (message.size() <= chunk_note::message_max) return message;
  constexpr std::string_view between = " ... ";
  constexpr std::size_t of_beginning = 256;
  constexpr std::size_t of_end = chunk_note::message_max - of_beginning - between.size();
  return message.substr(0, of_beginning).append(between).append(message, message.size() - of_end, of_end);
}

}  // namespace

std::vector<std::byte> chunk_note::encoded() const {
  byte_writer out;
  out.number(static_cast<std::uint8_t>(damaged ? 1 : 0));
  out.text(key);
  out.text(shortened(message));
  return out.bytes();
}

chunk_note chunk_source::note_of(const chunk& c) const {
  byte_reader in(c.rows(), [&] {
    raise(errc::damaged, "{}: damaged at byte {} (query): a note of part {} cannot be read",
          space_->pools().origin(c.place()), link_offset(c.place()), c.header().part);
  });
  chunk_note made;
  made.damaged = in.number<std::uint8_t>() != 0;
  made.key = in.text();
  made.message = in.text();
  if (c.header().kind == format::chunk_kind::skipped) made.key = c.last_key();
  return made;
}

link chunk_source::place_after(const chunk& c) const noexcept {
  if (!c.moved()) return c.end();
  link to;
  std::memcpy(&to, c.rows().data(), sizeof to);
  return to;
}

}  // namespace icecore::detail

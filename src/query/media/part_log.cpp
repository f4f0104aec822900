#include "query/media/part_log.hpp"

#include <algorithm>
#include <cstring>

#include "base/raise.hpp"

namespace icecore::detail {

format::query_part& part_line(const query_space& space, link head, std::uint16_t part) noexcept {
  auto* const lines = reinterpret_cast<format::query_part*>(&space.head_at(head) + 1);
  return lines[part];
}

namespace {

link require_link(const query_space& space, const std::atomic<std::uint64_t>& word) {
  if (const auto l = space.read_link(word)) return *l;
  const link at = space.place_of(&word);
  raise(errc::damaged, "{}: damaged at byte {} (query): a word that leads to a chunk is not valid",
        space.pools().origin(at), link_offset(at));
}

}  // namespace

std::optional<chunk> shown_chunk(const chunk_source& chunks, link head, std::uint16_t part) {
  const link newest = require_link(chunks.space(), part_line(chunks.space(), head, part).newest);
  if (newest == null_link) return std::nullopt;
  return chunks.require(newest, part);
}

std::optional<chunk> content_from(const chunk_source& chunks, std::optional<chunk> newest) {
  while (newest && !newest->says_position()) {
    const link older = newest->header().older;
    newest = older == null_link ? std::nullopt : std::optional(chunks.require(older, newest->header().part));
  }
  return newest;
}

part_log::part_log(query_space& space, link head, std::uint16_t part) noexcept
    : space_(&space),
      head_(head),
      number_(part),
      chunks_(space, head),
      line_(&part_line(space, head, part)),
      evaluated_at_(space.place_of(&line_->evaluated)),
      codec_(space.pools().codec()) {}

void part_log::recover(bool writes) {
  newest_ = shown_chunk(chunks_, head_, number_);
  // A first place that leads nowhere: on block devices the word may be durable without the segment.
  next_ = newest_ ? chunks_.place_after(*newest_) : space_->read_link(line_->first).value_or(null_link);
  bool found = false;
  while (const auto more = chunks_.after(newest_, next_, number_)) {
    if (more->moved() && !owns_segment_of(chunks_.place_after(*more))) break;  // likewise
    newest_ = more;
    next_ = chunks_.place_after(*more);
    found = true;
    if (writes) space_->pools().persist().flush(&more->header(), chunk::size_of(more->header()));
  }
  content_ = content_from(chunks_, newest_);
  repeated_ = newest_ ? newest_->header().repeated : 0;
  // What was begun behind the newest chunk happens again. A word that a power cut tore says nothing.
  const auto evaluated = space_->read(line_->evaluated);
  const std::uint64_t done = examined_so_far();
  if (evaluated && *evaluated > done) repeated_ += *evaluated - done;
  if (!writes) return;
  if (found) {
    space_->pools().persist().sync();  // R2
    show(*newest_);
  }
  // relaxed: no other thread uses it yet
  appended_.store(newest_ ? newest_->place() : null_link, std::memory_order_relaxed);
}

/// Whether the segment whose first chunk lies here is the query's.
bool part_log::owns_segment_of(link first) const noexcept {
  const pool_set& pools = space_->pools();
  const link segment_at = first - sizeof(format::segment_header);
  const bool is_there =
      first > sizeof(format::segment_header) && pools.contains(segment_at, sizeof(format::segment_header)) &&
      segment_at % format::granule_size == 0 && pools.valid_header(segment_at, format::query_segment_magic);
  return is_there &&
         (space_->owner_of(segment_at) == chunks_.head().id[0] || chunks_.begins(pools.segment_at(segment_at)));
}

std::optional<std::string_view> part_log::position() const noexcept {
  if (!content_) return std::nullopt;
  return content_->last_key();
}

void part_log::note_evaluated(std::uint64_t so_far) noexcept {
  if (so_far != evaluated_) store_evaluated(so_far);
}

void part_log::store_evaluated(std::uint64_t so_far) noexcept {
  evaluated_ = so_far;
  // relaxed: a count; it need not be flushed, since without a kill the chunk's count is the right one
  line_->evaluated.store(codec_.encode(so_far, evaluated_at_), std::memory_order_relaxed);
}

void part_log::show(const chunk& c) noexcept { space_->write_link(line_->newest, c.place()); }

void part_log::publish(link synced) noexcept {
  if (synced != null_link) space_->write_link(line_->newest, synced);
}

/// The part begins in the room that the thread has. The word is durable before a chunk is there.
void part_log::begin(chunk_room& room) {
  next_ = room.position;
  space_->write_link(line_->first, next_);
  space_->pools().persist().fence();
}

namespace {

/// The bytes of the chunk that says where a part goes on. No chunk takes less, so this one fits wherever another one
/// that a power cut took was.
constexpr std::uint64_t moved_size = format::round_up(sizeof(format::query_chunk) + sizeof(link), 64);
static_assert(moved_size == format::round_up(sizeof(format::query_chunk), 64));

std::uint64_t needed(const chunk_content& what) noexcept {
  return format::round_up(sizeof(format::query_chunk) + what.last_key.size() + what.folded.size() + what.rows.size(),
                          format::cache_line_size);
}

}  // namespace

void part_log::append(const chunk_content& what, chunk_room& room) {
  const std::uint64_t size = needed(what);
  // behind each chunk there is room to say where the part goes on
  const std::uint64_t wanted = size + (what.is_last ? 0 : moved_size);
  if (next_ != null_link && next_ != room.position) go_on_in_own_segment(room);
  if (room.left() < wanted) {
    const auto least = query_size_class(wanted);
    if (!least) raise(errc::invalid_argument, "a chunk of {} bytes is too large; select less", wanted);
    const unsigned size_class = std::max(room.size_class, *least);
    const segment fresh = space_->take(head_, size_class, room.near);
    room.size_class = std::min(size_class + 1, format::query_size_classes - 1);
    if (next_ != null_link) move(fresh);
    room.in = fresh;
    room.position = fresh.first_record();
  }
  if (next_ == null_link) begin(room);
  write_chunk(what, room);
}

void part_log::note_failure(const chunk_note& why, chunk_room& room) {
  const std::vector<std::byte> bytes = why.encoded();
  std::optional<chunk> before = newest_;
  while (before && before->moved()) before = chunks_.at(before->header().older, number_);
  const bool is_known =
      before && before->header().kind == format::chunk_kind::failed && std::ranges::equal(before->rows(), bytes);
  if (!is_known) append({format::chunk_kind::failed, false, {}, {}, bytes, 0, 0}, room);
}

/// Says, behind the newest chunk, that the part goes on in another segment.
void part_log::move(const segment& to) {
  if (!newest_) {  // nothing is there yet: only the first place changes
    next_ = to.first_record();
    space_->write_link(line_->first, next_);
    space_->pools().persist().fence();
    return;
  }
  const link place = to.first_record();
  std::array<std::byte, sizeof place> bytes;
  std::memcpy(bytes.data(), &place, sizeof place);
  chunk_room here = segment_of_next();
  write_chunk({format::chunk_kind::moved, false, {}, {}, bytes, 0, 0}, here);
}

/// The segment in which the next chunk's place lies.
chunk_room part_log::segment_of_next() const {
  const link segment_at = newest_->moved() ? next_ - sizeof(format::segment_header) : newest_->segment_place();
  if (!space_->pools().valid_header(segment_at, format::query_segment_magic)) {
    raise(errc::damaged, "{}: damaged at byte {} (query): a segment of part {} is not there",
          space_->pools().origin(segment_at), link_offset(segment_at), number_);
  }
  chunk_room room;
  room.in = space_->pools().segment_at(segment_at);
  room.position = next_;
  return room;
}

/// Whether another part was begun behind this place in its segment: a power cut on a block device may take a part's
/// last chunks and leave what the thread wrote behind them, for the next part.
bool part_log::is_used_behind(const chunk_room& place) const noexcept {
  const auto is_behind = [&](const std::atomic<std::uint64_t>& word) {
    const auto at = space_->read_link(word);
    return !at || (*at >= place.position && *at < place.in.end());
  };
  for (std::uint32_t p = 0; p < chunks_.head().parts; ++p) {
    const auto& line = part_line(*space_, head_, static_cast<std::uint16_t>(p));
    if (p != number_ && (is_behind(line.first) || is_behind(line.newest))) return true;
  }
  return false;
}

/// The part was begun by a thread that has ended. Where lines are flushed, nothing lies behind the part's newest chunk
/// (R1), so the part goes on there. On other media something that was never shown may lie there, perhaps of another
/// part, and part of it may have reached the device: it is left alone.
void part_log::go_on_in_own_segment(chunk_room& room) const {
  const bool clean = newest_ && !space_->pools().persist().by_pages() && !is_used_behind(segment_of_next());
  const chunk_room own = clean ? segment_of_next() : chunk_room{};
  room.in = own.in;
  room.position = own.position;
}

namespace {

/// The header of an older chunk of this part, which this process has read or written before.
const format::query_chunk& header_at(const pool_set& pools, link place) noexcept {
  return *reinterpret_cast<const format::query_chunk*>(pools.at(place));
}

/// The skew-binary rule: each chunk's jump leads over as many chunks as two equal jumps before it, so that any older
/// chunk is O(log chunks) steps away (Myers, "An applicative random-access stack", 1983). A reader checks each chunk
/// that it follows a jump to; a damaged one costs it an error, never a wrong row.
link jump_for(const pool_set& pools, const std::optional<chunk>& before) noexcept {
  if (!before) return null_link;
  const link jump = before->header().jump;
  if (jump == null_link || !pools.contains(jump, sizeof(format::query_chunk))) return before->place();
  const auto& middle = header_at(pools, jump);
  if (middle.jump == null_link || !pools.contains(middle.jump, sizeof(format::query_chunk))) return before->place();
  const std::uint32_t far = header_at(pools, middle.jump).sequence;
  const bool equal = before->header().sequence - middle.sequence == middle.sequence - far;
  return equal ? middle.jump : before->place();
}

}  // namespace

void part_log::write_chunk(const chunk_content& what, chunk_room& room) {
  persistence& persist = space_->pools().persist();
  const link place = room.position;
  auto& h = *reinterpret_cast<format::query_chunk*>(space_->pools().at(place));
  format::query_chunk made{};
  made.magic = format::query_chunk_magic;
  made.before_crc = newest_ ? newest_->header().crc : 0;
  made.sequence = newest_ ? newest_->header().sequence + 1 : 1;
  made.part = number_;
  made.kind = what.kind;
  made.flags = what.is_last ? format::chunk_is_last : std::uint8_t{0};
  made.key_size = static_cast<std::uint16_t>(what.last_key.size());
  made.folded_size = static_cast<std::uint16_t>(what.folded.size());
  made.in_segment = static_cast<std::uint32_t>(place - room.in.offset);
  made.rows_size = static_cast<std::uint32_t>(what.rows.size());
  made.rows = what.row_count;
  made.examined = what.examined;
  made.rows_before = rows_so_far();
  made.examined_before = examined_so_far();
  made.repeated = repeated_;
  made.older = newest_ ? newest_->place() : null_link;
  made.jump = jump_for(space_->pools(), newest_);
  std::memcpy(static_cast<void*>(&h), &made, sizeof made);
  auto* body = reinterpret_cast<std::byte*>(&h + 1);
  const auto put = [&](const void* bytes, std::size_t size) {
    if (size != 0) std::memcpy(body, bytes, size);
    body += size;
  };
  put(what.last_key.data(), what.last_key.size());
  put(what.folded.data(), what.folded.size());
  put(what.rows.data(), what.rows.size());
  h.crc = chunks_.crc_of(h, place, room.in.generation);
  newest_.emplace(h, place);
  if (newest_->says_position()) content_ = newest_;
  room.position = newest_->end();
  next_ = chunks_.place_after(*newest_);
  if (persist.by_pages()) {
    // release: publish() shows what was written before
    appended_.store(place, std::memory_order_release);
    if (what.begins != 0) store_evaluated(examined_so_far() + what.begins);
    return;
  }
  persist.flush(&h, chunk::size_of(h));
  persist.fence();
  // In the line that show() flushes: a store to a line that is being flushed waits for it.
  if (what.begins != 0) store_evaluated(examined_so_far() + what.begins);
  show(*newest_);  // R1
}

}  // namespace icecore::detail

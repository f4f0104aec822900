#include "store/lasting_segments.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/raise.hpp"

namespace icecore {
namespace {

/// Rooms of list b are from 2^(b - 1) to 2^b - 1.
unsigned list_of(std::uint64_t room) noexcept {
  return std::min(static_cast<unsigned>(std::bit_width(room)), format::rest_lists - 1);
}

}  // namespace

std::uint32_t lasting_segments::crc_of(const format::writer_log& l) const noexcept {
  return crc32c(crc32c(pool_->codec().pool_seed(), offset_of(&l)), &l, offsetof(format::writer_log, crc));
}

std::uint64_t lasting_segments::decode(std::uint64_t word, const void* at) const {
  if (word == 0) return 0;
  if ((word & format::stamp_persisted) != 0 || !pool_->codec().valid(word, offset_of(at))) {
    raise(errc::damaged, "{}: damaged at byte {} (index): a word of the index's anchor fails its check",
          pool_->origin(), offset_of(at));
  }
  return word & format::stamp_version_mask;
}

// ---- Logs ----

std::optional<lasting_segments::log> lasting_segments::read_log(unsigned writer) const {
  const format::writer_log* best = nullptr;
  bool written = false;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const format::writer_log& l = copy_of(writer, copy);
    written = written || l.sequence != 0;
    const bool valid = l.sequence != 0 && l.crc == crc_of(l);
    if (valid && (best == nullptr || l.sequence > best->sequence)) best = &l;
  }
  if (best == nullptr) {
    // the first one may have been torn; then its writer had not begun to write
    const bool second_too = copy_of(writer, 0).sequence != 0 && copy_of(writer, 1).sequence != 0;
    if (!written || !second_too) return std::nullopt;
    raise(errc::damaged, "{}: damaged at byte {} (index): both copies of a writer's log fail their checksums",
          pool_->origin(), offset_of(&copy_of(writer, 0)));
  }
  log l;
  l.open = {link_offset(best->open), best->open_size, 0};
  l.from = link_offset(best->from);
  l.newest = best->newest;
  static_assert(sizeof l.totals == sizeof best->totals);
  std::memcpy(&l.totals, best->totals, sizeof l.totals);
  return l;
}

void lasting_segments::write_log(unsigned writer, const log& l) {
  format::writer_log& a = copy_of(writer, 0);
  format::writer_log& b = copy_of(writer, 1);
  const auto sequence_of = [&](const format::writer_log& of) { return of.crc == crc_of(of) ? of.sequence : 0; };
  format::writer_log& to = sequence_of(a) <= sequence_of(b) ? a : b;
  format::writer_log next{};
  next.sequence = std::max(sequence_of(a), sequence_of(b)) + 1;
  next.open = make_link(0, l.open.offset);
  next.open_size = l.open.size;
  next.from = make_link(0, l.from);
  next.newest = l.newest;
  std::memcpy(next.totals, &l.totals, sizeof next.totals);
  std::memcpy(&to, &next, offsetof(format::writer_log, crc));
  to.crc = crc_of(to);
  pool_->persist().flush(&to, sizeof to);
}

// ---- Lists ----

/// `rest` must be nobody's. The segment's header says where it is filled to and what comes behind it in the list.
void lasting_segments::add_rest(const place& rest) {
  auto& header = pool_->header_of(rest.in.offset);
  header.left_at = encode(rest.position - rest.in.offset, &header.left_at);
  if (rest.room() < room_min) {
    pool_->persist().flush(&header, sizeof header);
    return;
  }
  auto& first = anchor_->rests[list_of(rest.room())];
  // relaxed, here and below: under the lock
  const std::uint64_t next = decode(first.load(std::memory_order_relaxed), &first);
  header.next_rest = encode(next, &header.next_rest);
  pool_->persist().flush(&header, sizeof header);
  pool_->persist().fence();
  first.store(encode(rest.in.offset, &first), std::memory_order_relaxed);
  pool_->persist().flush(&first, sizeof first);
}

lasting_segments::place lasting_segments::place_left(std::uint64_t offset) const {
  if (!pool_->valid_header(offset)) {
    raise(errc::damaged, "{}: damaged at byte {} (segment): a list of segments with room leads to none",
          pool_->origin(), offset);
  }
  place p{pool_->segment_at(offset), 0};
  const auto& header = pool_->header_of(offset);
  p.position = offset + decode(header.left_at, &header.left_at);
  if (p.position < p.in.first_record() || p.position > p.in.end() || p.position % 8 != 0) {
    raise(errc::damaged, "{}: damaged at byte {} (segment): it ends where it cannot", pool_->origin(), offset);
  }
  return p;
}

lasting_segments::place lasting_segments::change(unsigned writer, const place& rest, const record_totals& since_opening,
                                                 version newest, std::uint64_t bytes) {
  const std::scoped_lock lock(shared_->lock);
  record_totals totals = shared_->before[writer];
  totals.add(since_opening);
  const auto name_it = [&](const segment& s, std::uint64_t from) {
    if (rest.in.size != 0) add_rest(rest);
    pool_->persist().fence();
    write_log(writer, {s, from, std::max(newest, shared_->newest_before), totals});
    pool_->persist().fence();
  };
  // In the list of its own size class the first may be too small; in those of greater ones any will do.
  for (unsigned list = list_of(std::max(bytes, room_min)); list < format::rest_lists; ++list) {
    auto& first = anchor_->rests[list];
    const std::uint64_t offset = decode(first.load(std::memory_order_relaxed), &first);
    if (offset == 0) continue;
    const place taken = place_left(offset);
    if (taken.room() < bytes) continue;
    auto& header = pool_->header_of(offset);
    const std::uint64_t next = decode(header.next_rest, &header.next_rest);
    name_it(taken.in, taken.position);
    if (const std::uint64_t now = decode(first.load(std::memory_order_relaxed), &first); now == offset) {
      first.store(encode(next, &first), std::memory_order_relaxed);
      pool_->persist().flush(&first, sizeof first);
    } else {  // name_it() has put the one left before it
      auto& before = pool_->header_of(now);
      before.next_rest = encode(next, &before.next_rest);
      pool_->persist().flush(&before, sizeof before);
    }
    return taken;
  }
  const segment fresh =
      pool_->allocate(bytes, format::segment_magic, [&](const segment& s) { name_it(s, s.first_record()); });
  return {fresh, fresh.first_record()};
}

// ---- Opening ----

void lasting_segments::give_header(std::uint64_t offset, std::uint64_t size, std::uint32_t magic) {
  if (pool_->valid_header(offset, magic)) return;
  if (offset % format::granule_size != 0 || size % format::granule_size != 0 || offset + size > pool_->size()) {
    raise(errc::damaged, "{}: damaged at byte {} (index): it names a segment that is not in the file", pool_->origin(),
          offset);
  }
  static_cast<void>(pool_->format_segment(offset, size, magic));
}

void lasting_segments::settle() {
  std::uint64_t end = pool_->used_end();
  std::vector<std::uint64_t> owned;
  for (unsigned w = 0; w < format::writers_max; ++w) {
    const auto l = read_log(w);
    if (!l || l->open.size == 0) continue;
    give_header(l->open.offset, l->open.size, format::segment_magic);
    owned.push_back(l->open.offset);
    end = std::max(end, l->open.end());
  }
  for (auto& source : anchor_->nodes) {
    const std::uint64_t last = decode(source.end.load(std::memory_order_relaxed), &source.end);
    if (last == 0) continue;
    const std::uint64_t granule = (last - 1) / format::granule_size * format::granule_size;
    give_header(granule, format::granule_size, format::index_segment_magic);
    const std::uint64_t position = decode(source.position.load(std::memory_order_relaxed), &source.position);
    if (position < granule || position > last) {  // it is of the segment before, which is full
      source.position.store(encode(granule + sizeof(format::segment_header), &source.position),
                            std::memory_order_relaxed);
      pool_->persist().flush(&source, sizeof source);
    }
    end = std::max(end, granule + format::granule_size);
  }
  if (end != pool_->used_end()) {
    pool_->set_used_end(end);
    auto& word = anchor_->used_end[0];
    word.store(pool_->used_end_word(end, word), std::memory_order_relaxed);
    pool_->persist().flush(&word, sizeof word);
  }
  // What was taken was a list's first, behind which at most the segment left for it came.
  const auto is_owned = [&](std::uint64_t offset) { return std::ranges::find(owned, offset) != owned.end(); };
  for (auto& first : anchor_->rests) {
    const std::uint64_t one = decode(first.load(std::memory_order_relaxed), &first);
    if (one == 0) continue;
    auto& header = pool_->header_of(place_left(one).in.offset);
    const std::uint64_t two = decode(header.next_rest, &header.next_rest);
    if (is_owned(one)) {
      first.store(encode(two, &first), std::memory_order_relaxed);
      pool_->persist().flush(&first, sizeof first);
    } else if (two != 0 && is_owned(two)) {
      const auto& other = pool_->header_of(place_left(two).in.offset);
      header.next_rest = encode(decode(other.next_rest, &other.next_rest), &header.next_rest);
      pool_->persist().flush(&header, sizeof header);
    }
  }
  pool_->persist().fence();
}

void lasting_segments::for_each_left(const std::function<void(const place&)>& visit) const {
  const std::uint64_t end = pool_->used_end();
  for (std::uint64_t at = format::first_segment_offset; at < end;) {
    if (pool_->valid_header(at)) {
      const segment s = pool_->segment_at(at);
      if (pool_->header_of(at).left_at != 0) visit(place_left(at));
      at = s.end();
    } else {
      at += pool_->valid_header(at, format::index_segment_magic) ? pool_->segment_at(at).size : format::granule_size;
    }
  }
}

}  // namespace icecore

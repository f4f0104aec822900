#include "store/persistent/logged_segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "index/persistent/nodes/node_space.hpp"
#include "pool/manifest/manifest.hpp"

namespace icecore {
namespace {

/// List b holds segments with 1 KiB times 2^b to twice that of room; the last list also holds all with more.
unsigned list_of(std::uint64_t space) noexcept {
  constexpr unsigned least = 11;  // bit width of 1 KiB
  const auto bits = static_cast<unsigned>(std::bit_width(space));
  return std::min(bits < least ? 0 : bits - least, format::free_lists - 1);
}

}  // namespace

std::uint32_t logged_segments::crc_of(const format::writer_log& l) const noexcept {
  return crc32c(crc32c(pool_->codec().pool_seed(), place_of(&l)), &l, offsetof(format::writer_log, crc));
}

link logged_segments::decode(std::uint64_t word, link at) const {
  const auto l = pool_->codec().decode_link(word, at);
  if (!l || (*l != null_link && !pool_->contains(*l, sizeof(format::segment_header)))) {
    raise(errc::damaged, "{}: damaged at byte {} (index): the link to a segment is not valid", pool_->origin(at),
          link_offset(at));
  }
  return *l;
}

// ---- Logs ----

std::optional<logged_segments::log> logged_segments::read_log(unsigned writer) const {
  const format::writer_log* best = nullptr;
  bool written = false;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const format::writer_log& l = copy_of(writer, copy);
    written = written || l.sequence != 0;
    const bool valid = l.sequence != 0 && l.crc == crc_of(l);
    if (valid && (best == nullptr || l.sequence > best->sequence)) best = &l;
  }
  // If one copy fails its checksum, the other one says the same, or the crash came while the first was written (L).
  if (best == nullptr) {
    // a crash may have torn the first copy; then its writer had not begun to write
    const bool second_too = copy_of(writer, 0).sequence != 0 && copy_of(writer, 1).sequence != 0;
    if (!written || !second_too) return std::nullopt;
    raise(errc::damaged, "{}: damaged at byte {} (index): both copies of a writer's log fail their checksums",
          pool_->origin(), link_offset(place_of(&copy_of(writer, 0))));
  }
  log l;
  l.open = {best->open, best->open_size, 0};
  l.from = best->from;
  l.newest = best->newest;
  static_assert(sizeof l.totals == sizeof best->totals);
  std::memcpy(&l.totals, best->totals, sizeof l.totals);
  return l;
}

std::optional<logged_segments::log> logged_segments::recovered_log(unsigned writer) const {
  const recovering_lock lock = hold();
  auto l = read_log(writer);
  if (l) require_open(*l);
  return l;
}

void logged_segments::require_open(log& l) const {
  if (l.open.size == 0) return;
  if (!pool_->valid_header(l.open.offset) || l.from < l.open.offset) {
    raise(errc::damaged, "{}: damaged at byte {} (segment): a writer's segment is not where its log says",
          pool_->origin(l.open.offset), link_offset(l.open.offset));
  }
  l.open = pool_->segment_at(l.open.offset);
}

void logged_segments::write_log(unsigned writer, const log& l) {
  format::writer_log& a = copy_of(writer, 0);
  format::writer_log& b = copy_of(writer, 1);
  const auto sequence_of = [&](const format::writer_log& of) { return of.crc == crc_of(of) ? of.sequence : 0; };
  const bool first_counts = sequence_of(a) > sequence_of(b);
  format::writer_log& counts = first_counts ? a : b;
  format::writer_log& other = first_counts ? b : a;
  format::writer_log next{};
  next.sequence = std::max(sequence_of(a), sequence_of(b)) + 1;
  next.open = l.open.offset;
  next.open_size = l.open.size;
  next.from = l.from;
  next.newest = l.newest;
  std::memcpy(next.totals, &l.totals, sizeof next.totals);
  const auto write = [&](format::writer_log& to) {
    std::memcpy(&to, &next, offsetof(format::writer_log, crc));
    to.crc = crc_of(to);
    pool_->persist().flush(&to, sizeof to);
  };
  // The copy that counts must be durable before the other one is torn: a killed process may have left it only in the
  // caches. The same fence makes everything durable that the caller has flushed: so the content of a segment is durable
  // before the log leads to another one. Then the new copy is durable before the one that counted so far is overwritten
  // with the same.
  pool_->persist().flush(&counts, sizeof counts);
  pool_->persist().fence();
  write(other);
  pool_->persist().fence();
  write(counts);
}

// ---- Lists ----

link logged_segments::next_of(const segment& s) const {
  return decode(pool_->header_of(s.offset).next_free, s.offset + offsetof(format::segment_header, next_free));
}

void logged_segments::set_next(const segment& s, link next) const noexcept {
  auto& header = pool_->header_of(s.offset);
  header.next_free = pool_->codec().encode_link(next, s.offset + offsetof(format::segment_header, next_free));
  pool_->persist().flush(&header, sizeof header);
}

/// `tail` must belong to no writer. The segment's header notes its fill end and the next segment in the list.
void logged_segments::add_free_space(const segment_tail& tail) {
  auto& header = pool_->header_of(tail.in.offset);
  header.fill_end = pool_->codec().encode(tail.position - tail.in.offset,
                                          tail.in.offset + offsetof(format::segment_header, fill_end));
  auto& first = anchor_->free_space[link_pool(tail.in.offset)][list_of(tail.space())];
  const bool listed = tail.space() >= space_min;
  set_next(tail.in, listed ? load(first) : null_link);
  if (!listed) return;
  pool_->persist().fence();
  store(first, tail.in.offset);
}

void logged_segments::abandon(unsigned writer, const segment_tail& tail, const record_totals& totals, version newest) {
  const recovering_lock lock = hold();
  auto& header = pool_->header_of(tail.in.offset);
  header.fill_end = pool_->codec().encode(tail.position - tail.in.offset,
                                          tail.in.offset + offsetof(format::segment_header, fill_end));
  set_next(tail.in, null_link);
  write_log(writer, {{}, null_link, std::max(newest, shared_->newest_before), totals});
}

segment_tail logged_segments::tail_left(link at) const {
  const auto refuse = [&](const char* what) {
    raise(errc::damaged, "{}: damaged at byte {} (segment): {}", pool_->origin(at), link_offset(at), what);
  };
  if (!pool_->valid_header(at)) refuse("a free-space list leads here, but no segment begins here");
  segment_tail p{pool_->segment_at(at), 0};
  const std::uint64_t word = pool_->header_of(at).fill_end;
  const bool valid = word != 0 && pool_->codec().valid(word, at + offsetof(format::segment_header, fill_end));
  p.position = at + (word & format::stamp_version_mask);
  if (!valid || p.position < p.in.first_record() || p.position > p.in.end() || p.position % 8 != 0) {
    refuse("the fill end in the segment's header is not valid");
  }
  return p;
}

/// E: checks up to where the next record may begin. If another writer has taken the segment, it has put one there.
void logged_segments::require_unused(const segment_tail& taken, const char* reported_by) const {
  const std::uint64_t looked_at = std::min(taken.space(), format::record_padding_max + sizeof(std::uint64_t));
  if (all_zero(pool_->at(taken.position), looked_at)) return;
  raise(errc::damaged,
        "{}: damaged at byte {} (segment): {} says that the space from here on is unused, but it is in use",
        pool_->origin(taken.position), link_offset(taken.position), reported_by);
}

segment_tail logged_segments::change(unsigned writer, const segment_tail& tail, const record_totals& since_opening,
                                     version newest, std::uint64_t bytes, std::uint16_t in) {
  const segment_tail taken = exchange(writer, tail, since_opening, newest, bytes, in);
  pool_->grow_ahead(taken.in.offset);
  return taken;
}

segment_tail logged_segments::exchange(unsigned writer, const segment_tail& tail, const record_totals& since_opening,
                                       version newest, std::uint64_t bytes, std::uint16_t in) {
  const recovering_lock lock = hold();
  record_totals totals = shared_->before[writer];
  totals.add(since_opening);
  const auto name_it = [&](const segment& s, link from) {
    if (tail.in.size != 0) add_free_space(tail);
    write_log(writer, {s, from, std::max(newest, shared_->newest_before), totals});
  };
  // In the list of its own size class the first may be too small; in those of greater sizes any will do.
  for (unsigned list = list_of(std::max(bytes, space_min)); list < format::free_lists; ++list) {
    auto& first = anchor_->free_space[in][list];
    const link at = load(first);
    if (at == null_link) continue;
    const segment_tail taken = tail_left(at);
    if (taken.space() < bytes) continue;
    pool_->of(at).require_blocks(link_offset(taken.position), link_offset(taken.in.end()));
    require_unused(taken, "a free-space list");
    const link next = next_of(taken.in);
    name_it(taken.in, taken.position);
    if (const link now = load(first); now == at) {
      store(first, next);
    } else {  // name_it() has put the one left in front of it
      set_next(pool_->segment_at(now), next);
    }
    // durable before the next change, which may put another one in front of it in the list: see take_off_lists()
    pool_->persist().fence();
    return taken;
  }
  const segment fresh =
      pool_->allocate(bytes, in, format::segment_magic, [&](const segment& s) { name_it(s, s.first_record()); });
  return {fresh, fresh.first_record()};
}

// ---- Opening ----

void logged_segments::give_header(link at, std::uint64_t size, std::uint32_t magic) const {
  if (pool_->valid_header(at, magic)) {
    // If its process was killed, it may be only in the caches; without it records would lose their generation (P3).
    const auto& header = pool_->header_of(at);
    pool_->persist().flush(&header, sizeof header);
    return;
  }
  if (at % format::granule_size != 0 || size % format::granule_size != 0 || !pool_->contains(at, size)) {
    raise(errc::damaged,
          "{}: damaged at byte {} (index): a writer's log or the index names a segment here that does not fit in the "
          "file",
          pool_->origin(at), link_offset(at));
  }
  // A crash came between the claim and the header: nothing has been written there yet.
  constexpr std::uint64_t header = sizeof(format::segment_header);
  if (!all_zero(pool_->at(at) + header, size - header)) {
    raise(errc::damaged,
          "{}: damaged at byte {} (segment): a writer's log or the index names a segment here, but its header is not "
          "valid",
          pool_->origin(at), link_offset(at));
  }
  static_cast<void>(pool_->of(at).format_segment(at, size, magic));
}

void logged_segments::recover() const {
  std::vector<link> owned;
  for (unsigned w = 0; w < format::writers_max; ++w) {
    const auto l = read_log(w);
    if (!l || l->open.size == 0) continue;
    give_header(l->open.offset, l->open.size, format::segment_magic);
    owned.push_back(l->open.offset);
    pool_->of(l->open.offset).use_up_to(link_offset(l->open.end()));
  }
  for (auto& source : anchor_->nodes) {
    const link last = load(source.end);
    if (last == null_link) continue;
    const index::node_segment taken(last);
    give_header(taken.begin, taken.size, format::index_segment_magic);
    pool_->of(taken.begin).use_up_to(link_offset(taken.begin) + taken.size);
    const link position = load(source.position);
    if (position < taken.begin || position > last)  // it belongs to the segment before, which is full
      store(source.position, taken.first());
  }
  take_off_lists(owned);
  // A killed process may have left any of these words complete but only in the caches. Nothing above changes such a
  // word, so no thread would flush it, and if the machine stopped after a clean close, the media would have the
  // previous word. (For the logs' copies see write_log().)
  pool_->persist().flush(anchor_, offsetof(format::index_anchor, writers));
  pool_->persist().fence();
}

/// A segment that was taken was the first of its list; since then at most the one left for it was put in front of it.
void logged_segments::take_off_lists(const std::vector<link>& owned) const {
  const auto is_owned = [&](link at) { return std::ranges::find(owned, at) != owned.end(); };
  for (auto& lists : anchor_->free_space) {
    for (auto& first : lists) {
      const link one = load(first);
      if (one == null_link) continue;
      const segment s = tail_left(one).in;
      const link two = next_of(s);
      pool_->persist().flush(&pool_->header_of(one),
                             sizeof(format::segment_header));  // as the anchor's words: recover()
      if (is_owned(one)) {
        store(first, two);
      } else if (two != null_link && is_owned(two)) {
        set_next(s, next_of(tail_left(two).in));
      }
    }
  }
}

std::vector<std::string> logged_segments::check() const {
  std::vector<std::string> wrong;
  std::vector<link> seen;
  for (unsigned w = 0; w < format::writers_max; ++w) {
    if (const auto l = read_log(w); l && l->open.size != 0) seen.push_back(l->open.offset);
  }
  for (const auto& lists : anchor_->free_space) {
    for (const auto& first : lists) {
      for (link at = load(first); at != null_link; at = next_of(tail_left(at).in)) {
        if (std::ranges::find(seen, at) != seen.end()) {
          wrong.push_back(fmt::format(
              "the segment at {} is in a free-space list, and also in another one or in a writer's log", at));
          break;
        }
        seen.push_back(at);
      }
    }
  }
  std::uint64_t granules = 0;  // of the index
  for_each_segment([&](link at, bool records) {
    granules += records ? 0 : pool_->segment_at(at).size / format::granule_size;
    if (!records || std::ranges::find(seen, at) != seen.end()) return;
    if (pool_->header_of(at).fill_end == 0 || tail_left(at).space() >= space_min)
      wrong.push_back(fmt::format("the segment at {} is in no free-space list and in no writer's log", at));
  });
  std::uint64_t taken = 1;  // the anchor's
  for (const auto& source : anchor_->nodes) taken += source.segments.load(std::memory_order_relaxed);
  if (granules > taken)
    wrong.push_back(
        fmt::format("the index's segments have {} granules, but the index counts only {}", granules, taken));
  return wrong;
}

void logged_segments::for_each_segment(const std::function<void(link at, bool records)>& visit) const {
  for (const pool* p : pool_->files()) {
    const link end = make_link(p->number(), p->used_end());
    for (link at = make_link(p->number(), format::first_segment_offset); at < end;) {
      // a compaction may be making the next extents: what it writes in them is not looked at, but for a moment
      const std::optional<format::segment_header> h = seen_header(*p, at);
      const bool records = h && h->magic == format::segment_magic;
      if (h && h->era == p->era() && (records || h->magic == format::index_segment_magic)) visit(at, records);
      at += h ? h->granules * format::granule_size : format::granule_size;
    }
  }
}

void logged_segments::for_each_left(const std::function<void(const segment_tail&)>& visit) const {
  for_each_segment([&](link at, bool records) {
    if (records && pool_->header_of(at).fill_end != 0) visit(tail_left(at));
  });
}

}  // namespace icecore

#include "pool/query/query_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "base/raise.hpp"
#include "pool/query/chunk.hpp"

namespace icecore {

std::optional<unsigned> query_size_class(std::uint64_t bytes) noexcept {
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    if (bytes <= query_space::capacity_of(c)) return c;
  }
  return std::nullopt;
}

std::vector<segment> listed_query_segments(const pool_set& pools) {
  std::map<link, segment> found;
  // relaxed: nothing else runs
  const auto link_in = [&](std::uint64_t word, link at) {
    const auto l = pools.codec().decode_link(word, at);
    return l && *l % format::granule_size == 0 && pools.contains(*l, format::granule_size) ? *l : null_link;
  };
  const auto follow = [&](link at, unsigned size_class) {
    const std::uint64_t size = format::query_segment_sizes[size_class];
    while (at != null_link && pools.contains(at, size) && found.emplace(at, segment{at, size, 0}).second) {
      at = link_in(pools.header_of(at).next_free, at + offsetof(format::segment_header, next_free));
    }
  };
  const auto follow_all = [&](const std::atomic<std::uint64_t>* first, link at) {
    for (unsigned c = 0; c < format::query_size_classes; ++c) {
      follow(link_in(first[c].load(std::memory_order_relaxed), at + c * sizeof *first), c);
    }
  };
  constexpr link anchor_at = format::query_anchor_offset;
  const auto& anchor = *reinterpret_cast<const format::query_anchor*>(pools.at(anchor_at));
  follow_all(anchor.free, anchor_at + offsetof(format::query_anchor, free));
  std::vector<link> heads;
  link at = link_in(anchor.newest.load(std::memory_order_relaxed), anchor_at);
  while (at != null_link && std::ranges::find(heads, at) == heads.end()) {
    heads.push_back(at);
    const link head_at = at + sizeof(format::segment_header);
    const auto& head = *reinterpret_cast<const format::query_head*>(pools.at(head_at));
    follow_all(head.segments, head_at + offsetof(format::query_head, segments));
    at = link_in(head.older.load(std::memory_order_relaxed), head_at);
  }
  std::vector<segment> all;
  all.reserve(found.size());
  for (const auto& [place, one] : found) all.push_back(one);
  return all;
}

// ---- Words ----

link query_space::place_of(const void* at) const noexcept {
  const auto* byte = static_cast<const std::byte*>(at);
  for (const pool* p : pool_->files()) {
    if (byte >= p->base() && byte < p->base() + p->size()) {
      return make_link(p->number(), static_cast<std::uint64_t>(byte - p->base()));
    }
  }
  return null_link;
}

std::optional<std::uint64_t> query_space::read(const std::atomic<std::uint64_t>& word) const noexcept {
  const std::uint64_t found = word.load(std::memory_order_acquire);  // acquire: what it leads to was written before
  if (found == 0) return 0;
  if ((found & format::stamp_persisted) != 0 || !pool_->codec().valid(found, place_of(&word))) return std::nullopt;
  return found & format::stamp_version_mask;
}

std::optional<link> query_space::read_link(const std::atomic<std::uint64_t>& word) const noexcept {
  const auto l = pool_->codec().decode_link(word.load(std::memory_order_acquire), place_of(&word));  // as in read()
  if (l && *l != null_link && (*l % 8 != 0 || !pool_->contains_by_now(*l, sizeof(format::query_chunk))))
    return std::nullopt;
  return l;
}

std::array<std::uint64_t, 2> query_space::id_at(link at) const noexcept {
  auto& id = head_at(at).id;
  // relaxed: see clear_head()
  return {std::atomic_ref(id[0]).load(std::memory_order_relaxed),
          std::atomic_ref(id[1]).load(std::memory_order_relaxed)};
}

/// Zeros, but for the id. A thread may still look at the head of the query that was here before: so the new id comes
/// first, and who reads a word of the new query, and then the id, finds that it is another one.
void query_space::clear_head(link at, std::array<std::uint64_t, 2> id, std::uint64_t bytes) const noexcept {
  auto& head = head_at(at);
  std::atomic_ref(head.id[0]).store(id[0], std::memory_order_relaxed);  // relaxed, here and below: the fence
  std::atomic_ref(head.id[1]).store(id[1], std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // before what follows, for who reads that with acquire
  auto* const words = reinterpret_cast<std::uint64_t*>(&head);
  const std::uint64_t count = bytes / sizeof *words;
  constexpr std::size_t id_from = offsetof(format::query_head, id) / sizeof *words;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i != id_from && i != id_from + 1) std::atomic_ref(words[i]).store(0, std::memory_order_relaxed);
  }
  std::memset(words + count, 0, bytes % sizeof *words);
}

void query_space::write(std::atomic<std::uint64_t>& word, std::uint64_t number) const noexcept {
  // release: a reader that finds the number finds what was written before
  word.store(number == 0 ? 0 : pool_->codec().encode(number, place_of(&word)), std::memory_order_release);
  pool_->persist().flush(&word, sizeof word);
}

void query_space::write_link(std::atomic<std::uint64_t>& word, link l) const noexcept {
  word.store(pool_->codec().encode_link(l, place_of(&word)), std::memory_order_release);  // release: as in write()
  pool_->persist().flush(&word, sizeof word);
}

link query_space::require_link(const std::atomic<std::uint64_t>& word) const {
  if (const auto l = read_link(word)) return *l;
  const link at = place_of(&word);
  raise(errc::damaged, "{}: damaged at byte {} (query): the link to a segment is not valid", pool_->origin(at),
        link_offset(at));
}

link query_space::next_of(link segment_at) const {
  const link at = segment_at + offsetof(format::segment_header, next_free);
  const auto next = pool_->codec().decode_link(pool_->header_of(segment_at).next_free, at);
  if (next && (*next == null_link || pool_->valid_header(*next, format::query_segment_magic))) return *next;
  raise(errc::damaged, "{}: damaged at byte {} (query): the link to the next segment is not valid", pool_->origin(at),
        link_offset(at));
}

void query_space::set_next(link segment_at, link next) const noexcept {
  auto& header = pool_->header_of(segment_at);
  header.next_free = pool_->codec().encode_link(next, segment_at + offsetof(format::segment_header, next_free));
  pool_->persist().flush(&header, sizeof header);
}

// ---- The list of queries ----

bool query_space::ever_used() const noexcept {
  // a file that was cut may end before the anchor; relaxed: the words say more
  return pool_->contains(format::query_anchor_offset, sizeof(format::query_anchor)) &&
         anchor().newest.load(std::memory_order_relaxed) != 0;
}

std::vector<link> query_space::heads(const std::function<void(link at, std::string what)>& damaged) const {
  std::vector<link> all;
  const std::atomic<std::uint64_t>* word = &anchor().newest;
  for (;;) {
    const auto next = read_link(*word);
    if (next == null_link) return all;
    const bool good =
        next && pool_->valid_header(*next, format::query_segment_magic) && std::ranges::find(all, *next) == all.end();
    if (!good) {
      damaged(place_of(word), "the list of queries leads to no query here");
      return all;
    }
    all.push_back(*next);
    word = &head_at(*next).older;
  }
}

std::vector<std::byte> query_space::copied(link from, link end) const {
  constexpr std::uint64_t word_size = sizeof(std::uint64_t);
  std::vector<std::byte> to(format::round_up(end - from, word_size));
  const pool& in = pool_->of(from);
  const std::uint64_t first = link_offset(from);
  const std::uint64_t last = first + to.size();
  for (auto [at, until] = in.next_data(first, last); at < last; std::tie(at, until) = in.next_data(until, last)) {
    for (; at < until; at += word_size) {
      auto& word = *reinterpret_cast<std::uint64_t*>(pool_->at(from + (at - first)));
      // acquire: a chunk that a word leads to is in the page cache before it
      const std::uint64_t read = std::atomic_ref(word).load(std::memory_order_acquire);
      std::memcpy(to.data() + (at - first), &read, sizeof read);
    }
  }
  return to;
}

// ---- Definitions ----

namespace {

std::span<std::byte> definition_bytes(format::query_head& head) noexcept {
  auto* const begin = reinterpret_cast<std::byte*>(&head + 1) + head.parts * sizeof(format::query_part);
  return {begin, head.definition_size};
}

std::uint32_t definition_crc(const pool_set& pools, link at, const format::query_head& head,
                             std::span<const std::byte> definition) noexcept {
  std::uint32_t crc = pools.codec().record_seed(pools.segment_at(at).generation, at);
  crc = crc32c(crc32c(crc, head.id[0]), head.id[1]);
  crc = crc32c(crc, std::uint64_t{head.parts} << 32 | head.definition_size);
  return crc32c(crc, definition.data(), definition.size());
}

}  // namespace

std::optional<std::span<const std::byte>> query_space::definition_of(link at) const noexcept {
  auto& head = head_at(at);
  const std::uint64_t room = pool_->segment_at(at).size - sizeof(format::segment_header) - sizeof head;
  const std::uint64_t lines = head.parts * sizeof(format::query_part);
  const bool sized =
      head.parts >= 1 && head.parts <= query_parts_max && lines <= room && head.definition_size <= room - lines;
  if (!sized) return std::nullopt;
  const std::span<const std::byte> bytes = definition_bytes(head);
  if (head.definition_crc != definition_crc(*pool_, at, head, bytes)) return std::nullopt;
  return bytes;
}

bool query_space::is_hold(link at) const noexcept {
  auto& head = head_at(at);
  std::uint16_t layout = 0;
  if (head.parts != format::hold_parts || head.definition_size < sizeof layout) return false;
  std::memcpy(&layout, definition_bytes(head).data(), sizeof layout);
  return format::kind_of(layout) == format::query_kind::hold;
}

query_title title_of(std::span<const std::byte> definition) noexcept {
  query_title title{};
  std::uint32_t size = 0;
  constexpr std::size_t before = sizeof(std::uint16_t) + sizeof size;
  if (definition.size() < before) return title;
  std::uint16_t layout = 0;
  std::memcpy(&layout, definition.data(), sizeof layout);
  title.kind = format::kind_of(layout);
  std::memcpy(&size, definition.data() + sizeof(std::uint16_t), sizeof size);
  if (definition.size() - before < size + sizeof title.version) return title;
  title.name = {reinterpret_cast<const char*>(definition.data() + before), size};
  std::memcpy(&title.version, definition.data() + before + size, sizeof title.version);
  return title;
}

// ---- Segments ----

unsigned query_space::class_at(link segment_at) const {
  const auto found = std::ranges::find(format::query_segment_sizes, pool_->segment_at(segment_at).size);
  if (found != format::query_segment_sizes.end()) {
    return static_cast<unsigned>(found - format::query_segment_sizes.begin());
  }
  raise(errc::damaged, "{}: damaged at byte {} (query): a segment of this size belongs to no query",
        pool_->origin(segment_at), link_offset(segment_at));
}

/// Q3.
bool query_space::is_in_use(link segment_at) const noexcept {
  return pool_->valid_header(segment_at, format::query_segment_magic) &&
         link_offset(pool_->segment_at(segment_at).end()) <= pool_->of(segment_at).used_end();
}

std::uint64_t query_space::owner_of(link segment_at) const noexcept {
  // relaxed: what a chunk of the segment shows was written before
  return std::atomic_ref(pool_->header_of(segment_at).owner).load(std::memory_order_relaxed);
}

void query_space::set_owner(link segment_at, std::uint64_t owner) const noexcept {
  // relaxed: where a generation makes it count, that one's store orders both
  std::atomic_ref(pool_->header_of(segment_at).owner).store(owner, std::memory_order_relaxed);
}

/// The owner first: where a chunk is that the new generation makes valid, rebuild() finds whose the segment is.
segment query_space::give_header(link at, std::uint64_t size, std::uint64_t owner) const {
  set_owner(at, owner);
  return pool_->of(at).format_segment(at, size, format::query_segment_magic);
}

/// The first free segment of a class and the one behind it. Its header may be damaged: it is written anew. Where the
/// list is damaged it ends: the segments behind stay unused until rebuild(), and nobody is kept from starting a query.
std::pair<link, link> query_space::first_of_free(unsigned size_class) const {
  auto& first = anchor().free[size_class];
  const auto at = read_link(first);
  if (at == null_link) return {null_link, null_link};
  const bool is_place =
      at && *at % format::granule_size == 0 && pool_->contains(*at, format::query_segment_sizes[size_class]);
  if (!is_place) {
    step(first, null_link);
    return {null_link, null_link};
  }
  const link word_at = *at + offsetof(format::segment_header, next_free);
  const auto next = pool_->codec().decode_link(pool_->header_of(*at).next_free, word_at);
  const bool good = next && (*next == null_link || pool_->valid_header(*next, format::query_segment_magic));
  return {*at, good ? *next : null_link};
}

/// Whether a store to the free segment finds blocks: clear_free_space() gives them back, and a store to one that is not
/// there ends the process.
bool query_space::has_blocks(link at, std::uint64_t size) const {
  try {
    pool_->of(at).require_segment(link_offset(at), size);
    return true;
  } catch (const error& e) {
    if (e.code() != errc::no_space) throw;
    return false;  // another file of the store may have some
  }
}

/// A crash between any two steps leaves a claim that finish_claim() completes or takes back. What can fail comes
/// before.
segment query_space::obtain(std::atomic<std::uint64_t>& claim, std::uint64_t owner, unsigned size_class,
                            std::uint16_t in) const {
  const std::uint64_t size = format::query_segment_sizes[size_class];
  auto& first_free = anchor().free[size_class];
  if (const auto [at, next] = first_of_free(size_class); at != null_link && has_blocks(at, size)) {
    if (lock_->clears_segments) {
      std::byte* const content = pool_->at(at + sizeof(format::segment_header));
      std::memset(content, 0, capacity_of(size_class));
      pool_->persist().flush(content, capacity_of(size_class));
    }
    step(claim, at);
    step(first_free, next);
    return give_header(at, size, owner);
  }
  const segment taken =
      pool_->allocate(capacity_of(size_class), in, format::query_segment_magic, [&](const segment& s) {
        step(claim, s.offset);
        static_cast<void>(give_header(s.offset, s.size, owner));  // Q3
      });
  pool_->grow_ahead(taken.offset);
  return give_header(taken.offset, taken.size, owner);
}

segment query_space::take(link head, unsigned size_class, unsigned near) {
  const recovering_lock lock = hold();
  auto& of = head_at(head);
  const segment taken = obtain(of.claim, of.id[0], size_class, pool_->number_for(near));
  set_next(taken.offset, require_link(of.segments[size_class]));
  order();
  step(of.segments[size_class], taken.offset);
  write_link(of.claim, null_link);
  return taken;
}

void query_space::finish_claim(std::atomic<std::uint64_t>& claim, const format::query_head* of) const {
  const link at = require_link(claim);
  if (at == null_link) return;
  if (is_in_use(at)) {
    const unsigned c = class_at(at);
    // A new query's head that was not entered becomes free.
    auto& list = of != nullptr ? const_cast<format::query_head*>(of)->segments[c] : anchor().free[c];
    const bool entered = of == nullptr && require_link(anchor().newest) == at;
    const bool taken_back = require_link(anchor().free[c]) == at;
    if (!entered && !taken_back && require_link(list) != at) {
      static_cast<void>(give_header(at, format::query_segment_sizes[c], of != nullptr ? of->id[0] : std::uint64_t{0}));
      set_next(at, require_link(list));
      order();
      step(list, at);
    }
  } else if (pool_->valid_header(at, format::query_segment_magic)) {
    pool_->of(at).clear_unused(pool_->segment_at(at));
  }
  step(claim, null_link);
}

/// What a killed process stored may be in the caches alone: nothing is built on it before it is durable.
void query_space::finish_claims() const {
  const std::vector<link> all = heads([](link, const std::string&) {});
  persistence& persist = pool_->persist();
  persist.flush(&anchor(), sizeof(format::query_anchor));
  for (const link head : all) {
    const std::uint64_t lines = sizeof(format::query_head) + head_at(head).parts * sizeof(format::query_part);
    persist.flush(&head_at(head), std::min(lines, pool_->segment_at(head).size - sizeof(format::segment_header)));
  }
  persist.sync();
  // Damaged lists are told of by what needs them; other queries do not.
  const auto finish_one = [&](std::atomic<std::uint64_t>& claim, const format::query_head* of) {
    try {
      finish_claim(claim, of);
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
    }
  };
  finish_one(anchor().claim, nullptr);
  for (const link head : all) finish_one(head_at(head).claim, &head_at(head));
  for (const link head : all) {
    try {
      if (is_partly_freed(head)) free_all_of(head);
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
    }
  }
}

namespace {

std::string_view word_of(format::query_kind kind) noexcept {
  switch (kind) {
    case format::query_kind::feed:
      return "feed";
    case format::query_kind::hold:
      return "hold";
    default:
      return "query";
  }
}

/// Before the first word of it is there. Older versions of icecore would take segments of queries for damage, and would
/// drop a hold.
void raise_format_for(pool_set& pools, format::query_kind kind) {
  const std::uint16_t major = format::version_major_with_queries;
  const std::uint16_t minor = kind == format::query_kind::hold ? format::minor_with_holds : std::uint16_t{0};
  const format::root now = pools.roots().read();
  if (now.version_major >= major && now.version_minor >= minor) return;
  pools.roots().update_both([&](format::root& r) {
    r.version_major = std::max(r.version_major, major);
    r.version_minor = std::max(r.version_minor, minor);
  });
}

}  // namespace

/// Under the lock, so that of two processes that start one name one is refused.
void query_space::require_free_name(std::span<const std::byte> definition) const {
  const query_title mine = title_of(definition);
  for (const link at : heads([](link, const std::string&) {})) {
    if (read(head_at(at).state) == static_cast<std::uint64_t>(format::query_phase::dropped)) continue;
    const auto there = definition_of(at);
    if (!there || title_of(*there).name != mine.name || title_of(*there).kind != mine.kind) continue;
    raise(errc::query_exists, "a {} is named '{}' already", word_of(mine.kind), mine.name);
  }
}

link query_space::add(const new_query& what) {
  const std::span<const std::byte> definition = what.definition;
  const std::uint64_t bytes =
      sizeof(format::query_head) + what.parts * sizeof(format::query_part) + definition.size() + what.bytes_behind;
  const auto size_class = query_size_class(bytes);
  if (!size_class) {
    raise(errc::invalid_argument, "the query's definition takes {} bytes; at most {} are possible", bytes,
          head_capacity());
  }
  const recovering_lock lock = hold();
  require_free_name(definition);
  if (what.require) what.require();
  pool_set& pools = *pool_;
  raise_format_for(pools, title_of(definition).kind);
  std::random_device random;
  const auto word = [&random] { return std::uint64_t{random()} << 32 | random(); };
  const std::array<std::uint64_t, 2> id{word(), word()};
  const segment made = obtain(anchor().claim, id[0], *size_class, 0);
  auto& head = head_at(made.offset);
  clear_head(made.offset, id, bytes);
  head.parts = what.parts;
  head.definition_size = static_cast<std::uint32_t>(definition.size());
  std::memcpy(definition_bytes(head).data(), definition.data(), definition.size());
  head.definition_crc = definition_crc(pools, made.offset, head, definition);
  write(head.state, static_cast<std::uint64_t>(format::query_phase::open));
  write(head.keys_expected, what.keys_expected);
  if (what.complete) what.complete(made.offset);
  write_link(head.segments[*size_class], made.offset);
  write_link(head.older, require_link(anchor().newest));
  pools.persist().persist(&head, bytes);
  write_link(anchor().newest, made.offset);
  pools.persist().persist(&anchor(), sizeof anchor());
  write_link(anchor().claim, null_link);
  return made.offset;
}

// ---- Dropping ----

/// Puts each list of the query in front of the free ones. The head segment stays readable: nothing takes it before the
/// lock is given back. May be repeated: a list that is in front already is left alone.
void query_space::free_segments(const format::query_head& of) const {
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    const link first = require_link(of.segments[c]);
    const link free = first_of_free(c).first;
    if (first == null_link || first == free) continue;
    link last = first;
    for (link next; (next = next_of(last)) != null_link && next != free;) last = next;
    set_next(last, free);
    order();
    step(anchor().free[c], first);
  }
}

/// Whether a drop of it was cut off: a list of its segments leads to free ones. If it were left so, its head would be
/// given out while it is on the list of queries.
bool query_space::is_partly_freed(link head) const {
  const auto& of = head_at(head);
  if (read(of.state) != static_cast<std::uint64_t>(format::query_phase::dropped)) return false;
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    const link free = first_of_free(c).first;
    if (free == null_link) continue;
    for (link at = require_link(of.segments[c]); at != null_link; at = next_of(at)) {
      if (at == free) return true;
    }
  }
  return false;
}

void query_space::free_all_of(link head) const {
  free_segments(head_at(head));
  take_off_list(head);
}

void query_space::take_off_list(link head) const {
  std::atomic<std::uint64_t>* word = &anchor().newest;
  while (true) {
    const link at = require_link(*word);
    if (at == null_link) return;
    if (at == head) break;
    word = &head_at(at).older;
  }
  write_link(*word, require_link(head_at(head).older));
  pool_->persist().persist(word, sizeof *word);
}

bool query_space::free_dropped(const std::function<bool(link head)>& is_used) {
  bool is_one_left = false;
  for (const link head : heads([](link, const std::string&) {})) {
    if (read(head_at(head).state) != static_cast<std::uint64_t>(format::query_phase::dropped)) continue;
    if (is_used(head)) {
      is_one_left = true;
    } else {
      free_all_of(head);
    }
  }
  return !is_one_left;
}

void query_space::clear_free_space() {
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    for (link at = first_of_free(c).first; at != null_link; at = next_of(at)) {
      pool_->of(at).clear_content(pool_->segment_at(at));
    }
  }
  pool_->persist().sync();
  if (pool_->persist().by_pages()) return;
  // no flush of lines makes a hole durable
  for (unsigned file = 0; file < pool_->files().size(); ++file) pool_->persist().sync_file(file);
}

void query_space::clear_behind_definition(link hold) {
  const std::span<std::byte> definition = definition_bytes(head_at(hold));
  const bool is_intact = definition_of(hold).has_value();
  std::byte* const from = definition.data() + (is_intact ? definition.size() : sizeof(std::uint16_t));
  const pool& in = pool_->of(hold);
  const std::uint64_t end = link_offset(pool_->segment_at(hold).end());
  const std::uint64_t first = end - static_cast<std::uint64_t>(pool_->at(hold) + pool_->segment_at(hold).size - from);
  // a hole is zero
  for (auto [at, until] = in.next_data(first, end); at < end; std::tie(at, until) = in.next_data(until, end)) {
    std::memset(from + (at - first), 0, until - at);
    pool_->persist().persist(from + (at - first), until - at);
  }
}

// ---- After a power cut on a block device ----

/// Whose a segment is, of these queries; null if it is free. A header that names none of them is that of a free
/// segment, or damaged; then the first chunk tells. Nothing was shown of a segment in which no chunk is: it may be
/// given out.
link query_space::user_of(const segment& in, std::span<const link> queries) const {
  const std::uint64_t owner = owner_of(in.offset);
  const auto named = std::ranges::find(queries, owner, [this](link head) { return head_at(head).id[0]; });
  if (named != queries.end()) return *named;
  const auto found =
      std::ranges::find_if(queries, [&](link head) { return detail::chunk_source(*this, head).begins(in); });
  return found == queries.end() ? null_link : *found;
}

/// Afterwards lists lead only to segments of `all`. The order of the writes does not matter: until the sync has
/// returned, the root is that of the session before, and the next opening makes the lists anew.
void query_space::rebuild(std::span<const segment> all) {
  bool readable = true;
  const std::vector<link> queries = heads([&](link, const std::string&) { readable = false; });
  struct lists {
    std::array<link, format::query_size_classes> first{};
  };
  std::map<link, lists> by_head;
  lists free;
  const auto push = [&](lists& to, link at) {
    auto& first = to.first[class_at(at)];
    set_next(at, first);
    first = at;
  };
  for (const link head : queries) push(by_head[head], head);  // the head segment is the last of its list
  for (const segment& s : all) {
    if (std::ranges::find(queries, s.offset) != queries.end()) continue;
    if (std::ranges::find(format::query_segment_sizes, s.size) == format::query_segment_sizes.end()) continue;
    if (const link head = user_of(s, queries); head != null_link) {
      set_owner(s.offset, head_at(head).id[0]);
      push(by_head[head], s.offset);
    } else if (readable) {  // else it may be that of a query that cannot be found
      push(free, s.offset);
    }
  }
  for (const auto& [at, own] : by_head) {
    auto& head = head_at(at);
    for (unsigned c = 0; c < format::query_size_classes; ++c) write_link(head.segments[c], own.first[c]);
    write_link(head.claim, null_link);
  }
  for (unsigned c = 0; c < format::query_size_classes; ++c) write_link(anchor().free[c], free.first[c]);
  write_link(anchor().claim, null_link);
  pool_->persist().sync();
}

}  // namespace icecore

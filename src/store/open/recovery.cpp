#include "store/open/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/query/query_space.hpp"
#include "store/check/salvage.hpp"
#include "store/open/session.hpp"
#include "store/open/sorted_entries.hpp"

namespace icecore::detail {
namespace {

found_store what_is_there(const record_scan& found) {
  return {found.crashed(), found.same_boot(), found.newest(), found.newest_tag(), found.totals()};
}

}  // namespace

recovery::recovery(store_parts& parts, const options& opening)
    : parts_(parts), opening_(opening), histories_(std::make_unique<rebuilt_histories>(history_parts_of(parts))) {}

std::unique_ptr<opened_store> recovery::run() {
  const auto begin = std::chrono::steady_clock::now();
  const bool read_only = parts_.read_only();
  // A persistent index needs media that can be written; a store opened for reading builds an index in memory.
  const bool index_durable = parts_.kind == index_kind::persistent && !read_only;
  pool_set& p = *parts_.pool;
  const unsigned threads = p.size() < (std::uint64_t{4} << 20) ? 1 : thread_count(opening_.recovery_threads);
  record_scan found = record_scan::of_unopened(p, {.threads = threads,
                                                   .large_values = opening_.check_values,
                                                   .accept_damage = opening_.accept_damage,
                                                   .crash = opening_.crash,
                                                   .on_progress = opening_.on_progress});
  found.refuse_unknown_crash();
  if (!read_only) forget_writer(p);
  if (opening_.accept_damage) {
    accept_damaged(found);
  } else {
    found.refuse_damaged();
    found.check_chains();
    found.refuse_damaged();
    if (!read_only) begin_changes(found);
    set_heads(found);
  }
  const std::vector<link> sorted = entries_in_key_order(found);
  std::optional<rebuilt_parts> rebuilt;
  if (!index_durable) {
    rebuilt = rebuilt_parts_of(parts_);
    rebuilt->index->build(sorted, static_cast<unsigned>(found.parts().size()));
    for (const auto& place : found.segments()) parts_.writers->scanned().put(place);
  }
  finish_copy();
  take_over(found);
  std::optional<durable_parts> durable;
  if (read_only) {
    // a write that this process is about to show must not be lost: its writer may have died before making it durable
    const bool promised = p.durability().mode == durability::operation;
    if (promised && found.crashed()) {
      for (const pool* file : p.files()) file->file().sync();
    }
    for (const segment& s : found.free_segments()) p.add_free(s.offset, s.size);  // for stats() alone
  } else {
    // a closed store has only the index segments that it was closed with: mark it open before any of them is changed
    if (!found.crashed()) begin_session(found);
    free_index(found);
    drop_uncounted(found);
    recover_queries(found);
    if (found.crashed()) begin_session(found);
    histories_->set_durable(found.segments());
    // Both root pages lead to the newest manifest by now (begin_session), so what it does not name is nobody's (A10).
    const std::vector<segment> given_back = give_back(p, found.outdated_segments());
    if (!given_back.empty()) {
      parts_.opened->replaced_bytes = 0;
    } else if (!index_durable) {  // as below
      parts_.opened->replaced_space = found.outdated_segments();
    }
    if (!index_durable) {  // else all free space would be taken for records, with its blocks
      for (const auto* all : {&found.free_segments(), &given_back}) {
        for (const segment& s : *all) p.add_free(s.offset, s.size);
      }
    }
    if (index_durable) durable = build_durable_index(found, sorted);
  }
  parts_.recovery_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (durable) return make_store<durable_engine, durable_heads>(std::move(parts_), std::move(*durable));
  rebuilt->histories = std::move(histories_);
  return make_store<rebuilt_engine, rebuilt_heads>(std::move(parts_), std::move(*rebuilt));
}

/// D3: makes a private mapping readable without what is lost.
void recovery::accept_damaged(record_scan& found) {
  if (found.damages().empty()) found.check_chains();
  salvage saved(*parts_.pool, found);
  saved.repair_records();
  set_heads(found);
  parts_.stand_ins = saved.repair_histories(*histories_);
  parts_.findings = saved.findings();
}

/// Each entry's head becomes its deepest record that counts, and its cached second version that of its record of depth
/// 2. The words on media are only a guess, though often a right one: they are checked, and written only if they are
/// wrong, so that opening dirties no page without need.
void recovery::set_heads(const record_scan& found) const {
  const auto& histories = *histories_;
  const auto threads = static_cast<unsigned>(found.parts().size());
  constexpr std::size_t ahead = 16;  // this many records are being prefetched
  const auto is_of = [&](link l, link entry) {
    return found.begins(l) && histories.at(l).is_update() && histories.at(l).as_update().entry == entry;
  };
  // relaxed: one thread writes it, and joining the threads orders all of it before the first operation
  const auto set = [](std::atomic<std::uint64_t>& word, std::uint64_t value) {
    if (word.load(std::memory_order_relaxed) != value) word.store(value, std::memory_order_relaxed);
  };
  run_on_threads(threads, [&](unsigned t) {
    const auto& entries = found.parts()[t].entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i + ahead < entries.size()) {
        // relaxed: nothing else runs yet; a wrong guess only makes a useless prefetch
        const std::uint64_t soon = histories.at(entries[i + ahead]).as_entry().head.load(std::memory_order_relaxed);
        const link newest = history_base::newest_of(entries[i + ahead], soon);
        parts_.pool->prefetch(newest);
        found.prefetch_begins(newest);
      }
      const link entry = entries[i];
      auto& e = histories.at(entry).as_entry();
      const std::uint64_t guess = e.head.load(std::memory_order_relaxed);  // relaxed: nothing else runs yet
      const link newest = history_base::newest_of(entry, guess);
      const bool right = newest != entry && is_of(newest, entry);
      set(e.head, right ? histories.head_word(newest) : null_link);
      // If the head is right there is a record of depth 2, which sets the version below.
      if (!right) set(e.cached_second_version(), 0);
      static_cast<void>(histories.stamp_of(entry));  // a batched record takes its batch's stamp
    }
  });
  run_on_threads(threads, [&](unsigned t) {
    const auto& updates = found.parts()[t].updates;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (i + ahead < updates.size())
        __builtin_prefetch(histories.at(histories.at(updates[i + ahead]).as_update().entry).address());
      const link update = updates[i];
      const record r = histories.at(update);
      const version stamped = histories.stamp_of(update);
      const link entry = r.as_update().entry;
      auto& e = histories.at(entry).as_entry();
      std::uint64_t now = e.head.load(std::memory_order_relaxed);
      const auto deeper = [&] {
        return histories.at(history_base::newest_of(entry, now)).header().depth < r.header().depth;
      };
      // relaxed: joining the threads orders all of it before the first operation
      while (deeper() && !e.head.compare_exchange_weak(now, histories.head_word(update), std::memory_order_relaxed)) {
      }
      if (r.header().depth == 2) set(e.cached_second_version(), stamped);
      histories.sample(update);
    }
  });
}

std::vector<link> recovery::entries_in_key_order(const record_scan& found) const {
  entries_in_order sorted = sort_entries(found, histories_->space());
  if (sorted.of_one_key) {  // a key is entered only once, so one of them is not ours
    const auto [one, other] = *sorted.of_one_key;
    raise(errc::damaged, "{}: damaged at byte {} (entry): the key is entered twice, also at {}",
          parts_.pool->origin(other), link_offset(other), parts_.pool->place_of(one));
  }
  return std::move(sorted.entries);
}

void recovery::take_over(const record_scan& found) {
  for (const auto& part : found.parts()) {
    for (const link l : part.checked_values) parts_.checked->mark(l);
    for (const link l : part.tags) {
      const record r = histories_->at(l);
      parts_.tags->add({histories_->stamp_of(l), r.as_tag().time_ns, std::string(r.key()), std::string(r.value())});
    }
  }
  for (pool* p : parts_.pool->files()) p->set_used_end(link_offset(found.used_end(p->number())));
  for (const auto& hole : found.holes()) {
    if (hole.end() <= found.used_end(link_pool(hole.offset))) parts_.pool->add_free(hole.offset, hole.size);
  }
  parts_.shared->recovered = found.totals();
  parts_.shared->newest_recovered = found.newest();
  parts_.shared->superseded_recovered = found.superseded_bytes();
  parts_.opened->replaced_bytes = found.outdated_bytes();
  parts_.recovered_from_crash = found.crashed();
  const version clock = clock_after(*parts_.pool, what_is_there(found));
  // relaxed: nothing else runs yet
  parts_.pool->live().clock.store(clock, std::memory_order_relaxed);
  const format::root root = parts_.pool->roots().read();
  parts_.lost = lost_versions_of(root);
  if (found.crashed() && !found.keeps_all()) parts_.lost.add(lost_in_power_cut(root, clock));
}

void recovery::drop_uncounted(const record_scan& found) const {
  pool_set& p = *parts_.pool;
  const auto clear = [&](link from, link end) {
    const pool& in = p.of(from);
    const std::uint64_t until = link_offset(from) + (end - from);
    for (auto [at, to] = in.next_data(link_offset(from), until); at < until;
         std::tie(at, to) = in.next_data(to, until)) {
      std::byte* const bytes = in.base() + at;
      if (!all_zero(bytes, to - at)) {
        std::memset(bytes, 0, to - at);
      } else if (!found.crashed()) {
        continue;
      }
      // zeros too, after a crash: a recovery that was killed may have stored them without flushing them
      p.persist().flush(bytes, to - at);
    }
  };
  for (const auto& place : found.segments()) clear(place.position, place.in.end());
  for (const auto& hole : found.holes()) clear(hole.offset, hole.end());
  if (!found.crashed()) return;  // a clean close has set the fill ends
  keep_retention(p);
  // what counts may still be only in the caches: the writer died before it flushed it, or was not going to
  for (const auto& place : found.segments()) {
    p.persist().flush(p.at(place.in.offset), place.position - place.in.offset);
  }
  // A power cut may have kept records, or the header of what was left, of a free segment that was in use again, and not
  // the header that said so.
  for (const segment& s : found.free_segments()) p.of(s.offset).clear_content(s);
  if (!found.free_segments().empty()) {
    for (const pool* file : p.files()) file->file().sync();  // no flush of lines makes a hole durable
  }
  // Without its header a segment that does not count would be damage, to an opening that relies on headers (P3).
  for (const auto* kind : {&found.outdated_segments(), &found.free_segments(), &found.packed_segments()}) {
    for (const segment& s : *kind) p.persist().flush(&p.header_of(s.offset), sizeof(format::segment_header));
  }
  p.persist().sync();
  const record_totals totals = found.totals();
  // Nothing else is left, so everything there counts, whatever the fill ends say while they are being set. What was
  // lost is noted in the same root: the next recovery would find all versions durable.
  p.roots().update([&](format::root& r) {
    set_lost_versions(r, parts_.lost);
    r.durable_version = version_max;
    r.certificate = format::certificate_kind::proven;
    r.certified_records = totals.records;
    r.certified_sum = totals.digest;
  });
  for (const auto& place : found.segments()) p.set_fill(place.in, place.position);
  p.persist().sync();
}

void recovery::begin_session(const record_scan& found) const {
  // S3: the fill ends vouch for everything there
  start_session(*parts_.pool, what_is_there(found), 0, [&](format::root& r) {
    begin_epoch(r, true);
    r.anchor = null_link;
    // A persistent index is named once it is complete: if there is no room for it the store keeps the index it has.
    if (parts_.kind != index_kind::persistent) r.index = static_cast<std::uint8_t>(parts_.kind);
    std::memcpy(r.hash_seed, parts_.hash_seed.data(), sizeof r.hash_seed);
  });
  parts_.clock->set_limit(parts_.pool->roots().read().clock_limit);
}

// ---- A persistent index ----

/// Heads become those of an index in memory, and an opening after a crash would trust the persistent index and the
/// durable heads with it. Call also before anything changes that a killed process shared: from here on no process
/// attaches through what it left, even if this process is killed too. A closed store was closed by the process that
/// shared it: there begin_session() does this.
void recovery::begin_changes(const record_scan& found) const {
  pool_set& p = *parts_.pool;
  if (!found.crashed() && p.roots().read().anchor == null_link) return;
  p.roots().update_both([](format::root& r) {  // P6
    begin_epoch(r, true);
    r.anchor = null_link;
  });
}

/// Frees the segments of the previous index.
void recovery::free_index(const record_scan& found) const {
  pool_set& p = *parts_.pool;
  // Headers last: while a header is there, a crash leaves a segment of an index, whatever is in it.
  constexpr std::uint64_t header = sizeof(format::segment_header);
  const auto zero = [&](link offset, std::uint64_t size) {
    std::memset(p.at(offset), 0, size);
    p.persist().flush(p.at(offset), size);
  };
  if (found.index_segments().empty()) return;
  for (const segment& s : found.index_segments()) zero(s.offset + header, s.size - header);
  p.persist().sync();
  // No sync behind these: the next sync, or the next fence, comes before anything in that space counts.
  for (const segment& s : found.index_segments()) zero(s.offset, header);
  for (const segment& s : found.index_segments()) {
    if (s.end() <= found.used_end(link_pool(s.offset))) p.add_free(s.offset, s.size);
  }
}

/// A power cut may have kept any part of what changed the lists of queries' segments (query_space.hpp, Q2): of what a
/// session that did not flush line by line has left. So the lists are made anew, also if no segment is there: a list
/// may lead to one whose header did not reach the device, and this opening took that space for a hole, which it is
/// about to give out. Nothing has been given out yet (build_durable_index() and writers come later), and rebuild() ends
/// with a sync. A crash in here leaves that session's root, so the next opening comes here again.
void recovery::recover_queries(const record_scan& found) const {
  pool_set& p = *parts_.pool;
  const format::root root = p.roots().read();
  // add() makes this durable before it changes any list; the lists themselves may be all that is there
  if (!found.crashed() || root.version_major < format::version_major_with_queries) return;
  const bool were_flushed = root.durability == static_cast<std::uint8_t>(durability::operation) &&
                            p.durability().medium != medium::block_device;
  if (were_flushed) return;
  query_space(p, parts_.shared->queries).rebuild(found.query_segments());
  // What had no header may never have had one, and no list leads there any more, unless one is damaged itself. A crash
  // in here leaves a hole or what is cleared again.
  std::vector<segment> unlisted = found.damaged_query_segments();
  const std::vector<segment> listed = listed_query_segments(p);
  std::erase_if(unlisted, [&](const segment& s) {
    return std::ranges::find(listed, s.offset, &segment::offset) != listed.end();
  });
  for (const segment& s : unlisted) {
    std::memset(p.at(s.offset), 0, s.size);
    p.persist().flush(p.at(s.offset), s.size);
  }
  p.persist().sync();
  for (const segment& s : unlisted) p.add_free(s.offset, s.size);
}

/// All of it is durable before the root leads to it. Until then a crash leaves segments of an index that no root leads
/// to, and the next opening frees them. By then the root says that the store is open, because there is more than it was
/// closed with.
durable_parts recovery::build_durable_index(const record_scan& found, const std::vector<link>& sorted) {
  pool_set& p = *parts_.pool;
  const segment first =
      p.allocate(format::granule_size - sizeof(format::segment_header), 0, format::index_segment_magic, {});
  format::root root = p.roots().read();
  root.anchor = first.first_record();
  make_heads_durable(found);
  durable_parts made = durable_parts_in(parts_, root, root.epoch, anchor_is::fresh, std::move(*histories_));
  made.index->build(sorted, static_cast<unsigned>(found.parts().size()));
  list_tags(found, made);
  logged_segments& segments = made.media->segments();
  for (const auto& place : found.segments()) segments.add_free_space(place);
  // Holes too: an instant recovery does not look for them. What a writer takes of them gets its blocks at once, so they
  // are not large.
  constexpr std::uint64_t size_max = std::uint64_t{64} << 20;
  for (pool* file : p.files()) {
    for (const segment& hole : file->take_free()) {
      for (link at = hole.offset; at < hole.end(); at += size_max) {
        try {
          file->require_blocks(link_offset(at), link_offset(at) + format::page_size);
        } catch (const error& e) {
          if (e.code() != errc::no_space) throw;
          break;  // its device is full, and the other files' need not be: this hole stays one
        }
        const segment s = file->format_segment(at, std::min(size_max, hole.end() - at), format::segment_magic);
        segments.add_free_space({s, s.first_record()});
      }
    }
  }
  const logged_segments::log all{{}, null_link, found.newest(), found.totals()};
  segments.write_log(0, all);
  segments.note_before(0, all);
  p.persist().sync();
  p.roots().update([&](format::root& r) {
    r.version_minor = std::max(r.version_minor, format::minor_with_evidence);
    r.index = static_cast<std::uint8_t>(index_kind::persistent);
    r.anchor = first.first_record();
  });
  made.histories->set_unverified_up_to(found.newest());
  return made;
}

/// Establishes H7 for all entries.
void recovery::make_heads_durable(const record_scan& found) const {
  const rebuilt_histories& histories = *histories_;
  run_on_threads(static_cast<unsigned>(found.parts().size()), [&](unsigned t) {
    for (const link entry : found.parts()[t].entries) {
      auto& e = histories.at(entry).as_entry();
      // relaxed: nothing else runs yet
      const std::uint64_t head = e.head.load(std::memory_order_relaxed) & ~format::head_is_second_removal;
      e.head.store(head, std::memory_order_relaxed);
      e.committed_head().store(head, std::memory_order_relaxed);
      parts_.pool->persist().flush(&e.head, 2 * sizeof head);
    }
  });
}

void recovery::list_tags(const record_scan& found, const durable_parts& made) const {
  std::vector<std::pair<version, link>> tags;
  for (const auto& part : found.parts()) {
    for (const link l : part.tags) tags.emplace_back(made.histories->stamp_of(l), l);
  }
  std::ranges::sort(tags);
  for (const auto& [v, l] : tags) made.tags->list().append(l);
}

}  // namespace icecore::detail

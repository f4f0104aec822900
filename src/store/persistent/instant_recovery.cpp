#include "store/persistent/instant_recovery.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/root/boot.hpp"

namespace icecore::detail {

namespace {

/// Whether a segment's header before the end of the last segment is neither valid nor zero: a crash has left it so,
/// when it was written for a segment that was given back (give_back()) or given out. One that lies at that end is
/// cleared (clear_behind_end()). Cost: a look at each header.
bool has_half_written_header(const pool_set& pools, link anchor) noexcept {
  if (!pools.contains(anchor, sizeof(format::index_anchor))) return true;
  const auto& ends = reinterpret_cast<const format::index_anchor*>(pools.at(anchor))->used_end;
  for (const pool* p : pools.files()) {
    // relaxed: nobody else has the store open
    const std::uint64_t word = ends[p->number()].load(std::memory_order_relaxed);
    const link place = anchor + offsetof(format::index_anchor, used_end) + p->number() * sizeof word;
    if (!pools.codec().valid(word, place)) return true;
    const link end = make_link(p->number(), std::min(word & format::stamp_version_mask, p->size()));
    for (link at = make_link(p->number(), format::first_segment_offset); at + format::granule_size <= end;) {
      const std::optional<format::segment_header> h = seen_header(*p, at);
      const std::uint64_t header = link_offset(at);
      if (!h && !p->is_zero(header, header + sizeof(format::segment_header))) return true;
      at += (h ? h->granules : 1) * format::granule_size;
    }
  }
  return false;
}

}  // namespace

bool instant_recovery::possible(const pool_set& p, const options& opening) {
  const format::root root = p.roots().read();
  if (static_cast<index_kind>(root.index) != index_kind::persistent || root.anchor == null_link) return false;
  const bool whole_read_asked = opening.accept_damage || opening.check_values || opening.change_index;
  if (whole_read_asked || !p.damages().empty()) return false;
  const link segment_at = root.anchor - sizeof(format::segment_header);
  const bool there = link_pool(root.anchor) == 0 && segment_at % format::granule_size == 0 &&
                     p.valid_header(segment_at, format::index_segment_magic);
  if (!there || !p.missing().empty()) return false;
  // what a compaction could not give back, because of a reader or a crash; it may have been the first one
  if (may_have_packed_segments(root) && p.shared() && !outdated_segments(p, manifest_of(p)).empty()) return false;
  if (root.state == format::root_state::clean) return true;
  // A reader of a store that was left open changes nothing, so it has no place for what must be made anew.
  if (!p.shared()) return false;
  // Nobody clears it here, and behind a clean close it would be damage.
  if (may_have_packed_segments(root) && has_half_written_header(p, root.anchor)) return false;
  // What was flushed line by line is complete on the media, after a power cut too. Everything else is complete in the
  // caches while the machine runs, and a sync makes it durable; but a session that flushes by lines does not sync. Nor
  // may the root speak of flushed lines while a session that flushes none rolls operations forward.
  const bool were_flushed = root.durability == static_cast<std::uint8_t>(durability::operation) &&
                            p.durability().medium != medium::block_device;
  const bool are_flushed = p.persist().by_cache_lines();
  return were_flushed == are_flushed && (were_flushed || written_this_boot(root));
}

std::unique_ptr<opened_store> instant_recovery::run() {
  const auto begin = std::chrono::steady_clock::now();
  pool_set& p = *parts_.pool;
  const bool writes = !parts_.read_only();
  format::root root = p.roots().read();
  found_store found;
  found.crashed = root.state == format::root_state::open;
  found.same_boot = written_this_boot(root);
  // Before anything in the index is locked: a lock of an epoch that is used twice would seem to be a living thread's.
  if (writes) {
    forget_writer(p);
    p.roots().update_both([&](format::root& r) {  // P6
      begin_epoch(r, found.crashed);
      r.version_minor = std::max(r.version_minor, format::minor_with_evidence);
    });
    root = p.roots().read();
  } else {
    ++root.epoch;
  }
  parts_.lost = lost_versions_of(root);  // nothing is added: everything acknowledged is there
  durable_parts made =
      durable_parts_in(parts_, root, root.epoch, anchor_is::there, history_base(history_parts_of(parts_)));
  take_over_writers(made, found);
  // After a crash the fill ends do not vouch for everything there, but the newest version does: no write may be added
  // to it.
  version clock = clock_after(p, found);
  if (found.crashed && found.newest >= version_max) {
    raise(errc::damaged, "{}: damaged (index): a writer's log says that version {} was written, which is impossible",
          p.file().path().native(), found.newest);
  }
  if (found.crashed && clock <= found.newest) clock = found.newest + 1;
  p.live().clock.store(clock, std::memory_order_relaxed);  // relaxed: nothing else runs yet
  // If a process was killed and the machine runs on, intact records may be only in the caches: heads and pairs that
  // lead to them, also those of nodes that are repaired, must not reach the media before the records do.
  if (found.crashed) p.persist().sync();
  index::persistent_index& index = *made.index;
  const bool was_empty = index.is_empty();  // if so, its only keys are those that are entered now
  if (found.crashed) roll_forward_last_operations(made);
  if (was_empty && found.totals.keys > index.size()) {
    raise(errc::damaged,
          "{}: damaged (index): it is empty, but the writers' logs count {} keys; icecore verify reports the damage, "
          "icecore reindex rebuilds the index",
          p.origin(), found.totals.keys);
  }
  index.count(found.totals.keys - index.size());  // size() includes those that were entered just now
  parts_.shared->recovered = found.totals;
  parts_.shared->newest_recovered = found.newest;
  parts_.recovered_from_crash = found.crashed;
  parts_.recovered_instantly = true;
  made.histories->set_unverified_up_to(found.newest);
  if (writes) {
    if (found.crashed) p.persist().sync();
    start_session(p, found, found.crashed ? found.newest : 0, {});
    parts_.clock->set_limit(p.roots().read().clock_limit);
  }
  parts_.recovery_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return make_store<durable_engine, durable_heads>(std::move(parts_), std::move(made));
}

void instant_recovery::take_over_writers(const durable_parts& made, found_store& found) {
  logged_segments& segments = made.media->segments();
  if (found.crashed) {
    segments.recover();
    keep_retention(*parts_.pool);
    for (pool* const p : parts_.pool->files()) p->clear_behind_end();  // P7: now no claim leads there
  }
  const writer_tail tails(*parts_.pool);
  for (unsigned w = 0; w < format::writers_max; ++w) {
    auto log = segments.read_log(w);
    if (!log) continue;
    segments.require_open(*log);
    if (found.crashed && log->open.size != 0) {
      const writer_tail::content t = tails.read(log->open, log->from);
      tails.clear_behind(log->open, t.position);
      // zeros too: an opening that was killed may have stored them without flushing them
      parts_.pool->persist().flush(parts_.pool->at(log->from), log->open.end() - log->from);
      log->from = t.position;
      log->totals.add(t.totals);
      log->newest = std::max(log->newest, t.newest);
      found.newest_tag = std::max(found.newest_tag, t.newest_tag);
      last_.insert(last_.end(), t.last.begin(), t.last.end());
      changed_logs_.emplace_back(w, *log);
    }
    if (!found.crashed) segments.require_unused(*log);
    segments.note_before(w, *log);
    if (log->open.size != 0) parts_.writers->set_tail(w, {log->open, log->from});
    found.totals.add(log->totals);
    found.newest = std::max(found.newest, log->newest);
  }
  const format::root root = parts_.pool->roots().read();
  const bool as_certified = found.totals.records == root.certified_records && found.totals.digest == root.certified_sum;
  if (found.crashed && found.totals.records < root.certified_records) {
    raise(errc::damaged,
          "{}: damaged (index): the writers' logs and segments count {} records, but the root certifies at least {}; "
          "icecore verify reports the damage, icecore reindex rebuilds the index",
          parts_.pool->origin(), found.totals.records, root.certified_records);
  }
  if (!found.crashed && !as_certified) {
    raise(errc::damaged,
          "{}: damaged (index): the writers' logs and the root do not agree: the logs count {} records, the root "
          "certifies {}; icecore verify reports the damage, icecore reindex rebuilds the index",
          parts_.pool->origin(), found.totals.records, root.certified_records);
  }
}

void instant_recovery::roll_forward_last_operations(const durable_parts& made) {
  const durable_histories& histories = *made.histories;
  index::persistent_index& index = *made.index;
  std::vector<std::tuple<link, std::uint32_t, link>> updates;  // by entry, oldest first
  for (const link l : last_) {
    const record r = histories.at(l);
    if (r.is_entry()) {
      if (index.insert(r.key(), l) != l) {
        raise(errc::damaged, "{}: damaged at byte {} (entry): the key is entered twice", parts_.pool->origin(l),
              link_offset(l));
      }
      index.flush_leaf_of(r.key());  // a pair that was there may be only in the caches
    } else if (r.is_update()) {
      updates.emplace_back(r.as_update().entry, r.header().depth, l);
    } else if (r.kind() == format::record_kind::tag) {
      made.tags->list().list(l);
    }
  }
  // A link may have reached the media without its record, if the tag never took effect: it leads behind a writer's
  // tail.
  made.tags->list().recover([&](link l) {
    return std::ranges::any_of(changed_logs_, [l](const auto& changed) {
      const logged_segments::log& of_writer = changed.second;
      return l >= of_writer.from && l < of_writer.open.end();
    });
  });
  std::ranges::sort(updates);
  for (const auto& [entry, depth, l] : updates) {
    if (!made.media->is_intact(entry) || !histories.at(entry).is_entry()) {
      made.media->raise_damaged(l, "the record's entry is missing");
    }
    histories.restore(l);
  }
  // Only now, and everything flushed is durable before the first of them changes (write_log()): in what a log has
  // counted, no opening looks for an operation to roll forward.
  for (const auto& [writer, log] : changed_logs_) made.media->segments().write_log(writer, log);
}

}  // namespace icecore::detail

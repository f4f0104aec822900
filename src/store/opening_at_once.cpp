#include "store/opening_at_once.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "store/core.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint64_t stamp_offset = offsetof(format::record_header, stamp);

std::uint64_t word_at(const std::byte* p) noexcept {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace

bool opening_at_once::possible(const pool_set& p, const options& opening) {
  const format::root root = p.roots().read();
  if (static_cast<index_kind>(root.index) != index_kind::persistent || root.anchor == null_link) return false;
  const bool whole_read_asked = opening.accept_damage || opening.check_values || opening.change_index;
  if (whole_read_asked || p.copying() || p.root_lost() || !p.damages().empty()) return false;
  const link segment_at = root.anchor - sizeof(format::segment_header);
  const bool there = link_pool(root.anchor) == 0 && segment_at % format::granule_size == 0 &&
                     p.valid_header(segment_at, format::index_segment_magic);
  if (!there || !p.missing().empty()) return false;
  if (root.state == format::root_state::clean) return true;
  // Readers of a store that was left open change nothing, so there is nowhere to put what is to be made anew.
  const bool writes = p.shared();
  const bool lines = root.durability == static_cast<std::uint8_t>(durability::operation) &&
                     p.durability().medium != medium::block_device;
  return writes && (lines || written_this_boot(root));
}

void opening_at_once::run() {
  const auto begin = std::chrono::steady_clock::now();
  pool_set& p = *core_.pool_;
  const bool writes = !core_.read_only();
  const format::root root = p.roots().read();
  found_store found;
  found.crashed = root.state == format::root_state::open;
  found.same_boot = written_this_boot(root);
  // Before anything is locked in it: a lock of an epoch that is used again would be taken for a living thread's.
  if (writes) {
    name_writer(p);
    p.roots().update([](format::root& r) { ++r.epoch; });
  }
  core_.use_lasting_index(root.anchor, root.epoch + 1);
  take_over_writers(found);
  // After a crash fills do not stand for all there is, the newest version does, so nothing more may come into it.
  version clock = clock_after(p, found);
  if (found.crashed && clock <= found.newest) clock = found.newest + 1;
  p.live().clock.store(clock, std::memory_order_relaxed);  // relaxed: nobody else is there yet
  if (found.crashed) {
    // What is whole may be so in the caches alone, if a process was killed and not the machine: heads and pairs that
    // lead to it must not reach the media before it does.
    p.persist().sync();
    finish_last_operations();
  }
  core_.shared_->recovered = found.totals;
  core_.shared_->newest_recovered = found.newest;
  core_.recovered_from_crash_ = found.crashed;
  core_.opened_at_once_ = true;
  if (writes) {
    if (found.crashed) p.persist().sync();
    start_session(p, found, found.crashed ? found.newest : 0, {});
    core_.clock_->set_limit(p.roots().read().clock_limit);
  }
  core_.recovery_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void opening_at_once::take_over_writers(found_store& found) {
  lasting_segments& segments = core_.media_->segments();
  if (found.crashed) segments.settle();
  for (unsigned w = 0; w < format::writers_max; ++w) {
    auto log = segments.read_log(w);
    if (!log) continue;
    if (log->open.size != 0) {
      if (!core_.pool_->valid_header(log->open.offset) || log->from < log->open.offset) {
        raise(errc::damaged, "{}: damaged at byte {} (segment): a writer's segment is not where its log says",
              core_.pool_->origin(log->open.offset), link_offset(log->open.offset));
      }
      log->open = core_.pool_->segment_at(log->open.offset);
    }
    if (found.crashed && log->open.size != 0) {
      tail t = read_tail(log->open, log->from);
      drop_rest(log->open, log->from, t.position);
      log->from = t.position;
      log->totals.add(t.totals);
      log->newest = std::max(log->newest, t.newest);
      found.newest_tag = std::max(found.newest_tag, t.newest_tag);
      last_.insert(last_.end(), t.last.begin(), t.last.end());
      changed_logs_.emplace_back(w, *log);
    }
    segments.note_before(w, *log);
    if (log->open.size != 0) core_.writers_->set_place(w, {log->open, log->from});
    found.totals.add(log->totals);
    found.newest = std::max(found.newest, log->newest);
  }
  const format::root root = core_.pool_->roots().read();
  const bool as_certified = found.totals.records == root.certified_records && found.totals.digest == root.certified_sum;
  if (!found.crashed && !as_certified) {
    raise(errc::damaged,
          "{}: damaged (index): the writers' logs tell of {} records, the root of {}; icecore verify lists everything, "
          "icecore reindex makes the index anew",
          core_.pool_->origin(), found.totals.records, root.certified_records);
  }
  static_cast<index::persistent_index&>(*core_.index_).count(found.totals.keys);
}

bool opening_at_once::whole_record(const segment& s, link offset) const noexcept {
  if (s.end() - offset < sizeof(format::record_header)) return false;
  const record r(core_.pool_->at(offset));
  const record_layout layout = r.layout();
  return layout.plausible() && layout.place(offset) == offset && layout.size() <= s.end() - offset &&
         r.intact(core_.pool_->codec().record_seed(s.generation, offset));
}

/// Of a whole record; 0 if it never happened. A batch's records lie in one segment.
version opening_at_once::version_of(const segment& s, link offset) const noexcept {
  const word_codec& codec = core_.pool_->codec();
  const record r(core_.pool_->at(offset));
  std::uint64_t decides = offset;
  if (r.batched()) {
    decides = r.batch();
    if (decides < s.first_record() || decides >= s.end() || !whole_record(s, decides)) return 0;
  }
  const std::uint64_t word =
      record(core_.pool_->at(decides)).header().stamp.load(std::memory_order_relaxed) & ~format::stamp_persisted;
  return word != 0 && codec.valid(word, decides + stamp_offset) ? word & format::stamp_version_mask : 0;
}

// relaxed, all loads: nobody else is there yet
opening_at_once::tail opening_at_once::read_tail(const segment& s, link from) const {
  tail t;
  t.position = from;
  link batch = null_link;
  bool key_before = false;
  for (;;) {
    std::uint64_t at = t.position;
    while (at < s.end() && at - t.position <= format::record_padding_max && word_at(core_.pool_->at(at)) == 0) at += 8;
    if (at >= s.end() || at - t.position > format::record_padding_max || !whole_record(s, at)) break;
    const version v = version_of(s, at);
    const record r(core_.pool_->at(at));
    // A large value is flushed with its record, and may not have come as far. Only the last one's can be so.
    if (v == 0 || !r.value_intact()) break;
    const record_layout layout = r.layout();
    const link l = at;
    const link of_batch = r.kind() == format::record_kind::batch ? l : r.batched() ? r.batch() : null_link;
    // The keys of a batch that come before it: of several there is no fence behind each.
    const bool in_row = layout.is_key_alone() ? key_before : of_batch != null_link && of_batch == batch;
    if (!in_row) t.last.clear();
    key_before = layout.is_key_alone();
    batch = of_batch;
    t.last.push_back(l);
    t.totals.add(layout, r.is_removal(), record_digest(at, r.header().crc, v));
    t.newest = std::max(t.newest, v);
    if (layout.kind == format::record_kind::tag) t.newest_tag = std::max(t.newest_tag, v);
    t.position = at + layout.size();
  }
  return t;
}

/// Zeroes what never happened; makes durable what did.
void opening_at_once::drop_rest(const segment& s, link from, link position) const {
  pool_set& p = *core_.pool_;
  std::byte* const rest = p.at(position);
  if (!all_zero(rest, s.end() - position)) {
    for (std::uint64_t at = position; at + sizeof(format::record_header) <= s.end(); at += 8) {
      if (word_at(p.at(at)) == 0 || !whole_record(s, at) || version_of(s, at) == 0 || !record(p.at(at)).value_intact())
        continue;
      raise(errc::damaged,
            "{}: damaged at byte {} (record): a record is missing before the one at byte {}; icecore verify lists "
            "everything, icecore repair makes a new store of what is intact",
            p.origin(position), link_offset(position), link_offset(at));
    }
    std::memset(rest, 0, s.end() - position);
  }
  // zeros too: an opening that was killed may have stored them and not flushed them
  p.persist().flush(p.at(from), s.end() - from);
}

void opening_at_once::finish_last_operations() {
  const histories& past = core_.past();
  std::vector<std::tuple<link, std::uint32_t, link>> updates;  // by entry, oldest first
  for (const link l : last_) {
    const record r = past.at(l);
    if (r.is_entry()) {
      if (core_.index_->insert(r.key(), l) != l) {
        raise(errc::damaged, "{}: damaged at byte {} (entry): the key is entered twice", core_.pool_->origin(l),
              link_offset(l));
      }
    } else if (r.is_update()) {
      updates.emplace_back(r.as_update().entry, r.header().depth, l);
    } else if (r.kind() == format::record_kind::tag) {
      bool listed = false;
      constexpr unsigned looked_at_max = 4 * format::writers_max;  // it is the last of one of so many writers
      unsigned seen = 0;
      core_.tag_list_->for_each([&](link tag) {
        listed = listed || tag == l;
        return !listed && ++seen < looked_at_max;
      });
      if (!listed) core_.tag_list_->append(l);
    }
  }
  std::ranges::sort(updates);
  for (const auto& [entry, depth, l] : updates) {
    if (!core_.media_->is_whole(entry) || !past.at(entry).is_entry()) {
      core_.media_->raise_damaged(l, "the record's entry is missing");
    }
    past.restore(l);
  }
  // Only now: behind what a log has counted nobody looks for an operation to finish.
  core_.pool_->persist().sync();
  for (const auto& [writer, log] : changed_logs_) core_.media_->segments().write_log(writer, log);
}

}  // namespace icecore::detail

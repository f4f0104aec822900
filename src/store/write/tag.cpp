// Closing versions: tags, syncs, and the durable point that a power cut goes back to.
//
// A durable tag on page media:
//   1. the gate stops writers between two operations: every record linked so far is stamped (at most with the open
//      version), so no stalled writer or helper can stamp the closed version later;
//   2. the clock ticks, the certificate (count and digest of all records <= v) is taken, the gate opens;
//   3. the data is synced: everything stored before, and so all records <= v;
//   4. the root with the certificate is written and synced.
// A crash before step 4 goes back to the previous durable point; recovery drops the records beyond it.
//
// sync() of a deferred store on page media takes steps 1 and 2, and then writes the root *before* its one sync: a joint
// certificate (P2). A power cut during that sync leaves any part of the records and the root. If the root is missing or
// torn, the one before it counts. If it is there, opening counts the records that it certifies: all are there, and then
// they count, or the root before it does, whose sync had ended. Nobody was told before this sync ended.
#include <unistd.h>
#include <cassert>

#include <algorithm>
#include <chrono>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/core.hpp"
#include "store/packed/retention/expiry.hpp"
#include "store/packed/retention/holds.hpp"

namespace icecore::detail {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool has_record(const tag_options& label) noexcept {
  return !label.name.empty() || !label.note.empty() || label.time_ns.has_value();
}

}  // namespace

version store_core::tag(const tag_options& label) {
  if (!has_record(label)) return tag();
  check_writable();
  if (label.name.size() > key_size_max || label.note.size() > key_size_max) {
    raise(errc::invalid_argument, "a tag's name of {} and note of {} bytes: each has at most {}", label.name.size(),
          label.note.size(), key_size_max);
  }
  const bool durably = pool_->durability().mode == durability::tag;

  catalog_->load(*tags_);
  if (!label.name.empty() && !tags_->reserve(label.name)) {
    const auto there = tags_->find(label.name);
    if (!there) raise(errc::tag_exists, "a tag named '{}' is being made by another thread", label.name);
    raise(errc::tag_exists, "a tag named '{}' exists already, on version {}", label.name, there->version);
  }
  try {
    const std::int64_t time_ns = label.time_ns.value_or(now_ns());
    auto known = tag_index::prepare({0, time_ns, std::string(label.name), std::string(label.note)});
    const version v = durably ? tag_durably(&label, time_ns, &known) : tag_quickly(label, time_ns, known);
    if (opened_->settled != nullptr && !durably) opened_->settled->look_at_once();
    return v;
  } catch (...) {
    tags_->release(label.name);
    throw;
  }
}

/// The tag is known before the lease ends: who has shut the gate knows all tags whose records are there.
version store_core::tag_quickly(const tag_options& label, std::int64_t time_ns, tag_index::prepared& known) {
  const writer_lease w(*writers_);
  check_usable();     // see put()
  require_current();  // the record belongs to the generation that takes the writes
  const version v = close_with_record(*w, &label, time_ns);
  if (records_->persists_on_read()) pool_->persist().sync();  // S2; in the other modes a tag does not wait
  tags_->add(std::move(known), v);
  return v;
}

version store_core::close_with_record(const writer& w, const tag_options* label, std::int64_t time_ns) {
  if (label == nullptr) return close_open();
  pool_->persist().verify_file_sizes();
  const auto layout = record_layout::of_tag(label->name.size(), label->note.size());
  const tag_catalog::turn one_at_a_time = catalog_->reserve(label->name, label->note);
  // Everything that can fail comes before the version is closed and before the record gets its place: a place without a
  // record would count as damage once another record follows it.
  w.reserve(layout.size() + format::record_padding_max);
  const version v = close_open();
  const link at = w.allocate(layout);
  const record r = records_->at(at);
  r.fill(layout, null_link, label->name, label->note);
  r.as_tag().time_ns = time_ns;
  // release: a crash image that has the stamp may still lack the rest; the crc detects that
  r.header().stamp.store(pool_->codec().encode(v, at + offsetof(format::record_header, stamp)),
                         std::memory_order_release);
  r.seal(w.seed_of(at));
  pool_->persist().flush(r.address(), layout.size());
  if ((layout.flags & format::flag_large_value) != 0) checked_->mark(at);
  assert(records_->stamp_of_own(at) == v);  // S2
  catalog_->append(at);
  w.count(layout, false, at, r.header().crc, v);
  return v;
}

/// The same, and the mutex is held until then, for the gate opens before.
version store_core::tag_durably(const tag_options* label, std::int64_t time_ns, tag_index::prepared* known) {
  const certifying_turn one_at_a_time(*opened_);
  settled_content what;
  {
    const writer_set::gate stopped(*writers_);
    if (label != nullptr) require_current();  // as in tag_quickly()
    what.totals = shared_->recovered;
    const writer_lease w(*writers_, /*through_gate=*/true);
    what.up_to = close_with_record(*w, label, time_ns);
    what.totals.add(writers_->totals());
  }
  certify(what, format::certificate_kind::proven);
  if (known != nullptr) tags_->add(std::move(*known), what.up_to);
  if (opened_->settled != nullptr) opened_->settled->publish(what.up_to);
  return what.up_to;
}

store_core::settled_content store_core::settle() {
  const writer_set::gate stopped(*writers_);
  return settle_behind_gate();
}

/// Nothing more than what is there can be stamped with the version.
store_core::settled_content store_core::settle_behind_gate() {
  settled_content what{0, shared_->recovered};
  const version open = clock_->now();
  what.up_to = untouched(open) ? open - 1 : close_open();  // under the gate no write is under way
  what.totals.add(writers_->totals());
  return what;
}

version store_core::settle_version() {
  const std::scoped_lock one_at_a_time(opened_->tag_mutex);
  return settle().up_to;
}

version store_core::settle_version(const writer_set::gate& /*shut*/) { return settle_behind_gate().up_to; }

void store_core::certify(const settled_content& what, format::certificate_kind kind) {
  if (kind == format::certificate_kind::proven) pool_->persist().sync();
  pool_->roots().update([&](format::root& r) {
    r.durable_version = what.up_to;
    r.clock = std::max(r.clock, what.up_to);
    r.certified_records = what.totals.records;
    r.certified_sum = what.totals.digest;
    r.certificate = kind;
    // an icecore that does not know joint certificates would report what a power cut took as damage
    if (kind == format::certificate_kind::joint)
      r.version_minor = std::max(r.version_minor, format::minor_with_joint_certificates);
  });
  shared_->closed_versions.ring();
}

bool store_core::untouched(version open) const noexcept {
  return shared_->newest_recovered < open && writers_->none_since(open);
}

void store_core::lose(const version_ranges& versions) {
  check_writable();
  check_first();
  if (versions.empty()) return;
  const version first = versions.ranges().front().first;
  const version last = versions.ranges().back().end - 1;
  if (first == 0 || last >= clock_->now()) {
    raise(errc::invalid_argument, "version {} cannot be lost: {}", first == 0 ? first : last,
          first == 0 ? "it is the empty store" : "it is not closed");
  }
  version_ranges all = lost();
  all.add(versions);
  // twice: the older root page, which replaces a damaged newest one, must say it too
  for (int page = 0; page < 2; ++page) pool_->roots().update([&](format::root& r) { set_lost_versions(r, all); });
  opened_->lost = std::move(all);
  note_unknown_versions();
}

void store_core::expire(std::span<const version_range> versions) {
  check_writable();
  check_first();
  std::vector<version_range> all = packing_.expired;
  all.insert(all.end(), versions.begin(), versions.end());
  all = in_order(std::move(all));
  if (all.size() == packing_.expired.size() && std::ranges::equal(all, packing_.expired)) return;
  // the newest closed version is the present
  if (all.front().first == 0 || all.back().end >= clock_->now() || all.size() > format::expired_ranges_max) {
    raise(errc::invalid_argument, "versions from {} to {}, in {} ranges, cannot expire: {}", all.front().first,
          all.back().end - 1, all.size(),
          all.front().first == 0                    ? "version 0 is the empty store"
          : all.size() > format::expired_ranges_max ? "a store notes fewer ranges"
                                                    : "the newest closed version is the present");
  }
  for (const found_hold& each : holds_of(query_space(*pool_, shared_->queries))) {
    if (!has_any(all, each.what.at, each.what.at)) continue;
    raise(errc::invalid_argument, "version {} cannot expire: it is held as '{}'; release it first", each.what.at,
          each.what.name);
  }
  manifest next = packing_;
  next.expired = std::move(all);
  store_manifest(*pool_, packing_, next);
  pool_->persist().sync();
  pool_->roots().update_both([&](format::root& r) { name_manifest(r, next); });
  packing_ = std::move(next);
  note_unknown_versions();
}

void store_core::set_retention(const retention& which) {
  check_writable();
  if (which.younger_than.count() < 0) {
    raise(errc::invalid_argument, "retention: versions younger than {} seconds: an age is not negative",
          which.younger_than.count());
  }
  const certifying_turn one_at_a_time(*opened_);
  store_retention(*pool_, which);
}

version store_core::close_version() {
  check_usable();
  if (read_only()) return newest_readable();
  const version open = clock_->now();
  // the open version has no write that this caller can have seen, so it need not be closed
  if (shown_by_newest_closed(open)) return open - 1;
  return close_open();
}

version store_core::version_to_close() const {
  check_usable();
  if (read_only()) return newest_readable();
  const version open = clock_->now();
  return shown_by_newest_closed(open) ? open - 1 : open;
}

void store_core::publish_settled() {
  opened_->settled = std::make_unique<settled_point>(*pool_, *clock_, *writers_, synced_, clock_->now() - 1);
}

version store_core::durable_up_to() const {
  if (synced_ != nullptr) return synced_->up_to();
  if (pool_->durability().mode == durability::operation) return version_max;
  // as lost_in_power_cut() says, after the fact
  // beside a writer: as it is now
  const auto newest = beside_writer_ ? newest_root(pool_->first().base()) : std::nullopt;
  const format::root root = newest ? *newest : pool_->roots().read();
  if (beside_writer_ && root.state == format::root_state::clean) return root.clock;
  const version closed_before = root.clock == 0 ? 0 : root.clock - 1;
  return std::max(root.durable_version, closed_before);
}

void store_core::sync() {
  check_writable();
  if (synced_ != nullptr) return opened_->deferred_syncs.run([this] { sync_deferred(); });
  pool_->persist().verify_file_sizes();
  if (pool_->durability().mode == durability::operation) {
    pool_->persist().sync();  // every returned write is durable already; this is for the device's own queue
    if (opened_->settled != nullptr) opened_->settled->look_at_once();
    return;
  }
  const certifying_turn one_at_a_time(*opened_);
  const settled_content what = settle();
  certify(what, format::certificate_kind::proven);
  if (opened_->settled != nullptr) opened_->settled->publish(what.up_to);
}

/// Where lines are flushed, each write was durable when its writer was given back: no certificate is needed.
void store_core::sync_deferred() {
  check_usable();  // a sync that others waited for may have failed
  pool_->persist().verify_file_sizes();
  const certifying_turn one_at_a_time(*opened_);
  const settled_content what = settle();
  if (pool_->persist().by_pages()) {
    certify(what, format::certificate_kind::joint);
  } else {
    pool_->persist().sync();
  }
  synced_->advance(what.up_to);  // D1
  if (opened_->settled != nullptr) opened_->settled->publish(what.up_to);
  shared_->closed_versions.ring();  // feeds that wait for it
}

// Closing: 1. makes all data durable and certifies it, including the open version, which gets no more writes, so that a
// crash from here on loses nothing; 2. writes the fill ends, which from the next opening on vouch for everything that
// was there; 3. writes the clean root. A crash between two of these steps leaves a root that is still right.
void store_core::close_replaced(const record_totals& left) {
  is_closed_ = true;
  opened_->companion.reset();
  pool_->end_background_growth();
  // relaxed: no other thread uses the store
  shared_->is.store(shared_state::phase::closed, std::memory_order_relaxed);
  pool_->persist().sync();
  pool_->end_session([&](format::root& r) {
    r.evidence_from = static_cast<std::uint32_t>(r.epoch + 1);
    r.state = format::root_state::clean;
    r.certificate = format::certificate_kind::proven;
    r.clock = clock_->now();
    r.durable_version = 0;
    r.certified_records = left.records;
    r.certified_sum = left.digest;
  });
}

void store_core::close() {
  if (is_closed_) return;
  is_closed_ = true;
  opened_->companion.reset();
  pool_->end_background_growth();  // before the files are cut to what is used
  if (attached_ || read_only() || fork_generation_ != fork_generation()) return;
  if (!shared_as_.empty()) ::unlink(shared_as_.c_str());
  if (pool_->persist().poisoned()) pool_->persist().raise_poisoned();
  const writer_set::gate stopped(*writers_);
  // release: who waits for a compaction sees its answer behind it; a writer sees it at the latest when the gate opens
  shared_->is.store(shared_state::phase::closed, std::memory_order_release);
  shared_->closed_versions.ring();
  const version open = clock_->now();
  settled_content all{open, shared_->recovered};
  all.totals.add(writers_->totals());
  // not the open one: the next process that writes adds to it
  if (opened_->settled != nullptr) opened_->settled->publish(open - 1);
  commit_pending_writes();
  certify(all, format::certificate_kind::proven);
  for (const auto& p : writers_->segment_tails()) pool_->set_fill(p.in, p.position);
  const bool evidence_counts = leave_for_opening();
  pool_->persist().sync();
  pool_->end_session([&](format::root& r) {
    if (!evidence_counts) r.evidence_from = static_cast<std::uint32_t>(r.epoch + 1);
    r.state = format::root_state::clean;
    r.clock = open;
    r.durable_version = 0;
  });
}

}  // namespace icecore::detail

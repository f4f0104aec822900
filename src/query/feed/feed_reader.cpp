#include "query/feed/feed_reader.hpp"

#include <algorithm>
#include <bit>

#include "base/threads.hpp"
#include "query/once/matching.hpp"

namespace icecore::detail {

using namespace std::chrono_literals;

feed_identity identity_of(const store_core& core, const filter& where, std::string_view secret) {
  return {&core.the_pool(), where.fingerprint(), std::string(secret)};
}

feed_reader::feed_reader(store_core& core, filter where, feed_position from, const feed_reading& how)
    : core_(&core),
      where_(std::move(where)),
      ranges_(where_.program().key_ranges()),
      identity_(identity_of(core, where_, how.secret)),
      place_(std::move(from)),
      unsynced_(how.unsynced),
      since_(core) {
  require_readable();
}

/// What was told must still be there: a power cut may have taken it where `unsynced` was asked for. And what is to be
/// told must not have expired, nor what it changed: a compaction may have come since a token was given out.
void feed_reader::require_readable() const {
  if (!place_.beyond_lost) core_->check_readable(place_.needs());
  core_->check_none_expired(place_.needs(), version_max);
}

// ---- Which versions may be told ----

/// Closed, and as durable as asked; never one that a power cut took: there is nothing in it.
version feed_reader::tellable() const {
  // the durable point first: the clock is then beyond it
  const version durable = unsynced_ ? version_max : core_->durable_up_to();
  version up_to = std::min(core_->clock().now() - 1, durable);
  for (const version_range& lost : core_->lost().ranges()) {
    if (lost.first <= up_to && up_to < lost.end) up_to = lost.first - 1;
  }
  return up_to;
}

/// Returns whether more versions than before may be told.
bool feed_reader::settle(clock::time_point until) {
  const version up_to = tellable();
  if (up_to <= settled_) return false;
  if (core_->read_only()) {  // nobody writes
    settled_ = up_to;
    return true;
  }
  settling writes(core_->clock(), core_->writers());
  constexpr auto at_least = 50us;  // a write takes less
  const auto begun = clock::now();
  backoff spin;
  for (unsigned rounds = 1; !writes.is_done(); ++rounds) {
    const auto now = clock::now();
    if (now - begun < at_least) {
      spin.pause();
      continue;
    }
    if (now >= until) return false;
    core_->check_usable();
    core_->shared().closed_versions.wait(200us, [] { return false; });
    constexpr unsigned rounds_between_looks = 100;
    if (rounds % rounds_between_looks == 0) core_->writers().recover_dead_writers();
  }
  settled_ = up_to;
  return true;
}

/// Sleeps until a version is closed or becomes durable, or for a while. Nobody tells a reader beside the writer: it
/// looks.
void feed_reader::wait(clock::time_point until) const {
  // whoever should ring may have been killed
  const clock::duration at_most = core_->beside_writer() ? 20ms : 200ms;
  const auto left = std::min(at_most, until - clock::now());
  if (core_->beside_writer()) static_cast<void>(core_->opened().refresh());
  const version before = tellable();
  if (before > settled_) return;
  core_->shared().closed_versions.wait(left, [&] { return tellable() > before; });
}

// ---- What is to be told ----

/// Finds the changes behind the place. False if there are none in versions that may be told.
bool feed_reader::load() {
  const version told = place_.told();
  if (settled_ <= told) return false;
  with_engine(*core_, [&](const auto& engine) {
    auto found = since_.collect(engine, told, settled_, wanted_new);
    if (!found) found = pass_over_keys(engine, told, settled_, wanted_of_pass);
    pending_ = std::move(found->changes);
    pending_up_to_ = found->up_to;
  });
  // what was told of the first version
  const auto is_told = [&](std::size_t i) { return i < place_.changes && pending_[i].at == place_.at; };
  for (next_pending_ = 0; next_pending_ < pending_.size() && is_told(next_pending_);) ++next_pending_;
  pass(0);
  return true;
}

void feed_reader::load_items() {
  pending_.clear();
  next_pending_ = 0;
  with_engine(*core_, [&](const auto& engine) {
    const index::ordered_links& links = in_key_order(engine, kept_);
    if (items_ == nullptr) {
      scan_bounds bounds;
      items_from_ = place_.key;
      if (place_.key_known) items_from_.push_back('\0');  // the next possible key
      bounds.from = items_from_;
      items_ = std::make_unique<change_walk>(change_walk::snapshot_of{place_.at}, within_ranges(ranges_, bounds));
    }
    try {
      while (pending_.size() < wanted_items) {
        const auto one = items_->next(engine, links);
        if (!one) break;
        pending_.push_back(*one);
      }
    } catch (...) {  // begins again behind the place
      items_.reset();
      pending_.clear();
      throw;
    }
  });
  if (!pending_.empty()) return;
  items_.reset();
  kept_.reset();
  place_ = {.at = place_.at + 1};
}

/// The place is behind so many more of the pending changes.
void feed_reader::pass(std::size_t pending) {
  for (; pending > 0; --pending, ++next_pending_) {
    const version at = pending_[next_pending_].at;
    if (at != place_.at) place_ = {.at = at};
    ++place_.changes;
  }
  if (next_pending_ == pending_.size()) {
    place_ = {.at = pending_up_to_ + 1};
  } else if (pending_[next_pending_].at != place_.at) {
    place_ = {.at = pending_[next_pending_].at};
  }
  place_.beyond_lost = core_->lost().contains(place_.needs());
}

/// Appends pending changes that match until there are `max` of them.
void feed_reader::fill(std::vector<key_change>& out, std::size_t max) {
  const feed_position place_before = place_;
  const std::size_t pending_before = next_pending_;
  try {
    while (next_pending_ < pending_.size() && out.size() < max) fill_from_block(out, max);
  } catch (...) {
    // A function of the caller has thrown, or a value is damaged: what was found so far is not told.
    place_ = place_before;
    next_pending_ = pending_before;
    throw;
  }
}

void feed_reader::fill_from_block(std::vector<key_change>& out, std::size_t max) {
  const bool items = place_.in_snapshot;
  needs_of reads = whole_change;
  reads.changes = !items;
  block_.clear();
  with_engine(*core_, [&](const auto& engine) {
    for (std::size_t i = next_pending_; i < pending_.size() && !block_.full(); ++i) {
      block_.add(engine, pending_[i], reads);
    }
  });
  if (items) block_.set_all_first();
  const rows& block = block_.as_rows();
  const row_mask found = where_.program().test(block, memory_);
  std::size_t looked_at = 0;
  for (; looked_at < block.size && out.size() < max; ++looked_at) {
    if ((found >> looked_at & 1U) != 0) out.push_back(block_.change(looked_at));
  }
  if (!items) {
    pass(looked_at);
    return;
  }
  next_pending_ += looked_at;
  place_.key = block.keys[looked_at - 1];
  place_.key_known = true;
}

/// Goes on with the engine that is current now. What was found with the one before is told; links into it mean nothing
/// here.
void feed_reader::follow(pin& holds) {
  held_engine now = core_->opened().hold();
  if (&*now == core_) return;
  core_ = &*now;
  followed_ = place_;
  since_ = new_records(*core_);
  items_.reset();
  kept_.reset();
  pending_.clear();
  next_pending_ = 0;
  holds = std::move(now).holds();
}

bool feed_reader::counts_as_told(const feed_position& place) const noexcept {
  return core_ == &core_->opened().current() && !place.before(followed_);
}

feed_batch feed_reader::next(pin& holds, std::size_t max, std::chrono::microseconds timeout) {
  if (max == 0) raise(errc::invalid_argument, "a batch of at most 0 changes would not move the feed on");
  const auto now = clock::now();
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(clock::time_point::max() - now);
  const auto until = now + std::clamp(timeout, std::chrono::microseconds(0), longest);
  std::vector<key_change> found;
  bool of_snapshot = false;
  for (;;) {
    const bool all_told = next_pending_ == pending_.size();
    bool more = false;
    if (all_told) {
      if (!place_.in_snapshot) more = settle(until);
      follow(holds);  // behind the clock: this engine has all of the versions that may be told (E3)
    }
    core_->check_usable();
    require_readable();
    of_snapshot = place_.in_snapshot;
    if (all_told) {
      if (place_.in_snapshot) {
        load_items();
        if (!place_.in_snapshot) continue;
      } else {
        if (!load() && !more) {
          if (clock::now() >= until) break;
          wait(until);
          continue;
        }
      }
    }
    fill(found, max);
    if (!found.empty()) break;
  }
  feed_batch batch;
  batch.changes = {std::move(found), holds};
  batch.is_snapshot = of_snapshot && !batch.changes.empty();
  batch.told = place_.told();
  batch.token = token_of(identity_, place_);
  return batch;
}

}  // namespace icecore::detail

#include "service/write/direct_writes.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <optional>

#include "icecore/history.hpp"
#include "service/read/hidden_keys.hpp"

namespace icecore::service {

direct_writes::direct_writes(const write_parts& parts)
    : parts_(parts),
      told_(parts.store->latest().version()),
      answers_(*parts.pool, {.sync = [this] { parts_.store->sync(); },
                             .durable = [](icecore::version) {},
                             .failed = [this](const failure& why) { parts_.poisoned(why); }}) {
  if (parts_.promises_operations) parts_.store->sync();
  parts_.tellable(told_.load(std::memory_order_relaxed));
}

direct_writes::~direct_writes() { finish(); }

void direct_writes::finish() { answers_.drain(); }

std::size_t direct_writes::stripe_of(std::string_view key) const noexcept {
  return std::hash<std::string_view>{}(key) % stripe_count;
}

write_path::held direct_writes::hold() {
  held all;
  all.reserve(stripe_count);
  for (stripe& next : stripes_) all.emplace_back(next.mutex);
  return all;
}

write_path::held direct_writes::lock(const transaction& what) {
  std::vector<std::size_t> named;
  for (const condition& c : what.conditions) named.push_back(stripe_of(c.key));
  for (const auto* list : {&what.then, &what.otherwise}) {
    for (const operation& o : *list) {
      switch (o.what) {
        case operation::kind::remove_range:
        case operation::kind::get_range:
        case operation::kind::grant_lease:
        case operation::kind::end_lease:
        case operation::kind::expire_lease:
        case operation::kind::compact:
          return hold();
        default:
          named.push_back(stripe_of(o.key));
      }
    }
  }
  std::ranges::sort(named);  // one order for all, so that nobody waits in a circle
  const auto twice = std::ranges::unique(named);
  named.erase(twice.begin(), twice.end());
  held locked;
  locked.reserve(named.size());
  for (const std::size_t next : named) locked.emplace_back(stripes_[next].mutex);
  return locked;
}

void direct_writes::write(transaction what, completion done) {
  std::optional<outcome> came;
  try {
    if (is_blind(what) && what.then.size() == 1) {
      const operation& only = what.then.front();
      if (const auto version = put_alone(only.key, only.value)) {
        came.emplace();
        came->version = *version;
        came->results.resize(1);
        came->results[0].size = only.value.size();
      }
    }
    if (!came) {
      const held locked = lock(what);
      came = apply(what);
    }
  } catch (...) {
    done(failure_of(std::current_exception()));
    return;
  }
  answer(std::move(*came), std::move(done));
}

std::optional<icecore::version> direct_writes::put_at_once(std::string_view key, std::string_view value) {
  if (parts_.promises_operations) return std::nullopt;
  return put_alone(key, value);
}

// Leases are asked for under the lock: who gives this key one holds it, too.
std::optional<icecore::version> direct_writes::put_alone(std::string_view key, std::string_view value) {
  const std::lock_guard guard(stripes_[stripe_of(key)].mutex);
  if (parts_.leases->any()) return std::nullopt;
  require_client_key(key);
  std::string room;
  return parts_.store->insert(key, parts_.codec->encode(value, room));
}

outcome direct_writes::apply(const transaction& what) {
  newest_present now(*parts_.store, *parts_.codec, *parts_.leases);
  executed done = execute(what, now, *parts_.leases, *parts_.codec);
  if (done.writes.empty()) {
    done.answer.version = parts_.store->clock();
    return std::move(done.answer);
  }
  done.answer.version = parts_.store->apply(done.writes);
  done.leases.commit(0);  // reads show it already
  if (done.compacted) parts_.compacted(*done.compacted);
  return std::move(done.answer);
}

void direct_writes::answer(outcome what, completion done) {
  if (parts_.promises_operations) {
    answers_.add({.what = std::move(what), .done = std::move(done)});
  } else {
    done(std::move(what));
  }
}

std::uint64_t direct_writes::load(const row_block& rows, bool keep) {
  std::uint64_t written = 0;
  std::string room;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view key = rows.keys[i];
    require_client_key(key);
    const std::lock_guard guard(stripes_[stripe_of(key)].mutex);
    if (parts_.leases->any() && parts_.leases->of(key) != 0) {
      if (keep && !parts_.leases->is_over(key)) continue;
      transaction one;
      one.then.push_back(operation::put(std::string(key), std::string(rows.values[i])));
      static_cast<void>(apply(one));
      ++written;
      continue;
    }
    const std::string_view value = parts_.codec->encode(rows.values[i], room);
    if (!keep) {
      parts_.store->insert(key, value);
      ++written;
    } else if (parts_.store->insert_new(key, value)) {
      ++written;
    }
  }
  wait_until_durable();
  return written;
}

void direct_writes::wait_until_durable() {
  if (!parts_.promises_operations) return;
  std::promise<result<outcome>> promised;
  answers_.add({.what = {}, .done = [&](result<outcome> came) { promised.set_value(std::move(came)); }});
  const result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
}

icecore::version direct_writes::tag(const icecore::tag_options& label) {
  const icecore::version tagged = parts_.store->tag(label);
  wait_until_durable();
  static_cast<void>(is_newly_told(tagged));
  parts_.tellable(tagged);
  return tagged;
}

bool direct_writes::is_newly_told(icecore::version closed) {
  icecore::version before = told_.load(std::memory_order_relaxed);
  while (before < closed) {
    if (told_.compare_exchange_weak(before, closed, std::memory_order_relaxed)) return true;
  }
  return false;
}

void direct_writes::close_version() { tell(parts_.store->latest().version()); }

// A version that a sync has not covered is not told to watches yet: the sync comes first. This runs among the tasks
// that serve syncs, so it must not wait for one.
void direct_writes::tell(icecore::version closed) {
  if (!is_newly_told(closed)) return;
  if (parts_.store->durability().mode == icecore::durability::tag) parts_.store->sync();
  if (!parts_.promises_operations) {
    parts_.tellable(closed);
    return;
  }
  answers_.add({.what = {}, .done = [this, closed](const result<outcome>& came) {
                  if (std::holds_alternative<outcome>(came)) parts_.tellable(closed);
                }});
}

icecore::snapshot direct_writes::newest() {
  icecore::snapshot now = parts_.store->latest();
  // Under tag durability that would take a sync: watches are told with the next tag, or by the timer.
  if (parts_.store->durability().mode != icecore::durability::tag) tell(now.version());
  return now;
}

std::optional<found> direct_writes::find_newest(std::string_view key) {
  const icecore::pin holds = parts_.store->hold();
  return found_in(parts_.store->history(key), holds, *parts_.codec);
}

}  // namespace icecore::service

// Changes between two versions, and feeds.
#include "icecore/feed.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "filter.hpp"

using namespace icecore::c;

struct icecore_changes {
  range_walk<icecore::change_range> walk;
};

struct icecore_feed {
  icecore::feed feed;
};

namespace {

icecore_key_change change_of(const icecore::key_change& c) noexcept {
  return {bytes(c.key), c.version, bytes(c.value), bytes(c.before), c.first ? 1 : 0};
}

/// The batch that icecore_feed_batch_free() frees: the structure that C sees, and what it points to.
struct owned_feed_batch : icecore_feed_batch {
  explicit owned_feed_batch(icecore::feed_batch told_now) : icecore_feed_batch{}, batch(std::move(told_now)) {
    seen.reserve(batch.changes.size());
    for (const icecore::key_change& c : batch.changes) seen.push_back(change_of(c));
    count = seen.size();
    changes = seen.data();
    told = batch.told;
    is_snapshot = batch.is_snapshot ? 1 : 0;
    token = bytes(std::string_view(batch.token));
  }
  owned_feed_batch(const owned_feed_batch&) = delete;
  owned_feed_batch& operator=(const owned_feed_batch&) = delete;

  icecore::feed_batch batch;
  std::vector<icecore_key_change> seen;
};

icecore_feed_request default_feed_request() noexcept {
  icecore_feed_request defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.after = ICECORE_VERSION_PRESENT;
  return defaults;
}

icecore::feed_request feed_request_of(const icecore_feed_request* request) {
  constexpr const char* function = "icecore_feed_open";
  const icecore_feed_request set = read_structure(request, default_feed_request(), function);
  icecore::feed_request what;
  what.name = view(set.name.data, set.name.size, function, "name");
  if (set.after != ICECORE_VERSION_PRESENT) what.after = set.after;
  if (set.where != nullptr) what.where = set.where->filter;
  what.snapshot = set.snapshot != 0;
  what.unsynced = set.unsynced != 0;
  what.token = view(set.token.data, set.token.size, function, "token");
  what.secret = view(set.secret.data, set.secret.size, function, "secret");
  return what;
}

}  // namespace

extern "C" {

int icecore_changes_open(const icecore_store* store, icecore_version after, icecore_version up_to,
                         const icecore_filter* filter, icecore_changes** changes) {
  if (changes != nullptr) *changes = nullptr;
  return guarded([&] {
    require(store, "icecore_changes_open", "store");
    require(changes, "icecore_changes_open", "changes");
    icecore::change_range all = store->store.changes(after, up_to);
    *changes = new icecore_changes{range_walk(filter == nullptr ? std::move(all) : all.where(filter->filter))};
  });
}

int icecore_changes_next(icecore_changes* changes, icecore_key_change* change) {
  if (change != nullptr) *change = {};
  return guarded([&] {
    require(changes, "icecore_changes_next", "changes");
    require(change, "icecore_changes_next", "change");
    if (const icecore::key_change* next = changes->walk.next()) *change = change_of(*next);
  });
}

void icecore_changes_close(icecore_changes* changes) { delete changes; }

void icecore_feed_request_init(icecore_feed_request* request, size_t struct_size) {
  initialise(request, struct_size, default_feed_request());
}

int icecore_feed_open(const icecore_store* store, const icecore_feed_request* request, icecore_feed** feed) {
  if (feed != nullptr) *feed = nullptr;
  return guarded([&] {
    require(store, "icecore_feed_open", "store");
    require(feed, "icecore_feed_open", "feed");
    *feed = new icecore_feed{store->store.feed(feed_request_of(request))};
  });
}

void icecore_feed_close(icecore_feed* feed) { delete feed; }

int icecore_feed_next(icecore_feed* feed, size_t max, uint64_t timeout_us, icecore_feed_batch** batch) {
  if (batch != nullptr) *batch = nullptr;
  return guarded([&] {
    require(feed, "icecore_feed_next", "feed");
    require(batch, "icecore_feed_next", "batch");
    constexpr std::uint64_t longest = INT64_MAX;
    const std::chrono::microseconds timeout(static_cast<std::int64_t>(std::min(timeout_us, longest)));
    *batch = new owned_feed_batch(feed->feed.next(max, timeout));
  });
}

void icecore_feed_batch_free(icecore_feed_batch* batch) { delete static_cast<owned_feed_batch*>(batch); }

int icecore_feed_acknowledge(icecore_feed* feed, const void* token, size_t token_size) {
  return guarded([&] {
    require(feed, "icecore_feed_acknowledge", "feed");
    feed->feed.acknowledge(view(token, token_size, "icecore_feed_acknowledge", "token"));
  });
}

int icecore_feed_drop(icecore_store* store, const void* name, size_t name_size) {
  return guarded([&] {
    require(store, "icecore_feed_drop", "store");
    store->store.drop_feed(view(name, name_size, "icecore_feed_drop", "name"));
  });
}

}  // extern "C"

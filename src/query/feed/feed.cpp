#include "icecore/feed.hpp"

#include "base/raise.hpp"
#include "icecore/store.hpp"
#include "query/feed/feed_reader.hpp"
#include "query/feed/kept_feed.hpp"

namespace icecore {

using detail::feed_position;
using detail::feed_reader;
using detail::kept_feed;

feed::feed(pin holds, std::unique_ptr<feed_reader> reader, std::unique_ptr<kept_feed> kept)
    : holds_(std::move(holds)), reader_(std::move(reader)), kept_(std::move(kept)) {}
feed::~feed() = default;
feed::feed(feed&&) noexcept = default;
feed& feed::operator=(feed&&) noexcept = default;

feed_batch feed::next(std::size_t max, std::chrono::microseconds timeout) {
  static_cast<void>(detail::usable_core(holds_));
  if (kept_ != nullptr) kept_->check_there();
  return reader_->next(holds_, max, timeout);
}

void feed::acknowledge(std::string_view token) {
  const auto& core = detail::usable_core(holds_);
  if (kept_ == nullptr) {
    raise(errc::invalid_argument, "a feed without a name keeps no place in the store; keep the token yourself");
  }
  const feed_position place = position_of(reader_->identity(), token);
  if (!place.beyond_lost) core.check_readable(place.needs());
  kept_->acknowledge(place, [&] { return reader_->counts_as_told(place); });
}

const std::string& feed::name() const noexcept {
  static const std::string none;
  return kept_ == nullptr ? none : kept_->definition().name;
}

std::string feed::token() const { return token_of(reader_->identity(), reader_->place()); }

void feed::drop() {
  static_cast<void>(detail::usable_core(holds_));
  if (kept_ == nullptr) raise(errc::invalid_argument, "a feed without a name is not kept: there is nothing to drop");
  kept_->drop();
}

namespace {

/// The newest version that a feed can begin behind.
version newest_closed(detail::store_core& core) {
  if (!core.read_only()) return core.close_version();
  version v = core.clock().now() - 1;  // a later writer may still add to the open one
  for (const version_range& lost : core.lost().ranges()) {
    if (lost.first <= v && v < lost.end) v = lost.first - 1;
  }
  return v;
}

feed_position begin_of(detail::store_core& core, const feed_request& what) {
  const version after = what.after ? *what.after : newest_closed(core);
  core.check_readable(after);
  core.check_none_expired(after, version_max);
  if (what.behind_key && !what.snapshot) {
    raise(errc::invalid_argument, "a feed begins behind a key only within a snapshot");
  }
  if (what.behind_key && what.behind_key->size() > key_size_max) {
    raise(errc::invalid_argument, "a feed cannot begin behind a key of {} bytes: keys have at most {}",
          what.behind_key->size(), key_size_max);
  }
  if (what.snapshot) {
    return {.at = after,
            .in_snapshot = true,
            .key_known = what.behind_key.has_value(),
            .key = what.behind_key.value_or(std::string())};
  }
  return {.at = after + 1};
}

std::unique_ptr<kept_feed> found_feed(const detail::store_core& core, std::string_view name) {
  if (auto kept = kept_feed::find(core, name)) return kept;
  raise(errc::no_such_query, "no feed is named '{}'", name);
}

feed opened_feed(detail::held_engine core, std::unique_ptr<kept_feed> kept, filter where,
                 const detail::feed_reading& how) {
  auto reader = std::make_unique<feed_reader>(*core, std::move(where), kept->place(), how);
  return {std::move(core).holds(), std::move(reader), std::move(kept)};
}

std::unique_ptr<kept_feed> make_feed(detail::store_core& core, const feed_request& what) {
  if (what.name.size() > key_size_max) {
    raise(errc::invalid_argument, "a feed's name of {} bytes: names have at most {}", what.name.size(), key_size_max);
  }
  detail::query_catalog::of(core).require_changeable();
  const feed_position place = begin_of(core, what);
  detail::feed_definition made;
  made.name = what.name;
  made.after = place.in_snapshot ? place.at : place.at - 1;
  made.snapshot = what.snapshot;
  made.created_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  made.filter = what.where.stored();
  // a power cut must not take the version behind which it begins
  if (core.durable_up_to() < made.after) core.sync();
  return kept_feed::make(core, made, place);
}

}  // namespace

feed store::feed(const feed_request& what) const {
  auto held = opened().hold();
  auto& core = *held;
  core.check_usable();
  const detail::feed_reading how{.unsynced = what.unsynced, .secret = what.secret};
  if (what.name.empty()) {
    const feed_position place = what.token.empty()
                                    ? begin_of(core, what)
                                    : position_of(detail::identity_of(core, what.where, what.secret), what.token);
    auto reader = std::make_unique<feed_reader>(core, what.where, place, how);
    return {std::move(held).holds(), std::move(reader), nullptr};
  }
  if (!what.token.empty()) {
    raise(errc::invalid_argument, "feed '{}' keeps its place in the store; a token is for feeds without a name",
          what.name);
  }
  auto kept = kept_feed::find(core, what.name);
  if (kept == nullptr) kept = make_feed(core, what);
  if (kept->definition().filter != what.where.stored()) {
    raise(errc::query_exists, "a feed is named '{}' already, and has another filter: {}", what.name,
          "drop it, or choose another name");
  }
  return opened_feed(std::move(held), std::move(kept), what.where, how);
}

feed store::open_feed(std::string_view name, const function_resolver& functions, std::string_view secret) const {
  auto held = opened().hold();
  held->check_usable();
  auto kept = found_feed(*held, name);
  filter where = filter::from_stored(kept->definition().filter, functions);
  return opened_feed(std::move(held), std::move(kept), std::move(where), {.secret = secret});
}

void store::drop_feed(std::string_view name) {
  const auto c = opened().hold();
  c->check_usable();
  found_feed(*c, name)->drop();
}

std::vector<feed_info> store::feeds() const {
  const auto c = opened().hold();
  c->check_usable();
  std::vector<feed_info> all;
  for (const auto& one : kept_feed::all(*c)) {
    const auto& d = one->definition();
    const std::chrono::nanoseconds created(d.created_ns);
    try {
      all.push_back({d.name, d.after, one->place().told(), d.snapshot,
                     std::chrono::system_clock::time_point(
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(created))});
    } catch (const error& e) {
      if (e.code() != errc::no_such_query) throw;  // another thread or process drops it now
    }
  }
  return all;
}

}  // namespace icecore

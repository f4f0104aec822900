#include "query/feed/kept_feed.hpp"

#include <algorithm>
#include <cstring>

#include "base/raise.hpp"

namespace icecore::detail {
namespace {

format::feed_place line_of(const feed_position& place) noexcept {
  format::feed_place made{};
  made.at = place.at;
  made.changes = place.changes;
  made.flags = static_cast<std::uint8_t>((place.in_snapshot ? format::feed_in_snapshot : 0) |
                                         (place.key_known ? format::feed_key_known : 0) |
                                         (place.beyond_lost ? format::feed_beyond_lost : 0));
  return made;
}

feed_position position_of(const feed_places::place& place) {
  feed_position found;
  found.at = place.line.at;
  found.changes = place.line.changes;
  found.in_snapshot = (place.line.flags & format::feed_in_snapshot) != 0;
  found.key_known = (place.line.flags & format::feed_key_known) != 0;
  found.beyond_lost = (place.line.flags & format::feed_beyond_lost) != 0;
  found.key = place.key;
  return found;
}

}  // namespace

kept_feed::kept_feed(query_catalog& in, link head, std::array<std::uint64_t, 2> id, feed_definition what)
    : in_(&in), head_(head), id_(id), what_(std::move(what)) {}

// ---- Finding and making ----

std::unique_ptr<kept_feed> kept_feed::read(query_catalog& in, link at) {
  const query_space& space = in.space();
  const std::string where = fmt::format("{}: damaged at byte {} (feed)", space.pools().origin(at), link_offset(at));
  const auto definition = space.definition_of(at);
  if (!definition) raise(errc::damaged, "{}: the feed's definition fails its checksum", where);
  feed_definition what = feed_definition::decoded(*definition, where);
  const std::uint64_t room = space.pools().segment_at(at).size - sizeof(format::segment_header);
  if (feed_places::size_of(definition->size(), what.snapshot) > room) {
    raise(errc::damaged, "{}: the feed's segment is too small", where);
  }
  return std::make_unique<kept_feed>(in, at, space.id_at(at), std::move(what));
}

std::vector<std::unique_ptr<kept_feed>> kept_feed::all(const store_core& core) {
  query_catalog& in = query_catalog::of(core);
  const std::scoped_lock mine(in.mutex());
  const auto unchanged = in.unchanged_list();
  std::vector<std::unique_ptr<kept_feed>> found;
  for (const link at : in.space().heads([](link, const std::string&) {})) {
    const auto state = in.space().read(in.space().head_at(at).state);
    if (!feed_places::is_feed(in.space(), at) || state == static_cast<std::uint64_t>(query_phase::dropped)) continue;
    try {
      found.push_back(read(in, at));
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
    }
  }
  std::ranges::sort(found, {}, [](const auto& f) { return std::pair(f->what_.created_ns, f->head_); });
  return found;
}

std::unique_ptr<kept_feed> kept_feed::find(const store_core& core, std::string_view name) {
  query_catalog& in = query_catalog::of(core);
  const std::scoped_lock mine(in.mutex());
  const auto unchanged = in.unchanged_list();
  std::string damage;
  for (const link at : in.space().heads([&](link, std::string what) { damage = std::move(what); })) {
    const auto state = in.space().read(in.space().head_at(at).state);
    if (!feed_places::is_feed(in.space(), at) || state == static_cast<std::uint64_t>(query_phase::dropped)) continue;
    try {
      if (auto one = read(in, at); one->what_.name == name) return one;
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
      damage = e.message();
    }
  }
  // made anew, it would tell again what its consumer has, or leave out what it has not
  if (!damage.empty()) raise(errc::damaged, "a feed that cannot be read may be named '{}': {}", name, damage);
  return nullptr;
}

std::unique_ptr<kept_feed> kept_feed::make(const store_core& core, const feed_definition& what,
                                           const feed_position& place) {
  query_catalog& in = query_catalog::of(core);
  in.require_changeable();
  const std::scoped_lock mine(in.mutex());
  query_space& space = in.space();
  if (find(core, what.name) != nullptr) raise(errc::query_exists, "a feed is named '{}' already", what.name);
  const std::vector<std::byte> bytes = what.encoded();
  std::array<std::uint64_t, 2> id{};
  const link at = space.add({.parts = feed_places::count,
                             .definition = bytes,
                             .bytes_behind = feed_places::behind_definition(bytes.size(), what.snapshot),
                             .complete = [&](link head) {
                               id = space.id_at(head);
                               feed_places(space, head).store(0, 1, line_of(place), place.key);
                             }});
  try {
    // behind the feed, as query_catalog::add()
    if (!place.beyond_lost) in.store().hold()->check_none_expired(place.needs(), version_max);
  } catch (...) {
    in.take_back(at, id);
    throw;
  }
  return std::make_unique<kept_feed>(in, at, id, what);
}

// ---- Places ----

feed_places::place kept_feed::newest() const {
  if (const auto found = places().newest()) {
    if (what_.snapshot || found->key.empty()) return *found;
  }
  raise(errc::damaged, "{}: damaged at byte {} (feed): both places of feed '{}' fail their checksums",
        in_->space().pools().origin(head_), link_offset(in_->space().place_of(&places().line(0))), what_.name);
}

feed_position kept_feed::place() const {
  const recovering_lock shared = in_->space().hold();
  require_there();
  const feed_places::place found = newest();
  if (!in_->store().reads_only()) places().persist(found);
  return position_of(found);
}

void kept_feed::acknowledge(feed_position place, const std::function<bool()>& counts_as_before) {
  in_->require_changeable();
  const recovering_lock shared = in_->space().hold();
  require_there();
  // a compaction does not come between here and the end of the lock
  if (place.changes != 0 && !counts_as_before()) place.changes = 0;
  const feed_places::place now = newest();
  if (!position_of(now).before(place)) return;
  const std::uint32_t other = 1 - now.number;
  places().store(other, now.line.sequence + 1, line_of(place), place.key);
  in_->space().pools().persist().persist(&places().line(other), sizeof(format::feed_place));
}

// ---- Dropping ----

void kept_feed::require_there() const {
  const bool is_dropped = in_->space().read(head().state) == static_cast<std::uint64_t>(query_phase::dropped);
  if (!is_dropped && in_->space().id_at(head_) == id_) return;
  raise(errc::no_such_query, "feed '{}' was dropped", what_.name);
}

/// A crash after the first step leaves a feed that the next opening frees; nobody finds it any more.
void kept_feed::drop() {
  in_->require_changeable();
  const std::scoped_lock mine(in_->mutex());
  {
    const recovering_lock shared = in_->space().hold();
    require_there();
    in_->set_phase(head_, query_phase::dropped);
  }
  in_->free_dropped();
}

}  // namespace icecore::detail

#include "feed_story.hpp"

#include <algorithm>
#include <stdexcept>

#include "fibers.hpp"
#include "kept_model.hpp"
#include "store/core.hpp"

namespace icecore::crash {

planned_feed plan_feed(const std::function<std::uint64_t(std::uint64_t below)>& draw) {
  constexpr feed_step dice[] = {feed_step::make,        feed_step::make,        feed_step::read,
                                feed_step::read,        feed_step::read,        feed_step::read,
                                feed_step::acknowledge, feed_step::acknowledge, feed_step::acknowledge,
                                feed_step::acknowledge, feed_step::acknowledge, feed_step::drop};
  planned_feed p;
  p.what = dice[draw(std::size(dice))];
  p.which = draw(16);
  p.filter = static_cast<unsigned>(draw(filters_of_stories));
  p.snapshot = draw(3) == 0;
  p.after = draw(2) == 0 ? 0 : 1 + draw(64);
  p.max = draw(3) == 0 ? 1000 : 1 + draw(4);
  p.batches = 1 + draw(3);
  p.anew = draw(4) == 0;
  p.stale = draw(8) == 0;
  return p;
}

namespace {

/// One writer alone acknowledges and drops a feed: in what order that happens is known.
bool is_own(const story& into, std::size_t n) {
  return into.how.writers == 1 || fibers::current() == n % into.how.writers;
}

/// A version of which a new feed can begin: one that no power cut took.
std::optional<version> drawn_after(const store& s, std::uint64_t draw) {
  if (draw == 0) return std::nullopt;
  version v = (draw - 1) % s.clock();
  // all that it tells is to be there
  if (const auto expired = s.expired_versions(); !expired.empty()) v = std::max(v, expired.back().end);
  if (v >= s.clock()) return std::nullopt;
  while (v > 0 && s.lost_versions().contains(v)) --v;
  return s.is_expired(v) ? std::nullopt : std::optional(v);
}

void make(store& s, story& into, feeds_in_use& live, unsigned number, const planned_feed& p) {
  const std::size_t n = into.feeds.size();
  into.operations[number].feed = n;
  {
    story_feed f;
    f.name = "feed-" + std::string(1, static_cast<char>('a' + into.depth)) + std::to_string(number);
    f.filter = p.filter;
    f.snapshot = p.snapshot;
    f.by_version = into.how.mixes;
    into.feeds.push_back(f);
  }
  const std::string name = into.feeds[n].name;
  const version open = s.clock();
  const std::optional<version> after = drawn_after(s, p.after);
  const bool is_durable = after && s.core().durable_up_to() >= *after;
  feed made = s.feed({.name = name, .after = after, .where = filter_of_stories(p.filter), .snapshot = p.snapshot});
  const feed_place begin = feed_place::of(made.token(), 0);
  into.feeds[n].after = begin.at.in_snapshot ? begin.at.at : begin.at.at - 1;
  done_operation& done = into.operations[number];
  done.of_feed.found = begin;
  live.by_number[n] = {.reads = std::move(made), .place = begin, .known = {begin}};
  if (into.how.writers > 1) {
    done.belongs_to = into.feeds[n].after;
    done.closes = true;
  } else {
    done.belongs_to = open;
    done.closes = s.clock() > open;
    done.leaves_open = !done.closes;
    // it makes the version behind which it begins durable, unless it is; then nothing happens
    done.durable_point = !into.how.keeps_each_write() && !is_durable;
    if (is_durable) done.belongs_to = 0;
  }
}

/// Opens the feed where it is acknowledged: at one of the places that are known.
void open_anew(const store& s, const story_feed& of, feeds_in_use::one& now, const std::vector<feed_place>& known,
               done_to_feed& done) {
  now.reads.emplace(s.open_feed(of.name));
  story_feed places{.name = of.name, .by_version = of.by_version};
  places.places = known;
  done.found = places.place_at(now.reads->token());
  if (!done.found) throw std::logic_error(of.name + " is acknowledged where it never was");
  now.told = done.found->changes;
}

void read(feeds_in_use::one& now, const planned_feed& p, done_to_feed& done) {
  now.previous = feed_place::of(now.reads->token(), now.told);
  done.from = now.told;
  done.begun = now.previous;
  read_of_feed all = read_feed(*now.reads, p.max, p.batches);
  done.told = all.told;
  done.changes = std::move(all.changes);
  done.told_up_to = all.up_to;
  now.told += all.told.size();
}

void acknowledge(feeds_in_use::one& now, const planned_feed& p, done_to_feed& done) {
  const feed_place place = p.stale && now.previous ? *now.previous : feed_place::of(now.reads->token(), now.told);
  if (now.place->at.before(place.at)) {
    now.known.push_back(place);
    now.place = place;
    done.acknowledged = place;
  }
  now.reads->acknowledge(place.token);
}

void use(store& s, story& into, feeds_in_use& live, unsigned number, const planned_feed& p) {
  const std::size_t n = into.operations[number].feed;
  const story_feed of = into.feeds[n];  // another writer may make feeds meanwhile
  done_to_feed done{.what = p.what};
  feeds_in_use::one& shared = live.by_number[n];
  done.own = is_own(into, n);
  if (shared.known.empty()) shared.known = into.feeds[n].places;  // from before the story
  if (!done.own) {                                                // with an object of its own
    feeds_in_use::one mine;
    open_anew(s, of, mine, shared.known, done);
    read(mine, p, done);
    into.operations[number].of_feed = done;
    return;
  }
  if (!shared.reads || p.anew) {
    open_anew(s, of, shared, shared.known, done);
    shared.place = done.found;
  }
  if (p.what == feed_step::drop) {
    if (number % 2 == 0) {
      shared.reads->drop();
    } else {
      s.drop_feed(of.name);
    }
    shared.reads.reset();
  } else {
    read(shared, p, done);
    if (p.what == feed_step::acknowledge) acknowledge(shared, p, done);
  }
  into.operations[number].of_feed = done;
}

}  // namespace

void run_feed(store& s, story& into, feeds_in_use& live, unsigned number, const planned_feed& p) {
  constexpr std::size_t feeds_max = 3;
  std::vector<std::size_t> there;
  for (std::size_t n = 0; n < into.feeds.size(); ++n) {
    const bool gone = std::ranges::any_of(into.operations, [n](const done_operation& o) {
      return o.feed == n && o.of_feed.what == feed_step::drop && !o.of_feed.refused;
    });
    const bool is_being_made = into.feeds[n].places.empty() && live.by_number[n].known.empty();
    if (!gone && !is_being_made) there.push_back(n);
  }
  const bool makes = there.empty() || (p.what == feed_step::make && there.size() < feeds_max);
  planned_feed adjusted = p;
  adjusted.what = makes ? feed_step::make : p.what == feed_step::make ? feed_step::read : p.what;
  const std::size_t n = makes ? into.feeds.size() : there[p.which % there.size()];
  if (!makes && !is_own(into, n)) adjusted.what = feed_step::read;
  constexpr const char* names[] = {"make", "read", "acknowledge", "drop"};
  {
    done_operation& done = into.operations[number];
    done.what = std::string(names[static_cast<unsigned>(adjusted.what)]) + " a feed";
    done.of_feed.what = adjusted.what;
  }
  if (makes) {
    try {
      return make(s, into, live, number, adjusted);
    } catch (const error& e) {  // another writer's compaction has let it expire
      if (e.code() != errc::version_expired || !into.how.mixes) throw;
      into.operations[number].of_feed = {.what = adjusted.what, .refused = true};
      return;
    }
  }
  into.operations[number].feed = n;
  try {
    use(s, into, live, number, adjusted);
  } catch (const error& e) {
    if (e.code() != errc::no_such_query) throw;
    if (is_own(into, n)) live.by_number[n].reads.reset();
    into.operations[number].of_feed = {.what = adjusted.what, .refused = true};
  }
}

void look_at(const store& s, std::vector<story_feed>& feeds) {
  std::vector<std::string> names;
  for (const feed_info& info : s.feeds()) {
    names.push_back(info.name);
    const auto of = std::ranges::find(feeds, info.name, &story_feed::name);
    if (of == feeds.end()) continue;  // judged elsewhere
    const auto place = of->place_at(s.open_feed(info.name).token());
    if (!place) throw std::logic_error(info.name + " is acknowledged where it never was");
    of->surely = true;
    of->places = {*place};
  }
  std::erase_if(feeds, [&](const story_feed& f) { return std::ranges::find(names, f.name) == names.end(); });
}

void check_what_was_told(const store& finished, const story& of) {
  for (std::size_t n = 0; n < of.feeds.size(); ++n) {
    const story_feed& f = of.feeds[n];
    std::optional<std::vector<std::uint64_t>> all;
    for (const done_operation& o : of.operations) {
      if (o.feed != n || o.of_feed.refused || o.of_feed.told.empty()) continue;
      if (f.by_version) {
        const auto wrong = judge_told(groups_of(*of.writes, ~std::uint64_t{0}), f.filter, *o.of_feed.begun,
                                      o.of_feed.changes, o.of_feed.told_up_to);
        if (!wrong.empty()) throw std::logic_error(f.name + ": " + wrong);
        continue;
      }
      if (!all) all = all_changes(finished, f, version_max);
      const auto& [from, told] = std::tie(o.of_feed.from, o.of_feed.told);
      const bool right = from + told.size() <= all->size() &&
                         std::equal(told.begin(), told.end(), all->begin() + static_cast<std::ptrdiff_t>(from));
      if (!right) {
        throw std::logic_error(f.name + " told something else than what was written, from change " +
                               std::to_string(from) + " on:\n" + changes_text(finished, f));
      }
    }
  }
}

}  // namespace icecore::crash

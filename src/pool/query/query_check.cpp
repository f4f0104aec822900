#include "pool/query/query_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <thread>

#include "pool/query/chunk.hpp"

namespace icecore {
namespace {

using format::query_phase;

/// Checks one query. What it finds counts only if the query was not dropped meanwhile: its space may be used again.
class query_checker {
 public:
  query_checker(const query_space& space, link head) : space_(&space), place_(head), head_(&space.head_at(head)) {}

  /// False if the query was dropped.
  bool check(query_findings& into) {
    const std::uint64_t id[2] = {head_->id[0], head_->id[1]};
    const auto definition = space_->definition_of(place_);
    bool is_hold = false;
    if (!definition) {
      note(place_, space_->is_hold(place_)
                       ? "the definition of a hold fails its checksum: which version it holds is not known any more, "
                         "so no version expires"
                       : "the definition of a query fails its checksum: what it asked is not known any more");
      found_.back().definition_is_lost = true;
    } else {
      name_ = title_of(*definition).name;
      is_hold = title_of(*definition).kind == format::query_kind::hold;
      if (is_hold) called_ = "hold";
      check_words();
      if (feed_places::is_feed(*space_, place_)) {
        check_feed();
      } else if (!is_hold) {
        for (std::uint32_t p = 0; p < head_->parts; ++p) check_part(static_cast<std::uint16_t>(p));
      }
    }
    // acquire in read(): whoever uses the space again has stored `dropped` before
    const auto phase = space_->read(head_->state);
    if (phase == static_cast<std::uint64_t>(query_phase::dropped)) return false;
    if (head_->id[0] != id[0] || head_->id[1] != id[1]) return false;
    into.queries += definition && !is_hold && !feed_places::is_feed(*space_, place_) ? 1 : 0;
    into.damages.insert(into.damages.end(), found_.begin(), found_.end());
    return true;
  }

 private:
  void note(link at, std::string what) { found_.push_back({at, std::move(what), false}); }
  void note_in_query(link at, std::string_view what) { note(at, fmt::format("{} '{}': {}", called_, name_, what)); }
  void note_in_part(link at, unsigned part, std::string_view what) {
    note(at, fmt::format("query '{}', part {}: {}", name_, part, what));
  }

  void check_words() {
    const auto phase = space_->read(head_->state);
    const bool known = phase && *phase >= static_cast<std::uint64_t>(query_phase::open) &&
                       *phase <= static_cast<std::uint64_t>(query_phase::dropped);
    if (!known) note_in_query(space_->place_of(&head_->state), "the word that tells its state is not valid");
    for (const auto* word :
         {&head_->runner, &head_->acknowledged, &head_->runs, &head_->worked_us, &head_->keys_expected}) {
      if (!space_->read(*word)) note_in_query(space_->place_of(word), "a number in its head is not valid");
    }
    for (const auto* word : {&head_->claim, &head_->segments[0], &head_->segments[1], &head_->segments[2]}) {
      if (!space_->read_link(*word)) note_in_query(space_->place_of(word), "the link to a segment is not valid");
    }
  }

  /// One that is damaged may be the older one, which a crash cut off.
  void check_feed() {
    if (!feed_places(*space_, place_).newest()) {
      note(place_, fmt::format("feed '{}': both of its places fail their checksums", name_));
      found_.back().definition_is_lost = true;
    }
  }

  void check_part(std::uint16_t number) {
    const auto& line = reinterpret_cast<const format::query_part*>(head_ + 1)[number];
    // `complete` before `newest`: a runner stores them the other way round
    const auto complete = space_->read(line.complete);
    const auto newest = space_->read_link(line.newest);
    if (!complete || !space_->read(line.evaluated) || !space_->read_link(line.first) || !newest) {
      note_in_part(space_->place_of(&line), number, "a word of its line is not valid");
    }
    if (!newest || *newest == null_link) return;
    const detail::chunk_source chunks(*space_, place_);
    const auto at_fault = [&](link at) {
      note_in_part(at, number, "a chunk is not intact; rows from there on cannot be read");
    };
    auto here = chunks.at(*newest, number);
    if (!here) return at_fault(*newest);
    if (complete && *complete != 0 && (!here->is_last() || here->rows_so_far() != *complete - 1)) {
      note_in_part(space_->place_of(&line), number, "it is said to be complete, but its newest chunk is not the last");
    }
    check_owner(*here);
    while (here->header().sequence > 1) {
      const auto older = chunks.at(here->header().older, number);
      if (!older || !chunks.after(older, here->place(), number)) return at_fault(here->header().older);
      here = older;
      check_owner(*here);
    }
  }

  void check_owner(const detail::chunk& in) {
    const link segment_at = in.segment_place();
    if (space_->owner_of(segment_at) == head_->id[0] || !misnamed_.insert(segment_at).second) return;
    note_in_query(segment_at + offsetof(format::segment_header, owner), "a segment of it names another owner");
  }

  const query_space* space_;
  link place_;
  const format::query_head* head_;
  std::string name_;
  std::string_view called_ = "query";
  std::vector<query_damage> found_;
  std::set<link> misnamed_;  // segments that name another owner
};

std::vector<link> listed(const query_space& space, query_findings& into) {
  return space.heads([&](link at, const std::string& what) {
    into.damages.push_back({at, what + "; older queries are lost", true});
  });
}

}  // namespace

query_findings check_queries(pool_set& pools) {
  query_lock unused;  // nothing is changed
  const query_space space(pools, unused);
  query_findings all;
  if (!space.ever_used()) return all;
  for (const link head : listed(space, all)) query_checker(space, head).check(all);
  return all;
}

query_findings check_queries_in_use(pool_set& pools, query_lock& changes) {
  using clock = std::chrono::steady_clock;
  // For one query at least. Queries that run wait for this lock, for space; if it were taken again at once, none of
  // them would get it.
  constexpr std::chrono::milliseconds held_at_most{10};
  constexpr std::chrono::microseconds others_take_it{200};
  query_space space(pools, changes);
  query_findings all;
  std::vector<link> found;
  {
    const recovering_lock unchanged = space.hold();
    if (!space.ever_used()) return all;
    found = listed(space, all);
  }
  for (std::size_t next = 0; next < found.size();) {
    std::this_thread::sleep_for(others_take_it);
    const recovering_lock unchanged = space.hold();
    const std::vector<link> now = space.heads([](link, const std::string&) {});
    const std::set<link> there(now.begin(), now.end());
    const auto until = clock::now() + held_at_most;
    do {
      if (there.contains(found[next])) query_checker(space, found[next]).check(all);
      ++next;
    } while (next < found.size() && clock::now() < until);
  }
  return all;
}

query_findings check_queries_beside(pool_set& pools) {
  constexpr int tries = 50;
  constexpr std::chrono::milliseconds between(1);
  if (!pools.first().file().observe()) return {};
  for (int left = tries;; --left) {
    query_findings found = check_queries(pools);
    // else the list of queries changed while it was followed: what was dropped before this process observed goes on to
    // be freed
    if (found.damages.empty() || left == 0) return found;
    std::this_thread::sleep_for(between);
  }
}

std::vector<intact_definition> intact_definitions(pool_set& pools) {
  query_lock unused;  // nothing is changed
  const query_space space(pools, unused);
  std::vector<intact_definition> all;
  if (!space.ever_used()) return all;
  for (const link at : space.heads([](link, const std::string&) {})) {
    const auto& head = space.head_at(at);
    if (space.read(head.state) == static_cast<std::uint64_t>(query_phase::dropped)) continue;
    if (const auto bytes = space.definition_of(at)) {
      const format::query_kind kind = title_of(*bytes).kind;
      all.push_back({*bytes, head.parts, space.read(head.keys_expected).value_or(0), {}, kind});
      if (feed_places::is_feed(space, at)) all.back().place = feed_places(space, at).newest();
    }
  }
  std::ranges::reverse(all);
  return all;
}

}  // namespace icecore

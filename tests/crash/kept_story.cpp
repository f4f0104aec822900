#include "kept_story.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/threads.hpp"
#include "fibers.hpp"
#include "query/kept/catalog.hpp"
#include "query/kept/kept_query.hpp"

namespace icecore::crash {

planned_query plan_query(const std::function<std::uint64_t(std::uint64_t below)>& draw) {
  constexpr query_step dice[] = {query_step::start, query_step::start,       query_step::run,         query_step::run,
                                 query_step::run,   query_step::run,         query_step::run,         query_step::read,
                                 query_step::read,  query_step::acknowledge, query_step::acknowledge, query_step::drop,
                                 query_step::drop,  query_step::cancel};
  planned_query p;
  p.what = dice[draw(std::size(dice))];
  p.which = draw(16);
  p.filter = static_cast<unsigned>(draw(filters_of_stories));
  constexpr query_keeps kinds[] = {query_keeps::count, query_keeps::keys, query_keeps::keys, query_keeps::rows};
  p.keeps = kinds[draw(std::size(kinds))];
  p.parts = draw(2) == 0 ? 1 : 2 + static_cast<unsigned>(draw(3));
  p.threads = 1 + static_cast<unsigned>(draw(3));
  p.every_item = draw(3) == 0;
  if (draw(3) != 0) p.keys = 1 + draw(8);
  p.from = draw(6);
  return p;
}

namespace {

/// A query of several parts: small stores have one part otherwise.
query start_in_parts(store& s, const query_request& what, unsigned parts) {
  const snapshot then = s.latest();
  s.sync();
  detail::query_definition made;
  made.name = what.name;
  made.at = then.version();
  made.keeps = what.keep;
  made.filter = what.where.stored();
  if (!what.select.empty()) made.select = detail::projection(what.select, {}).stored();
  std::vector<detail::fold_of> folds;
  for (const aggregate_of& one : what.aggregates) {
    folds.push_back({static_cast<detail::fold>(static_cast<unsigned>(one.how) - 1), one.expression});
  }
  if (!folds.empty()) made.totals = detail::aggregation(folds, {}).stored();
  std::vector<std::string> keys;
  for (const auto& [key, value] : then.range()) keys.emplace_back(key);
  for (unsigned p = 1; p < parts; ++p) {
    const std::size_t at = keys.size() * p / parts;
    if (at == 0 || (!made.borders.empty() && made.borders.back() == keys[at])) continue;
    made.borders.push_back(keys[at]);
  }
  return {s.hold(), detail::query_catalog::of(s.core()).add(made, what.where)};
}

/// Threads of a run are fibers; one writer alone is none.
void in_fibers(std::uint64_t seed, const std::function<void()>& body) {
  if (fibers::active()) return body();
  const unsigned own = icecore::detail::own_thread_number;
  random_schedule schedule(seed);
  fibers::run({body}, schedule);
  icecore::detail::own_thread_number = own;
}

/// All rows from one on, whose numbers must follow each other.
std::uint64_t read_rows(const query& q, done_to_query& done, std::uint64_t from) {
  done.from = from;
  if (q.keeps() == query_keeps::rows) {
    done.read = kept_rows_from(q, from);
    return from + done.read.size();
  }
  std::uint64_t n = from;
  auto rows = q.results(from);
  for (const auto& row : rows) {
    if (row.number != n++) throw std::logic_error("rows of a query do not follow each other");
    done.read.emplace_back(row.key, row.value.value_or("(no value)"));
  }
  return n;
}

void start(store& s, story& into, unsigned number, const planned_query& p) {
  done_operation& done = into.operations[number];
  done.query = into.queries.size();
  kept_query q;
  q.name = "query-" + std::string(1, static_cast<char>('a' + into.depth)) + std::to_string(number);
  q.filter = p.filter;
  q.keeps = p.keeps;
  into.queries.push_back(q);
  const version open = s.clock();
  const query_request request = request_of_stories(q.name, p.filter, p.keeps);
  const query made = p.parts > 1 ? start_in_parts(s, request, p.parts) : s.start(request);
  into.queries[done.query].at = made.version();
  if (into.how.writers > 1) {
    done.belongs_to = made.version();
    done.closes = true;
  } else {
    done.belongs_to = open;
    done.closes = s.clock() > open;
    done.leaves_open = !done.closes;
    done.durable_point = !into.how.keeps_each_write();
  }
}

void use(const store& s, story& into, unsigned number, const planned_query& p) {
  done_to_query& done = into.operations[number].of_query;
  query q = s.query(into.queries[into.operations[number].query].name);
  switch (p.what) {
    case query_step::run:
      in_fibers(into.seed + number, [&] {
        const query_progress seen =
            q.run({.threads = p.threads, .every = std::chrono::hours(1), .every_item = p.every_item, .keys = p.keys});
        done.rows = seen.rows;
        done.examined = seen.examined;
        done.finished = seen.state == query_state::finished;
      });
      break;
    case query_step::read: {
      const query_progress seen = q.progress();
      done.rows = seen.rows;
      done.examined = seen.examined;
      done.finished = seen.state == query_state::finished;
      if (q.keeps() != query_keeps::count) done.numbered = read_rows(q, done, std::min(p.from, done.rows));
      if (q.keeps() != query_keeps::count && done.numbered == done.from) done.numbered = 0;
      break;
    }
    case query_step::acknowledge:
      if (q.keeps() != query_keeps::count) done.acknowledged = std::min(p.from, read_rows(q, done, 0));
      q.acknowledge(done.acknowledged);
      break;
    case query_step::cancel:
      q.cancel();
      done.refused = q.state() != query_state::cancelled;
      break;
    default: {
      // Asked of the query itself: the writer that starts it may not know its version yet.
      if (const version at = q.version(); into.how.mixes && !s.is_expired(at)) {
        const std::size_t n = into.operations[number].query;
        query_answer last = answer_of(s.at(at), into.queries[n].filter);
        into.queries[n].answer = std::move(last);  // its version may expire when it is dropped
        into.queries[n].is_answered = true;
      }
      q.drop();
      break;
    }
  }
}

}  // namespace

void run_query(store& s, story& into, unsigned number, const planned_query& p) {
  constexpr std::size_t queries_max = 3;  // each takes two segments at least
  done_operation& done = into.operations[number];
  std::vector<std::size_t> there;
  for (std::size_t n = 0; n < into.queries.size(); ++n) {
    bool gone = false;
    for (const done_operation& o : into.operations) {
      gone = gone || (o.query == n && o.of_query.what == query_step::drop && !o.of_query.refused);
    }
    if (!gone) there.push_back(n);
  }
  const bool starts = there.empty() || (p.what == query_step::start && there.size() < queries_max);
  done.of_query.what = starts ? query_step::start : p.what == query_step::start ? query_step::run : p.what;
  constexpr const char* names[] = {"start", "run", "read", "acknowledge", "cancel", "drop"};
  done.what = std::string(names[static_cast<unsigned>(done.of_query.what)]) + " a query";
  if (starts && !into.how.mixes) return start(s, into, number, p);
  if (starts) {
    try {
      return start(s, into, number, p);
    } catch (const error& e) {  // another writer's compaction has let it expire
      if (e.code() != errc::version_expired) throw;
      done.of_query = {.what = query_step::start, .refused = true};
      return;
    }
  }
  // One writer alone acknowledges, cancels and drops a query: in what order that happens is known.
  const std::size_t n = there[p.which % there.size()];
  const bool own = into.how.writers == 1 || fibers::current() == n % into.how.writers;
  if (!own && done.of_query.what > query_step::read) done.of_query.what = query_step::read;
  planned_query adjusted = p;
  adjusted.what = done.of_query.what;
  done.query = n;
  try {
    use(s, into, number, adjusted);
  } catch (const error& e) {
    const bool expected =
        e.code() == errc::no_such_query || e.code() == errc::query_busy || e.code() == errc::invalid_argument;
    if (!expected) throw;
    done.of_query = {.what = adjusted.what, .refused = true};
  }
}

void look_at(const store& s, std::vector<kept_query>& queries) {
  std::vector<std::string> names;
  for (const query& q : s.queries()) {
    names.push_back(q.name());
    const auto of = std::ranges::find(queries, q.name(), &kept_query::name);
    if (of == queries.end()) continue;  // judged elsewhere
    const query_progress seen = q.progress();
    of->surely = true;
    of->rows_min = std::max(of->rows_min, seen.rows);
    of->examined_min = std::max(of->examined_min, seen.examined);
    of->acknowledged = {q.acknowledged()};
    of->finished = seen.state == query_state::finished;
    of->cancelled_surely = of->cancelled_possibly = seen.state == query_state::cancelled;
  }
  std::erase_if(queries, [&](const kept_query& q) { return std::ranges::find(names, q.name) == names.end(); });
}

void answer_queries(const store& finished, story& into) {
  for (std::size_t n = 0; n < into.queries.size(); ++n) {
    kept_query& q = into.queries[n];
    bool started = false;
    for (const done_operation& o : into.operations) {
      started = started || (o.query == n && o.of_query.what == query_step::start);
    }
    if (started && !q.is_answered && !finished.is_expired(q.at)) q.answer = answer_of(finished.at(q.at), q.filter);
    for (const done_operation& o : into.operations) {
      if (o.query != n || o.of_query.refused || (finished.is_expired(q.at) && !q.is_answered)) continue;
      const auto& read = o.of_query.read;
      const auto& rows = q.answer.rows;
      const std::uint64_t from = o.of_query.from;
      const bool right = from + read.size() <= rows.size() &&
                         std::equal(read.begin(), read.end(), rows.begin() + static_cast<std::ptrdiff_t>(from));
      if (!right) throw std::logic_error("rows of " + q.name + " that were read are not those of its version");
      if (o.of_query.finished && (o.of_query.rows != rows.size() || o.of_query.examined != q.answer.examined))
        throw std::logic_error(q.name + " was finished with another number of rows or keys");
    }
  }
}

}  // namespace icecore::crash

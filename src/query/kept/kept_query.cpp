#include "query/kept/kept_query.hpp"

#include <algorithm>

#include "base/raise.hpp"

namespace icecore::detail {

kept_query::kept_query(query_catalog& in, link head, std::array<std::uint64_t, 2> of_head, query_definition what,
                       std::optional<filter> where)
    : id(of_head), in_(&in), readers_(in.readers()), head_(head), what_(std::move(what)), where_(std::move(where)) {
  if (!what_.select.empty()) select_ = projection::from_stored(what_.select);
  if (!what_.totals.empty()) totals_ = aggregation::from_stored(what_.totals);
}

filter kept_query::where(const function_resolver& resolve) {
  const std::scoped_lock mine(in_->mutex());
  if (!where_) where_ = filter::from_stored(what_.filter, resolve);
  return *where_;
}

void kept_query::require_there() const {
  // Another process, or a compaction, may have dropped it, and its place may be another one's. The state is read first:
  // query_space::clear_head().
  const auto word = in_->space().read(head().state);
  const bool elsewhere =
      (word && *word == static_cast<std::uint64_t>(query_phase::dropped)) || in_->space().id_at(head_) != id;
  // relaxed: a flag; the mutex of the catalog orders what matters
  if (!dropped.load(std::memory_order_relaxed) && !elsewhere) return;
  raise(errc::no_such_query, "query '{}' was dropped", what_.name);
}

query_phase kept_query::phase() const {
  const auto word = in_->space().read(head().state);
  if (word && *word >= 1 && *word <= static_cast<std::uint64_t>(query_phase::dropped)) {
    return static_cast<query_phase>(*word);
  }
  const link at = in_->space().place_of(&head().state);
  raise(errc::damaged, "{}: damaged at byte {} (query): the state of query '{}' is not valid",
        in_->store().pool->origin(at), link_offset(at), what_.name);
}

/// `finished` is stored before it is durable, and the run ends (end_run()) when it is. So it is told only if no run of
/// this opening goes on, looked at after the phase: else somebody could be told what a power cut takes back. A run that
/// was killed in between leaves it paused, until the next run() makes it durable. What runs of earlier openings left is
/// told: query_catalog's constructor made it durable, unless the store was opened for reading.
query_state kept_query::state_now() const {
  switch (phase()) {
    case query_phase::finished:
      if (in_->runs_have_ended(*this)) return query_state::finished;
      break;
    case query_phase::cancelled:
      return query_state::cancelled;
    default:
      break;
  }
  const std::uint64_t pid = in_->runner_pid(head());
  const bool elsewhere = pid != 0 && pid != query_users::own_pid();
  if (in_->is_run_here(*this) || elsewhere) return query_state::running;
  return in_->space().read(head().runs).value_or(0) == 0 ? query_state::ready : query_state::paused;
}

query_state kept_query::state() const {
  const range reading(*this);
  return state_now();
}

kept_query::part_rows kept_query::rows_of(std::size_t part) const {
  const auto number = static_cast<std::uint16_t>(part);
  const auto& line = part_line(in_->space(), head_, number);
  if (const auto complete = in_->space().read(line.complete); complete && *complete != 0) return {*complete - 1, true};
  const auto newest = shown_chunk(chunks(), head_, number);
  return {newest ? newest->rows_so_far() : 0, false};
}

kept_query::part_rows kept_query::final_rows() const {
  part_rows all{0, true};
  for (std::size_t p = 0; p < what_.parts() && all.complete; ++p) {
    const part_rows own = rows_of(p);
    all.rows += own.rows;
    all.complete = own.complete;
  }
  return all;
}

std::vector<fold_state> kept_query::totals() const {
  if (!totals_) return {};
  const range reading(*this);
  std::vector<fold_state> all = totals_->begin();
  bool complete = true;
  for (std::size_t p = 0; p < what_.parts() && complete; ++p) {
    complete = rows_of(p).complete;
    const auto newest = content_from(chunks(), shown_chunk(chunks(), head_, static_cast<std::uint16_t>(p)));
    if (newest) totals_->merge(all, totals_in(chunks(), *newest, *totals_));
  }
  return all;
}

query_progress kept_query::progress() const {
  const range reading(*this);
  query_progress p{};
  const query_space& space = in_->space();
  p.state = state_now();
  p.expected = space.read(head().keys_expected).value_or(0);
  p.runs = space.read(head().runs).value_or(0);
  p.worked = std::chrono::microseconds(space.read(head().worked_us).value_or(0));
  for (std::size_t n = 0; n < what_.parts(); ++n) {
    const auto newest = shown_chunk(chunks(), head_, static_cast<std::uint16_t>(n));
    if (!newest) continue;
    p.examined += newest->examined_so_far();
    p.rows += newest->rows_so_far();
    p.repeated += newest->header().repeated;
  }
  const bool goes_on = p.state == query_state::running || p.state == query_state::paused;
  if (goes_on && p.examined > 0) {
    const std::uint64_t to_come = p.expected > p.examined ? p.expected - p.examined : 0;
    const double each = static_cast<double>(p.worked.count()) / static_cast<double>(p.examined);
    p.left = std::chrono::microseconds(static_cast<std::int64_t>(each * static_cast<double>(to_come)));
  }
  return p;
}

void kept_query::pause() {
  const recovering_lock shared = in_->space().hold();
  require_there();
  if (phase() == query_phase::open && state_now() == query_state::running) in_->set_phase(head_, query_phase::pausing);
}

void kept_query::cancel() {
  in_->require_changeable();
  const recovering_lock shared = in_->space().hold();
  require_there();
  if (phase() != query_phase::finished) in_->set_phase(head_, query_phase::cancelled);
}

/// A crash after the first step leaves a query that the next opening frees; nobody finds it any more.
void kept_query::drop() {
  in_->require_changeable();
  const std::scoped_lock mine(in_->mutex());
  {
    const recovering_lock shared = in_->space().hold();
    require_there();
    require_stopped();
    in_->set_phase(head_, query_phase::dropped);
  }
  dropped.store(true, std::memory_order_relaxed);  // relaxed: under the mutex
  in_->free_dropped();
}

/// Under the lock that processes share. A run that has just finished its query still uses it.
void kept_query::require_stopped() const {
  const std::uint64_t pid = in_->runner_pid(head());
  const bool elsewhere = pid != 0 && pid != query_users::own_pid();
  if (!in_->is_run_here(*this) && !elsewhere) return;
  raise(errc::query_busy, "query '{}' runs in process {}; pause or cancel it first", what_.name,
        in_->runner_pid(head()));
}

namespace {

query_failure failure_of(chunk_note note) {
  return {.key = std::move(note.key), .message = std::move(note.message), .damaged = note.damaged};
}

}  // namespace

std::optional<query_failure> kept_query::failure() const {
  const range reading(*this);
  const chunk_source own = chunks();
  for (std::size_t p = 0; p < what_.parts(); ++p) {
    const auto number = static_cast<std::uint16_t>(p);
    std::optional<chunk> newest = shown_chunk(own, head_, number);
    while (newest && newest->moved()) newest = own.require(newest->header().older, number);
    if (newest && newest->header().kind == format::chunk_kind::failed) return failure_of(own.note_of(*newest));
  }
  return std::nullopt;
}

std::vector<query_failure> kept_query::skipped() const {
  const range reading(*this);
  const chunk_source own = chunks();
  std::vector<query_failure> all;
  for (std::size_t p = 0; p < what_.parts(); ++p) {
    const auto number = static_cast<std::uint16_t>(p);
    const auto before = static_cast<std::ptrdiff_t>(all.size());
    for (std::optional<chunk> c = shown_chunk(own, head_, number); c;) {
      if (c->header().kind == format::chunk_kind::skipped) all.push_back(failure_of(own.note_of(*c)));
      const link older = c->header().older;
      if (older == null_link) break;
      const chunk found = own.require(older, number);
      if (found.header().sequence >= c->header().sequence) break;  // written wrongly
      c = found;
    }
    std::reverse(all.begin() + before, all.end());
  }
  return all;
}

/// Noted before the functions are used: a crash leaves at most a note too many.
void kept_query::rebind(const function_resolver& resolve) {
  in_->require_changeable();
  bool others = false;
  filter made = filter::from_stored(what_.filter, [&](std::string_view name, std::uint64_t revision) {
    caller_function given = resolve ? resolve(name, revision) : caller_function{};
    others = others || (given.evaluate && given.revision != revision);
    given.revision = revision;
    return given;
  });
  const std::scoped_lock mine(in_->mutex());
  const recovering_lock shared = in_->space().hold();
  require_there();
  require_stopped();
  if (others) {
    in_->space().write(head().rebound, 1);
    in_->space().pools().persist().persist(&head().rebound, sizeof(std::uint64_t));
  }
  where_ = std::move(made);
}

/// Each step is durable before the next, and after each the query can be opened: an open query with complete parts is
/// finished by the next run; the place of a first chunk is read only if no newest one is known; a part that is not
/// complete counts by its newest chunk.
void kept_query::restart_part(std::size_t part) {
  in_->require_changeable();
  const std::scoped_lock mine(in_->mutex());
  if (part >= what_.parts()) {
    raise(errc::invalid_argument, "query '{}' has {} parts, from 0 on; there is no part {}", what_.name, what_.parts(),
          part);
  }
  const recovering_lock shared = in_->space().hold();
  require_there();
  require_stopped();
  if (phase() == query_phase::cancelled) {
    raise(errc::invalid_argument, "query '{}' was cancelled; start another one", what_.name);
  }
  auto& line = part_line(in_->space(), head_, static_cast<std::uint16_t>(part));
  in_->set_phase(head_, query_phase::open);
  for (auto* const word : {&line.first, &line.complete, &line.newest, &line.evaluated}) {
    in_->space().write(*word, 0);
    in_->space().pools().persist().persist(word, sizeof *word);
  }
}

void kept_query::begin_reading() const {
  const std::scoped_lock mine(in_->mutex());
  in_->begin_reading();
  try {
    require_there();  // behind the count: query_readers.hpp
  } catch (...) {
    readers_->end();
    throw;
  }
}

void kept_query::acknowledge(std::uint64_t row) {
  in_->require_changeable();
  const range reading(*this);
  if (row > final_rows().rows) {
    raise(errc::invalid_argument, "row {} of query '{}' cannot be acknowledged: it has {} rows that are final", row,
          what_.name, final_rows().rows);
  }
  auto& word = head().acknowledged;
  in_->space().write(word, row);
  in_->space().pools().persist().persist(&word, sizeof word);
}

std::uint64_t kept_query::acknowledged() const {
  const range reading(*this);
  return in_->space().read(head().acknowledged).value_or(0);
}

bool kept_query::rebound() const {
  const range reading(*this);
  return in_->space().read(head().rebound).value_or(1) != 0;
}

}  // namespace icecore::detail

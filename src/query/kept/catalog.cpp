#include "query/kept/catalog.hpp"

#include <algorithm>

#include "base/raise.hpp"
#include "pool/query/feed_places.hpp"
#include "query/kept/kept_query.hpp"

namespace icecore::detail {

/// A drop that a crash cut off goes on. Queries of versions that are lost are gone as a whole.
query_catalog::query_catalog(const store_core& core)
    : store_(&core.opened()),
      users_(*store_),
      space_(*store_->pool, store_->shared->queries),
      is_beside_writer_(core.beside_writer()) {
  if (core.read_only()) return;
  space_.finish();
  for (const link head : space_.heads([](link, const std::string&) {})) {
    if (is_of_lost_version(head)) set_phase(head, query_phase::dropped);
    keep_finished(head);
  }
  free_dropped();
}

/// Makes it durable that the query is finished, if a run of an earlier opening was killed before it had done so. Under
/// the lock: restart_part() and begin_run() change these words, too. Behind the sync no crash takes it back; where a
/// crash keeps the runner's word, this is done again.
void query_catalog::keep_finished(link at) {
  const auto& head = space_.head_at(at);
  const auto was_cut_off = [&] {
    const auto runner = space_.read(head.runner);
    return runner && *runner != 0 && is_of_earlier_opening(*runner) &&
           space_.read(head.state) == static_cast<std::uint64_t>(query_phase::finished);
  };
  if (!was_cut_off()) return;
  const recovering_lock shared = space_.hold();
  if (!was_cut_off()) return;
  space_.pools().persist().persist(&head.state, sizeof head.state);
  space_.write(space_.head_at(at).runner, 0);
}

query_catalog::~query_catalog() { readers_->close(); }

/// start() makes the version durable first, so only a device that lied, or repair, loses the version of a query.
bool query_catalog::is_of_lost_version(link head) const noexcept {
  const auto definition = space_.definition_of(head);
  if (!definition) return false;
  const query_title title = title_of(*definition);
  return title.kind == format::query_kind::query && store_->lost.contains(title.version);
}

query_catalog& query_catalog::of(const store_core& core) {
  core.keep_queries();
  return static_cast<query_catalog&>(core.companion([&] { return std::make_unique<query_catalog>(core); }));
}

namespace {

/// "page 7" looks for the nearest name that differs little.
std::string nearest(std::string_view name, const std::map<link, std::shared_ptr<kept_query>>& known) {
  std::string best;
  std::size_t least = name.size() / 3 + 2;
  for (const auto& [at, q] : known) {
    const std::string& other = q->definition().name;
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t j = 0; j <= other.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t changed = diagonal + (name[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = other;
    }
  }
  return best;
}

}  // namespace

/// Reads a head and its definition, under the lock where others may change it. Throws errc::damaged.
std::shared_ptr<kept_query> query_catalog::read(link at) {
  const std::string where =
      store_->pool->origin(at) + ": damaged at byte " + std::to_string(link_offset(at)) + " (query)";
  const auto definition = space_.definition_of(at);
  if (!definition) raise(errc::damaged, "{}: the query's definition fails its checksum", where);
  query_definition what = query_definition::decoded(*definition, where);
  if (what.parts() != space_.head_at(at).parts)
    raise(errc::damaged, "{}: the query's definition has another number of parts", where);
  auto found = std::make_shared<kept_query>(*this, at, space_.id_at(at), std::move(what), std::nullopt);
  settle(*found);
  return found;
}

/// Shows what a crash has left behind the words that lead to the newest chunks: it may have been shown before, and a
/// power cut then took the word. A part that cannot be read is told of when its rows are asked for.
void query_catalog::settle(kept_query& q) {
  if (is_beside_writer_) return;  // who writes the store does so
  const link at = q.head_place();
  const std::uint64_t pid = runner_pid(space_.head_at(at));
  if (pid != 0 && pid != query_users::own_pid()) return;  // this process does not run it: it did not know it
  for (std::size_t p = 0; p < q.definition().parts(); ++p) {
    const auto number = static_cast<std::uint16_t>(p);
    auto& complete = part_line(space_, at, number).complete;
    try {
      if (const auto done = space_.read(complete); done && *done != 0) continue;
      part_log log(space_, at, number);
      log.recover(true);
      if (log.is_complete()) space_.write(complete, log.rows_so_far() + 1);
    } catch (const error&) {
      continue;
    }
  }
}

/// Beside a writer the list may change while it is followed: then it is followed again.
std::vector<link> query_catalog::all_heads() {
  const auto followed = [this] {
    unreadable_.clear();
    return space_.heads([&](link where, std::string what) { unreadable_[where] = std::move(what); });
  };
  std::vector<link> found = followed();
  constexpr int tries = 50;
  for (int left = is_beside_writer_ ? tries : 0; left > 0; --left) {
    const std::vector<link> again = followed();
    if (again == found && unreadable_.empty()) break;
    found = again;
  }
  return found;
}

/// Reads what other processes, or earlier sessions, have added; forgets what they dropped.
void query_catalog::refresh() {
  free_dropped();
  const auto unchanged = unchanged_list();
  std::map<link, std::shared_ptr<kept_query>> now;
  for (const link at : all_heads()) {
    const auto& head = space_.head_at(at);
    if (space_.read(head.state) == static_cast<std::uint64_t>(query_phase::dropped)) continue;
    if (is_of_lost_version(at)) continue;
    if (const auto known = known_.find(at); known != known_.end()) {
      if (known->second->id == space_.id_at(at)) {
        now.insert(*known);
        continue;
      }
    }
    if (feed_places::is_feed(space_, at) || space_.is_hold(at)) continue;
    try {
      now[at] = read(at);
    } catch (const error& e) {
      unreadable_[at] = e.message();
    }
  }
  for (auto& [at, q] : known_) {
    if (!now.contains(at) || now[at] != q) q->dropped.store(true, std::memory_order_relaxed);  // relaxed: a flag
  }
  known_ = std::move(now);
}

std::shared_ptr<kept_query> query_catalog::find(std::string_view name) {
  const std::scoped_lock mine(mutex_);
  refresh();
  for (const auto& [at, q] : known_) {
    if (q->definition().name == name) return q;
  }
  const std::string near = nearest(name, known_);
  const std::string damage = unreadable_.empty() ? "" : "; this one cannot be read: " + unreadable_.begin()->second;
  if (near.empty()) raise(errc::no_such_query, "no query is named '{}'{}", name, damage);
  raise(errc::no_such_query, "no query is named '{}' (nearest: '{}'){}", name, near, damage);
}

std::vector<std::shared_ptr<kept_query>> query_catalog::all() {
  const std::scoped_lock mine(mutex_);
  refresh();
  std::vector<std::shared_ptr<kept_query>> found;
  found.reserve(known_.size());
  for (const auto& [at, q] : known_) found.push_back(q);
  std::ranges::sort(found, {}, [](const auto& q) { return std::pair(q->definition().created_ns, q->head_place()); });
  return found;
}

std::shared_ptr<kept_query> query_catalog::add(const query_definition& what, std::optional<filter> where) {
  const std::scoped_lock mine(mutex_);
  refresh();
  const std::vector<std::byte> bytes = what.encoded();
  std::array<std::uint64_t, 2> id{};
  const link at = space_.add({.parts = static_cast<std::uint32_t>(what.parts()),
                              .definition = bytes,
                              .keys_expected = store_->hold()->keys_at_most(),
                              .complete = [&](link head) { id = space_.id_at(head); }});
  try {
    // Behind the query: a compaction that decided before it was there has made the version expire by now, or will see
    // it.
    store_->hold()->check_readable(what.at);
    auto made = std::make_shared<kept_query>(*this, at, id, what, std::move(where));
    known_[at] = made;
    return made;
  } catch (...) {  // or no memory: whoever is told so may start it again
    take_back(at, id);
    throw;
  }
}

void query_catalog::take_back(link head, std::array<std::uint64_t, 2> id) {
  {
    const recovering_lock shared = space_.hold();
    if (space_.id_at(head) == id) set_phase(head, query_phase::dropped);
  }
  free_dropped();
}

void query_catalog::begin_reading() {
  const recovering_lock shared = space_.hold();
  readers_->begin(users_.own_ranges());
}

void query_catalog::free_dropped() noexcept {
  if (store_->reads_only()) return;
  const auto is_dropped = [this](link head) {
    return space_.read(space_.head_at(head).state) == static_cast<std::uint64_t>(query_phase::dropped);
  };
  try {
    if (std::ranges::none_of(space_.heads([](link, const std::string&) {}), is_dropped)) return;
    // No more are dropped meanwhile.
    const recovering_lock shared = space_.hold();
    // A reader beside this process locks, and then looks which queries are dropped; that they are was stored before
    // this. So one of the two sees the other.
    if (store_->pool->file().is_observed()) return;
    if (!users_.nobody_reads()) return;
    space_.free_dropped([this](link head) { return users_.is_run(head, space_.read(space_.head_at(head).runner)); });
  } catch (const std::exception&) {  // damaged, poisoned, or no memory: the next call tries again
  }
}

void query_catalog::require_changeable() const {
  if (store_->reads_only()) {
    raise(errc::read_only, "{}: was opened for reading only; its queries, feeds and holds can be read, but not changed",
          store_->pool->file().path().native());
  }
}

// ---- Runners ----

std::uint64_t query_catalog::runner_pid(const format::query_head& head) const noexcept {
  const auto word = space_.read(head.runner);
  if (!is_beside_writer_) return users_.pid_of(word);
  if (!word || *word == 0) return 0;
  return is_of_earlier_opening(*word) ? 0 : *word & query_users::pid_mask;
}

bool query_catalog::is_run_here(const kept_query& q) const noexcept { return store_->runs.has(q.head_place()); }

/// Beside a writer it is known who has the store open, but not which of the processes that are attached to it live.
bool query_catalog::is_of_earlier_opening(std::uint64_t runner) const noexcept {
  if (is_beside_writer_) {
    const auto root = newest_root(store_->pool->first().base());
    if (!root || root->state != format::root_state::open) return true;
    // 0: nobody is attached
    const std::uint64_t epoch = runner >> query_users::epoch_shift & query_users::epoch_mask;
    if (epoch != 0) return epoch != (root->epoch & query_users::epoch_mask);
    return (runner & query_users::pid_mask) != (store_->pool->live().writer_pid & query_users::pid_mask);
  }
  return users_.is_of_earlier_opening(runner);
}

bool query_catalog::runs_have_ended(const kept_query& q) const {
  const auto word = space_.read(q.head().runner);
  if (!word || *word == 0) return true;
  if (is_of_earlier_opening(*word)) return true;
  if (is_beside_writer_) return false;
  return *word == users_.own_word() && !is_run_here(q);
}

bool query_catalog::begin_run(kept_query& q) {
  const std::scoped_lock mine(mutex_);
  auto& head = space_.head_at(q.head_place());
  const recovering_lock shared = space_.hold();
  q.require_there();
  if (is_run_here(q)) {
    raise(errc::query_busy, "query '{}' runs already, in another thread of this process", q.definition().name);
  }
  const std::uint64_t pid = runner_pid(head);
  if (pid != 0 && pid != query_users::own_pid()) {
    raise(errc::query_busy, "query '{}' runs already, in process {}", q.definition().name, pid);
  }
  switch (q.phase()) {
    case query_phase::cancelled:
      raise(errc::invalid_argument, "query '{}' was cancelled; start another one", q.definition().name);
    case query_phase::finished:
      // Another run finished it since the caller looked. It must not be opened again: somebody may have been told, and
      // the word for `open` might reach the device before a power cut. Who finished it may have been killed before that
      // was durable; only then is its runner's word cleared, so that it is told.
      space_.pools().persist().persist(&head.state, sizeof head.state);
      space_.write(head.runner, 0);
      return false;
    default:
      break;
  }
  store_->runs.add(q.head_place());
  space_.write(head.runner, users_.own_word());
  space_.write(head.state, static_cast<std::uint64_t>(query_phase::open));
  space_.write(head.runs, space_.read(head.runs).value_or(0) + 1);
  return true;
}

/// The last store of a run into its query: behind it the space may be used again, if it was dropped. Another run in
/// this process begins behind the mutex.
void query_catalog::end_run(kept_query& q) noexcept {
  const std::scoped_lock mine(mutex_);
  space_.write(space_.head_at(q.head_place()).runner, 0);
  store_->runs.remove(q.head_place());
}

void query_catalog::set_phase(link head, query_phase to) {
  auto& word = space_.head_at(head).state;
  space_.write(word, static_cast<std::uint64_t>(to));
  space_.pools().persist().persist(&word, sizeof word);
}

}  // namespace icecore::detail

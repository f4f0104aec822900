#include "icecore/query.hpp"

#include <algorithm>

#include "base/raise.hpp"
#include "query/kept/kept_query.hpp"
#include "query/kept/runner.hpp"
#include "query/once/collected.hpp"

namespace icecore {

using detail::query_catalog;

namespace {

/// What is before, between and behind the ranges cannot match.
key_bounds hull(const std::vector<detail::key_range>& ranges) {
  if (ranges.empty()) return {std::string(), std::string()};  // nothing is below the empty key
  key_bounds all;
  if (!ranges.front().from.empty()) all.from = ranges.front().from;
  all.to = ranges.back().to;
  return all;
}

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// Cuts the keys at about equal distances.
std::vector<std::string> borders_of(const detail::store_core& core, const key_bounds& within) {
  const std::uint64_t wanted = std::min<std::uint64_t>(detail::parts_max, core.keys_at_most() / detail::part_keys_min);
  std::vector<std::string> borders;
  if (wanted < 2) return borders;
  // Definitions must fit into a segment; long keys make fewer parts.
  constexpr std::size_t bytes_max = std::size_t{256} << 10;
  std::size_t bytes = 0;
  std::shared_ptr<const detail::sorted_keys> kept;
  const index::ordered_links& links = detail::in_key_order(core, kept);
  detail::with_engine(core, [&](const auto& engine) {
    for (const link l : links.split_points(wanted - 1)) {
      std::string key(engine.key_of(l));
      if (within.from && key <= *within.from) continue;
      if (within.to && key >= *within.to) break;
      bytes += key.size();
      if (bytes > bytes_max) break;
      borders.push_back(std::move(key));
    }
  });
  return borders;
}

/// What is kept of each match. errc::invalid_argument if that does not fit together.
query_keeps kept_of(const query_request& what) {
  constexpr std::size_t columns_max = 256;
  constexpr std::size_t totals_max = 64;
  if (what.keep < query_keeps::count || what.keep > query_keeps::rows) {
    raise(errc::invalid_argument, "a query keeps `count`, `keys` or `rows`, not {}", static_cast<unsigned>(what.keep));
  }
  if (what.keep == query_keeps::count && !what.select.empty()) {
    raise(errc::invalid_argument, "a query that keeps `count` alone has no columns to select");
  }
  if (what.keep == query_keeps::rows && what.select.empty()) {
    raise(errc::invalid_argument, "a query that keeps `rows` selects at least one column");
  }
  if (what.select.size() > columns_max || what.aggregates.size() > totals_max) {
    raise(errc::invalid_argument, "a query selects at most {} columns and keeps at most {} totals; these are {} and {}",
          columns_max, totals_max, what.select.size(), what.aggregates.size());
  }
  return what.select.empty() ? what.keep : query_keeps::rows;
}

std::vector<detail::fold_of> folds_of(const std::vector<aggregate_of>& aggregates) {
  std::vector<detail::fold_of> folds;
  for (const aggregate_of& one : aggregates) {
    if (one.how < aggregate::count || one.how > aggregate::max) {
      raise(errc::invalid_argument, "an aggregate is `count`, `sum`, `min` or `max`, not {}",
            static_cast<unsigned>(one.how));
    }
    folds.push_back({static_cast<detail::fold>(static_cast<unsigned>(one.how) - 1), one.expression});
  }
  return folds;
}

}  // namespace

query store::start(const query_request& what) {
  auto held = opened().hold();
  auto& core = *held;
  core.check_usable();
  pool_set& pools = core.the_pool();
  // then a closed version is durable, too, and attached processes may start queries
  const bool writes_are_durable = pools.durability().mode == durability::operation && !pools.persist().by_pages();
  if (!writes_are_durable) core.check_first();
  query_catalog& all = query_catalog::of(core);
  all.require_changeable();
  if (what.name.empty() || what.name.size() > key_size_max) {
    raise(errc::invalid_argument, "a query's name has 1 to {} bytes; this one has {}", key_size_max, what.name.size());
  }
  const query_keeps keeps = kept_of(what);
  detail::refuse_changes(what.where.program().needs());
  detail::query_definition made;
  made.name = what.name;
  made.at = what.at ? *what.at : core.close_version();
  core.check_readable(made.at);
  made.keeps = keeps;
  made.created_ns = now_ns();
  made.filter = what.where.stored();
  if (keeps == query_keeps::rows) {
    const detail::projection select(what.select, what.where.columns());
    detail::refuse_changes(select.needs());
    made.select = select.stored();
  }
  if (!what.aggregates.empty()) {
    const detail::aggregation totals(folds_of(what.aggregates), what.where.columns());
    detail::refuse_changes(totals.needs());
    made.totals = totals.stored();
  }
  made.within = hull(what.where.program().key_ranges());
  made.borders = borders_of(core, made.within);
  if (!writes_are_durable) core.sync();  // a power cut cannot take the version any more
  return {std::move(held).holds(), all.add(made, what.where)};
}

query store::start_stored(std::span<const std::byte> question) {
  auto held = opened().hold();
  auto& core = *held;
  core.check_usable();
  core.check_first();
  query_catalog& all = query_catalog::of(core);
  all.require_changeable();
  detail::query_definition made;
  try {
    made = detail::query_definition::decoded(question, "a stored query");
  } catch (const error& e) {
    raise(errc::bad_token, "{}", e.message());
  }
  core.check_readable(made.at);
  made.created_ns = now_ns();
  made.borders = borders_of(core, made.within);
  core.sync();
  return {std::move(held).holds(), all.add(made, std::nullopt)};
}

query store::query(std::string_view name, const function_resolver& functions) const {
  auto c = opened().hold();
  c->check_usable();
  auto found = query_catalog::of(*c).find(name);
  if (functions) static_cast<void>(found->where(functions));
  return {std::move(c).holds(), std::move(found)};
}

std::vector<icecore::query> store::queries() const {
  const auto c = opened().hold();
  c->check_usable();
  std::vector<icecore::query> all;
  for (auto& q : query_catalog::of(*c).all()) all.emplace_back(c.holds(), std::move(q));
  return all;
}

std::size_t store::prune_queries(const prune_options& which) {
  const auto c = opened().hold();
  c->check_usable();
  query_catalog& all = query_catalog::of(*c);
  all.require_changeable();
  const auto now = std::chrono::system_clock::now();
  std::size_t dropped = 0;
  for (const icecore::query& one : queries()) {
    icecore::query q = one;
    try {
      const query_state state = q.state();
      const bool is_over = state == query_state::finished || state == query_state::cancelled;
      if (which.finished && !is_over) continue;
      if (which.older_than && now - q.created() <= *which.older_than) continue;
      q.drop();
      ++dropped;
    } catch (const error& e) {  // it runs, or another thread or process has dropped it
      if (e.code() != errc::query_busy && e.code() != errc::no_such_query) throw;
    }
  }
  return dropped;
}

// ---- One query ----

detail::kept_query& query::usable() const {
  static_cast<void>(detail::usable_core(holds_));
  of_->require_there();
  return *of_;
}

const std::string& query::name() const { return of_->definition().name; }
icecore::version query::version() const { return of_->definition().at; }
filter query::where() const { return usable().where(); }
query_keeps query::keeps() const { return of_->definition().keeps; }
std::chrono::system_clock::time_point query::created() const {
  return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::nanoseconds(of_->definition().created_ns)));
}

std::vector<std::byte> query::stored() const { return usable().definition().encoded(); }

query_state query::state() const { return usable().state(); }
query_progress query::progress() const { return usable().progress(); }

query_progress query::run(const run_options& how) {
  auto& q = usable();
  static_cast<void>(detail::usable_core(holds_));
  q.catalog().require_changeable();
  if (q.state() == query_state::finished) return q.progress();
  detail::query_run(q, how).go();
  return q.progress();  // once it has ended: a run that was stopped is paused, not running
}

std::optional<query_failure> query::failure() const { return usable().failure(); }
std::vector<query_failure> query::skipped() const { return usable().skipped(); }
void query::rebind(const function_resolver& functions) { usable().rebind(functions); }
bool query::rebound() const { return usable().rebound(); }
std::size_t query::parts() const noexcept { return of_->definition().parts(); }
void query::restart_part(std::size_t part) { usable().restart_part(part); }

void query::pause() { usable().pause(); }
void query::cancel() { usable().cancel(); }
void query::drop() { usable().drop(); }

query_rows query::results(std::uint64_t from_row, bool with_values) const {
  const auto& q = usable();
  if (q.definition().keeps == query_keeps::count) {
    raise(errc::invalid_argument, "query '{}' keeps no rows, only their number", q.definition().name);
  }
  if (q.definition().keeps == query_keeps::rows) {
    raise(errc::invalid_argument, "query '{}' keeps columns, not keys: read them with rows()", q.definition().name);
  }
  static_cast<void>(detail::usable_core(holds_));
  // a pin of its own: the version may have been closed behind the other one (opened_store, E3)
  pin holds = q.catalog().store().take_pin();
  detail::usable_core(holds).check_readable(q.definition().at);
  return {std::move(holds), of_, from_row, with_values};
}

std::vector<query_total> query::totals() const {
  const auto& q = usable();
  const std::vector<detail::fold_state> states = q.totals();
  std::vector<query_total> all;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const detail::aggregation& totals = *q.kept().totals;
    const auto how = static_cast<aggregate>(static_cast<unsigned>(totals.how(i)) + 1);
    all.push_back({how, totals.text(i), detail::number_of(totals, i, states[i])});
  }
  return all;
}

selected_rows query::rows() const {
  const auto& q = usable();
  if (q.definition().keeps != query_keeps::rows) {
    raise(errc::invalid_argument, "query '{}' keeps no columns: it was started without `select`", q.definition().name);
  }
  return {holds_, of_};
}

void query::acknowledge(std::uint64_t row) { usable().acknowledge(row); }
std::uint64_t query::acknowledged() const { return usable().acknowledged(); }

}  // namespace icecore

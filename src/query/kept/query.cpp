#include "icecore/query.hpp"

#include <algorithm>

#include "base/raise.hpp"
#include "query/kept/kept_query.hpp"
#include "query/kept/runner.hpp"

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

/// Cuts the keys at about equal distances.
std::vector<std::string> borders_of(const detail::store_core& core, const key_bounds& within) {
  const std::uint64_t wanted = std::min<std::uint64_t>(detail::parts_max, core.index().size() / detail::part_keys_min);
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

}  // namespace

query store::start(const query_request& what) {
  auto& core = writable();
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
  if (what.keep != query_keeps::count && what.keep != query_keeps::keys) {
    raise(errc::invalid_argument, "a query keeps `count` or `keys`, not {}", static_cast<unsigned>(what.keep));
  }
  detail::refuse_changes(what.where.program().needs());
  detail::query_definition made;
  made.name = what.name;
  made.at = what.at ? *what.at : core.close_version();
  core.check_readable(made.at);
  made.keeps = what.keep;
  made.created_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  made.filter = what.where.stored();
  made.within = hull(what.where.program().key_ranges());
  made.borders = borders_of(core, made.within);
  if (!writes_are_durable) core.sync();  // a power cut cannot take the version any more
  return {pin(core.pins()), all.add(made, what.where)};
}

query store::query(std::string_view name, const function_resolver& functions) const {
  const auto& c = core();
  c.check_usable();
  auto found = query_catalog::of(c).find(name);
  if (functions) static_cast<void>(found->where(functions));
  return {pin(c.pins()), std::move(found)};
}

std::vector<icecore::query> store::queries() const {
  const auto& c = core();
  c.check_usable();
  std::vector<icecore::query> all;
  for (auto& q : query_catalog::of(c).all()) all.emplace_back(pin(c.pins()), std::move(q));
  return all;
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

query_state query::state() const { return usable().state(); }
query_progress query::progress() const { return usable().progress(); }

query_progress query::run(const run_options& how) {
  auto& q = usable();
  const auto& core = detail::usable_core(holds_);
  q.catalog().require_changeable();
  core.check_readable(q.definition().at);
  if (q.state() == query_state::finished) return q.progress();
  detail::query_run(q, how).go();
  return q.progress();  // once it has ended: a run that was stopped is paused, not running
}

void query::pause() { usable().pause(); }
void query::cancel() { usable().cancel(); }
void query::drop() { usable().drop(); }

query_rows query::results(std::uint64_t from_row, bool with_values) const {
  const auto& q = usable();
  if (q.definition().keeps == query_keeps::count) {
    raise(errc::invalid_argument, "query '{}' keeps no rows, only their number", q.definition().name);
  }
  detail::usable_core(holds_).check_readable(q.definition().at);
  return {holds_, of_, from_row, with_values};
}

void query::acknowledge(std::uint64_t row) { usable().acknowledge(row); }
std::uint64_t query::acknowledged() const { return usable().acknowledged(); }

}  // namespace icecore

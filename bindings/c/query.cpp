// Kept queries.
#include "icecore/query.hpp"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "filter.hpp"
#include "icecore/arrow.hpp"

using namespace icecore::c;

struct icecore_query {
  icecore::query query;
  std::vector<icecore::query_failure> told{};  // what icecore_query_failures view
  std::vector<icecore_query_failure> views{};
};

struct icecore_queries {
  std::vector<std::unique_ptr<icecore_query>> all;
  std::size_t next = 0;
};

/// At the end it looks for later rows with each further call.
struct icecore_query_rows {
  icecore_query_rows(icecore::query of, std::uint64_t from, bool values)
      : query(std::move(of)), number(from), with_values(values), rows(query.results(from, values)) {}

  /// The next row; null at the end.
  const icecore::query_row* next() {
    if (place && *place == std::default_sentinel) {
      place.reset();
      rows = query.results(number, with_values);
    }
    if (place) {
      ++*place;
    } else {
      place.emplace(rows.begin());
    }
    if (*place == std::default_sentinel) return nullptr;
    ++number;
    return &**place;
  }

  icecore::query query;
  std::uint64_t number;  // of the next row
  bool with_values;
  icecore::query_rows rows;
  std::optional<icecore::query_rows::iterator> place{};
};

namespace {

icecore_query_request default_query_request() noexcept {
  icecore_query_request defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.at = ICECORE_VERSION_PRESENT;
  defaults.keep = ICECORE_QUERY_KEEPS_KEYS;
  return defaults;
}

icecore::query_request request_of(const icecore_query_request* request) {
  constexpr const char* function = "icecore_query_start";
  const icecore_query_request set = read_structure(request, default_query_request(), function);
  icecore::query_request what;
  what.name = view(set.name.data, set.name.size, function, "name");
  if (set.at != ICECORE_VERSION_PRESENT) what.at = set.at;
  if (set.where != nullptr) what.where = set.where->filter;
  if (set.keep < ICECORE_QUERY_KEEPS_COUNT || set.keep > ICECORE_QUERY_KEEPS_ROWS) {
    throw icecore::error(icecore::errc::invalid_argument, std::string(function) + ": keep is " +
                                                              std::to_string(set.keep) +
                                                              "; it must be one of enum icecore_query_keeps");
  }
  what.keep = static_cast<icecore::query_keeps>(set.keep);
  if (set.select_count != 0) require(set.select, function, "select");
  for (std::size_t i = 0; i < set.select_count; ++i) {
    what.select.emplace_back(text_of(set.select[i], function, "a selected expression"));
  }
  if (set.aggregate_count != 0) require(set.aggregates, function, "aggregates");
  for (std::size_t i = 0; i < set.aggregate_count; ++i) {
    const icecore_query_aggregate& one = set.aggregates[i];
    if (one.how < ICECORE_COUNT || one.how > ICECORE_MAX) {
      throw icecore::error(icecore::errc::invalid_argument, std::string(function) + ": an aggregate is " +
                                                                std::to_string(one.how) +
                                                                "; it must be one of enum icecore_aggregate");
    }
    what.aggregates.push_back(
        {static_cast<icecore::aggregate>(one.how), std::string(text_of(one.expression, function, "an aggregate"))});
  }
  return what;
}

icecore_run_options default_run_options() noexcept {
  icecore_run_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.threads = icecore::run_options{}.threads;
  return defaults;
}

icecore_query_progress progress_of(const icecore::query_progress& now) noexcept {
  icecore_query_progress made{};
  made.struct_size = sizeof(made);
  made.state = static_cast<int>(now.state);
  made.examined = now.examined;
  made.expected = now.expected;
  made.rows = now.rows;
  made.repeated = now.repeated;
  made.runs = now.runs;
  made.worked_us = static_cast<std::uint64_t>(now.worked.count());
  made.left_us = now.left ? now.left->count() : -1;
  return made;
}

icecore::run_options run_options_of(const icecore_run_options* options) {
  icecore_run_options set = default_run_options();
  if (options != nullptr) set = read_structure(options, set, "icecore_query_run");
  icecore::run_options how;
  how.threads = set.threads;
  how.every = std::chrono::microseconds(set.every_us);
  how.every_item = set.every_item != 0;
  if (set.time_us != 0) how.time = std::chrono::microseconds(set.time_us);
  if (set.keys != 0) how.keys = set.keys;
  how.keys_per_second = set.keys_per_second;
  how.skip_failed = set.skip_failed != 0;
  how.skip_damaged = set.skip_damaged != 0;
  if (set.on_progress != nullptr) {
    how.on_progress = [report = set.on_progress, context = set.progress_context](const icecore::query_progress& now) {
      const icecore_query_progress seen = progress_of(now);
      if (report(context, &seen) != 0) throw stopped_by_callback{};
    };
  }
  return how;
}

/// Finds functions among those of the filters: of this revision, or of any one.
icecore::function_resolver resolver_of(const icecore_filter* const* functions, std::size_t count, const char* function,
                                       bool any_revision = false) {
  if (count == 0) return {};
  require(functions, function, "functions");
  std::vector<icecore::caller_function> known;
  for (std::size_t i = 0; i < count; ++i) {
    require(functions[i], function, "a function");
    if (functions[i]->function) known.push_back(*functions[i]->function);
  }
  return [known = std::move(known), any_revision](std::string_view name, std::uint64_t revision) {
    for (const icecore::caller_function& one : known) {
      if (one.name == name && (any_revision || one.revision == revision)) return one;
    }
    return icecore::caller_function{};
  };
}

/// Views of failures that the query's handle holds.
void tell(icecore_query& query, std::vector<icecore::query_failure> failures) {
  query.told = std::move(failures);
  query.views.clear();
  for (const icecore::query_failure& one : query.told) {
    query.views.push_back(
        {bytes(std::string_view(one.key)), bytes(std::string_view(one.message)), one.damaged ? 1 : 0});
  }
}

/// Runs `body` with the query, which must be there.
template <class Query, class Body>
int with_query(Query* query, const char* function, const Body& body) noexcept {
  return guarded([&] {
    require(query, function, "query");
    body(query->query);
  });
}

}  // namespace

extern "C" {

void icecore_query_request_init(icecore_query_request* request, size_t struct_size) {
  initialise(request, struct_size, default_query_request());
}

int icecore_query_start(icecore_store* store, const icecore_query_request* request, icecore_query** query) {
  if (query != nullptr) *query = nullptr;
  return guarded([&] {
    require(store, "icecore_query_start", "store");
    require(query, "icecore_query_start", "query");
    *query = new icecore_query{store->store.start(request_of(request))};
  });
}

int icecore_query_open(const icecore_store* store, const void* name, size_t name_size,
                       const icecore_filter* const* functions, size_t function_count, icecore_query** query) {
  if (query != nullptr) *query = nullptr;
  return guarded([&] {
    require(store, "icecore_query_open", "store");
    require(query, "icecore_query_open", "query");
    const auto wanted = view(name, name_size, "icecore_query_open", "name");
    *query =
        new icecore_query{store->store.query(wanted, resolver_of(functions, function_count, "icecore_query_open"))};
  });
}

void icecore_query_free(icecore_query* query) { delete query; }

int icecore_queries_open(const icecore_store* store, icecore_queries** queries) {
  if (queries != nullptr) *queries = nullptr;
  return guarded([&] {
    require(store, "icecore_queries_open", "store");
    require(queries, "icecore_queries_open", "queries");
    auto list = std::make_unique<icecore_queries>();
    for (icecore::query& query : store->store.queries()) {
      list->all.push_back(std::make_unique<icecore_query>(icecore_query{std::move(query)}));
    }
    *queries = list.release();
  });
}

size_t icecore_queries_count(const icecore_queries* queries) { return queries == nullptr ? 0 : queries->all.size(); }

icecore_query* icecore_queries_next(icecore_queries* queries) {
  if (queries == nullptr || queries->next == queries->all.size()) return nullptr;
  return queries->all[queries->next++].get();
}

void icecore_queries_close(icecore_queries* queries) { delete queries; }

icecore_bytes icecore_query_name(const icecore_query* query) {
  if (query == nullptr) return {nullptr, 0};
  return bytes(std::string_view(query->query.name()));
}

icecore_version icecore_query_version(const icecore_query* query) {
  return query == nullptr ? 0 : query->query.version();
}

int icecore_query_keep(const icecore_query* query) {
  return query == nullptr ? 0 : static_cast<int>(query->query.keeps());
}

int64_t icecore_query_created_ns(const icecore_query* query) {
  if (query == nullptr) return 0;
  const auto since_epoch = query->query.created().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

int icecore_query_read_progress(const icecore_query* query, icecore_query_progress* progress) {
  return with_query(query, "icecore_query_read_progress", [&](const icecore::query& q) {
    require_result(progress, "icecore_query_read_progress");
    write_structure(progress, progress_of(q.progress()));
  });
}

void icecore_run_options_init(icecore_run_options* options, size_t struct_size) {
  initialise(options, struct_size, default_run_options());
}

int icecore_query_run(icecore_query* query, const icecore_run_options* options, icecore_query_progress* progress) {
  return with_query(query, "icecore_query_run", [&](icecore::query& q) {
    if (progress != nullptr) require_result(progress, "icecore_query_run");
    const icecore::query_progress now = q.run(run_options_of(options));
    if (progress != nullptr) write_structure(progress, progress_of(now));
  });
}

int icecore_query_pause(icecore_query* query) {
  return with_query(query, "icecore_query_pause", [](icecore::query& q) { q.pause(); });
}

int icecore_query_cancel(icecore_query* query) {
  return with_query(query, "icecore_query_cancel", [](icecore::query& q) { q.cancel(); });
}

int icecore_query_drop(icecore_query* query) {
  return with_query(query, "icecore_query_drop", [](icecore::query& q) { q.drop(); });
}

int icecore_query_results(const icecore_query* query, uint64_t from_row, int with_values, icecore_query_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return with_query(query, "icecore_query_results", [&](const icecore::query& q) {
    require(rows, "icecore_query_results", "rows");
    *rows = new icecore_query_rows(q, from_row, with_values != 0);
  });
}

int icecore_query_rows_next(icecore_query_rows* rows, icecore_query_row* row) {
  if (row != nullptr) *row = {0, {nullptr, 0}, {nullptr, 0}};
  return guarded([&] {
    require(rows, "icecore_query_rows_next", "rows");
    require(row, "icecore_query_rows_next", "row");
    const icecore::query_row* const found = rows->next();
    if (found != nullptr) *row = {found->number, bytes(found->key), bytes(found->value)};
  });
}

void icecore_query_rows_close(icecore_query_rows* rows) { delete rows; }

int icecore_query_total(const icecore_query* query, size_t index, icecore_number* total) {
  if (total != nullptr) *total = {};
  return with_query(query, "icecore_query_total", [&](const icecore::query& q) {
    require(total, "icecore_query_total", "total");
    const std::vector<icecore::query_total> totals = q.totals();
    if (index >= totals.size()) {
      throw icecore::error(icecore::errc::invalid_argument,
                           "icecore_query_total: the query keeps " + std::to_string(totals.size()) +
                               " aggregates; there is no number " + std::to_string(index));
    }
    *total = number_of(totals[index].value);
  });
}

int icecore_query_read_arrow(const icecore_query* query, uint64_t from_row, uint64_t row_count, const char* where,
                             struct ArrowSchema* schema, struct ArrowArray* batch) {
  if (schema != nullptr) *schema = {};
  if (batch != nullptr) *batch = {};
  return with_query(query, "icecore_query_read_arrow", [&](const icecore::query& q) {
    require(schema, "icecore_query_read_arrow", "schema");
    require(batch, "icecore_query_read_arrow", "batch");
    icecore::selected_rows rows = q.rows();
    if (where != nullptr) rows = rows.where(text_of(where, "icecore_query_read_arrow", "where"));
    auto found = std::make_shared<const icecore::result_columns>(rows.read(from_row, row_count));
    icecore::export_to_arrow(found, *schema, *batch);
  });
}

int icecore_query_read_failure(icecore_query* query, icecore_query_failure* failure) {
  if (failure != nullptr) *failure = {};
  return guarded([&] {
    require(query, "icecore_query_read_failure", "query");
    require(failure, "icecore_query_read_failure", "failure");
    std::vector<icecore::query_failure> one;
    if (auto found = query->query.failure()) one.push_back(*std::move(found));
    tell(*query, std::move(one));
    if (!query->views.empty()) *failure = query->views.front();
  });
}

int icecore_query_read_skipped(icecore_query* query, const icecore_query_failure** failures, size_t* count) {
  if (failures != nullptr) *failures = nullptr;
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(query, "icecore_query_read_skipped", "query");
    require(failures, "icecore_query_read_skipped", "failures");
    require(count, "icecore_query_read_skipped", "count");
    tell(*query, query->query.skipped());
    *failures = query->views.data();
    *count = query->views.size();
  });
}

int icecore_query_rebind(icecore_query* query, const icecore_filter* const* functions, size_t function_count) {
  return with_query(query, "icecore_query_rebind", [&](icecore::query& q) {
    q.rebind(resolver_of(functions, function_count, "icecore_query_rebind", true));
  });
}

int icecore_query_rebound(const icecore_query* query, int* rebound) {
  if (rebound != nullptr) *rebound = 0;
  return with_query(query, "icecore_query_rebound", [&](const icecore::query& q) {
    require(rebound, "icecore_query_rebound", "rebound");
    *rebound = q.rebound() ? 1 : 0;
  });
}

int icecore_query_restart_part(icecore_query* query, size_t part) {
  return with_query(query, "icecore_query_restart_part", [&](icecore::query& q) { q.restart_part(part); });
}

int icecore_queries_prune(icecore_store* store, uint64_t older_than_s, int unfinished, size_t* dropped) {
  if (dropped != nullptr) *dropped = 0;
  return guarded([&] {
    require(store, "icecore_queries_prune", "store");
    icecore::prune_options which{.older_than = std::nullopt, .finished = unfinished == 0};
    if (older_than_s != 0) which.older_than = std::chrono::seconds(older_than_s);
    const std::size_t count = store->store.prune_queries(which);
    if (dropped != nullptr) *dropped = count;
  });
}

int icecore_query_acknowledge(icecore_query* query, uint64_t row) {
  return with_query(query, "icecore_query_acknowledge", [&](icecore::query& q) { q.acknowledge(row); });
}

int icecore_query_acknowledged(const icecore_query* query, uint64_t* row) {
  if (row != nullptr) *row = 0;
  return with_query(query, "icecore_query_acknowledged", [&](const icecore::query& q) {
    require(row, "icecore_query_acknowledged", "row");
    *row = q.acknowledged();
  });
}

}  // extern "C"

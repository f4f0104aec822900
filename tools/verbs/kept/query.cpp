// query: filters that are kept in the store and go on after a crash.
#include "icecore/query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <limits>
#include <memory>
#include <thread>

#include "icecore/store.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "line/version_name.hpp"
#include "text/arrow_stream.hpp"
#include "text/columns.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct query_arguments {
  std::string store;
  std::string name;
  std::string expression;
  std::string layout;
  std::string at;
  write_arguments write;
  read_arguments read;
  unsigned threads = 1;
  std::uint64_t from = 0;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::string> select;
  std::vector<std::string> sums;
  std::vector<std::string> least;
  std::vector<std::string> greatest;
  std::optional<std::string> where;
  std::uint64_t older_than_s = 0;
  bool count_only = false;
  bool unfinished = false;
  bool skip_failed = false;
  bool skip_damaged = false;
  bool run = false;
  bool keys_only = false;
  hex_arguments hex;
  cli::format format = cli::format::table;
};

std::string_view name_of(query_state state) {
  switch (state) {
    case query_state::ready:
      return "ready";
    case query_state::running:
      return "running";
    case query_state::paused:
      return "paused";
    case query_state::finished:
      return "finished";
    case query_state::cancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string_view name_of(query_keeps keeps) {
  switch (keeps) {
    case query_keeps::count:
      return "count";
    case query_keeps::keys:
      return "keys";
    case query_keeps::rows:
      return "rows";
  }
  return "unknown";
}

std::atomic<bool> interrupted{false};
extern "C" void interrupt(int) { interrupted = true; }

/// Thrown from the progress report: it pauses the query.
struct asked_to_stop {};

exit_code run_query(query& q, const query_arguments& a) {
  interrupted = false;
  static_cast<void>(std::signal(SIGINT, interrupt));
  static_cast<void>(std::signal(SIGTERM, interrupt));
  progress_bar bar(fmt::format("query {}", shown(q.name())), q.progress().expected, "keys");
  const auto report = [&](const query_progress& p) {
    bar.update(p.examined, fmt::format("{} rows", grouped(p.rows)));
    if (interrupted) throw asked_to_stop();
  };
  try {
    run_options how{.threads = a.threads, .on_progress = report};
    how.skip_failed = a.skip_failed;
    how.skip_damaged = a.skip_damaged;
    const query_progress p = q.run(how);
    bar.finish();
    if (a.format == cli::format::json) {
      out().line(json_object()
                     .bytes("name", q.name())
                     .bytes("state", name_of(p.state))
                     .add("rows", p.rows)
                     .add("examined", p.examined)
                     .text());
    } else {
      out().line(fmt::format("{}: {}, {} rows of {} keys", shown(q.name()), name_of(p.state), grouped(p.rows),
                             grouped(p.examined)));
    }
    return exit_code::ok;
  } catch (const asked_to_stop&) {
    bar.finish();
    fmt::print(stderr, "icecore: query '{}' is paused; `icecore query run` goes on where it was\n", shown(q.name()));
    return exit_code::interrupted;
  }
}

json_object state_of(const query& q) {
  return json_object().bytes("name", q.name()).bytes("state", name_of(q.progress().state));
}

exit_code start_query(const query_arguments& a) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  query_request what{.name = a.name, .where = filter(a.expression, a.layout.empty() ? layout() : layout(a.layout))};
  if (!a.at.empty()) what.at = version_named(s, a.at);
  if (a.count_only) what.keep = query_keeps::count;
  what.select = a.select;
  for (const auto& [how, list] : {std::pair(aggregate::sum, &a.sums), std::pair(aggregate::min, &a.least),
                                  std::pair(aggregate::max, &a.greatest)}) {
    for (const std::string& expression : *list) what.aggregates.push_back({how, expression});
  }
  query q = s.start(what);
  if (a.run) {
    const exit_code code = run_query(q, a);
    s.close();
    return code;
  }
  if (a.format == cli::format::json) {
    out().line(state_of(q).add("version", q.version()).text());
  } else {
    out().line(fmt::format("{}: started, version {}", shown(q.name()), q.version()));
  }
  s.close();
  return exit_code::ok;
}

exit_code continue_query(const query_arguments& a) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  query q = s.query(a.name);
  const exit_code code = run_query(q, a);
  s.close();
  return code;
}

std::string total_name(const query_total& t) {
  constexpr std::string_view names[] = {"", "count", "sum", "min", "max"};
  return fmt::format("{}({})", names[static_cast<std::size_t>(t.how)], t.expression);
}

json_object json_of(const query& q) {
  const query_progress p = q.progress();
  json_object line;
  line.bytes("name", q.name()).bytes("state", name_of(p.state)).add("version", q.version());
  line.bytes("keep", name_of(q.keeps())).add("rows", p.rows).add("examined", p.examined).add("expected", p.expected);
  line.add("repeated", p.repeated).add("runs", p.runs).add("worked_us", p.worked.count());
  const auto created = q.created().time_since_epoch();
  line.bytes("created", format_time(std::chrono::duration_cast<std::chrono::nanoseconds>(created).count()));
  line.add("acknowledged", q.acknowledged()).add("rebound", q.rebound());
  std::string totals;
  for (const query_total& t : q.totals()) {
    if (!totals.empty()) totals += ',';
    totals += json_object().bytes("of", total_name(t)).json("value", number_text(t.value, cli::format::json)).text();
  }
  if (!totals.empty()) line.json("totals", '[' + totals + ']');
  if (const auto why = q.failure()) line.bytes("failed_key", why->key).bytes("failure", why->message);
  return line.add("skipped", q.skipped().size());
}

exit_code list_queries(const query_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  table rows({"name", "state", ">version", ">rows", ">examined", ">of about", ">runs"});
  for (const query& q : s.queries()) {
    if (a.format == cli::format::json) {
      out().line(json_of(q).text());
      continue;
    }
    const query_progress p = q.progress();
    rows.row({shown(q.name()), std::string(name_of(p.state)), fmt::format("{}", q.version()), grouped(p.rows),
              grouped(p.examined), grouped(p.expected), grouped(p.runs)});
  }
  rows.print(out());
  return exit_code::ok;
}

exit_code show_query(const query_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  const query q = s.query(a.name);
  if (a.format == cli::format::json) {
    out().line(json_of(q).text());
    return exit_code::ok;
  }
  const query_progress p = q.progress();
  const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(q.created().time_since_epoch()).count();
  const double worked = std::chrono::duration<double>(p.worked).count();
  out().line(fmt::format("name          {}", shown(q.name())));
  out().line(fmt::format("state         {}", name_of(p.state)));
  out().line(fmt::format("version       {}", q.version()));
  out().line(fmt::format("started       {}", format_time(created)));
  out().line(fmt::format("keeps         {}", name_of(q.keeps())));
  out().line(fmt::format("rows          {}", grouped(p.rows)));
  out().line(fmt::format("keys          {} of about {}", grouped(p.examined), grouped(p.expected)));
  out().line(fmt::format("repeated      {} evaluations", grouped(p.repeated)));
  out().line(fmt::format("runs          {}, {} in all", grouped(p.runs), duration_text(worked)));
  if (p.left)
    out().line(fmt::format("left          {}", duration_text(std::chrono::duration<double>(*p.left).count())));
  out().line(fmt::format("acknowledged  {} rows", grouped(q.acknowledged())));
  for (const query_total& t : q.totals()) {
    out().line(fmt::format("{:<13} {}", total_name(t), number_text(t.value, a.format)));
  }
  if (q.rebound()) out().line("functions     of other revisions were accepted");
  if (const auto why = q.failure()) {
    out().line(fmt::format("stands before {}", shown(why->key)));
    out().line(fmt::format("because       {}", shown(why->message)));
  }
  for (const query_failure& one : q.skipped()) {
    out().line(fmt::format("passed        {}: {}", shown(one.key), shown(one.message)));
  }
  return exit_code::ok;
}

/// Columns, a block of rows at a time.
exit_code list_columns(const query& q, const query_arguments& a) {
  constexpr std::uint64_t block_rows = 65'536;
  selected_rows rows = q.rows();
  const bool arrow = a.format == cli::format::arrow;
  if (arrow && stdout_is_terminal()) {
    throw error(errc::invalid_argument, "-o arrow prints bytes, and standard output is a terminal: redirect it");
  }
  arrow_stream stream(out());
  const column_printer print(a.format, a.hex.both);
  std::vector<std::string> names;
  for (const selected_column& column : rows.columns()) names.push_back(column.name);
  if (arrow) {
    stream.write(rows.read(0, 0), 0);  // the schema, if there are no rows
  } else {
    print.heading(names);
  }
  const std::uint64_t size = rows.size();
  if (a.where) rows = rows.where(*a.where);
  std::uint64_t left = a.limit;
  for (std::uint64_t from = a.from; from < size && left > 0; from += block_rows) {
    const auto columns = rows.read(from, block_rows);
    const std::uint64_t count = std::min<std::uint64_t>(columns.front().size, left);
    arrow ? stream.write(columns, count) : print.rows(columns, count);
    left -= count;
  }
  if (arrow) stream.finish();
  return exit_code::ok;
}

exit_code list_rows(const query_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  const query q = s.query(a.name);
  if (q.keeps() == query_keeps::rows) return list_columns(q, a);
  if (a.where) throw error(errc::invalid_argument, "--where: the query keeps no columns (query start --select)");
  if (a.format == cli::format::csv || a.format == cli::format::arrow) {
    throw error(errc::invalid_argument, "-o csv and -o arrow: the query keeps no columns");
  }
  std::uint64_t count = 0;
  auto rows = q.results(a.from, !a.keys_only);
  if (a.limit == 0) return exit_code::ok;
  for (const query_row& row : rows) {
    std::string line;
    if (a.format == cli::format::json) {
      line = fmt::format("{{\"row\":{},\"key\":", row.number);
      append_json(line, row.key, a.hex.keys());
      if (row.value) {
        line += ",\"value\":";
        append_json(line, *row.value, a.hex.values());
      }
      line += '}';
    } else {
      line = a.hex.keys() ? to_hex(row.key) : shown(row.key);
      if (row.value) {
        line += '\t';
        line += a.hex.values() ? to_hex(*row.value) : shown(*row.value);
      }
    }
    out().line(line);
    if (++count >= a.limit) break;
  }
  return exit_code::ok;
}

exit_code prune_queries(const query_arguments& a) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  prune_options which{.finished = !a.unfinished};
  if (a.older_than_s != 0) which.older_than = std::chrono::seconds(a.older_than_s);
  const std::size_t dropped = s.prune_queries(which);
  s.close();
  out().line(a.format == cli::format::json ? json_object().add("dropped", dropped).text()
                                           : fmt::format("{} dropped", grouped(dropped)));
  return exit_code::ok;
}

/// Runs a call that changes a query of this name. With -o json, prints `what` it has become.
template <typename Call>
exit_code change_query(const query_arguments& a, std::string_view what, const Call& call) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  query q = s.query(a.name);
  call(q);
  s.close();
  if (a.format == cli::format::json) out().line(json_object().bytes("name", a.name).bytes("state", what).text());
  return exit_code::ok;
}

verb action_on_name(verb group, const std::shared_ptr<query_arguments>& a, const std::string& name,
                    const std::string& description, const std::string& examples) {
  verb made = group.add_verb(name, description, examples);
  made.add_store(a->store);
  made.add_option("NAME", a->name, "The query's name").type_name("").required();
  return made;
}

void add_reading_verbs(verb group, const std::shared_ptr<query_arguments>& a) {
  verb listing = group.add_verb("list", "List all queries, oldest first", "  icecore query list model.ice -o json");
  listing.add_store(a->store);
  listing.add_reading(a->read);
  listing.add_format(a->format);
  listing.runs([a] { return list_queries(*a); });

  verb showing =
      action_on_name(group, a, "show", "Show a query's state and progress", "  icecore query show s.ice audit");
  showing.add_reading(a->read);
  showing.add_format(a->format);
  showing.runs([a] { return show_query(*a); });

  verb rows = action_on_name(group, a, "results", "List a query's rows, whether it is finished or not",
                             "  icecore query results model.ice audit --from-row 1000 --limit 100");
  rows.add_option("--from-row", a->from, "Begin with this row; the first is 0").type_name("N");
  rows.add_limit(a->limit);
  rows.add_flag("--keys-only", a->keys_only, "Keys without values");
  rows.add_reading(a->read);
  rows.add_option("--where", a->where, "Only rows that match this, of a query that keeps columns").type_name("EXPR");
  rows.add_hex(a->hex);
  rows.add_format_of_columns(a->format);
  rows.runs([a] { return list_rows(*a); });
}

}  // namespace

void add_query_verbs(command_line& line) {
  const auto a = std::make_shared<query_arguments>();
  const verb group = line.add_group("query", "Filters that are kept in the store and go on after a crash");
  verb starting =
      action_on_name(group, a, "start", "Start a query over one version",
                     "  icecore query start model.ice audit \"value ~ 'error'\" --run\n"
                     "  icecore query start model.ice big 'length(value) > 1000' --at epoch-3 --keep count\n"
                     "  icecore query start trades.ice dear 'price > 100' --layout 'price f64, qty u32' --select key "
                     "--select 'price * qty as total' --sum qty");
  starting.add_option("EXPR", a->expression, "The condition (docs/filters.md)").type_name("").required();
  starting.add_option("--layout", a->layout, "The columns of a value: names and types").type_name("COLUMNS");
  starting.add_option("--at", a->at, fmt::format("The version (default: latest): {}", version_forms))
      .type_name("VERSION")
      .completes(value_kind::version);
  starting.add_choice("--keep", a->count_only, {{"keys", false}, {"count", true}},
                      "What is kept of each match: keys (default) or count; --select keeps columns");
  starting.add_list("--select", a->select, "Keep this expression of each match as a column (may be repeated)", "EXPR");
  starting.add_list("--sum", a->sums, "Keep the sum of this over the matches (may be repeated)", "EXPR");
  starting.add_list("--min", a->least, "Keep its least value", "EXPR");
  starting.add_list("--max", a->greatest, "Keep its greatest value", "EXPR");
  starting.add_flag("--run", a->run, "Run it at once");
  starting.add_option("--threads", a->threads, "With --run: threads; 0: all cores").type_name("N");
  starting.add_changing(a->write);
  starting.add_format(a->format);
  starting.runs([a] { return start_query(*a); });

  verb running = action_on_name(group, a, "run", "Run a query, from where it was, until it is finished or interrupted",
                                "  icecore query run model.ice audit --threads 0");
  running.add_option("--threads", a->threads, "Threads; 0: all cores").type_name("N");
  running.add_flag("--skip-failed", a->skip_failed, "Pass keys whose columns are too long; `query show` lists them");
  running.add_flag("--skip-damaged", a->skip_damaged, "Pass keys whose records are damaged; `query show` lists them");
  running.add_changing(a->write);
  running.add_format(a->format);
  running.runs([a] { return continue_query(*a); });

  add_reading_verbs(group, a);

  verb cancelling = action_on_name(group, a, "cancel", "End a query for good; its rows stay",
                                   "  icecore query cancel model.ice audit");
  cancelling.add_changing(a->write);
  cancelling.add_format(a->format);
  cancelling.runs([a] { return change_query(*a, "cancelled", [](query& q) { q.cancel(); }); });

  verb pruning = group.add_verb("prune", "Take away queries that are finished or cancelled",
                                "  icecore query prune model.ice --older-than 86400");
  pruning.add_store(a->store);
  pruning.add_option("--older-than", a->older_than_s, "Only those that were started so long ago (default: any)")
      .type_name("SECONDS");
  pruning.add_flag("--unfinished", a->unfinished, "Others, too, unless they run");
  pruning.add_changing(a->write);
  pruning.add_format(a->format);
  pruning.runs([a] { return prune_queries(*a); });

  verb pausing = action_on_name(group, a, "pause", "Ask whoever runs a query to stop; `query run` goes on",
                                "  icecore query pause model.ice audit");
  pausing.add_changing(a->write);
  pausing.add_format(a->format);
  pausing.runs([a] { return change_query(*a, "paused", [](query& q) { q.pause(); }); });

  verb dropping =
      action_on_name(group, a, "drop", "Take a query away, with its rows", "  icecore query drop model.ice audit");
  dropping.add_changing(a->write);
  dropping.add_format(a->format);
  dropping.runs([a] { return change_query(*a, "dropped", [](query& q) { q.drop(); }); });
}

}  // namespace icecore::cli

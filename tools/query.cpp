// query: filters that are kept in the store and go on after a crash.
#include "icecore/query.hpp"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <limits>
#include <memory>
#include <thread>

#include "command_line.hpp"
#include "icecore/store.hpp"
#include "json.hpp"
#include "opening.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "text.hpp"
#include "time.hpp"

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
  std::optional<std::string> keep;
  bool run = false;
  bool keys_only = false;
  bool hex = false;
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
  }
  return "unknown";
}

std::atomic<bool> interrupted{false};
extern "C" void interrupt(int) { interrupted = true; }

/// Thrown from the progress report: it pauses the query.
struct asked_to_stop {};

exit_code run_query(query& q, const query_arguments& a) {
  static_cast<void>(std::signal(SIGINT, interrupt));
  static_cast<void>(std::signal(SIGTERM, interrupt));
  progress_bar bar(fmt::format("query {}", shown(q.name())), q.progress().expected, "keys");
  const auto report = [&](const query_progress& p) {
    bar.update(p.examined, fmt::format("{} rows", grouped(p.rows)));
    if (interrupted) throw asked_to_stop();
  };
  try {
    const query_progress p = q.run({.threads = a.threads, .on_progress = report});
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

exit_code start_query(const query_arguments& a) {
  store s = open_to_write(a.store, a.write, creation::open_existing);
  query_request what{.name = a.name, .where = filter(a.expression, a.layout.empty() ? layout() : layout(a.layout))};
  if (!a.at.empty()) what.at = version_named(s, a.at);
  if (a.keep && *a.keep != "keys" && *a.keep != "count") {
    throw error(errc::invalid_argument, fmt::format("--keep {}: it is 'keys' or 'count'", *a.keep));
  }
  if (a.keep == "count") what.keep = query_keeps::count;
  query q = s.start(what);
  if (a.run) {
    const exit_code code = run_query(q, a);
    s.close();
    return code;
  }
  out().line(fmt::format("{}: started, version {}", shown(q.name()), q.version()));
  s.close();
  return exit_code::ok;
}

exit_code continue_query(const query_arguments& a) {
  store s = open_to_write(a.store, a.write, creation::open_existing);
  query q = s.query(a.name);
  const exit_code code = run_query(q, a);
  s.close();
  return code;
}

json_object json_of(const query& q) {
  const query_progress p = q.progress();
  json_object line;
  line.bytes("name", q.name()).bytes("state", name_of(p.state)).add("version", q.version());
  line.bytes("keep", name_of(q.keeps())).add("rows", p.rows).add("examined", p.examined).add("expected", p.expected);
  line.add("repeated", p.repeated).add("runs", p.runs).add("worked_us", p.worked.count());
  const auto created = q.created().time_since_epoch();
  line.bytes("created", format_time(std::chrono::duration_cast<std::chrono::nanoseconds>(created).count()));
  return line.add("acknowledged", q.acknowledged());
}

exit_code list_queries(const query_arguments& a) {
  const store s = open_to_read(a.store, a.read);
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
  const store s = open_to_read(a.store, a.read);
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
  return exit_code::ok;
}

exit_code list_rows(const query_arguments& a) {
  const store s = open_to_read(a.store, a.read);
  const query q = s.query(a.name);
  std::uint64_t count = 0;
  auto rows = q.results(a.from, !a.keys_only);
  if (a.limit == 0) return exit_code::ok;
  for (const query_row& row : rows) {
    std::string line;
    if (a.format == cli::format::json) {
      line = fmt::format("{{\"row\":{},\"key\":", row.number);
      append_json(line, row.key, a.hex);
      if (row.value) {
        line += ",\"value\":";
        append_json(line, *row.value, a.hex);
      }
      line += '}';
    } else {
      line = a.hex ? to_hex(row.key) : shown(row.key);
      if (row.value) {
        line += '\t';
        line += a.hex ? to_hex(*row.value) : shown(*row.value);
      }
    }
    out().line(line);
    if (++count >= a.limit) break;
  }
  return exit_code::ok;
}

/// Runs a call that changes a query of this name.
template <typename Call>
exit_code change_query(const query_arguments& a, const Call& call) {
  store s = open_to_write(a.store, a.write, creation::open_existing);
  query q = s.query(a.name);
  call(q);
  s.close();
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
  rows.add_option("--limit", a->limit, "Stop after this many").type_name("N");
  rows.add_flag("--keys-only", a->keys_only, "Keys without values");
  rows.add_reading(a->read);
  rows.add_hex(a->hex);
  rows.add_format(a->format);
  rows.runs([a] { return list_rows(*a); });
}

}  // namespace

void add_query_verbs(command_line& line) {
  const auto a = std::make_shared<query_arguments>();
  const verb group = line.add_group("query", "Filters that are kept in the store and go on after a crash");
  verb starting =
      action_on_name(group, a, "start", "Start a query over one version",
                     "  icecore query start model.ice audit \"value ~ 'error'\" --run\n"
                     "  icecore query start model.ice big 'length(value) > 1000' --at epoch-3 --keep count");
  starting.add_option("EXPR", a->expression, "The condition (docs/filters.md)").type_name("").required();
  starting.add_option("--layout", a->layout, "The columns of a value: names and types").type_name("COLUMNS");
  starting.add_option("--at", a->at, "The version: a number, a tag, or latest").type_name("VERSION");
  starting.add_option("--keep", a->keep, "What is kept of each match: keys (default) or count").type_name("WHAT");
  starting.add_flag("--run", a->run, "Run it at once");
  starting.add_option("--threads", a->threads, "With --run: threads; 0: all cores").type_name("N");
  starting.add_changing(a->write);
  starting.runs([a] { return start_query(*a); });

  verb running = action_on_name(group, a, "run", "Run a query, from where it was, until it is finished or interrupted",
                                "  icecore query run model.ice audit --threads 0");
  running.add_option("--threads", a->threads, "Threads; 0: all cores").type_name("N");
  running.add_changing(a->write);
  running.add_format(a->format);
  running.runs([a] { return continue_query(*a); });

  add_reading_verbs(group, a);

  verb cancelling = action_on_name(group, a, "cancel", "End a query for good; its rows stay",
                                   "  icecore query cancel model.ice audit");
  cancelling.add_changing(a->write);
  cancelling.runs([a] { return change_query(*a, [](query& q) { q.cancel(); }); });

  verb dropping =
      action_on_name(group, a, "drop", "Take a query away, with its rows", "  icecore query drop model.ice audit");
  dropping.add_changing(a->write);
  dropping.runs([a] { return change_query(*a, [](query& q) { q.drop(); }); });
}

}  // namespace icecore::cli

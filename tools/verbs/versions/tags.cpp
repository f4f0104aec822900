// tag and log: closing versions, and listing tags.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct tag_arguments {
  std::string store;
  std::string name;
  std::string note;
  std::string time;
  write_arguments write;
  cli::format format = cli::format::table;
};

void print_json(const tag_info& t) {
  json_object line;
  line.add("version", t.version).bytes("time", format_time(t.time_ns)).add("time_ns", t.time_ns);
  out().line(line.bytes("name", t.name).bytes("note", t.note).text());
}

exit_code tag(const tag_arguments& a) {
  // always passes a time: without name, note and time, tag() would close the version but store no tag
  const std::int64_t time_ns = a.time.empty() ? now_ns() : parse_time(a.time);
  const tag_options label{.name = a.name, .note = a.note, .time_ns = time_ns};
  store s = open_to_write(a.store, a.write, creation::open_existing);
  const version closed = s.tag(label);
  s.close();
  if (a.format == cli::format::json) {
    print_json({.version = closed, .time_ns = time_ns, .name = a.name, .note = a.note});
  } else {
    out().line(fmt::format("{}", closed));
  }
  return exit_code::ok;
}

struct log_arguments {
  std::string store;
  read_arguments read;
  bool reverse = false;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  cli::format format = cli::format::table;
};

exit_code log(const log_arguments& a) {
  const store s = open_to_read(a.store, a.read);
  auto tags = s.tags();
  if (!a.reverse) std::reverse(tags.begin(), tags.end());
  tags.resize(std::min<std::uint64_t>(tags.size(), a.limit));
  if (a.format == cli::format::json) {
    for (const tag_info& t : tags) print_json(t);
    return exit_code::ok;
  }
  table rows({">version", "time", "name", "note"});
  for (const tag_info& t : tags) {
    rows.row({fmt::format("{}", t.version), format_time(t.time_ns), shown(t.name), shown(t.note)});
  }
  rows.print(out());
  return exit_code::ok;
}

}  // namespace

void add_tag_verbs(command_line& line) {
  const auto t = std::make_shared<tag_arguments>();
  verb verb = line.add_verb("tag", "Close the open version: from now on it never changes. Prints its number",
                            "  icecore tag model.ice epoch-1 --note 'loss 0.31'\n"
                            "  icecore tag model.ice                 # every night: log lists the times\n"
                            "  icecore tag model.ice release-2 --time 2024-05-01T12:00:00Z");
  verb.add_store(t->store);
  verb.add_option("NAME", t->name, "A name that no other tag has; without one the tag has only its number and time")
      .type_name("");
  verb.add_option("--note", t->note, "Any text, at most 65,535 bytes").type_name("TEXT");
  verb.add_option("--time", t->time, "The tag's time (ISO 8601; no zone: UTC) instead of now").type_name("TIME");
  verb.add_changing(t->write);
  verb.add_format(t->format);
  verb.runs([t] { return tag(*t); });

  const auto l = std::make_shared<log_arguments>();
  verb = line.add_verb("log", "List the tags, newest first: version, time (UTC), name, note",
                       "  icecore log model.ice --limit 10\n"
                       "  icecore log model.ice --reverse -o json");
  verb.add_store(l->store);
  verb.add_reading(l->read);
  verb.add_limit(l->limit);
  verb.add_flag("--reverse", l->reverse, "Oldest first");
  verb.add_format(l->format);
  verb.runs([l] { return log(*l); });
}

}  // namespace icecore::cli

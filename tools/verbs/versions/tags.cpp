// tag and log: closing versions, and listing tags.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "icecore/changes.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "text/colour.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/sparkline.hpp"
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

/// What was written between two tags; empty if it is not known.
using known_bytes = std::optional<std::uint64_t>;

/// `bytes`: null if they are not asked for. `expired`: the version cannot be read any more.
void print_json(const tag_info& t, bool expired, const known_bytes* bytes = nullptr) {
  json_object line;
  line.add("version", t.version).bytes("time", format_time(t.time_ns)).add("time_ns", t.time_ns);
  line.bytes("name", t.name).bytes("note", t.note);
  if (expired) line.add("expired", true);
  if (bytes != nullptr) line.json("bytes", *bytes ? fmt::format("{}", **bytes) : "null");
  out().line(line.text());
}

exit_code tag(const tag_arguments& a) {
  // always passes a time: without name, note and time, tag() would close the version but store no tag
  const std::int64_t time_ns = a.time.empty() ? now_ns() : parse_time(a.time);
  const tag_options label{.name = a.name, .note = a.note, .time_ns = time_ns};
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  const version closed = s.tag(label);
  s.close();
  if (a.format == cli::format::json) {
    print_json({.version = closed, .time_ns = time_ns, .name = a.name, .note = a.note}, false);
  } else {
    out().line(fmt::format("{}", closed));
  }
  return exit_code::ok;
}

struct log_arguments {
  std::string store;
  read_arguments read;
  bool reverse = false;
  bool graph = false;
  colouring colours = colouring::automatic;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  cli::format format = cli::format::table;
};

/// For each tag the bytes of keys and values that were written since the tag before it; empty where versions since then
/// have expired, or later ones. `tags`: all, oldest first. One pass over the records.
std::vector<known_bytes> bytes_written(const store& s, const std::vector<tag_info>& tags) {
  std::vector<known_bytes> bytes(tags.size());
  const auto& lost = s.lost_versions();
  const auto newest =
      std::find_if(tags.rbegin(), tags.rend(), [&](const tag_info& t) { return !lost.contains(t.version); });
  const auto expired = s.expired_versions();
  const version after = expired.empty() ? 0 : expired.back().end;
  version before = 0;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (before >= after) bytes[i] = 0;
    before = tags[i].version;
  }
  if (newest == tags.rend() || after > newest->version) return bytes;
  progress_bar bar("reading", s.stats().records, "records");
  std::uint64_t done = 0;
  change_range all = s.changes(after, newest->version);
  for (const key_change& c : all) {
    const auto tag = std::ranges::lower_bound(tags, c.version, {}, &tag_info::version);
    known_bytes& of_tag = bytes[static_cast<std::size_t>(tag - tags.begin())];
    if (of_tag) *of_tag += c.key.size() + (c.value ? c.value->size() : 0);
    bar.update(++done);
  }
  return bytes;
}

std::string note_of(const store& s, const tag_info& t) {
  const std::string mark = s.is_expired(t.version) ? (t.note.empty() ? "(expired)" : "(expired) ") : "";
  return mark + shown(t.note);
}

/// The tags as one line, oldest first, and what they have together: those of which that is known.
void print_sum(std::vector<std::uint64_t> by_age, std::size_t unknown, colouring colours) {
  const std::string rest = unknown == 0 ? "" : fmt::format("; of {} more it is not known any more", grouped(unknown));
  if (by_age.empty()) {
    out().line(
        fmt::format("\nwhat was written in these {} is not known any more", counted(unknown, "version", "versions")));
    return;
  }
  const auto total = std::accumulate(by_age.begin(), by_age.end(), std::uint64_t{0});
  out().line(fmt::format("\n{}\noldest to newest: {} in {}, at most {}{}",
                         painted(sparkline(by_age, terminal_columns()), colour::cyan, is_coloured(colours)),
                         human_bytes(static_cast<double>(total)), counted(by_age.size(), "version", "versions"),
                         human_bytes(static_cast<double>(std::ranges::max(by_age))), rest));
}

/// Tags with a bar each, and all of them as one line.
void print_graph(const store& s, const std::vector<tag_info>& tags, const std::vector<known_bytes>& bytes,
                 const log_arguments& a) {
  constexpr std::size_t bar_columns = 20;
  if (tags.empty()) return;
  std::vector<std::uint64_t> by_age;
  for (const known_bytes& b : bytes) {
    if (b) by_age.push_back(*b);
  }
  if (!a.reverse) std::ranges::reverse(by_age);
  const std::uint64_t greatest = by_age.empty() ? 1 : std::max<std::uint64_t>(1, std::ranges::max(by_age));
  table rows({">version", "time", "name", ">written", "bytes by version", "note"});
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const auto written = static_cast<double>(bytes[i].value_or(0));
    const auto length =
        static_cast<std::size_t>(std::ceil(written / static_cast<double>(greatest) * double{bar_columns}));
    const std::vector<std::uint64_t> blocks(length, 1);
    rows.row({fmt::format("{}", tags[i].version), format_time(tags[i].time_ns), shown(tags[i].name),
              bytes[i] ? human_bytes(written) : "?", sparkline(blocks, bar_columns), note_of(s, tags[i])});
  }
  rows.print(out());
  const std::size_t unknown = tags.size() - by_age.size();
  print_sum(std::move(by_age), unknown, a.colours);
}

exit_code log(const log_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  auto tags = s.tags();
  std::vector<known_bytes> bytes;
  if (a.graph) bytes = bytes_written(s, tags);
  if (!a.reverse) {
    std::ranges::reverse(tags);
    std::ranges::reverse(bytes);
  }
  tags.resize(std::min<std::uint64_t>(tags.size(), a.limit));
  bytes.resize(std::min(bytes.size(), tags.size()));
  if (a.format == cli::format::json) {
    for (std::size_t i = 0; i < tags.size(); ++i) {
      print_json(tags[i], s.is_expired(tags[i].version), a.graph ? &bytes[i] : nullptr);
    }
    return exit_code::ok;
  }
  if (a.graph) {
    print_graph(s, tags, bytes, a);
    return exit_code::ok;
  }
  table rows({">version", "time", "name", "note"});
  for (const tag_info& t : tags) {
    rows.row({fmt::format("{}", t.version), format_time(t.time_ns), shown(t.name), note_of(s, t)});
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
                       "  icecore log model.ice --reverse -o json\n"
                       "  icecore log model.ice --graph");
  verb.add_store(l->store);
  verb.add_reading(l->read);
  verb.add_limit(l->limit);
  verb.add_flag("--reverse", l->reverse, "Oldest first");
  verb.add_flag("--graph", l->graph,
                "Also the bytes of keys and values that were written since the tag before, as bars and as one line; "
                "reads all records");
  verb.add_colour(l->colours);
  verb.add_format(l->format);
  verb.runs([l] { return log(*l); });
}

}  // namespace icecore::cli

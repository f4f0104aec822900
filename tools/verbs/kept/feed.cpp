// feed: what changed from a version on, told once.
#include "icecore/feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <memory>

#include "icecore/store.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "line/version_name.hpp"
#include "text/change_lines.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

using namespace std::chrono_literals;

struct feed_arguments {
  std::string store;
  std::string name;
  std::string layout;
  std::string after;
  std::string attach;
  cli::format format = cli::format::table;
  std::optional<std::string> where;
  std::optional<std::string> token;
  read_arguments read;
  write_arguments write;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  bool follow = false;
  bool snapshot = false;
  bool unsynced = false;
  hex_arguments hex;
  bool list = false;
  bool drop = false;
};

std::atomic<bool> stopped{false};
extern "C" void stop(int) { stopped = true; }

/// A feed that the store keeps has its filter with it.
feed feed_of(const store& s, const feed_arguments& a) {
  if (!a.name.empty() && !a.where) {
    const auto known = s.feeds();
    const auto is_it = [&](const feed_info& f) { return f.name == a.name; };
    if (std::any_of(known.begin(), known.end(), is_it)) return s.open_feed(a.name);
  }
  feed_request what{.name = a.name,
                    .where = filter(a.where.value_or("true"), a.layout.empty() ? layout() : layout(a.layout)),
                    .snapshot = a.snapshot,
                    .unsynced = a.unsynced};
  if (!a.after.empty()) what.after = version_named(s, a.after);
  if (a.token) what.token = from_hex(*a.token);
  return s.feed(what);
}

/// With a name, what was printed is acknowledged; without one, the token of the place behind it is printed.
exit_code follow(const store& s, const feed_arguments& a) {
  feed f = feed_of(s, a);
  const change_format as = change_format_of(a.format);
  stopped = false;
  static_cast<void>(std::signal(SIGINT, stop));
  static_cast<void>(std::signal(SIGTERM, stop));
  if (const auto heading = change_heading(as); !heading.empty()) out().line(heading);
  constexpr std::size_t batch_max = 1000;
  std::uint64_t left = a.max;
  bool any = false;
  while (left > 0 && !stopped) {
    const feed_batch some = f.next(std::min<std::uint64_t>(left, batch_max), a.follow ? 200ms : 0ms);
    for (const key_change& c : some.changes) out().line(change_line(c, as, a.hex));
    any = any || !some.changes.empty();
    left -= some.changes.size();
    if (!some.changes.empty() || !a.follow) {
      out().flush();
      if (!a.name.empty()) f.acknowledge(some.token);
    }
    if (some.changes.empty() && !a.follow) break;
  }
  if (a.name.empty()) fmt::print(stderr, "goes on: --token {}\n", to_hex(f.token()));
  if (stopped) return exit_code::interrupted;
  return any ? exit_code::ok : exit_code::negative;
}

void print_feeds(const store& s, const feed_arguments& a) {
  table rows({"name", ">after", ">acknowledged", "snapshot", "created"});
  for (const feed_info& f : s.feeds()) {
    const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(f.created.time_since_epoch()).count();
    if (a.format == cli::format::json) {
      json_object line;
      line.bytes("name", f.name).add("after", f.after).add("acknowledged", f.acknowledged).add("snapshot", f.snapshot);
      out().line(line.add("created_ns", created).text());
    } else {
      rows.row(
          {shown(f.name), grouped(f.after), grouped(f.acknowledged), f.snapshot ? "yes" : "no", format_time(created)});
    }
  }
  rows.print(out());
}

opened_store open_for_feed(const feed_arguments& a) {
  if (!a.attach.empty()) {
    options opening;
    opening.access = access::attached;
    opening.shared_as = a.attach;
    return opened_store(store(a.store, opening));
  }
  if (a.list || a.name.empty()) return open_to_read(a.store, a.read);
  try {
    return open_to_write(a.store, a.write, creation::open_existing);
  } catch (const error& e) {
    if (e.code() != errc::locked) throw;
    throw error(errc::locked,
                fmt::format("{}; a feed with a name notes in the store what was told, which only the process that has "
                            "it open, or one that is attached to it (--attach), may do: `icecore feed {} --list` shows "
                            "its place, and `icecore feed {} --after VERSION` tells what came since, without a name",
                            e.message(), shown(a.store), shown(a.store)));
  }
}

exit_code run_feed(const feed_arguments& a) {
  if (a.follow && a.attach.empty()) {
    throw error(errc::invalid_argument,
                "--follow needs --attach: nobody else writes to a store that this command has opened itself");
  }
  if (a.drop && a.name.empty()) throw error(errc::invalid_argument, "--drop needs the feed's name");
  opened_store s = open_for_feed(a);
  exit_code code = exit_code::ok;
  if (a.list) {
    print_feeds(s, a);
  } else if (a.drop) {
    s.drop_feed(a.name);
    if (a.format == cli::format::json) out().line(json_object().bytes("name", a.name).add("dropped", true).text());
  } else {
    code = follow(s, a);
  }
  s.close();
  return code;
}

}  // namespace

void add_feed_verb(command_line& line) {
  const auto a = std::make_shared<feed_arguments>();
  verb verb = line.add_verb(
      "feed", "List what changed from a version on, each change once, in the order of the versions (docs/feeds.md)",
      "  icecore feed model.ice --after epoch-1                    # prints a token behind which the next call goes "
      "on\n"
      "  icecore feed model.ice mirror --after 0 --snapshot        # with a name: the next call goes on by itself\n"
      "  icecore feed model.ice mirror -o json\n"
      "  icecore feed model.ice --where 'removed' --max 100\n"
      "  icecore feed model.ice mirror --attach /dev/shm/model --follow\n"
      "  icecore feed model.ice --list\n"
      "+ is an insert, - a removal. Exit code 1: nothing changed.");
  verb.add_store(a->store);
  verb.add_option("NAME", a->name, "A feed that the store keeps: what was printed is acknowledged").type_name("");
  verb.add_option("--after", a->after,
                  fmt::format("The version behind which a new feed begins (default: the newest): {}", version_forms))
      .type_name("VERSION")
      .completes(value_kind::version);
  verb.add_option("--where", a->where, "Only changes that this expression matches (docs/filters.md)").type_name("EXPR");
  verb.add_option("--layout", a->layout, "The columns of a value: names and types, packed, little-endian")
      .type_name("COLUMNS");
  verb.add_option("--max", a->max, "Stop after this many changes").type_name("N");
  verb.add_option("--token", a->token, "Without a name: go on behind this place").type_name("TOKEN");
  verb.add_flag("--snapshot", a->snapshot, "A new feed begins with all items of its version");
  verb.add_flag("--unsynced", a->unsynced, "Also versions that a power cut may still take");
  verb.add_flag("--follow", a->follow, "Wait for more, until SIGINT (exit code 130)");
  verb.add_option("--attach", a->attach, "The file as which another process shares the open store")
      .type_name("FILE")
      .completes(value_kind::file);
  verb.add_flag("--list", a->list, "List the feeds that the store keeps");
  verb.add_flag("--drop", a->drop, "Take the feed away");
  verb.add_hex(a->hex);
  verb.add_formats(a->format, {cli::format::table, cli::format::json, cli::format::csv});
  verb.runs([a] { return run_feed(*a); });
}

}  // namespace icecore::cli

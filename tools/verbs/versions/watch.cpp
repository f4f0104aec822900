// watch: what changes in a store while other processes write it.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "icecore/changes.hpp"
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
using std::chrono::steady_clock;

struct watch_arguments {
  std::string store;
  std::string prefix;
  std::string since;
  std::optional<std::string> where;
  std::string layout;
  cli::format format = cli::format::table;
  hex_arguments hex;
  read_arguments read;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t seconds = 0;
  std::uint64_t interval_ms = 100;
  bool once = false;
  bool has_limit = false;
};

std::atomic<bool> ended{false};
extern "C" void end_watching(int) { ended = true; }

/// Between two looks at the store.
class waits {
 public:
  explicit waits(const watch_arguments& a) : between_(std::max<std::uint64_t>(a.interval_ms, 1)) {
    if (a.has_limit) until_ = steady_clock::now() + std::chrono::seconds(a.seconds);
  }
  /// False if it is time to end: a signal came, or the time that was given is over. Also where the reader of the output
  /// has ended, which nothing else would tell while nothing changes.
  [[nodiscard]] bool next() const {
    const auto wake = std::min(steady_clock::now() + between_, until_);
    while (!ended && steady_clock::now() < wake) {
      // in pieces: a signal that comes just before the sleep does not end it
      std::this_thread::sleep_for(std::min<steady_clock::duration>(wake - steady_clock::now(), 50ms));
    }
    pollfd reader{STDOUT_FILENO, 0, 0};
    if (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) throw closed_pipe();
    return !ended && steady_clock::now() < until_;
  }

 private:
  std::chrono::milliseconds between_;
  steady_clock::time_point until_ = steady_clock::time_point::max();
};

/// The store is there later: its process is still making it, does not publish what readers may show, or was killed and
/// the machine restarted.
bool may_come(const error& e) {
  const auto code = static_cast<errc>(e.code().value());
  return code == errc::locked || code == errc::no_such_store || code == errc::not_a_store;
}

/// Empty if the time ended before the store was there.
std::optional<opened_store> open_when_there(const watch_arguments& a, const waits& pauses) {
  std::string told;
  for (;;) {
    try {
      return open_to_watch(a.store, a.read);
    } catch (const error& e) {
      if (a.once || !may_come(e)) throw;
      if (told != e.message()) fmt::print(stderr, "icecore: waiting: {}\n", told = e.message());
    }
    if (!pauses.next()) return std::nullopt;
  }
}

std::string tag_line(const tag_info& t, cli::format as) {
  if (as == cli::format::json) {
    json_object line;
    line.add("version", t.version).bytes("tag", t.name).bytes("note", t.note).add("time_ns", t.time_ns);
    return line.text();
  }
  return fmt::format("{}\t#\t{}{}{}", t.version, shown(t.name), t.note.empty() ? "" : "\t", shown(t.note));
}

class watcher {
 public:
  watcher(const store& s, const watch_arguments& a)
      : store_(&s),
        a_(a),
        as_(change_format_of(a.format)),
        where_(a.where.value_or("true"), a.layout.empty() ? layout() : layout(a.layout)),
        after_(a.since.empty() ? s.latest().version() : version_named(s, a.since)) {
    if (const auto heading = change_heading(as_); !heading.empty()) out().line(heading);
  }

  /// Prints what is shown and was not printed yet: it never changes, since writers see that this process reads. False
  /// when all is printed that was asked for.
  bool print() {
    const version newest = store_->latest().version();
    version tags_from = after_ + 1;
    if (after_ < newest) {
      for (const key_change& c : by_version(newest)) {
        print_tags(tags_from, c.version);
        tags_from = std::max(tags_from, c.version);
        out().line(change_line(c, as_, a_.hex));
        if (++printed_ >= a_.max) return false;
        if (ended) return true;
      }
      print_tags(tags_from, newest + 1);
      after_ = newest;
    }
    out().flush();
    return true;
  }
  [[nodiscard]] bool has_printed() const noexcept { return printed_ != 0; }

 private:
  /// In the order of the versions, then of the keys, then the oldest first.
  [[nodiscard]] std::vector<key_change> by_version(version newest) {
    change_range found = store_->changes(after_, newest, key_bounds::of_prefix(a_.prefix)).where(where_);
    holds_ = store_->hold();
    std::vector<key_change> all;
    for (const key_change& c : found) all.push_back(c);
    std::ranges::stable_sort(all, {}, &key_change::version);
    return all;
  }

  /// Of versions from `from` up to before `end`. A tag closes its version, so it stands behind the changes of that
  /// version. Csv has no place for tags.
  void print_tags(version from, version end) const {
    if (a_.format == cli::format::csv) return;
    while (from < end) {
      const auto next = store_->find_tag_from(from);
      if (!next || next->version >= end) break;
      out().line(tag_line(*next, a_.format));
      from = next->version + 1;
    }
  }

  const store* store_;
  const watch_arguments& a_;
  change_format as_;
  filter where_;
  version after_;  ///< everything up to it is printed
  pin holds_;      ///< what is being printed
  std::uint64_t printed_ = 0;
};

exit_code watch(const watch_arguments& a) {
  ended = false;
  static_cast<void>(std::signal(SIGINT, end_watching));
  static_cast<void>(std::signal(SIGTERM, end_watching));
  const waits pauses(a);
  std::optional<opened_store> s = open_when_there(a, pauses);
  if (!s) return ended ? exit_code::interrupted : exit_code::negative;
  watcher prints(*s, a);
  while (prints.print() && !a.once && pauses.next()) static_cast<void>(s->refresh());
  out().flush();
  if (ended) return exit_code::interrupted;
  return prints.has_printed() ? exit_code::ok : exit_code::negative;
}

}  // namespace

void add_watch_verb(command_line& line) {
  const auto a = std::make_shared<watch_arguments>();
  verb verb = line.add_verb(
      "watch", "Show changes as they happen, by version, beside the processes that write the store",
      "  icecore watch model.ice                        # from now on, until SIGINT or SIGTERM (exit code 130)\n"
      "  icecore watch model.ice layer1/ -o json        # keys that begin so; an object a line\n"
      "  icecore watch model.ice --since epoch-1 --once # what changed since, and no more\n"
      "  icecore watch model.ice done --max 1 --timeout 600   # waits for a key, for up to 10 minutes\n"
      "  icecore watch model.ice --where 'removed'\n"
      "+ is an insert, - a removal, # a tag. No writer waits for it, nor is kept out by it; writers may come and go.\n"
      "Shown are closed versions. Exit code 1: --once or --timeout, and nothing changed.");
  verb.add_store(a->store);
  verb.add_option("PREFIX", a->prefix, "Only keys that begin with it").type_name("");
  verb.add_option("--since", a->since,
                  fmt::format("Begin behind this version (default: the present): {}", version_forms))
      .type_name("VERSION")
      .completes(value_kind::version);
  verb.add_option("--where", a->where, "Only changes that this expression matches (docs/filters.md)").type_name("EXPR");
  verb.add_option("--layout", a->layout, "The columns of a value: names and types, packed, little-endian")
      .type_name("COLUMNS");
  verb.add_option("--max", a->max, "End after this many changes").type_name("N");
  const option once = verb.add_flag("--once", a->once, "Show what is closed by now, then end");
  const option timeout = verb.add_option("--timeout", a->seconds, "End after so many seconds").type_name("SECONDS");
  static_cast<void>(timeout.excludes(once));
  verb.add_option("--interval", a->interval_ms, "Look so often, in milliseconds (default: 100)").type_name("MS");
  verb.add_hex(a->hex);
  verb.add_moved(a->read.placements);
  verb.add_formats(a->format, {cli::format::table, cli::format::json, cli::format::csv});
  verb.runs([a, timeout] {
    a->has_limit = timeout.given();
    if (a->hex.keys()) a->prefix = bytes_of(a->prefix, true);
    return watch(*a);
  });
}

}  // namespace icecore::cli

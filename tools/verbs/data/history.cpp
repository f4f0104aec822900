// history: the records of one key in all versions.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "line/version_name.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/retention_text.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct history_arguments {
  std::string store;
  read_arguments read;
  std::string key;
  view_arguments view;
  hex_arguments hex;
  bool reverse = false;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  cli::format format = cli::format::table;
};

/// The tag that first shows a record of version `v`: the tag of `v` itself or of the next tagged version.
const tag_info* first_tag_with(const std::vector<tag_info>& tags, version v) {
  const auto found =
      std::lower_bound(tags.begin(), tags.end(), v, [](const tag_info& t, version at) { return t.version < at; });
  return found == tags.end() ? nullptr : &*found;
}

void print_json(const change& c, const tag_info* tag, const history_arguments& a) {
  std::string line = fmt::format("{{\"version\":{}", c.version);
  if (tag != nullptr) {
    line += fmt::format(",\"time\":\"{}\",\"tag\":", format_time(tag->time_ns));
    append_json(line, tag->name);
  }
  if (c.value) {
    line += ",\"value\":";
    append_json(line, *c.value, a.hex.values());
  } else {
    line += ",\"removed\":true";
  }
  out().line(line + '}');
}

/// The versions up to this one that have expired.
std::vector<version_range> expired_up_to(const store& s, version v) {
  std::vector<version_range> all = s.expired_versions();
  std::erase_if(all, [v](const version_range& r) { return r.first > v; });
  return all;
}

/// "version 5 has", or "versions 1 to 3, 5 have".
std::string have(const std::vector<version_range>& expired) {
  const bool one = expired.size() == 1 && expired.front().end == expired.front().first + 1;
  return in_words(expired) + (one ? " has" : " have");
}

exit_code history(const history_arguments& a) {
  constexpr std::size_t value_columns = 48;
  const std::string key = bytes_of(a.key, a.hex.keys());
  const opened_store s = open_to_read(a.store, a.read);
  const snapshot view = view_of(s, a.view);
  const auto found = view.history(key);
  std::vector<change> changes(found.begin(), found.end());
  const std::vector<version_range> expired =
      s.history(key).thinned() ? expired_up_to(s, view.version()) : std::vector<version_range>();
  if (changes.empty()) {
    if (expired.empty()) {
      fmt::print(stderr, "icecore: {}: key '{}' was never inserted\n", a.store, shown(key, 80));
    } else {
      fmt::print(stderr, "icecore: {}: no change of key '{}' is known; {} expired\n", a.store, shown(key, 80),
                 have(expired));
    }
    return exit_code::negative;
  }
  if (a.reverse) std::reverse(changes.begin(), changes.end());
  changes.resize(std::min<std::uint64_t>(changes.size(), a.limit));
  const auto tags = s.tags();
  table rows({">version", "time", "tag", ">bytes", "value"});
  for (const change& c : changes) {
    const tag_info* tag = first_tag_with(tags, c.version);
    if (a.format == cli::format::json) {
      print_json(c, tag, a);
      continue;
    }
    const std::string value = !c.value         ? "(removed)"
                              : a.hex.values() ? to_hex(c.value->substr(0, value_columns / 2))
                                               : shown(*c.value, value_columns);
    rows.row({fmt::format("{}", c.version), tag == nullptr ? "" : format_time(tag->time_ns),
              tag == nullptr ? "(not tagged yet)" : shown(tag->name), c.value ? grouped(c.value->size()) : "-", value});
  }
  if (a.format == cli::format::json) {
    for (const version_range& r : expired) out().line(range_line("expired_versions", r));
    return exit_code::ok;
  }
  rows.print(out());
  if (!expired.empty()) {
    out().line(fmt::format("{} expired: changes up to version {} may be missing", have(expired),
                           grouped(expired.back().end - 1)));
  }
  return exit_code::ok;
}

}  // namespace

void add_history_verb(command_line& line) {
  const auto a = std::make_shared<history_arguments>();
  verb verb =
      line.add_verb("history", "List every insert and remove of a key, newest first",
                    "  icecore history model.ice layer1/bias\n"
                    "  icecore history model.ice layer1/bias --at epoch-3 --limit 5\n"
                    "  icecore history model.ice layer1/bias --reverse -o json\n"
                    "A table shows the beginning of each value, json all of it. The time and the tag are those of\n"
                    "the first tagged version that shows the change. Exit code 1 if the key never existed.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_option("KEY", a->key, "The key").required().type_name("");
  verb.add_view(a->view);
  verb.add_limit(a->limit);
  verb.add_flag("--reverse", a->reverse, "Oldest first");
  verb.add_hex(a->hex);
  verb.add_format(a->format);
  verb.runs([a] { return history(*a); });
}

}  // namespace icecore::cli

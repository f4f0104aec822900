// filter: the keys and values of one version, or the changes between two, that an expression matches.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "change_lines.hpp"
#include "columns.hpp"
#include "command_line.hpp"
#include "icecore/filtered.hpp"
#include "json.hpp"
#include "opening.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace icecore::cli {
namespace {

struct filter_arguments {
  std::string store;
  std::string expression;
  std::string layout;
  read_arguments read;
  view_arguments view;
  std::vector<std::string> select;
  std::vector<std::string> changes;
  std::optional<std::string> page_token;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  unsigned threads = 1;
  bool count = false;
  bool explain = false;
  bool hex = false;
  cli::format format = cli::format::table;
};

void print_item(const item& i, const filter_arguments& a) {
  std::string line;
  if (a.format == cli::format::json) {
    line = "{\"key\":";
    append_json(line, i.key, a.hex);
    line += ",\"value\":";
    append_json(line, i.value, a.hex);
    line += '}';
  } else {
    line = a.hex ? to_hex(i.key) : shown(i.key);
    line += '\t';
    line += a.hex ? to_hex(i.value) : shown(i.value);
  }
  out().line(line);
}

exit_code print_columns(const snapshot& of, const filter& condition, const filter_arguments& a) {
  const auto columns = of.extract(condition, a.select, a.threads);
  const std::size_t rows = std::min<std::uint64_t>(columns.front().size, a.limit);
  const column_printer print(a.format, a.hex);
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  print.heading(names);
  print.rows(columns, rows);
  return rows > 0 ? exit_code::ok : exit_code::negative;
}

/// One page, and behind it, on standard error, the token of the next one.
exit_code print_page(const snapshot& of, const filter& condition, const filter_arguments& a) {
  const bool limited = a.limit != std::numeric_limits<std::uint64_t>::max();
  const page found = of.page(condition, {.matches = limited ? a.limit : 1000}, from_hex(*a.page_token));
  for (const item& i : found.items) print_item(i, a);
  if (!found.end) fmt::print(stderr, "next page: --page-token {}\n", to_hex(found.token));
  return found.items.empty() ? exit_code::negative : exit_code::ok;
}

exit_code filter_changes(const store& s, const filter& condition, const filter_arguments& a) {
  const change_range all = s.changes(version_named(s, a.changes[0]), version_named(s, a.changes[1]));
  std::uint64_t count = 0;
  if (a.count) {
    count = all.count(condition, a.threads);
    out().line(a.format == cli::format::json ? json_object().add("count", count).text() : fmt::format("{}", count));
    return count > 0 ? exit_code::ok : exit_code::negative;
  }
  const change_format as = a.format == cli::format::json ? change_format::json : change_format::table;
  change_range found = all.where(condition);
  for (auto it = found.begin(); count < a.limit && it != found.end(); ++it, ++count) {
    out().line(change_line(*it, as, a.hex));
  }
  return count > 0 ? exit_code::ok : exit_code::negative;
}

exit_code run_filter(const filter_arguments& a) {
  const filter condition(a.expression, a.layout.empty() ? layout() : layout(a.layout));
  if (a.explain) {
    out().line(condition.explain());
    return exit_code::ok;
  }
  const store s = open_to_read(a.store, a.read);
  if (!a.changes.empty()) return filter_changes(s, condition, a);
  const snapshot of = view_of(s, a.view);
  if (a.count) {
    const std::uint64_t n = of.count(condition, a.threads);
    out().line(a.format == cli::format::json ? json_object().add("count", n).text() : fmt::format("{}", n));
    return n > 0 ? exit_code::ok : exit_code::negative;
  }
  if (a.page_token) return print_page(of, condition, a);
  if (!a.select.empty()) return print_columns(of, condition, a);
  progress_bar bar("filtering", 0, "matches");
  std::uint64_t count = 0;
  if (a.limit == 0) return exit_code::ok;
  auto found = of.where(condition);
  for (const item& i : found) {
    print_item(i, a);
    if (++count >= a.limit) break;
    if (!stdout_is_terminal()) bar.update(count);
  }
  return count > 0 ? exit_code::ok : exit_code::negative;
}

}  // namespace

void add_filter_verb(command_line& line) {
  const auto a = std::make_shared<filter_arguments>();
  verb verb = line.add_verb(
      "filter", "List keys and values that an expression matches (docs/filters.md)",
      "  icecore filter model.ice \"starts_with(key, 'layer1/') and length(value) > 100\"\n"
      "  icecore filter trades.ice 'price > 100 and qty >= 5' --layout 'price f64, qty u32, name bytes'\n"
      "  icecore filter trades.ice 'qty > 5' --layout 'price f64, qty u32' --select key --select 'price * qty as "
      "total'\n"
      "  icecore filter model.ice \"json(value, 'state') = 'done'\" --count --at epoch-3\n"
      "  icecore filter model.ice 'removed' --changes epoch-1 epoch-3       # by key, then by version; + insert, - "
      "removal\n"
      "  icecore filter model.ice 'true' --limit 100 --page-token ''        # prints the next page's token");
  verb.add_store(a->store);
  verb.add_option("EXPR", a->expression, "The condition, such as \"key >= 'a' and value ~ 'error'\"")
      .type_name("")
      .required();
  verb.add_option("--layout", a->layout, "The columns of a value: names and types, packed, little-endian")
      .type_name("COLUMNS");
  verb.add_reading(a->read);
  verb.add_view(a->view);
  const option changes = verb.add_pair(
      "--changes", a->changes, "What was written after version A up to B, in place of the items of a version", "A B");
  verb.add_list("--select", a->select, "Show this expression in place of key and value (may be repeated)", "EXPR");
  const option count = verb.add_flag("--count", a->count, "Show only how many match");
  verb.add_flag("--explain", a->explain, "Show how the expression was understood; reads no keys").excludes(count);
  verb.add_option("--limit", a->limit, "Stop after this many").type_name("N");
  verb.add_option("--page-token", a->page_token, "One page (--limit; default 1000) behind this token; '' for the first")
      .type_name("TOKEN")
      .excludes(count)
      .excludes(changes);
  verb.add_option("--threads", a->threads, "Threads for --count and --select; 0: all cores").type_name("N");
  verb.add_hex(a->hex);
  verb.add_format(a->format);
  verb.runs([a] { return run_filter(*a); });
}

}  // namespace icecore::cli

// filter: the keys and values of one version, or the changes between two, that an expression matches.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "icecore/filtered.hpp"
#include "icecore/timeline.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/version_name.hpp"
#include "text/arrow_stream.hpp"
#include "text/change_lines.hpp"
#include "text/columns.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct filter_arguments {
  std::string store;
  std::string expression;
  std::string layout;
  read_arguments read;
  view_arguments view;
  std::vector<std::string> select;
  std::vector<std::string> sums;
  std::vector<std::string> changes;
  std::optional<std::string> page_token;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  unsigned threads = 1;
  bool count = false;
  bool each_tag = false;
  bool explain = false;
  hex_arguments hex;
  cli::format format = cli::format::table;
};

void print_item(const item& i, const filter_arguments& a) {
  std::string line;
  if (a.format == cli::format::json) {
    line = "{\"key\":";
    append_json(line, i.key, a.hex.keys());
    line += ",\"value\":";
    append_json(line, i.value, a.hex.values());
    line += '}';
  } else {
    line = a.hex.keys() ? to_hex(i.key) : shown(i.key);
    line += '\t';
    line += a.hex.values() ? to_hex(i.value) : shown(i.value);
  }
  out().line(line);
}

exit_code print_columns(const snapshot& of, const filter& condition, const filter_arguments& a) {
  const auto columns = of.extract(condition, a.select, a.threads);
  const std::size_t rows = std::min<std::uint64_t>(columns.front().size, a.limit);
  if (a.format == cli::format::arrow) {
    arrow_stream stream(out());
    stream.write(columns, rows);
    stream.finish();
    return rows > 0 ? exit_code::ok : exit_code::negative;
  }
  const column_printer print(a.format, a.hex.both);
  std::vector<std::string> names;
  names.reserve(columns.size());
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

/// The totals that were asked for, of one version or of several.
struct totals {
  std::vector<std::uint64_t> counts;
  std::vector<std::vector<std::optional<result_number>>> sums;  ///< of each expression
};

/// A row for each version, which begins with the cells of `rows`; `names`: of all cells.
exit_code print_totals(const totals& found, std::vector<std::vector<std::string>> rows, std::vector<std::string> names,
                       const filter_arguments& a) {
  const bool show_counts = a.count || a.sums.empty();
  if (show_counts) names.emplace_back("count");
  for (const std::string& sum : a.sums) names.push_back(fmt::format("sum({})", sum));
  const column_printer print(a.format, a.hex.both);
  print.heading(names);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (show_counts) rows[i].push_back(fmt::format("{}", found.counts[i]));
    for (const auto& sum : found.sums) rows[i].push_back(number_text(sum[i], a.format));
    print.row(names, rows[i]);
  }
  const bool any = std::ranges::any_of(found.counts, [](std::uint64_t n) { return n > 0; });
  return any ? exit_code::ok : exit_code::negative;
}

exit_code print_sums(const snapshot& of, const filter& condition, const filter_arguments& a) {
  totals found{{of.count(condition, a.threads)}, {}};
  for (const std::string& sum : a.sums) found.sums.push_back({of.sum(condition, sum, a.threads)});
  return print_totals(found, {{}}, {}, a);
}

void tell_left_out(const tag_info& t, std::string_view why) {
  const std::string name = t.name.empty() ? "" : fmt::format(" ('{}')", shown(t.name));
  fmt::print(stderr, "version {}{} is left out: {}\n", t.version, name, why);
}

/// One pass over the histories for the counts, and one for each sum. Versions that a power cut took have no row.
exit_code print_each_tag(const store& s, const filter& condition, const filter_arguments& a) {
  const column_printer print(a.format, a.hex.both);
  std::vector<version> versions;
  std::vector<std::vector<std::string>> rows;
  const auto tags = s.tags();
  for (const tag_info& t : tags) {
    if (s.lost_versions().contains(t.version)) {
      tell_left_out(t, "a power cut took it");
    } else if (s.is_expired(t.version)) {
      tell_left_out(t, "it has expired");
    } else if (versions.size() < a.limit) {
      versions.push_back(t.version);
      rows.push_back({fmt::format("{}", t.version), print.text(t.name)});
    }
  }
  const many_versions of = s.each(versions);
  totals found{of.count(condition, a.threads), {}};
  for (const std::string& sum : a.sums) found.sums.push_back(of.sum(condition, sum, a.threads));
  return print_totals(found, std::move(rows), {"version", "tag"}, a);
}

exit_code filter_changes(const store& s, const filter& condition, const filter_arguments& a) {
  const change_range all = s.changes(version_named(s, a.changes[0]), version_named(s, a.changes[1]));
  std::uint64_t count = 0;
  if (a.count) {
    count = all.count(condition, a.threads);
    out().line(a.format == cli::format::json ? json_object().add("count", count).text() : fmt::format("{}", count));
    return count > 0 ? exit_code::ok : exit_code::negative;
  }
  const change_format as = change_format_of(a.format);
  if (const auto heading = change_heading(as); !heading.empty()) out().line(heading);
  change_range found = all.where(condition);
  for (auto it = found.begin(); count < a.limit && it != found.end(); ++it, ++count) {
    out().line(change_line(*it, as, a.hex));
  }
  return count > 0 ? exit_code::ok : exit_code::negative;
}

/// What the command line alone cannot refuse.
void check(const filter_arguments& a) {
  if (a.each_tag && !(a.view.at.empty() && a.view.time.empty())) {
    throw error(errc::invalid_argument, "--each-tag shows all tags: it goes without --at and --at-time");
  }
  const bool totals_only = a.each_tag || !a.sums.empty();
  if (a.format == cli::format::csv && a.select.empty() && !totals_only && a.changes.empty()) {
    throw error(errc::invalid_argument, "-o csv prints columns: it needs --select, --sum or --each-tag");
  }
  if (a.format != cli::format::arrow) return;
  if (totals_only || a.count || a.page_token || !a.changes.empty()) {
    throw error(errc::invalid_argument, "-o arrow prints columns: --select, or key and value");
  }
  if (stdout_is_terminal()) {
    throw error(errc::invalid_argument, "-o arrow prints bytes, and standard output is a terminal: redirect it");
  }
}

exit_code run_filter(const filter_arguments& a) {
  const filter condition(a.expression, a.layout.empty() ? layout() : layout(a.layout));
  check(a);
  const opened_store s = open_to_read(a.store, a.read);
  if (a.explain) {
    const std::string told = view_of(s, a.view).explain(condition);
    out().line(a.format == cli::format::json ? json_object().bytes("explained", told).text() : told);
    return exit_code::ok;
  }
  if (a.each_tag) return print_each_tag(s, condition, a);
  if (!a.changes.empty()) return filter_changes(s, condition, a);
  const snapshot of = view_of(s, a.view);
  if (!a.sums.empty()) return print_sums(of, condition, a);
  if (a.count) {
    const std::uint64_t n = of.count(condition, a.threads);
    out().line(a.format == cli::format::json ? json_object().add("count", n).text() : fmt::format("{}", n));
    return n > 0 ? exit_code::ok : exit_code::negative;
  }
  if (a.page_token) return print_page(of, condition, a);
  if (!a.select.empty()) return print_columns(of, condition, a);
  if (a.format == cli::format::arrow) {
    filter_arguments both = a;
    both.select = {"key", "value"};
    return print_columns(of, condition, both);
  }
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
      "  icecore filter trades.ice 'qty > 5' --layout 'price f64, qty u32' --each-tag --count --sum qty -o csv\n"
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
  const option changes =
      verb.add_pair("--changes", a->changes,
                    "What was written after version A up to B, in place of the items of a version", "A B")
          .completes(value_kind::version);
  const option select =
      verb.add_list("--select", a->select, "Show this expression in place of key and value (may be repeated)", "EXPR");
  const option count = verb.add_flag("--count", a->count, "Show only how many match").excludes(select);
  const option sum =
      verb.add_list("--sum", a->sums, "Show only the sum of this over the matches (may be repeated)", "EXPR")
          .excludes(select)
          .excludes(changes);
  const option each_tag = verb.add_flag("--each-tag", a->each_tag,
                                        "Show totals (--count, --sum; default: --count) of each tag, in one pass")
                              .excludes(select)
                              .excludes(changes);
  verb.add_flag("--explain", a->explain, "Show how the expression was understood, and how keys are read; reads none")
      .excludes(count)
      .excludes(sum)
      .excludes(each_tag);
  verb.add_limit(a->limit);
  verb.add_option("--page-token", a->page_token, "One page (--limit; default 1000) behind this token; '' for the first")
      .type_name("TOKEN")
      .excludes(count)
      .excludes(sum)
      .excludes(each_tag)
      .excludes(changes);
  verb.add_option("--threads", a->threads, "Threads for --count, --sum and --select; 0: all cores").type_name("N");
  verb.add_hex(a->hex);
  verb.add_format_of_columns(a->format);
  verb.runs([a] { return run_filter(*a); });
}

}  // namespace icecore::cli

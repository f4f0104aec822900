// diff: the differences between two versions.
#include <fmt/format.h>

#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/version_name.hpp"
#include "text/colour.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/pager.hpp"
#include "text/patch.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct diff_arguments {
  std::string store;
  read_arguments read;
  std::string before;
  std::string after = "latest";
  bounds_arguments bounds;
  hex_arguments hex;
  bool stat = false;
  bool values = false;
  bool patch = false;
  bool no_pager = false;
  unsigned context_lines = 3;
  colouring colours = colouring::automatic;
  cli::format format = cli::format::table;
};

/// What --stat counts for one kind of difference.
struct tally {
  std::uint64_t keys = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};

enum kind : std::size_t { added, removed, changed };
constexpr std::string_view kind_names[] = {"added", "removed", "changed"};
constexpr char signs[] = {'+', '-', '~'};

kind kind_of(const difference& d) { return !d.before ? added : !d.after ? removed : changed; }

constexpr colour sign_colours[] = {colour::green, colour::red, colour::yellow};

void print_table(const difference& d, const diff_arguments& a) {
  const auto text = [](std::string_view bytes, bool hex) { return hex ? to_hex(bytes) : shown(bytes); };
  out().line(painted(fmt::format("{} {}", signs[kind_of(d)], text(d.key, a.hex.keys())), sign_colours[kind_of(d)],
                     is_coloured(a.colours)));
  if (!a.values) return;
  if (d.before) out().line("    - " + text(*d.before, a.hex.values()));
  if (d.after) out().line("    + " + text(*d.after, a.hex.values()));
}

void print_json(const difference& d, const diff_arguments& a) {
  std::string line = fmt::format("{{\"change\":\"{}\",\"key\":", kind_names[kind_of(d)]);
  append_json(line, d.key, a.hex.keys());
  if (a.values && d.before) {
    line += ",\"before\":";
    append_json(line, *d.before, a.hex.values());
  }
  if (a.values && d.after) {
    line += ",\"after\":";
    append_json(line, *d.after, a.hex.values());
  }
  out().line(line + '}');
}

void print_stat(const tally (&tallies)[3], cli::format format) {
  if (format == cli::format::json) {
    json_object line;
    for (const kind k : {added, removed, changed}) {
      const tally& t = tallies[k];
      json_object counts;
      counts.add("keys", t.keys).add("bytes_before", t.bytes_before).add("bytes_after", t.bytes_after);
      line.add(kind_names[k], counts);
    }
    out().line(line.text());
    return;
  }
  table rows({"", ">keys", ">bytes before", ">bytes after"});
  for (const kind k : {added, removed, changed}) {
    rows.row({std::string(kind_names[k]), grouped(tallies[k].keys), grouped(tallies[k].bytes_before),
              grouped(tallies[k].bytes_after)});
  }
  rows.print(out());
}

void print_patch_json(const difference& d, const diff_arguments& a) {
  std::string text;
  output patch(text);
  write_patch(patch, d.key, d.before, d.after, {a.context_lines, false});
  patch.flush();
  json_object line;
  line.bytes("change", kind_names[kind_of(d)]).bytes("key", d.key, a.hex.keys()).bytes("patch", text);
  out().line(line.text());
}

exit_code print_patches(diff_range& differences, const diff_arguments& a) {
  const bool as_json = a.format == cli::format::json;
  const patch_form form{a.context_lines, is_coloured(a.colours)};
  pager pages(!a.no_pager && !as_json);
  std::uint64_t count = 0;
  for (const difference& d : differences) {
    ++count;
    if (as_json) {
      print_patch_json(d, a);
    } else {
      write_patch(out(), d.key, d.before, d.after, form);
    }
  }
  pages.finish();
  return count == 0 ? exit_code::ok : exit_code::negative;
}

exit_code diff(const diff_arguments& a) {
  const key_bounds bounds = bounds_of(a.bounds, a.hex.keys());
  const opened_store s = open_to_read(a.store, a.read);
  diff_range differences = s.diff(version_named(s, a.before), version_named(s, a.after), bounds);
  if (a.patch) return print_patches(differences, a);
  progress_bar bar("comparing", 0, "differences");
  tally tallies[3];
  std::uint64_t count = 0;
  for (const difference& d : differences) {
    ++count;
    tally& t = tallies[kind_of(d)];
    ++t.keys;
    t.bytes_before += d.before ? d.before->size() : 0;
    t.bytes_after += d.after ? d.after->size() : 0;
    if (a.stat) {
      bar.update(count);
    } else if (a.format == cli::format::json) {
      print_json(d, a);
    } else {
      print_table(d, a);
    }
  }
  bar.finish();
  if (a.stat) print_stat(tallies, a.format);
  return count == 0 ? exit_code::ok : exit_code::negative;
}

}  // namespace

void add_diff_verb(command_line& line) {
  const auto a = std::make_shared<diff_arguments>();
  verb verb = line.add_verb("diff", "List the keys whose value differs between two versions, in key order",
                            "  icecore diff model.ice epoch-1 epoch-2\n"
                            "  icecore diff model.ice 17 --prefix layer1/ --values\n"
                            "  icecore diff model.ice epoch-1 latest --stat\n"
                            "  icecore diff notes.ice latest~1 --patch     # the lines that changed\n"
                            "  icecore diff model.ice latest~1             # since the tag before\n"
                            "  icecore diff model.ice '2 days ago'\n"
                            "+ is a key that was added, - one that was removed, ~ one whose value changed.\n"
                            "Exit code 1 if there are differences, 0 if there are none.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_option("A", a->before, fmt::format("The version to compare: {}", version_forms))
      .required()
      .type_name("")
      .completes(value_kind::version);
  verb.add_option("B", a->after, "The version to compare with, in the same forms (default: latest)")
      .type_name("")
      .completes(value_kind::version);
  verb.add_bounds(a->bounds);
  const option stat = verb.add_flag("--stat", a->stat, "Only counts and sizes");
  const option values = verb.add_flag("--values", a->values, "Also the values before and after").excludes(stat);
  const option patch = verb.add_flag("-p,--patch", a->patch,
                                     "The changed lines of each value, as git diff shows them and git apply reads "
                                     "them; on a terminal through a pager (PAGER, or less)")
                           .excludes(stat)
                           .excludes(values);
  verb.add_option("-U,--unified", a->context_lines, "With --patch: so many unchanged lines around each change")
      .needs(patch);
  verb.add_flag("--no-pager", a->no_pager, "With --patch: no pager").needs(patch);
  verb.add_colour(a->colours);
  verb.add_hex(a->hex);
  verb.add_format(a->format);
  verb.runs([a] { return diff(*a); });
}

}  // namespace icecore::cli

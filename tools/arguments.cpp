#include "arguments.hpp"

#include <map>

#include "text.hpp"

namespace icecore::cli {

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& description,
                   const std::string& examples) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->footer("Examples:\n" + examples);
  return verb;
}

void add_store(CLI::App* verb, std::string& path, const std::string& what) {
  verb->add_option("STORE", path, what)->required()->type_name("");
}

void add_format(CLI::App* verb, cli::format& format) {
  static const std::map<std::string, cli::format> names{{"table", cli::format::table}, {"json", cli::format::json}};
  verb->add_option("-o,--output-format", format, "table, or json: one object a line (default: table)")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("table|json");
}

void add_hex(CLI::App* verb, bool& hex) {
  verb->add_flag("--hex", hex, "Keys and values are hexadecimal digits, in arguments and in output");
}

void add_view(CLI::App* verb, view_arguments& view) {
  auto* at =
      verb->add_option("--at", view.at, "Read this version: a number, a tag's name, tag:NAME, or latest (default)");
  at->type_name("VERSION|TAG");
  verb->add_option("--at-time", view.time,
                   "Read the newest tagged version not after this time (ISO 8601; no zone: UTC)")
      ->type_name("TIME")
      ->excludes(at);
}

void add_bounds(CLI::App* verb, bounds_arguments& bounds) {
  verb->add_option("--prefix", bounds.prefix, "Only keys that begin with this")->type_name("KEY");
  verb->add_option("--from", bounds.from, "Only keys from this one on")->type_name("KEY");
  verb->add_option("--to", bounds.to, "Only keys before this one")->type_name("KEY");
}

void add_reading(CLI::App* verb, read_arguments& read) {
  verb->add_flag("--accept-copy", read.accept_copy,
                 "Read a file that was copied before its writer closed it (the writer was dead by then)");
  verb->add_flag("--accept-damage", read.accept_damage, "Read what is intact of a damaged store; the rest fails");
}

void add_writing(CLI::App* verb, write_arguments& write) {
  static const std::map<std::string, durability> names{{"none", durability::none},
                                                       {"tag", durability::tag},
                                                       {"operation", durability::operation},
                                                       {"best", durability::best_available}};
  verb->add_option("--durability", write.durability, "What survives a power cut: none, tag, operation or best")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("MODE");
  verb->add_flag("--emulate-durability", write.emulate,
                 "Execute the mode's flushes even on a medium that forgets at power off (to measure or test)");
  static const std::map<std::string, index_kind> indexes{{"btree", index_kind::btree},
                                                         {"skip_list", index_kind::skip_list}};
  verb->add_option("--index", write.index, "The index of a new store: btree or skip_list (lock-free, slower)")
      ->transform(CLI::CheckedTransformer(indexes).description(""))
      ->type_name("INDEX");
}

std::string bytes_of(const std::string& argument, bool hex) { return hex ? from_hex(argument) : argument; }

key_bounds bounds_of(const bounds_arguments& bounds, bool hex) {
  key_bounds out;
  if (bounds.prefix) out = key_bounds::of_prefix(bytes_of(*bounds.prefix, hex));
  if (bounds.from) {
    std::string from = bytes_of(*bounds.from, hex);
    if (!out.from || *out.from < from) out.from = std::move(from);
  }
  if (bounds.to) {
    std::string to = bytes_of(*bounds.to, hex);
    if (!out.to || to < *out.to) out.to = std::move(to);
  }
  return out;
}

}  // namespace icecore::cli

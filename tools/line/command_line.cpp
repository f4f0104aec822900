#include "line/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "icecore/version.hpp"

namespace icecore::cli {

option option::type_name(const std::string& name) const {
  of_->type_name(name);
  return *this;
}

option option::required() const {
  of_->required();
  return *this;
}

option option::excludes(option other) const {
  of_->excludes(other.of_);
  return *this;
}

option option::needs(option other) const {
  of_->needs(other.of_);
  return *this;
}

bool option::given() const { return of_->count() > 0; }

option verb::add_option(const std::string& name, std::string& value, const std::string& help) {
  return option(of_->add_option(name, value, help));
}

option verb::add_option(const std::string& name, std::optional<std::string>& value, const std::string& help) {
  return option(of_->add_option(name, value, help));
}

option verb::add_option(const std::string& name, std::uint64_t& value, const std::string& help) {
  return option(of_->add_option(name, value, help));
}

option verb::add_option(const std::string& name, unsigned& value, const std::string& help) {
  return option(of_->add_option(name, value, help));
}

option verb::add_flag(const std::string& name, bool& value, const std::string& help) {
  return option(of_->add_flag(name, value, help));
}

void verb::add_store(std::string& path, const std::string& what) {
  add_option("STORE", path, what).required().type_name("");
}

void verb::add_format(cli::format& format) {
  static const std::map<std::string, cli::format> names{{"table", cli::format::table}, {"json", cli::format::json}};
  of_->add_option("-o,--output-format", format, "table, or json: one object a line (default: table)")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("table|json");
}

void verb::add_format_of_columns(cli::format& format) {
  static const std::map<std::string, cli::format> names{{"table", cli::format::table},
                                                        {"json", cli::format::json},
                                                        {"csv", cli::format::csv},
                                                        {"arrow", cli::format::arrow}};
  of_->add_option("-o,--output-format", format,
                  "table, json: one object a line, csv, or arrow: columns as an Arrow IPC stream (default: table)")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("table|json|csv|arrow");
}

void verb::add_hex(bool& hex) {
  add_flag("--hex", hex, "Keys and values are hexadecimal digits, in arguments and in output");
}

void verb::add_view(view_arguments& view) {
  const option at =
      add_option("--at", view.at, "Read this version: a number, a tag's name, tag:NAME, or latest (default)")
          .type_name("VERSION|TAG");
  add_option("--at-time", view.time, "Read the newest tagged version not after this time (ISO 8601; no zone: UTC)")
      .type_name("TIME")
      .excludes(at);
}

void verb::add_bounds(bounds_arguments& bounds) {
  add_option("--prefix", bounds.prefix, "Only keys that begin with this").type_name("KEY");
  add_option("--from", bounds.from, "Only this key and those after it").type_name("KEY");
  add_option("--to", bounds.to, "Only keys before this one").type_name("KEY");
}

option verb::add_list(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      const std::string& type) {
  return option(of_->add_option(name, values, help)
                    ->type_name(type)
                    ->expected(1)
                    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

option verb::add_pair(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      const std::string& type) {
  return option(of_->add_option(name, values, help)->type_name(type)->expected(2));
}

void verb::add_placements(std::vector<std::string>& placements, const std::string& help) {
  add_list("--placement", placements, help, "PATH[@NODE]");
}

void verb::add_reading(read_arguments& read) {
  of_->add_flag("--accept-copy", read.accept_copy,
                "Read a file that was copied before its writer closed it (the writer was dead by then)");
  of_->add_flag("--accept-damage", read.accept_damage,
                "Read the intact part of a damaged store; reading the rest fails");
  add_crash(read.crash);
  add_moved(read.placements);
}

void verb::add_crash(crash_kind& ended) {
  static const std::map<std::string, crash_kind> names{{"process", crash_kind::process},
                                                       {"machine", crash_kind::machine}};
  of_->add_option("--crash", ended,
                  "What crashed, if the last session did not close the store and icecore cannot find out: process "
                  "(keep all that was written) or machine (go back to the durable point)")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("WHAT");
}

void verb::add_moved(std::vector<std::string>& placements) {
  add_placements(placements, "The new place of a secondary file that was moved (may be repeated)");
}

void verb::add_changing(write_arguments& write) {
  add_durability(write);
  add_crash(write.crash);
  add_moved(write.placements);
}

void verb::add_writing(write_arguments& write) {
  add_durability(write);
  add_crash(write.crash);
  add_index(write,
            "The index of a new store: btree, skip_list (lock-free, slower), persistent (opens instantly), list (for "
            "few keys) or hash (fastest finds, unordered)");
  add_placements(write.placements,
                 "A secondary file of a new store, for threads of a NUMA node, or the new place of one that was moved "
                 "(may be repeated)");
}

void verb::add_durability(write_arguments& write) {
  static const std::map<std::string, durability> names{{"none", durability::none},
                                                       {"tag", durability::tag},
                                                       {"operation", durability::operation},
                                                       {"best", durability::best_available}};
  of_->add_option("--durability", write.durability, "What survives a power cut: none, tag, operation or best")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name("MODE");
  add_flag("--emulate-durability", write.emulate,
           "Execute the mode's flushes even on a medium that loses its content at power off (to measure or test)");
}

option verb::add_index(write_arguments& write, const std::string& help) {
  static const std::map<std::string, index_kind> indexes = [] {
    std::map<std::string, index_kind> kinds;
    for (const index_kind kind :
         {index_kind::btree, index_kind::skip_list, index_kind::persistent, index_kind::list, index_kind::hash}) {
      kinds.emplace(index_name(kind), kind);
    }
    return kinds;
  }();
  return option(of_->add_option("--index", write.index, help)
                    ->transform(CLI::CheckedTransformer(indexes).description(""))
                    ->type_name("INDEX"));
}

void verb::runs(action what) {
  of_->callback([chosen = chosen_, what = std::move(what)] { *chosen = what; });
}

command_line::command_line()
    : app_(std::make_unique<CLI::App>(
          "icecore: an ordered key-value store that keeps every version.\n"
          "A write goes to the open version; `tag` closes it; a closed version can be read for ever.",
          "icecore")) {
  app_->set_version_flag("--version", std::string("icecore ") + library_version());
  app_->require_subcommand(1);
  app_->footer(
      "`icecore VERB --help` shows a verb's options and examples. `--` ends the options: what follows may begin with "
      "-.\n"
      "Exit codes: 0 yes, 1 no (not found, different), 2 usage, 3 no store, 4 locked, 5 damaged, 6 verify found "
      "damage,\n"
      "7 no space, 8 not durable, 9 input or output, 10 bad input, 11 no such version or tag, 12 internal error.");
}

command_line::~command_line() = default;

verb command_line::add_verb(const std::string& name, const std::string& description, const std::string& examples) {
  CLI::App* added = app_->add_subcommand(name, description);
  added->footer("Examples:\n" + examples);
  return {added, &chosen_};
}

verb verb::add_verb(const std::string& name, const std::string& description, const std::string& examples) const {
  CLI::App* added = of_->add_subcommand(name, description);
  added->footer("Examples:\n" + examples);
  return {added, chosen_};
}

verb command_line::add_group(const std::string& name, const std::string& description) {
  CLI::App* added = app_->add_subcommand(name, description);
  added->require_subcommand(1);
  return {added, &chosen_};
}

action command_line::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return chosen_;
  } catch (const CLI::Success& asked_for) {  // --help, --version
    app_->exit(asked_for);
    return [] { return exit_code::ok; };
  } catch (const CLI::ParseError& wrong) {
    std::string named;
    for (auto verbs = app_->get_subcommands(); !verbs.empty(); verbs = verbs.front()->get_subcommands()) {
      named += ' ' + verbs.front()->get_name();
    }
    fmt::print(stderr, "icecore{}: {}; see `icecore{} --help`\n", named, wrong.what(), named);
    return [] { return exit_code::usage; };
  }
}

}  // namespace icecore::cli

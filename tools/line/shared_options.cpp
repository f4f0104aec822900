// The options that several verbs share.
#include <fmt/format.h>

#include <algorithm>

#include "line/command_line.hpp"

namespace icecore::cli {
namespace {

std::string_view name_of(format one) {
  switch (one) {
    case format::json:
      return "json";
    case format::csv:
      return "csv";
    case format::arrow:
      return "arrow";
    case format::table:
      break;
  }
  return "table";
}

std::string_view words_of(format one) {
  switch (one) {
    case format::json:
      return "json (one object a line)";
    case format::csv:
      return "csv";
    case format::arrow:
      return "arrow (columns as an Arrow IPC stream)";
    case format::table:
      break;
  }
  return "table (for people)";
}

constexpr std::string_view indexes_in_words =
    "btree, skip_list (lock-free, slower), persistent (opens instantly), list (for few keys) or hash (fastest finds, "
    "unordered)";

}  // namespace

void verb::add_store(std::string& path, const std::string& what) {
  add_option("STORE", path, what).required().type_name("").completes(value_kind::file);
}

void verb::add_format(cli::format& format) { add_formats(format, {cli::format::table, cli::format::json}); }

void verb::add_format_of_columns(cli::format& format) {
  add_formats(format, {cli::format::table, cli::format::json, cli::format::csv, cli::format::arrow});
}

void verb::add_formats(cli::format& format, const std::vector<cli::format>& formats) {
  std::vector<std::pair<std::string, cli::format>> choices;
  std::string words;
  for (const cli::format one : formats) {
    choices.emplace_back(name_of(one), one);
    words += fmt::format("{}{}", words.empty() ? "" : ", ", words_of(one));
  }
  const option chosen = add_choice("-o,--output-format", format, choices,
                                   fmt::format("How to print: {}; {} if not given", words, name_of(format)));
  add_flag("--json", format, cli::format::json, "The same as -o json").excludes(chosen);
}

void verb::add_hex(hex_arguments& hex) {
  add_flag("--hex", hex.both, "Keys and values are hexadecimal digits, in arguments and in output");
  add_flag("--hex-key", hex.keys_alone, "Only keys are hexadecimal digits");
  add_flag("--hex-value", hex.values_alone, "Only values are hexadecimal digits");
}

void verb::add_limit(std::uint64_t& limit, const std::string& help) { add_option("--limit", limit, help); }

void verb::add_colour(colouring& when) {
  add_choice("--color", when,
             {{"auto", colouring::automatic}, {"always", colouring::always}, {"never", colouring::never}},
             "Whether output is coloured; auto (if not given): on a terminal, unless NO_COLOR is set");
}

void verb::add_view(view_arguments& view) {
  const option at =
      add_option("--at", view.at, fmt::format("Read this version: {}; latest if not given", version_forms))
          .type_name("VERSION")
          .completes(value_kind::version);
  add_option("--at-time", view.time, "Read the newest tag that is not later than this time: the same as --at time:TIME")
      .type_name("TIME")
      .excludes(at);
}

void verb::add_bounds(bounds_arguments& bounds) {
  add_option("--prefix", bounds.prefix, "Only keys that begin with this").type_name("KEY");
  add_option("--from", bounds.from, "Only this key and those after it").type_name("KEY");
  add_option("--to", bounds.to, "Only keys before this one").type_name("KEY");
}

void verb::add_placements(std::vector<std::string>& placements, const std::string& help) {
  add_list("--placement", placements, help, "PATH[@NODE]").completes(value_kind::file);
}

void verb::add_reading(read_arguments& read) {
  add_flag("--accept-copy", read.accept_copy,
           "Read a file that was copied before its writer closed it (the writer was dead by then)");
  const option damaged = add_flag("--accept-damage", read.accept_damage,
                                  "Read the intact part of a damaged store; reading the rest fails");
  add_flag("--never-locks", read.never_locks, "Never keep a process out that would write").excludes(damaged);
  add_crash(read.crash);
  add_moved(read.placements);
}

void verb::add_crash(crash_kind& ended) {
  add_choice("--crash", ended, {{"process", crash_kind::process}, {"machine", crash_kind::machine}},
             "What crashed, if the last session did not close the store and icecore cannot find out: process "
             "(keep all that was written) or machine (go back to the durable point)");
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
  add_index(write, fmt::format("The index of a new store: {}", indexes_in_words));
  add_placements(write.placements,
                 "A secondary file of a new store, for threads of a NUMA node, or the new place of one that was moved "
                 "(may be repeated)");
}

void verb::add_durability(write_arguments& write) {
  add_choice("--durability", write.durability,
             {{"none", durability::none},
              {"tag", durability::tag},
              {"operation", durability::operation},
              {"best", durability::best_available}},
             "What survives a power cut: none, tag (every tag), operation (every write) or best (what the device can)");
  add_flag("--emulate-durability", write.emulate,
           "Execute the mode's flushes even on a medium that loses its content at power off (to measure or test)");
}

option verb::add_index(write_arguments& write, const std::string& help) {
  std::vector<std::pair<std::string, index_kind>> kinds;
  for (const index_kind kind :
       {index_kind::btree, index_kind::skip_list, index_kind::persistent, index_kind::list, index_kind::hash}) {
    kinds.emplace_back(index_name(kind), kind);
  }
  return add_choice("--index", write.index, kinds, help);
}

}  // namespace icecore::cli

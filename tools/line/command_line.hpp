// The command line: its verbs, their options, and the call it makes. CLI11 parses it; CLI11 is slow to compile, so only
// command_line.cpp includes it.
//
//   command_line line;
//   verb verb = line.add_verb("count", "Count the keys", "  icecore count model.ice");
//   verb.add_store(path);
//   verb.runs([&] { return count(path); });
//   return line.parse(argc, argv)();
//
// Verbs and options are handles: they may be copied, and are valid as long as their command line. The variables that
// options are stored in must live as long.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "line/arguments.hpp"
#include "line/description.hpp"
#include "line/exit_code.hpp"
#include "text/colour.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace icecore::cli {

/// The call of a verb, which runs once the whole command line has been parsed.
using action = std::function<exit_code()>;

/// What a command line knows besides what CLI11 does.
struct line_state {
  struct notes {
    value_kind kind = value_kind::text;
    std::vector<std::string> choices;
  };
  action chosen;
  std::map<const CLI::Option*, notes> notes_of;
};

class option {
 public:
  option(CLI::Option* of, line_state* state) : of_(of), state_(state) {}
  /// The name of its value in --help; "" for none.
  option type_name(const std::string& name) const;
  /// What a shell offers in its place.
  option completes(value_kind kind) const;
  option required() const;
  option excludes(option other) const;
  option needs(option other) const;
  [[nodiscard]] bool given() const;

 private:
  CLI::Option* of_;
  line_state* state_;
};

class verb {
 public:
  verb(CLI::App* of, line_state* state) : of_(of), state_(state) {}

  // A name with hyphens is an option, a name without is a positional argument.
  option add_option(const std::string& name, std::string& value, const std::string& help);
  option add_option(const std::string& name, std::optional<std::string>& value, const std::string& help);
  /// A whole number that is not negative, in decimal digits.
  option add_option(const std::string& name, std::uint64_t& value, const std::string& help);
  option add_option(const std::string& name, unsigned& value, const std::string& help);
  option add_flag(const std::string& name, bool& value, const std::string& help);
  /// A flag that sets `variable` to `value`.
  template <typename Value>
  option add_flag(const std::string& name, Value& variable, Value value, const std::string& help) {
    return add_flag_calling(
        name, [&variable, value] { variable = value; }, help);
  }
  /// One of a few names. An error lists them.
  template <typename Value>
  option add_choice(const std::string& name, Value& value, const std::vector<std::pair<std::string, Value>>& choices,
                    const std::string& help) {
    std::vector<std::string> names;
    names.reserve(choices.size());
    for (const auto& choice : choices) names.push_back(choice.first);
    return add_choice_of(
        name, names, [&value, choices](std::size_t i) { value = choices[i].second; }, help);
  }
  /// An option that may be repeated.
  option add_list(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  const std::string& type);
  /// An option with two values.
  option add_pair(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  const std::string& type);
  /// Any number of arguments.
  option add_arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);

  void add_store(std::string& path, const std::string& what = "The store's file");
  /// -o table|json, and --json, which is the same as -o json.
  void add_format(cli::format& format);
  /// The same, of a verb that can also write comma-separated values, and columns.
  void add_format_of_columns(cli::format& format);
  /// The same with the formats that a verb has.
  void add_formats(cli::format& format, const std::vector<cli::format>& formats);
  void add_hex(hex_arguments& hex);
  void add_limit(std::uint64_t& limit, const std::string& help = "Stop after this many");
  void add_colour(colouring& when);
  void add_view(view_arguments& view);
  void add_bounds(bounds_arguments& bounds);
  void add_placements(std::vector<std::string>& placements, const std::string& help);
  /// What ended a session that did not close the store.
  void add_crash(icecore::crash_kind& ended);
  /// The files of an existing store.
  void add_moved(std::vector<std::string>& placements);
  /// Options for opening a store for reading.
  void add_reading(read_arguments& read);
  /// Options for opening a store for writing, or making it.
  void add_writing(write_arguments& write);
  /// Options for opening an existing store for writing.
  void add_changing(write_arguments& write);
  // The same options, one at a time.
  void add_durability(write_arguments& write);
  option add_index(write_arguments& write, const std::string& help);

  /// The call to make if the command line names this verb.
  void runs(action what);
  /// A verb of a group, as in `icecore query run`.
  [[nodiscard]] verb add_verb(const std::string& name, const std::string& description,
                              const std::string& examples) const;

 private:
  option add_flag_calling(const std::string& name, const std::function<void()>& set, const std::string& help);
  option add_choice_of(const std::string& name, const std::vector<std::string>& names,
                       const std::function<void(std::size_t)>& choose, const std::string& help);
  option add_number(const std::string& name, std::uint64_t max, const std::function<void(std::uint64_t)>& store,
                    const std::string& help);

  CLI::App* of_;
  line_state* state_;
};

class command_line {
 public:
  command_line();
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// A verb with its one-line description and its examples, one per line.
  verb add_verb(const std::string& name, const std::string& description, const std::string& examples);

  /// Verbs under one name; one of them must be given.
  verb add_group(const std::string& name, const std::string& description);

  /// Parses the arguments and returns the call to make. Prints help and errors itself; the call then only returns an
  /// exit code.
  [[nodiscard]] action parse(int argc, char** argv);

  /// What --help says of a verb ("put", or "query", "run"); of none: of the whole command. Throws
  /// errc::invalid_argument, with the nearest name, if there is no such verb.
  [[nodiscard]] std::string help_of(const std::vector<std::string>& verb) const;

  /// All verbs with their options.
  [[nodiscard]] verb_description describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
  line_state state_;
};

void add_verbs(command_line& line);  // all of them: main.cpp

// Each function adds its verbs.
void add_key_verbs(command_line& line);  // put get del
void add_scan_verb(command_line& line);
void add_filter_verb(command_line& line);
void add_feed_verb(command_line& line);
void add_query_verbs(command_line& line);  // query start|run|list|show|results|cancel|drop
void add_tag_verbs(command_line& line);    // tag log
void add_history_verb(command_line& line);
void add_diff_verb(command_line& line);
void add_watch_verb(command_line& line);
void add_checkout_verb(command_line& line);
void add_stat_verb(command_line& line);
void add_verify_verb(command_line& line);
void add_repair_verb(command_line& line);
void add_reindex_verb(command_line& line);
void add_compaction_verbs(command_line& line);  // compact expire
void add_retention_verbs(command_line& line);   // retention forget
void add_hold_verbs(command_line& line);        // hold release holds
void add_checkpoint_verb(command_line& line);
void add_dump_verb(command_line& line);
void add_load_verb(command_line& line);
void add_bench_verb(command_line& line);
void add_doctor_verb(command_line& line);
void add_shell_verb(command_line& line);
void add_help_verb(command_line& line);
void add_completion_verb(command_line& line);

}  // namespace icecore::cli

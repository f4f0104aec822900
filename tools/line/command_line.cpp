#include "line/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>

#include "icecore/error.hpp"
#include "icecore/version.hpp"
#include "line/nearest.hpp"
#include "line/session.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t shown_columns = 80;

/// --help as CLI11 writes it, with what options need and exclude in words.
class plain_formatter : public CLI::Formatter {
 public:
  plain_formatter() {
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "VERB");
  }
  /// Name and value, and beside them the description in lines that fit on a terminal.
  std::string make_option(const CLI::Option* o, bool is_positional) const override {
    constexpr std::size_t columns = 100;
    constexpr std::size_t indent = 30;
    std::string text = "  " + make_option_name(o, is_positional) + make_option_opts(o);
    std::size_t column = text.size();
    const auto begin_line = [&] {
      text += '\n' + std::string(indent, ' ');
      column = indent;
    };
    if (column < indent) {
      text += std::string(indent - column, ' ');
      column = indent;
    } else {
      begin_line();
    }
    std::istringstream words(make_option_desc(o));
    for (std::string word; words >> word;) {
      if (column > indent && column + 1 + word.size() > columns) begin_line();
      if (column > indent) text += ' ';
      column += word.size() + (column > indent ? 1 : 0);
      text += word;
    }
    return text + '\n';
  }
  std::string make_option_opts(const CLI::Option* o) const override {
    std::string text;
    if (o->get_type_size() != 0 && !o->get_type_name().empty()) text += ' ' + o->get_type_name();
    if (o->get_required()) text += " REQUIRED";
    const auto add = [&text](std::string_view words, const std::set<CLI::Option*>& others) {
      if (others.empty()) return;
      std::vector<std::string> names;
      names.reserve(others.size());
      for (const CLI::Option* other : others) names.push_back(other->get_name());
      std::sort(names.begin(), names.end());
      text += fmt::format(" ({} {})", words, fmt::join(names, ", "));
    };
    add("needs", o->get_needs());
    add("not with", o->get_excludes());
    return text;
  }
};

/// "'table', 'json' or 'csv'".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

std::vector<const CLI::App*> verbs_of(const CLI::App& of) {
  return of.get_subcommands([](const CLI::App* one) { return !one->get_name().empty(); });
}

/// What people who know other tools call some verbs.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"add", "put"},    {"backup", "checkpoint"}, {"check", "verify"}, {"commit", "tag"},  {"copy", "checkpoint"},
    {"delete", "del"}, {"export", "dump"},       {"find", "filter"},  {"fsck", "verify"}, {"import", "load"},
    {"insert", "put"}, {"list", "scan"},         {"ls", "scan"},      {"remove", "del"},  {"restore", "load"},
    {"rm", "del"},     {"select", "filter"},     {"set", "put"},      {"show", "get"},    {"status", "stat"},
    {"tags", "log"},   {"versions", "log"},
};

std::string no_such_verb(const CLI::App& of, const std::string& asked) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(of)) names.push_back(verb->get_name());
  std::optional<std::string> meant;
  for (const auto& [other, name] : other_names) {
    if (other == asked && std::ranges::find(names, name) != names.end()) meant = name;
  }
  if (!meant) meant = nearest(asked, names);
  if (meant) return fmt::format("there is no verb '{}'; the nearest is '{}'", shown(asked, shown_columns), *meant);
  return fmt::format("there is no verb '{}'", shown(asked, shown_columns));
}

/// " query" of the group query; empty of the whole command.
std::string path_of(const CLI::App* verb) {
  std::string path;
  for (; verb->get_parent() != nullptr; verb = verb->get_parent()) path.insert(0, ' ' + verb->get_name());
  return path;
}

void print_wrong(const CLI::App* verb, std::string_view what) {
  const std::string path = path_of(verb);
  if (session::any() != nullptr) {  // at the prompt of a shell
    fmt::print(stderr, "icecore{}: {}; see `help{}`\n", path, what, path);
    return;
  }
  fmt::print(stderr, "icecore{}: {}; see `icecore{} --help`\n", path, what, path);
}

/// Finds the verb that the arguments name. If they name none, prints why and returns false.
bool check_verb(const CLI::App* app, int argc, char** argv) {
  for (int i = 1; !verbs_of(*app).empty(); ++i) {
    if (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') return true;  // --help, or an option that there is not
    if (i >= argc) {
      print_wrong(app, "the verb is missing");
      return false;
    }
    const auto verbs = verbs_of(*app);
    const auto named = std::ranges::find_if(verbs, [&](const CLI::App* v) { return v->get_name() == argv[i]; });
    if (named == verbs.end()) {
      print_wrong(app, no_such_verb(*app, argv[i]));
      return false;
    }
    app = *named;
  }
  return true;
}

std::string unexpected(const CLI::App* verb, const std::string& argument) {
  if (!argument.starts_with('-') || argument.size() < 2) {
    return fmt::format("'{}' is one argument too many", shown(argument, shown_columns));
  }
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* o : verb->get_options()) {
    for (const std::string& known_name : o->get_lnames()) known.push_back("--" + known_name);
  }
  const auto meant = nearest(name, known);
  return fmt::format(
      "there is no option '{}'{}", shown(name, shown_columns),
      meant ? fmt::format("; the nearest is {}", *meant) : ", and if it is no option, write -- before it");
}

/// What is wrong with the arguments, in the user's words.
std::string words_of(const CLI::ParseError& wrong, const CLI::App* verb) {
  std::string what = wrong.what();
  const std::string name = what.substr(0, what.find(": "));
  if (dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr) {
    const auto rest = verb->remaining();
    if (!rest.empty()) return unexpected(verb, rest.front());
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&wrong) != nullptr && name.size() < what.size()) {
    if (what.find("At Most") != std::string::npos) return name + " is given more than once";
    return name + " needs a value";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr) {
    // What looks like an option may have been meant as the argument.
    for (const std::string& rest : verb->remaining()) {
      if (rest.starts_with('-')) return unexpected(verb, rest);
    }
    return what.ends_with(" is required") ? what.substr(0, what.size() - 12) + " is missing" : what;
  }
  for (const auto& [theirs, ours] :
       {std::pair(" excludes ", " does not go with "), std::pair(" requires ", " needs ")}) {
    if (const auto at = what.find(theirs); at != std::string::npos) {
      return what.substr(0, at) + ours + what.substr(at + std::string_view(theirs).size());
    }
  }
  return what;
}

std::uint64_t number_of(const std::string& option, const std::string& text, std::uint64_t max) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (text.empty() || failure == std::errc::invalid_argument || stop != end) {
    throw CLI::ValidationError(fmt::format("{}: '{}' is not a whole number from 0 up, written in decimal digits",
                                           option, shown(text, shown_columns)));
  }
  if (failure != std::errc{} || number > max) {
    throw CLI::ValidationError(fmt::format("{}: {} is too large; the greatest number here is {}", option, text, max));
  }
  return number;
}

verb_description described(const CLI::App& app, const line_state& state) {
  verb_description verb;
  verb.name = app.get_name();
  verb.summary = app.get_description();
  verb.footer = app.get_footer();
  for (const CLI::Option* o : app.get_options()) {
    option_description one;
    for (const std::string& name : o->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : o->get_lnames()) one.names.push_back("--" + name);
    one.argument = o->get_positional();
    if (one.argument) one.names.push_back(o->get_name(true));
    if (!one.argument && o->get_type_size() != 0) one.value = o->get_type_name();
    one.help = o->get_description();
    one.required = o->get_required();
    one.repeated = o->get_expected_max() > 1 || o->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (const auto notes = state.notes_of.find(o); notes != state.notes_of.end()) {
      one.kind = notes->second.kind;
      one.choices = notes->second.choices;
    }
    verb.options.push_back(std::move(one));
  }
  for (const CLI::App* inner : verbs_of(app)) verb.verbs.push_back(described(*inner, state));
  return verb;
}

}  // namespace

option option::type_name(const std::string& name) const {
  of_->type_name(name);
  return *this;
}

option option::completes(value_kind kind) const {
  state_->notes_of[of_].kind = kind;
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
  return {of_->add_option(name, value, help), state_};
}

option verb::add_option(const std::string& name, std::optional<std::string>& value, const std::string& help) {
  return {of_->add_option(name, value, help), state_};
}

option verb::add_option(const std::string& name, std::uint64_t& value, const std::string& help) {
  return add_number(
      name, std::numeric_limits<std::uint64_t>::max(), [&value](std::uint64_t n) { value = n; }, help);
}

option verb::add_option(const std::string& name, unsigned& value, const std::string& help) {
  return add_number(
      name, std::numeric_limits<unsigned>::max(), [&value](std::uint64_t n) { value = static_cast<unsigned>(n); },
      help);
}

option verb::add_number(const std::string& name, std::uint64_t max, const std::function<void(std::uint64_t)>& store,
                        const std::string& help) {
  const std::string shown_name = name.substr(name.rfind(',') == std::string::npos ? 0 : name.rfind(',') + 1);
  CLI::Option* const made = of_->add_option_function<std::string>(
      name, [=](const std::string& text) { store(number_of(shown_name, text, max)); }, help);
  return option(made, state_).type_name("N");
}

option verb::add_flag(const std::string& name, bool& value, const std::string& help) {
  return {of_->add_flag(name, value, help), state_};
}

option verb::add_flag_calling(const std::string& name, const std::function<void()>& set, const std::string& help) {
  return {of_->add_flag_callback(name, set, help), state_};
}

option verb::add_choice_of(const std::string& name, const std::vector<std::string>& names,
                           const std::function<void(std::size_t)>& choose, const std::string& help) {
  const std::string shown_name = name.substr(0, name.find(','));
  CLI::Option* const made = of_->add_option_function<std::string>(
      name,
      [=](const std::string& text) {
        const auto found = std::ranges::find(names, text);
        if (found == names.end()) {
          throw CLI::ValidationError(
              fmt::format("{} is {}, not '{}'", shown_name, listed(names), shown(text, shown_columns)));
        }
        choose(static_cast<std::size_t>(found - names.begin()));
      },
      help);
  state_->notes_of[made] = {value_kind::choice, names};
  return option(made, state_).type_name(fmt::format("{}", fmt::join(names, "|")));
}

option verb::add_list(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      const std::string& type) {
  return {of_->add_option(name, values, help)
              ->type_name(type)
              ->expected(1)
              ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
          state_};
}

option verb::add_pair(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      const std::string& type) {
  return {of_->add_option(name, values, help)->type_name(type)->expected(2), state_};
}

option verb::add_arguments(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  return {of_->add_option(name, values, help)->type_name(""), state_};
}

void verb::runs(action what) {
  of_->callback([state = state_, what = std::move(what)] { state->chosen = what; });
}

command_line::command_line()
    : app_(std::make_unique<CLI::App>(
          "icecore: an ordered key-value store that keeps every version.\n"
          "A write goes to the open version; `tag` closes it; a closed version can be read for ever.",
          "icecore")) {
  app_->formatter(std::make_shared<plain_formatter>());
  app_->set_version_flag("--version", std::string("icecore ") + library_version());
  app_->require_subcommand(1);
  app_->footer(
      "`icecore help VERB` shows a verb's options and examples. `--` ends the options: what follows may begin with -.\n"
      "Exit codes: 0 yes, 1 no (not found, different), 2 usage, 3 no store, 4 locked, 5 damaged, 6 verify found "
      "damage,\n"
      "7 no space, 8 not durable, 9 input or output, 10 bad input, 11 no such version or tag, 12 internal error.");
}

command_line::~command_line() = default;

verb command_line::add_verb(const std::string& name, const std::string& description, const std::string& examples) {
  return verb(app_.get(), &state_).add_verb(name, description, examples);
}

verb verb::add_verb(const std::string& name, const std::string& description, const std::string& examples) const {
  CLI::App* added = of_->add_subcommand(name, description);
  added->group("Verbs");
  added->footer("Examples:\n" + examples);
  return {added, state_};
}

verb command_line::add_group(const std::string& name, const std::string& description) {
  CLI::App* added = app_->add_subcommand(name, description);
  added->group("Verbs");
  added->require_subcommand(1);
  return {added, &state_};
}

std::string command_line::help_of(const std::vector<std::string>& verb) const {
  const CLI::App* app = app_.get();
  std::string before;
  for (const std::string& name : verb) {
    const auto verbs = verbs_of(*app);
    const auto found = std::ranges::find_if(verbs, [&](const CLI::App* v) { return v->get_name() == name; });
    if (found == verbs.end()) {
      if (verbs.empty()) {
        throw error(errc::invalid_argument,
                    fmt::format("the verb '{}' has no verbs of its own, such as '{}'; see `icecore help{}`",
                                app->get_name(), shown(name, shown_columns), path_of(app)));
      }
      throw error(errc::invalid_argument,
                  fmt::format("{}; `icecore help{}` lists the verbs", no_such_verb(*app, name), path_of(app)));
    }
    before += (before.empty() ? "" : " ") + app->get_name();
    app = *found;
  }
  // What was parsed is the verb `help`, and CLI11 would show the help of that.
  return app->get_formatter()->make_help(app, before.empty() ? app->get_name() : before + ' ' + app->get_name(),
                                         CLI::AppFormatMode::Normal);
}

verb_description command_line::describe() const { return described(*app_, state_); }

action command_line::parse(int argc, char** argv) {
  if (!check_verb(app_.get(), argc, argv)) return [] { return exit_code::usage; };
  try {
    app_->parse(argc, argv);
    return state_.chosen;
  } catch (const CLI::Success& asked_for) {  // --help, --version
    app_->exit(asked_for);
    return [] { return exit_code::ok; };
  } catch (const CLI::ParseError& wrong) {
    const CLI::App* verb = app_.get();
    while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
    print_wrong(verb, words_of(wrong, verb));
    return [] { return exit_code::usage; };
  }
}

}  // namespace icecore::cli

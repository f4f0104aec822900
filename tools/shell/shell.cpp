// shell: many verbs on one open store, typed or from a script.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/reporting.hpp"
#include "line/session.hpp"
#include "shell/line_editor.hpp"
#include "shell/line_words.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct shell_arguments {
  std::string store;
  read_arguments read;
  write_arguments written;
  bool write = false;
  bool keep_going = false;
  std::string at;
};

/// Verbs that read or write the store that is open, and that make one: these have no place here.
constexpr std::array<std::string_view, 15> own_verbs{"put",   "get",   "del",      "scan", "filter",
                                                     "query", "feed",  "tag",      "log",  "history",
                                                     "diff",  "watch", "checkout", "stat", "checkpoint"};
constexpr std::string_view dump_verb = "dump";

bool is_own(std::string_view verb) {
  return verb == dump_verb || std::ranges::find(own_verbs, verb) != own_verbs.end();
}

constexpr std::string_view words_of_the_shell =
    "Verbs, without the store: put get del scan filter query feed tag log history diff watch checkout stat checkpoint "
    "dump\n"
    "  help VERB       what a verb does\n"
    "  at VERSION      verbs that are given no version show this one; at latest: the present\n"
    "  at              the version that they show\n"
    "  exit            as the end of the input\n"
    "A word with blanks is quoted: 'a key' or \"a key\"; \\ takes the next letter as it is; # begins a remark.\n";

extern "C" void interrupt_verb(int) { output_interrupted = true; }

/// Verbs may set handlers of their own.
void catch_interrupts() {
  struct sigaction asked {};
  asked.sa_handler = interrupt_verb;
  static_cast<void>(sigaction(SIGINT, &asked, nullptr));
  static_cast<void>(std::signal(SIGTERM, SIG_DFL));
}

/// Runs lines, one at a time, on the session's store.
class interpreter {
 public:
  interpreter(session& on, std::string path) : on_(on), path_(std::move(path)) {}

  /// Empty for `exit`.
  [[nodiscard]] std::optional<exit_code> run(std::string_view line) {
    bool ends = false;
    output_interrupted = false;
    exit_code code = exit_code::ok;
    try {
      code = reported([&] {
        const std::vector<std::string> words = split(line);
        if (words.empty()) return exit_code::ok;
        ends = words.front() == "exit" || words.front() == "quit";
        return ends ? exit_code::ok : run_words(words);
      });
    } catch (const interrupted_output&) {
      output_interrupted = false;
      code = exit_code::interrupted;
    }
    catch_interrupts();
    if (ends) return std::nullopt;
    return code;
  }

  /// For the last word of a line.
  [[nodiscard]] std::vector<std::string> completed(std::string_view before) {
    const auto blank = before.find_last_of(" \t");
    const std::string_view word = blank == std::string_view::npos ? before : before.substr(blank + 1);
    std::vector<std::string> found;
    const auto offer = [&](std::string_view name) {
      if (name.starts_with(word) && quoted(name) == name) found.emplace_back(name);
    };
    try {
      const std::vector<std::string> words = split(before.substr(0, before.size() - word.size()));
      if (words.empty()) {
        for (const std::string_view verb : own_verbs) offer(verb);
        for (const std::string_view verb :
             {dump_verb, std::string_view("at"), std::string_view("help"), std::string_view("exit")})
          offer(verb);
        return found;
      }
      complete_arguments(words, word, offer);
    } catch (const error&) {  // an open quote, or a store that fails: nothing is offered
    }
    return found;
  }

 private:
  exit_code run_words(const std::vector<std::string>& words) {
    if (words.front() == "at") return show_at(words);
    if (words.front() == "help" && words.size() == 1) {
      out().write(words_of_the_shell);
      return exit_code::ok;
    }
    const bool is_help = words.front() == "help";
    if (!is_help && !is_own(words.front())) refuse_if_elsewhere(words.front());
    std::vector<std::string> all{"icecore"};
    all.push_back(words.front());
    std::size_t next = 1;
    if (words.front() == "query" && next < words.size()) all.push_back(words[next++]);
    if (!is_help) all.push_back(path_);
    all.insert(all.end(), words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
    std::vector<char*> arguments;
    for (std::string& one : all) arguments.push_back(one.data());
    arguments.push_back(nullptr);
    command_line line;
    add_verbs(line);
    return line.parse(static_cast<int>(all.size()), arguments.data())();
  }

  exit_code show_at(const std::vector<std::string>& words) {
    if (words.size() > 2) throw error(errc::invalid_argument, "at takes one version, or none");
    if (words.size() == 2) {
      on_.set_at(words[1]);
    } else {
      out().line(on_.at().empty() ? "latest" : on_.at());
    }
    return exit_code::ok;
  }

  /// A verb that is none is left to the command line, which knows the nearest.
  void refuse_if_elsewhere(const std::string& verb) {
    command_line line;
    add_verbs(line);
    for (const verb_description& known : line.describe().verbs) {
      if (known.name != verb) continue;
      throw error(
          errc::invalid_argument,
          fmt::format("{0}: not in a shell, since it opens the store itself: leave the shell, then `icecore {0}`",
                      verb));
    }
  }

  template <typename Offer>
  void complete_arguments(const std::vector<std::string>& words, std::string_view word, Offer offer) {
    command_line line;
    add_verbs(line);
    const verb_description all = line.describe();
    const std::vector<verb_description>* among = &all.verbs;
    const verb_description* verb = nullptr;
    for (const std::string& name : words) {
      const auto found = std::ranges::find(*among, name, &verb_description::name);
      if (found == among->end()) break;
      verb = &*found;
      among = &found->verbs;
    }
    if (verb != nullptr && !verb->verbs.empty() && words.size() == 1) {
      for (const verb_description& each : verb->verbs) offer(each.name);
      return;
    }
    if (verb != nullptr && word.starts_with('-')) {
      for (const option_description& each : verb->options) {
        for (const std::string& name : each.names) offer(name);
      }
      return;
    }
    const std::string& before = words.back();
    const bool is_version = before == "--at" || before == "--after" || before == "--since" || words.front() == "at" ||
                            words.front() == "diff";
    if (is_version) {
      offer("latest");
      for (const tag_info& tag : on_.what().tags()) offer(tag.name);
      return;
    }
    if (words.front() == "help") {
      for (const verb_description& each : all.verbs) offer(each.name);
      return;
    }
    constexpr std::size_t keys_at_once = 100;
    std::size_t left = keys_at_once;
    for (const item& each : on_.what().latest().range(key_bounds::of_prefix(word))) {
      offer(each.key);
      if (--left == 0) break;
    }
  }

  session& on_;
  std::string path_;
};

exit_code interact(interpreter& lines, const session& on) {
  line_editor editor(history_file(), [&](std::string_view before) { return lines.completed(before); });
  for (;;) {
    const auto line = editor.read(on.at().empty() ? "icecore> " : fmt::format("icecore at {}> ", on.at()));
    if (!line) {
      out().line("");
      break;
    }
    if (!lines.run(*line)) break;
  }
  out().flush();
  return exit_code::ok;
}

/// The first failure ends it; a negative answer is none.
exit_code run_script(interpreter& lines, bool keep_going) {
  exit_code first = exit_code::ok;
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    const auto code = lines.run(line);
    if (!code) break;
    if (*code == exit_code::ok || *code == exit_code::negative) continue;
    fmt::print(stderr, "icecore: line {}: {}\n", number, shown(line));
    if (first == exit_code::ok) first = *code;
    if (!keep_going || *code == exit_code::interrupted) break;
  }
  return first;
}

void require_no_reading_options(const read_arguments& read) {
  const std::pair<bool, std::string_view> given[] = {{read.never_locks, "--never-locks"},
                                                     {read.accept_copy, "--accept-copy"},
                                                     {read.accept_damage, "--accept-damage"}};
  for (const auto& [is_given, name] : given) {
    if (is_given) throw error(errc::invalid_argument, fmt::format("{} is for reading: not with --write", name));
  }
}

exit_code run_shell(const shell_arguments& a) {
  if (session::any() != nullptr) throw error(errc::invalid_argument, "this is a shell already");
  if (a.write) require_no_reading_options(a.read);
  session on(a.store,
             a.write ? store(open_to_write(a.store, a.written, creation::open_or_create))
                     : store(open_to_read(a.store, a.read)),
             a.write);
  if (!a.at.empty()) on.set_at(a.at);
  interpreter lines(on, a.store);
  catch_interrupts();
  const bool typed = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  const exit_code code = typed ? interact(lines, on) : run_script(lines, a.keep_going);
  on.close();
  return code;
}

}  // namespace

void add_shell_verb(command_line& line) {
  const auto a = std::make_shared<shell_arguments>();
  verb verb =
      line.add_verb("shell", "Run many verbs on one open store, as they are typed or from standard input",
                    "  icecore shell model.ice                  # then: get layer1/bias\n"
                    "  icecore shell model.ice --at epoch-1     # verbs show this version\n"
                    "  icecore shell model.ice --write < changes.txt\n"
                    "Verbs are given without the store; `help` lists them. Without --write the store is only\n"
                    "read: beside the process that writes it, or else no process may write it meanwhile; with\n"
                    "--never-locks, processes that write may come and go. On a terminal, lines can be edited, and\n"
                    "verbs, keys and tags are completed. A script ends with its first failure, and its exit code.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_flag("--write", a->write, "Also write: keeps other writers out until the shell ends");
  verb.add_flag("--keep-going", a->keep_going,
                "Of a script: go on after a failure; the exit code is that of the first");
  verb.add_option("--at", a->at, fmt::format("The version that verbs show: {}", version_forms))
      .type_name("VERSION")
      .completes(value_kind::version);
  verb.runs([a] {
    a->written.crash = a->read.crash;
    return run_shell(*a);
  });
}

}  // namespace icecore::cli

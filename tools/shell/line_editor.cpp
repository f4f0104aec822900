#include "shell/line_editor.hpp"

#include <editline/readline.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace icecore::cli {
namespace {

constexpr int lines_kept = 1000;

completions offered;
std::vector<std::string> matches;

/// One match at a call, as malloc() gives memory; null behind the last one.
char* next_match(const char* /*word*/, int state) {
  static std::size_t next = 0;
  if (state == 0) next = 0;
  return next < matches.size() ? strdup(matches[next++].c_str()) : nullptr;
}

char** complete(const char* word, int /*start*/, int end) {
  rl_attempted_completion_over = 1;  // no names of files
  matches = offered(std::string_view(rl_line_buffer).substr(0, static_cast<std::size_t>(end)));
  return matches.empty() ? nullptr : rl_completion_matches(word, next_match);
}

struct freed {
  void operator()(char* line) const noexcept { std::free(line); }
};

}  // namespace

line_editor::line_editor(std::filesystem::path history, completions offers) : history_(std::move(history)) {
  static char name[] = "icecore";
  static char breaks[] = " \t";
  rl_readline_name = name;
  rl_basic_word_break_characters = breaks;
  rl_completer_word_break_characters = breaks;
  offered = std::move(offers);
  rl_attempted_completion_function = complete;
  using_history();
  stifle_history(lines_kept);
  if (history_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(history_.parent_path(), failed);
  // what is typed may be secret: it is for this user alone
  const int made = ::open(history_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);
  static_cast<void>(read_history(history_.c_str()));  // nothing is there at first
}

line_editor::~line_editor() { offered = nullptr; }

std::optional<std::string> line_editor::read(const std::string& prompt) {
  const std::unique_ptr<char, freed> typed(readline(prompt.c_str()));
  if (typed == nullptr) return std::nullopt;
  std::string line = typed.get();
  if (line.find_first_not_of(" \t") != std::string::npos) {
    add_history(line.c_str());
    // at once: the shell may be killed
    if (!history_.empty()) static_cast<void>(write_history(history_.c_str()));
  }
  return line;
}

std::filesystem::path history_file() {
  const auto named = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (std::getenv("ICECORE_HISTORY") != nullptr) return named("ICECORE_HISTORY");
  if (const auto state = named("XDG_STATE_HOME"); state.is_absolute()) return state / "icecore" / "history";
  if (const auto home = named("HOME"); home.is_absolute()) return home / ".local" / "state" / "icecore" / "history";
  return {};
}

}  // namespace icecore::cli

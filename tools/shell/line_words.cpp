#include "shell/line_words.hpp"

#include <optional>

#include "icecore/error.hpp"

namespace icecore::cli {
namespace {

constexpr std::string_view blanks = " \t\r\n";

}  // namespace

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;  // the one that has begun
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool blank = quote == '\0' && blanks.find(c) != std::string_view::npos;
    if (!blank && !(quote == '\0' && c == '#' && !word) && !word) word.emplace();
    if (blank) {
      if (word) words.push_back(std::move(*word));
      word.reset();
    } else if (!word) {
      break;  // a remark
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'') {
      if (i + 1 == line.size())
        throw error(errc::invalid_argument, "the line ends with a backslash: nothing follows it");
      const char next = line[++i];
      // within quotes a backslash is one, but before what would end or begin something
      if (quote == '"' && next != '"' && next != '\\') *word += c;
      *word += next;
    } else {
      *word += c;
    }
  }
  if (quote != '\0') {
    throw error(errc::invalid_argument, std::string("the line ends within quotes: another ") + quote + " is missing");
  }
  if (word) words.push_back(std::move(*word));
  return words;
}

std::string quoted(std::string_view word) {
  if (!word.empty() && word.front() != '#' && word.find_first_of(" \t\r\n'\"\\") == std::string_view::npos)
    return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace icecore::cli

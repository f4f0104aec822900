// The history of a table, a tag a commit: the lines that were added to and deleted from each file of a git repository
// so far. Sums over the table as it was after every commit, in one pass over the past.
//
//   git log --reverse --first-parent -m --no-renames --numstat --summary --format='commit %H %ct' |
//     commit_table STORE [count|sum|min|max EXPRESSION CONDITION]...
//
// STORE is created anew. The table: the path, as git prints it, is the key; the value has the columns time (of the last
// change, in seconds since 1970), added and deleted (lines). A file that is deleted leaves the table. Expressions and
// conditions are those of docs/filters.md. Prints a line for each commit: its name, and the answer to each question, or
// - if there is none; without questions, how many files and how many lines there are.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/icecore.hpp"

namespace {

constexpr const char* columns = "time i64, added i64, deleted i64";

/// A row, packed as the layout says; numbers are little-endian.
using row = std::array<std::int64_t, 3>;

struct question {
  std::string how;
  std::string expression;
  std::string condition;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "commit_table: %s\n", what.c_str());
  std::exit(1);
}

/// The number before a tab. Of a binary file git prints a dash.
std::int64_t taken_number(std::string_view& line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) fail("not a line of git log --numstat: " + std::string(line));
  const std::int64_t number =
      line.starts_with('-') ? 0 : std::strtoll(std::string(line.substr(0, tab)).c_str(), nullptr, 10);
  line.remove_prefix(tab + 1);
  return number;
}

/// Loads what git log prints; returns the names of the commits.
std::vector<std::string> load(icecore::store& store, std::istream& log) {
  constexpr std::string_view begins_commit = "commit ";
  constexpr std::string_view says_deleted = " delete mode 100644 ";  // the mode may be another one, of the same length
  std::vector<std::string> names;
  std::map<std::string, row, std::less<>> now;
  std::int64_t time = 0;
  for (std::string text; std::getline(log, text);) {
    std::string_view line = text;
    if (line.starts_with(begins_commit)) {
      if (!names.empty()) store.tag({.name = names.back(), .time_ns = time * 1'000'000'000});
      line.remove_prefix(begins_commit.size());
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) fail("a commit without a time: " + text);
      names.emplace_back(line.substr(0, space));
      time = std::strtoll(text.c_str() + begins_commit.size() + space, nullptr, 10);
    } else if (line.starts_with(says_deleted.substr(0, 13)) && line.size() > says_deleted.size()) {
      const std::string path(line.substr(says_deleted.size()));
      now.erase(path);
      store.remove(path);
    } else if (!line.empty() && line.front() != ' ') {
      const std::int64_t added = taken_number(line);
      const std::int64_t deleted = taken_number(line);
      row& current = now[std::string(line)];
      current = {time, current[1] + added, current[2] + deleted};
      store.insert(line, {reinterpret_cast<const char*>(current.data()), sizeof current});
    }
  }
  if (!names.empty()) store.tag({.name = names.back(), .time_ns = time * 1'000'000'000});
  return names;
}

std::string shown(const std::optional<icecore::result_number>& number) {
  if (!number) return "-";
  return std::visit([](auto exact) { return std::to_string(exact); }, *number);
}

/// The answer to a question, for each version.
std::vector<std::string> answers(const icecore::many_versions& commits, const question& asked) {
  const icecore::filter condition(asked.condition, icecore::layout(columns));
  std::vector<std::string> out;
  if (asked.how == "count") {
    for (const std::uint64_t n : commits.count(condition)) out.push_back(std::to_string(n));
    return out;
  }
  if (asked.how != "sum" && asked.how != "min" && asked.how != "max") fail("not count, sum, min or max: " + asked.how);
  const auto found = asked.how == "sum"   ? commits.sum(condition, asked.expression)
                     : asked.how == "min" ? commits.min(condition, asked.expression)
                                          : commits.max(condition, asked.expression);
  for (const auto& number : found) out.push_back(shown(number));
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc % 3 != 2) fail("usage: commit_table STORE [count|sum|min|max EXPRESSION CONDITION]...");
  std::vector<question> asked;
  for (int i = 2; i < argc; i += 3) asked.push_back({argv[i], argv[i + 1], argv[i + 2]});
  if (asked.empty()) asked = {{"count", "", "true"}, {"sum", "added - deleted", "true"}};

  std::filesystem::remove(argv[1]);
  icecore::options how;
  how.durability = icecore::durability::none;  // closing makes all of it durable; until then it can be made again
  icecore::store store(argv[1], how);
  const std::vector<std::string> names = load(store, std::cin);
  std::vector<icecore::version> versions;
  for (const std::string& name : names) versions.push_back(store.find_tag(name)->version);

  const icecore::many_versions commits = store.each(versions);
  std::vector<std::vector<std::string>> table;
  for (const question& one : asked) table.push_back(answers(commits, one));
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::printf("%s", names[i].c_str());
    for (const auto& column : table) std::printf("\t%s", column[i].c_str());
    std::printf("\n");
  }
  store.close();
} catch (const icecore::error& failure) {
  std::fprintf(stderr, "commit_table: %s\n", failure.what());
  return 1;
}

#include "verbs/data/put_many.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <string_view>

#include "icecore/store.hpp"
#include "line/opening.hpp"
#include "text/file_error.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

/// The form of the lines: what was asked for, or what the file's name says.
line_form form_of(const put_many_arguments& many) {
  if (many.json) return line_form::json;
  if (many.tsv) return line_form::tsv;
  for (const std::string_view ending : {".json", ".jsonl", ".ndjson"}) {
    if (many.file.ends_with(ending)) return line_form::json;
  }
  return line_form::tsv;
}

class lines_input {
 public:
  explicit lines_input(const std::string& file)
      : number_(file == "-" ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) fail_on_file(file, "opening the lines");
  }
  ~lines_input() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  lines_input(const lines_input&) = delete;
  lines_input& operator=(const lines_input&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// Writes batches of lines and knows how far it came.
class line_writer {
 public:
  line_writer(const std::string& store, const write_arguments& write) : path_(&store), write_(&write) {}

  /// Reads the next lines; false if there are none.
  bool read(many_lines& lines, std::uint64_t count) {
    next_.clear();
    removes_ = 0;
    progress_bar bar("reading", 0, "lines");
    while (next_.size() < count) {
      const auto line = lines.next();
      if (!line) break;
      try {
        if (line->value) {
          next_.insert(line->key, *line->value);
        } else {
          next_.remove(line->key);
          ++removes_;
        }
      } catch (const error& wrong) {
        throw error(static_cast<errc>(wrong.code().value()),
                    fmt::format("line {}: {}", lines.line_number(), wrong.message()));
      }
      bar.update(next_.size());
    }
    return !next_.empty();
  }

  void write() {
    if (!store_) store_.emplace(open_to_write(*path_, *write_, creation::open_or_create));
    version = store_->apply(next_);
    set += next_.size() - removes_;
    removed += removes_;
  }

  void close() {
    if (store_) store_->close();
  }

  [[nodiscard]] std::uint64_t lines() const noexcept { return set + removed; }

  std::uint64_t set = 0;
  std::uint64_t removed = 0;
  std::optional<icecore::version> version;

 private:
  const std::string* path_;
  const write_arguments* write_;
  std::optional<opened_store> store_;
  batch next_;
  std::uint64_t removes_ = 0;
};

/// The message of a failure, and what the store has of the lines.
error with_what_is_written(const error& failure, const line_writer& writer) {
  const std::string done = writer.lines() == 0 ? "no line was written"
                                               : fmt::format(
                                                     "lines 1 to {} are in the store, in version {}, and none "
                                                     "behind them",
                                                     writer.lines(), *writer.version);
  return {static_cast<errc>(failure.code().value()), fmt::format("{}; {}", failure.message(), done)};
}

}  // namespace

exit_code put_many(const std::string& store, const put_many_arguments& many, const write_arguments& write,
                   const hex_arguments& hex, format as) {
  const lines_input input(many.file);
  many_lines lines(input.number(), many.file == "-" ? "standard input" : many.file, form_of(many), hex);
  line_writer writer(store, write);
  const std::uint64_t step = many.batch == 0 ? std::numeric_limits<std::uint64_t>::max() : many.batch;
  try {
    while (writer.read(lines, step)) writer.write();
    writer.close();
  } catch (const error& failure) {
    throw with_what_is_written(failure, writer);
  }
  if (as == format::json) {
    json_object line;
    line.add("lines", writer.lines()).add("set", writer.set).add("removed", writer.removed);
    if (writer.version) line.add("version", *writer.version);
    out().line(line.text());
  } else {
    out().line(fmt::format("{} lines: {} set, {} removed{}", grouped(writer.lines()), grouped(writer.set),
                           grouped(writer.removed),
                           writer.version ? fmt::format(", in version {}", *writer.version) : ""));
  }
  return exit_code::ok;
}

}  // namespace icecore::cli

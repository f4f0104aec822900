// load: makes a store from a dump, or from the history of a git repository (git_load.cpp).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>

#include "dump/dump_loader.hpp"
#include "dump/dump_reader.hpp"
#include "git/git_load.hpp"
#include "icecore/unfinished.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/file_error.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

namespace fs = std::filesystem;

struct load_arguments {
  std::string file = "-";
  git_load_arguments git;  // its store, durability and format also apply to a dump
};

struct descriptor {
  int number;
  ~descriptor() {
    if (number > STDERR_FILENO) ::close(number);
  }
};

/// A dump is loaded into a new store, or replaces one that was never written.
void check_place(const std::string& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  const opened_store s = open_to_read(path);
  const statistics holds = s.stats();
  if (holds.records == 0 && holds.tags == 0 && holds.clock <= 1) return;
  throw error(errc::store_exists,
              fmt::format("{}: this store is not empty ({} records, {} tags); a dump is loaded into a new store: give "
                          "a path where no file exists, or delete this store first",
                          path, holds.records, holds.tags));
}

void report(const load_arguments& a, const dump_loader& loader, version clock, std::uint64_t bytes, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  if (a.git.format == cli::format::json) {
    json_object line;
    line.add("records", loader.records).add("tags", loader.tags).add("clock", clock);
    out().line(line.add("dump_bytes", bytes).add("seconds", seconds).text());
  } else {
    out().line(fmt::format("{}: {} records and {} tags up to version {}, {} of dump in {:.2f} s ({}/s)", a.git.store,
                           grouped(loader.records), grouped(loader.tags), clock,
                           human_bytes(static_cast<double>(bytes)), seconds, human_bytes(rate)));
  }
}

/// The durability to record in the new store. An empty store is opened with it first, so a mode that the device cannot
/// provide is refused before the dump is read.
durability durability_given(const std::string& path, const write_arguments& asked) {
  opened_store s = open_to_write(path, asked, creation::create_new);
  const durability given = s.durability().mode;
  s.close();
  return given;
}

/// stat shows the mode of a store's last writer, so this opens the store once more in the requested mode.
void record_durability(const std::string& path, const write_arguments& asked) {
  open_to_write(path, asked, creation::open_existing).close();
}

exit_code load_dump(const load_arguments& a) {
  const bool standard_input = a.file == "-";
  const descriptor input{standard_input ? STDIN_FILENO : ::open(a.file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (input.number < 0) fail_on_file(a.file, "opening the dump");
  struct stat status {};
  const bool sized = ::fstat(input.number, &status) == 0 && S_ISREG(status.st_mode);

  // A partly loaded store never has the final name.
  check_place(a.git.store);
  unfinished_store making(a.git.store, ".loading");
  const std::string unfinished = making.path().string();
  const auto start = std::chrono::steady_clock::now();

  // Under durability tag each version would wait for the device, including the millions that a crash skipped. Nothing
  // needs them durable before the store has its name, and closing makes all of them durable.
  const durability given = durability_given(unfinished, a.git.write);
  opened_store s = open_to_write(unfinished, {.durability = durability::none}, creation::open_existing);
  dump_reader dump(input.number, standard_input ? "standard input" : a.file);
  dump_loader loader(s, dump);
  loader.run(sized ? static_cast<std::uint64_t>(status.st_size) : 0);
  const version clock = s.clock();
  s.close();
  if (given != durability::none) record_durability(unfinished, a.git.write);
  making.finish(replacing::allowed);
  report(a, loader, clock, dump.bytes_read(),
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return exit_code::ok;
}

}  // namespace

void add_load_verb(command_line& line) {
  const auto a = std::make_shared<load_arguments>();
  verb verb = line.add_verb(
      "load", "Make a store from a dump, or from the history of a git repository",
      "  icecore load model.ice model.jsonl\n"
      "  zstdcat model.jsonl.zst | icecore load model.ice\n"
      "  icecore load history.ice --git ~/src/project\n"
      "  icecore load history.ice --git project.git --ref v2.0\n"
      "A dump is loaded into a new store. From git, each commit of the ref's first-parent chain becomes a tag named\n"
      "by its hash, and each path that it changed an insert or a remove. A load that was stopped continues when it is\n"
      "started again; a later load adds the newer commits.");
  a->git.write.durability = durability::none;
  verb.add_store(a->git.store);
  const option file = verb.add_option("FILE", a->file, "The dump; - or no file: standard input")
                          .type_name("")
                          .completes(value_kind::file);
  const option git = verb.add_option("--git", a->git.repository, "Load the history of this git repository")
                         .type_name("REPO")
                         .completes(value_kind::folder)
                         .excludes(file);
  verb.add_option("--ref", a->git.ref, "Branch, tag or commit whose first-parent chain is loaded (default: HEAD)")
      .type_name("REF")
      .needs(git);
  verb.add_option("--threads", a->git.threads, "Threads that read the git repository (default: all cores)")
      .type_name("N")
      .needs(git);
  verb.add_writing(a->git.write);
  verb.add_format(a->git.format);
  verb.runs([a, git] { return git.given() ? load_git(a->git) : load_dump(*a); });
}

}  // namespace icecore::cli

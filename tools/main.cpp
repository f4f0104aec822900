// icecore: the store on the command line. docs/cli.md is its manual.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "icecore/error.hpp"
#include "line/command_line.hpp"
#include "line/wording.hpp"
#include "text/output.hpp"

namespace {

using namespace icecore::cli;

void add_verbs(command_line& line) {
  add_key_verbs(line);
  add_scan_verb(line);
  add_filter_verb(line);
  add_query_verbs(line);
  add_feed_verb(line);
  add_tag_verbs(line);
  add_history_verb(line);
  add_diff_verb(line);
  add_checkout_verb(line);
  add_stat_verb(line);
  add_verify_verb(line);
  add_repair_verb(line);
  add_reindex_verb(line);
  add_compact_verb(line);
  add_checkpoint_verb(line);
  add_dump_verb(line);
  add_load_verb(line);
  add_bench_verb(line);
  add_doctor_verb(line);
  add_help_verb(line);
  add_completion_verb(line);
}

exit_code run(int argc, char** argv) {
  command_line line;
  add_verbs(line);
  const action chosen = line.parse(argc, argv);
  try {
    const exit_code code = chosen();
    out().flush();
    return code;
  } catch (const icecore::error&) {
    out().flush();  // write what was found before the failure
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // write() reports a reader that ended, so the store is closed properly on the way out.
  (void)std::signal(SIGPIPE, SIG_IGN);
  // The call that would grow a file beyond its limit (ulimit -f) reports it: no space.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  exit_code code = exit_code::internal;
  try {
    code = run(argc, argv);
  } catch (const closed_pipe&) {
    code = exit_code::ok;
  } catch (const icecore::error& e) {
    fmt::print(stderr, "icecore: {}\n", in_words_of_the_command(e.message()));
    code = exit_code_of(static_cast<icecore::errc>(e.code().value()));
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "icecore: {}: {}\n", e.path1().string(), e.code().message());
    code = exit_code::io;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "icecore: out of memory; close other programs or raise the limit (ulimit -v)\n");
  } catch (const std::exception& e) {
    fmt::print(stderr, "icecore: unexpected: {}\n", e.what());
  }
  return static_cast<int>(code);
}

// icecore: the store on the command line. docs/cli.md is its manual.
#include <csignal>

#include "line/command_line.hpp"
#include "line/reporting.hpp"
#include "text/output.hpp"

namespace icecore::cli {

void add_verbs(command_line& line) {
  add_key_verbs(line);
  add_scan_verb(line);
  add_filter_verb(line);
  add_query_verbs(line);
  add_feed_verb(line);
  add_tag_verbs(line);
  add_history_verb(line);
  add_diff_verb(line);
  add_watch_verb(line);
  add_checkout_verb(line);
  add_stat_verb(line);
  add_verify_verb(line);
  add_repair_verb(line);
  add_reindex_verb(line);
  add_compaction_verbs(line);
  add_retention_verbs(line);
  add_hold_verbs(line);
  add_checkpoint_verb(line);
  add_dump_verb(line);
  add_load_verb(line);
  add_bench_verb(line);
  add_doctor_verb(line);
  add_shell_verb(line);
  add_help_verb(line);
  add_completion_verb(line);
}

}  // namespace icecore::cli

int main(int argc, char** argv) {
  using namespace icecore::cli;
  // write() reports a reader that ended, so the store is closed properly on the way out.
  (void)std::signal(SIGPIPE, SIG_IGN);
  // The call that would grow a file beyond its limit (ulimit -f) reports it: no space.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  try {
    return static_cast<int>(reported([&] {
      command_line line;
      add_verbs(line);
      return line.parse(argc, argv)();
    }));
  } catch (const closed_pipe&) {
    return static_cast<int>(exit_code::ok);
  }
}

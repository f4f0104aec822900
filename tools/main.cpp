// icecore: the store on the command line. docs/cli.md is its manual.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "arguments.hpp"
#include "icecore/version.hpp"
#include "output.hpp"

namespace {

using namespace icecore::cli;

void add_verbs(CLI::App& app, action& chosen) {
  add_key_verbs(app, chosen);
  add_scan_verb(app, chosen);
  add_tag_verbs(app, chosen);
  add_history_verb(app, chosen);
  add_diff_verb(app, chosen);
  add_stat_verb(app, chosen);
  add_verify_verb(app, chosen);
  add_repair_verb(app, chosen);
  add_dump_verb(app, chosen);
  add_load_verb(app, chosen);
  add_bench_verb(app, chosen);
}

exit_code parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return exit_code::ok;
  } catch (const CLI::Success& asked_for) {  // --help, --version
    app.exit(asked_for);
    throw;
  } catch (const CLI::ParseError& wrong) {
    const auto verbs = app.get_subcommands();
    const std::string verb = verbs.empty() ? "" : ' ' + verbs.front()->get_name();
    fmt::print(stderr, "icecore{}: {}; `icecore{} --help` tells how it is used\n", verb, wrong.what(), verb);
    return exit_code::usage;
  }
}

exit_code run(int argc, char** argv) {
  CLI::App app(
      "icecore: an ordered key-value store that keeps every version.\n"
      "A write goes to the open version; `tag` closes it; a closed version can be read for ever.",
      "icecore");
  app.set_version_flag("--version", std::string("icecore ") + icecore::library_version());
  app.require_subcommand(1);
  app.footer(
      "`icecore VERB --help` shows a verb's options and examples. `--` ends the options: what follows may begin with "
      "-.\n"
      "Exit codes: 0 yes, 1 no (not found, different), 2 usage, 3 no store, 4 locked, 5 damaged, 6 found "
      "damage,\n"
      "7 no space, 8 not durable, 9 input or output, 10 bad input, 11 no such version or tag, 12 internal error.");
  action chosen;
  add_verbs(app, chosen);
  if (const exit_code code = parse(app, argc, argv); code != exit_code::ok) return code;
  try {
    const exit_code code = chosen();
    out().flush();
    return code;
  } catch (const icecore::error&) {
    out().flush();  // what was found before the failure
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away is told by write(), so that a store is closed properly on the way out.
  (void)std::signal(SIGPIPE, SIG_IGN);
  exit_code code = exit_code::internal;
  try {
    code = run(argc, argv);
  } catch (const CLI::Success&) {
    code = exit_code::ok;
  } catch (const closed_pipe&) {
    code = exit_code::ok;
  } catch (const icecore::error& e) {
    fmt::print(stderr, "icecore: {}\n", e.message());
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

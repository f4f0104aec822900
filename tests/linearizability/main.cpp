// kill_loop: kills writers of stores again and again, and checks all that the stores ever answered.
//
//   kill_loop --kills 200                              every mode and index, on the memory file system
//   kill_loop --setting tag_on_disk --seed 77 --kills 12
//   kill_loop --processes 8 --lives 2000               stores that processes share
//   kill_loop --packs --kills 200                      stores that are packed meanwhile
//   kill_loop --kills 20000 --operations 100000000 --state loop.state --seconds 3600
//   kill_loop --check failed.history                   check a saved history again
#include <CLI/CLI.hpp>
#include <iostream>

#include "checker.hpp"
#include "kill_loop.hpp"
#include "support/model.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] int check_saved(const std::vector<std::string>& paths) {
  int status = 0;
  for (const auto& path : paths) {
    const verdict v = check(load_history(path));
    std::cout << path << ": " << v.operations << " operations, " << v.in_flight
              << " in flight: " << v.violation.value_or("sound") << '\n';
    if (v.violation) status = 1;
  }
  return status;
}

int run(int count, char** arguments) {
  CLI::App app("Kills writers of stores, reopens the stores and checks all they ever answered.");
  loop_options how;
  std::vector<std::string> names;
  std::vector<std::string> saved;
  std::vector<std::string> known = {"all"};
  for (const setting& s : loop_settings()) known.push_back(s.name());
  app.add_option("--setting", names, "durability, place and index; several take turns (default: each on tmpfs)")
      ->check(CLI::IsMember(known));
  app.add_option("--processes", how.processes, "that share each store; 1: none shares it")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_flag("--packs", how.packs, "the stores are packed while they are written")->excludes("--processes");
  app.add_option("--kills", how.kills, "kills of writing processes")->capture_default_str();
  app.add_option("--operations", how.operations, "go on until so many operations were checked, too");
  app.add_option("--lives", how.lives, "go on until stores have been opened, killed and inspected so often, too");
  app.add_option("--seed", how.seed, "of the first store; each further one has the next")->capture_default_str();
  app.add_option("--seconds", how.seconds_max, "stop after this time; 0: never");
  app.add_option("--state", how.state, "keeps how far it is in this file, and goes on from there");
  app.add_option("--keep", how.keep, "folder for what failed: history and store")->capture_default_str();
  app.add_option("--save", how.save, "folder for all histories");
  app.add_flag("--quiet", how.quiet, "no progress");
  app.add_option("--check", saved, "check these saved histories, and nothing else");
  CLI11_PARSE(app, count, arguments);
  if (!saved.empty()) return check_saved(saved);
  for (const setting& s : loop_settings()) {
    const auto named = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
    const bool wanted = names.empty() ? s.where == place::tmpfs : named(s.name()) || named("all");
    if (wanted) how.settings.push_back(s);
  }
  return run_loop(how) ? 0 : 1;
}

}  // namespace
}  // namespace icecore::testing

int main(int count, char** arguments) {
  try {
    return icecore::testing::run(count, arguments);
  } catch (const std::exception& failure) {
    std::cerr << "kill_loop: " << failure.what() << '\n';
    return 2;
  }
}

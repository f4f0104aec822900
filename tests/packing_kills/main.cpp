// Kills processes that share a store while one of them packs it, and checks all that survivors and later openings find.
//
//   icecore_packing_kills --kills 2000 --seed 7
//
// Store after store, each with a setting, a number of processes and habits of its own (sharing_round.hpp). In a quarter
// of the rounds nobody is killed: processes attach and leave while the store is packed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "sharing_round.hpp"

namespace icecore::testing {
namespace {

struct arguments {
  std::uint64_t kills = 2000;
  std::uint64_t seed = 1;
  double seconds = 0;
  std::filesystem::path keep = "packing_kills-failures";
};

int run(const arguments& how) {
  using clock = std::chrono::steady_clock;
  const auto until =
      how.seconds > 0 ? clock::now() + std::chrono::round<clock::duration>(std::chrono::duration<double>(how.seconds))
                      : clock::time_point::max();
  sharing_round::counts all;
  std::uint64_t rounds = 0;
  for (; (rounds == 0 || all.kills < how.kills) && clock::now() < until; ++rounds) {
    random_numbers random(how.seed + rounds);
    const scratch folder(place::tmpfs);
    sharing_round one(random, folder.path());
    try {
      one.run(until);
    } catch (const std::exception& e) {
      std::error_code ignored;
      std::filesystem::create_directories(how.keep, ignored);
      const auto kept = how.keep / std::to_string(how.seed + rounds);
      std::filesystem::copy(
          folder.path(), kept,
          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing, ignored);
      fmt::print("FAILED: {}: {}\n  the store is kept in {}\n  replay: icecore_packing_kills --seed {}\n", one.name(),
                 e.what(), kept.native(), how.seed + rounds);
      return 1;
    }
    all.add(one.done());
  }
  fmt::print(
      "{} kills, {} of them of processes that pack, in {} sessions of {} stores, seed {}, of which {} ended poisoned: "
      "{} times a process attached, {} compactions, {} writes, {} finds and {} versions were right\n",
      all.kills, all.kills_of_openers, all.sessions, rounds, how.seed, all.poisoned, all.attached, all.compactions,
      all.writes, all.finds, all.versions);
  return 0;
}

}  // namespace
}  // namespace icecore::testing

int main(int argc, char** argv) {
  icecore::testing::arguments how;
  CLI::App app("Kills processes that share a store while one of them packs it, and checks what is found.");
  app.add_option("--kills", how.kills, "processes to kill")->capture_default_str();
  app.add_option("--seed", how.seed, "of the first store; each further one has the next")->capture_default_str();
  app.add_option("--seconds", how.seconds, "stop after so long; 0: never")->capture_default_str();
  app.add_option("--keep", how.keep, "folder for a store that failed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return icecore::testing::run(how);
}

// icecore_budgets: compares the store with the figures it must reach.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "icecore/icecore.hpp"
#include "report.hpp"

int main(int argc, char** argv) {
  using namespace icecore::bench;
  CLI::App app{"Measures the store and compares the figures with their budgets."};
  settings chosen;
  bool deep = false;
  std::uint64_t large = 0;
  unsigned files = 0;
  std::string json_path;
  app.add_option("--keys", chosen.keys, "Keys of the store, and depth of the deepest history with --deep")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1000}, std::uint64_t{1'000'000'000}));
  app.add_option("--repetitions", chosen.repetitions, "Repetitions, of which the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", chosen.threads, "Numbers of threads")->delimiter(',')->check(CLI::Range(1, 1024));
  app.add_option("--folder", chosen.folder, "Where the stores are made")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  auto* deep_flag = app.add_flag("--deep", deep, "Measure finds in deep histories instead");
  app.add_option("--large", large, "Measure one store of this many keys instead: bytes a key, reopening after SIGKILL")
      ->check(CLI::Range(std::uint64_t{1000}, std::uint64_t{10'000'000'000}))
      ->excludes(deep_flag);
  app.add_option("--files", files, "Measure what a store of this many files costs, compared with a store of one file")
      ->check(CLI::Range(2U, 16U))
      ->excludes(deep_flag);
  app.add_option("--json", json_path, "Write the figures to this file, too");
  app.footer(
      "Examples:\n  icecore_budgets\n  icecore_budgets --deep\n  icecore_budgets --large 10000000 --json large.json");
  CLI11_PARSE(app, argc, argv);
  try {
    json result = {{"library", icecore::library_version()}, {"machine", machine()}};
    if (deep) {
      result["depth"] = measure_depth(chosen);
    } else if (files != 0) {
      result["files"] = measure_files(chosen, files);
    } else if (large != 0) {
      result["large"] = measure_large(chosen, large);
    } else {
      result["keys"] = chosen.keys;
      result["points"] = measure_points(chosen);
    }
    if (!json_path.empty()) {
      std::ofstream out(json_path);
      out << result.dump(2) << '\n';
      if (!out.flush()) throw std::runtime_error("cannot write " + json_path);
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "\nicecore_budgets: %s\n", failure.what());
    return 1;
  }
  return 0;
}

// Hours of mixed load on one server: every answer must be right, and what the server holds must stay level.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "soak/load.hpp"
#include "soak/samples.hpp"
#include "support/scratch.hpp"
#include "ways/server_process.hpp"

namespace icecore::soak {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct arguments {
  double minutes = 1;
  double round_seconds = 60;
  std::uint64_t checkpoint_rounds = 5;
  std::string server = ways::program();
  std::string plant = "none";
  place where;
};

ways::server_settings settings_of(const arguments& given) {
  return {.program = given.server,
          .listen = {{"grpc", ways::any_port}, {"ucx", ways::any_port}, {"http", ways::any_port}},
          .flags = {"--limits-read-limit", "5 s"}};
}

// When connections have ended: the number of descriptors stays for two seconds.
sample at_rest(pid_t server) {
  sample last = sample_of(server);
  auto since = clock::now();
  for (const auto limit = clock::now() + 30s; clock::now() - since < 2s && clock::now() < limit;) {
    std::this_thread::sleep_for(100ms);
    const sample now = sample_of(server);
    if (now.descriptors != last.descriptors || now.threads != last.threads) since = clock::now();
    last = now;
  }
  return last;
}

// A checkpoint of all databases is restored, and another server shows what was acknowledged before it.
void checkpoint(const arguments& given, const fs::path& folder, lasting& stays, verdict& said) {
  const fs::path image = folder / "checkpoint";
  const fs::path again = folder / "restored";
  fs::create_directory(again);
  stays.connection().write_snapshot(image);
  {
    const int restored = ways::run_program({given.server, "--restore", image, "--data", again / "data"});
    said.require(restored == 0, "the checkpoint was not restored");
    ways::server_process other(again, settings_of(given));
    const auto key = ways::connect({ways::door::ucx, other.address("ucx")})->open("lasting")->get("key");
    said.require(key == std::to_string(stays.last()), "the checkpoint has {} of {}", key.value_or("nothing"),
                 stays.last());
    said.require(other.terminate() == 0, "the restored server has not ended well: {}", other.log());
  }
  fs::remove_all(image);
  fs::remove_all(again);
}

int run(arguments given) {
  const testing::scratch folder(testing::place::disk);
  ways::server_process server(folder.path(), settings_of(given));
  given.where.grpc = server.address("grpc");
  given.where.ucx = server.address("ucx");
  given.where.http = server.address("http");
  given.where.wrong_model = given.plant == "wrong_model";
  verdict said;
  std::vector<sample> samples;
  std::vector<std::unique_ptr<ways::connection>> planted;
  {
    lasting stays(given.where, said);
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(given.minutes * 1min);
    const auto length = std::chrono::duration_cast<clock::duration>(given.round_seconds * 1s);
    for (std::uint64_t round = 0; clock::now() + length / 2 < end && said.wrong().empty(); ++round) {
      run_round(given.where, round, clock::now() + length, said);
      stays.write_and_watch();
      if (round % given.checkpoint_rounds == 0) checkpoint(given, folder.path(), stays, said);
      if (given.plant == "connections") {
        planted.push_back(ways::connect({ways::door::ucx, given.where.ucx}));
      }
      samples.push_back(at_rest(server.pid()));
      std::printf("round %zu: %llu answers are right; %s\n", samples.size(),
                  static_cast<unsigned long long>(said.checks()), text_of(samples.back()).c_str());
      std::fflush(stdout);
    }
  }
  said.require(server.terminate() == 0, "the server has not ended well: {}", server.log());
  for (const std::string& each : what_grows(samples)) said.add(each);
  for (const std::string& each : said.wrong()) std::printf("WRONG: %s\n", each.c_str());
  std::printf("%zu rounds, %llu answers checked, %zu wrong\n", samples.size(),
              static_cast<unsigned long long>(said.checks()), said.wrong().size());
  return said.wrong().empty() ? 0 : 1;
}

}  // namespace
}  // namespace icecore::soak

int main(int argc, char** argv) {
  icecore::soak::arguments given;
  CLI::App app(
      "Mixed load on icecore-server for as long as told; its memory, descriptors and threads must stay level.");
  app.add_option("--minutes", given.minutes, "how long")->check(CLI::Range(0.01, 100'000.0));
  app.add_option("--round", given.round_seconds,
                 "seconds, after which all databases are dropped, all connections end, "
                 "and what the server holds is looked at")
      ->check(CLI::Range(0.5, 3600.0));
  app.add_option("--rate", given.where.calls_per_second, "calls a second, about")->check(CLI::Range(1.0, 1e6));
  app.add_option("--checkpoints", given.checkpoint_rounds, "a checkpoint is written and restored each so many rounds");
  app.add_option("--server", given.server, "the program");
  app.add_option("--plant", given.plant, "what must be found: connections that are kept, or a model that is wrong")
      ->check(CLI::IsMember({"none", "connections", "wrong_model"}));
  CLI11_PARSE(app, argc, argv);
  try {
    return icecore::soak::run(given);
  } catch (const std::exception& e) {
    std::cerr << "server_soak: " << e.what() << '\n';
    return 1;
  }
}

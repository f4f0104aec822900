// server_history: records what clients of a database of the server are answered, for the checker.
//
//   server_history --rule write --operations 5000 --seed 7 FILE
//   server_history --fault early_reply FILE        a double with a fault, which the checker must find
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "judge/clients.hpp"
#include "judge/faults.hpp"
#include "service/service.hpp"
#include "support/scratch.hpp"

namespace {

using namespace icecore::judge;
namespace service = icecore::service;

struct arguments {
  std::string rule = "write";
  std::string fault = "none";
  bool disk = false;
  std::string path;
  recording how{};
};

std::shared_ptr<service::database> make(service::service& in, const arguments& given, const std::string& name) {
  service::database_settings settings{.name = name};
  settings.rule = given.rule == "write"   ? service::version_rule::write
                  : given.rule == "every" ? service::version_rule::every
                                          : service::version_rule::tag;
  settings.interval = std::chrono::milliseconds(5);
  settings.durability = given.disk ? icecore::durability::operation : icecore::durability::none;
  return in.create(service::principal::anyone(), settings);
}

void run(arguments given) {
  const icecore::testing::scratch folder(given.disk ? icecore::testing::place::disk : icecore::testing::place::tmpfs);
  service::service server({.data = folder / "data"});
  const auto db = make(server, given, "judged");
  database_target real(*db);
  history_file file(given.path, given.rule);
  if (given.fault == "none") {
    record(real, given.how, file);
  } else if (given.fault == "missed_event") {
    forgetful_target forgetful(real, 50);
    record(forgetful, given.how, file);
  } else {
    const auto other = make(server, given, "present");
    database_target present(*other);
    double_target both(present, real,
                       given.fault == "early_reply"  ? fault::early_reply
                       : given.fault == "open_reads" ? fault::open_reads
                                                     : fault::none);
    given.how.watches = false;
    given.how.break_it = [&both] { both.cut_power(); };
    given.how.mend_it = [&both] { both.restart(); };
    record(both, given.how, file);
  }
  file.close();
  server.stop();
}

}  // namespace

int main(int argc, char** argv) {
  arguments given;
  CLI::App app("Records a history of a database of the server, for the checker.");
  app.add_option("--rule", given.rule, "the version rule")->check(CLI::IsMember({"write", "every", "tag"}));
  app.add_option("--fault", given.fault, "a double instead, which is honest or has this fault")
      ->check(CLI::IsMember({"none", "honest", "early_reply", "open_reads", "missed_event"}));
  app.add_flag("--disk", given.disk, "on a disk, each operation durable; else in memory");
  app.add_option("--operations", given.how.operations, "calls, all together")->check(CLI::Range(1, 100'000'000));
  app.add_option("--clients", given.how.clients, "threads that ask")->check(CLI::Range(1, 64));
  app.add_option("--readers", given.how.readers, "of them, those that never write")->check(CLI::Range(0, 63));
  app.add_option("--keys", given.how.keys, "keys that they ask for")->check(CLI::Range(2, 64));
  app.add_option("--seed", given.how.seed, "of what they ask");
  app.add_option("FILE", given.path, "the history")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    run(given);
  } catch (const std::exception& e) {
    std::cerr << "server_history: " << e.what() << '\n';
    return 1;
  }
  return 0;
}

// server_history: records what clients of a database of the server are answered, for the checker.
//
//   server_history --rule write --operations 5000 --seed 7 FILE
//   server_history --doors both FILE               through gRPC and UCX at once: each call by another door
//   server_history --fault early_reply FILE        a double with a fault, which the checker must find
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "doors/grpc/door.hpp"
#include "doors/ucx/door.hpp"
#include "judge/clients.hpp"
#include "judge/door_targets.hpp"
#include "judge/faults.hpp"
#include "service/service.hpp"
#include "support/scratch.hpp"

namespace {

using namespace icecore::judge;
namespace service = icecore::service;

struct arguments {
  std::string rule = "write";
  std::string fault = "none";
  std::string doors = "none";
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

// A database as it is in this process, or behind the doors that were asked for.
class doors_of {
 public:
  doors_of(service::service& all, const std::string& which) {
    if (which == "grpc" || which == "both") {
      grpc_ = std::make_unique<icecore::doors::grpc_door>(all, icecore::doors::grpc_door_options{.port = 0});
      grpc_->start();
    }
    if (which == "ucx" || which == "both") {
      ucx_ =
          std::make_unique<icecore::doors::ucx_door>(all, icecore::doors::ucx_door_options{.port = 0, .token = token});
      ucx_->start();
    }
  }
  // The target lives as long as this.
  target& to(const std::shared_ptr<service::database>& db, const std::string& name) {
    std::vector<target*> ways;
    if (grpc_) ways.push_back(keep<grpc_target>("127.0.0.1:" + std::to_string(grpc_->port()), name));
    if (ucx_) ways.push_back(keep<ucx_target>(ucx_->port(), token, name, false));
    if (ucx_) ways.push_back(keep<ucx_target>(ucx_->port(), token, name, true));
    return ways.empty() ? static_cast<target&>(*keep<database_target>(*db)) : *keep<several_targets>(std::move(ways));
  }
  void stop() {
    kept_.clear();
    if (grpc_) grpc_->stop(std::chrono::seconds(5));
    if (ucx_) ucx_->stop(std::chrono::seconds(5));
  }

 private:
  static constexpr const char* token = "a token of this run";
  template <typename Target, typename... With>
  Target* keep(With&&... with) {
    auto made = std::make_unique<Target>(std::forward<With>(with)...);
    Target* const bare = made.get();
    kept_.push_back(std::move(made));
    return bare;
  }
  std::unique_ptr<icecore::doors::grpc_door> grpc_;
  std::unique_ptr<icecore::doors::ucx_door> ucx_;
  std::vector<std::unique_ptr<target>> kept_;
};

void run(arguments given) {
  const icecore::testing::scratch folder(given.disk ? icecore::testing::place::disk : icecore::testing::place::tmpfs);
  service::service server({.data = folder / "data"});
  const auto db = make(server, given, "judged");
  doors_of doors(server, given.doors);
  target& real = doors.to(db, "judged");
  history_file file(given.path, given.rule);
  if (given.fault == "none") {
    record(real, given.how, file);
  } else if (given.fault == "missed_event") {
    forgetful_target forgetful(real, 50);
    record(forgetful, given.how, file);
  } else {
    const auto other = make(server, given, "present");
    target& present = doors.to(other, "present");
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
  doors.stop();
  server.stop();
}

}  // namespace

int main(int argc, char** argv) {
  arguments given;
  CLI::App app("Records a history of a database of the server, for the checker.");
  app.add_option("--rule", given.rule, "the version rule")->check(CLI::IsMember({"write", "every", "tag"}));
  app.add_option("--fault", given.fault, "a double instead, which is honest or has this fault")
      ->check(CLI::IsMember({"none", "honest", "early_reply", "open_reads", "missed_event"}));
  app.add_option("--doors", given.doors, "the doors that clients come through; none: they call the database itself")
      ->check(CLI::IsMember({"none", "grpc", "ucx", "both"}));
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

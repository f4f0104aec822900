#include "run/program/program.hpp"

#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "icecore/error.hpp"
#include "run/lifecycle/data_lock.hpp"
#include "run/lifecycle/descriptors.hpp"
#include "run/lifecycle/lifecycle.hpp"
#include "run/lifecycle/service_manager.hpp"
#include "run/program/named_files.hpp"

namespace icecore::server {
namespace {

server_exit exit_of(const error& e) noexcept {
  // other_cluster: the folder is that of another place than the configuration says. store_exists: --restore makes a
  // folder, and the one that is named is there.
  for (const errc told : {errc::bad_input, errc::other_cluster, errc::store_exists}) {
    if (e.code() == told) return server_exit::configuration;
  }
  if (e.code() == errc::locked) return server_exit::locked;
  return server_exit::failed;
}

/// glibc makes up to eight arenas a core for malloc. Requests move between threads, so each arena keeps free pieces
/// that no other can use, and a busy server's memory creeps up for hours. As many arenas as cores keep it level, and
/// threads seldom wait for one, since each has a cache of small pieces. What the user has chosen stays.
void bound_arenas() {
#if defined(__GLIBC__)
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  const bool chosen = std::getenv("MALLOC_ARENA_MAX") != nullptr ||
                      (tunables != nullptr && std::string_view(tunables).find("arena_max") != std::string_view::npos);
  if (!chosen) ::mallopt(M_ARENA_MAX, static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 1024U)));
#endif
}

/// While this lives, the service manager is told that the server starts, however long that takes.
class announced_start {
 public:
  explicit announced_start(service_manager& manager)
      : announces_([&manager](const std::stop_token& ended) {
          std::mutex mutex;
          std::condition_variable_any wakes;
          std::unique_lock lock(mutex);
          do {
            manager.starting("opening the databases", 3 * interval);
          } while (!wakes.wait_for(lock, ended, interval, [&] { return ended.stop_requested(); }));
        }) {}

 private:
  static constexpr std::chrono::seconds interval{10};
  std::jthread announces_;
};

ending serve_until_stopped(const configuration& told, process_signals& signals, log& out, service::group_link* link,
                           const before_stopping& first) {
  if (const auto problem = raise_descriptor_limit(descriptors_needed(told))) {
    out.write(log_level::warning, "server.few_descriptors", {{"what", *problem}});
  }
  service_manager manager;
  std::optional<announced_start> start(std::in_place, manager);
  running_server server(told, out, link);
  start.reset();
  manager.ready("serving");
  lifecycle_actions actions;
  actions.stop = [&](std::chrono::steady_clock::time_point deadline) {
    if (first) first();
    server.stop(deadline);
  };
  actions.reopen = [&] { server.reload(); };
  actions.unwell = [&] { return server.unwell(); };
  actions.report = [&](std::string_view event, std::string_view detail) {
    out.write(log_level::info, event, {{"detail", detail}});
  };
  const ending how = run_until_stopped(signals, actions, told.server.shutdown_limit);
  const bool cut_short = how == ending::cut_short_by_limit || how == ending::cut_short_by_signal;
  static_cast<void>(out.flush(std::chrono::seconds(2)));
  // Threads that do not end are still using the server: this is what SIGKILL does, and what was acknowledged survives.
  if (cut_short) std::_Exit(static_cast<int>(server_exit::cut_short));
  return how;
}

}  // namespace

int serve(const configuration& told, service::group_link* link, const before_stopping& first) {
  if (link == nullptr && told.group.mode == group_mode::dependent) {
    throw error(errc::bad_input,
                "group.mode = \"dependent\": the servers of such a group are the ranks of an MPI job: "
                "mpirun -n N icecore-server-mpi ...");
  }
  // gRPC's locks belong to Abseil, which some builds let look for deadlocks at each lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  bound_arenas();
  process_signals signals;  // before any other thread
  const data_lock lock(told.server.data);
  log out({.format = told.log.format, .level = told.log.level, .file = told.log.file, .server = told.server.name});
  try {
    return static_cast<int>(exit_of(serve_until_stopped(told, signals, out, link, first)));
  } catch (const error& e) {
    out.write(log_level::error, "server.failed", {{"why", e.message()}, {"code", e.code().value()}});
    static_cast<void>(out.flush(std::chrono::seconds(2)));
    throw;
  }
}

void print_restored(const command_line& told, const service::restore_notes& notes) {
  for (const auto& from : told.restore_from) std::cout << fmt::format("restored {}\n", from.native());
  for (const std::string& note : notes) std::cout << note << '\n';
  std::cout << fmt::format("{} is complete\n", told.configuration.server.data.native()) << std::flush;
}

int restore(const command_line& told) {
  service::restore_request what{.from = told.restore_from, .to = told.configuration.server.data};
  switch (told.configuration.group.mode) {
    case group_mode::single:
      if (what.from.size() > 1) what.place.emplace();
      break;
    case group_mode::independent: {
      const auto& group = told.configuration.group;
      what.place = service::group_place{.name = group.name, .index = group.index, .size = group.size};
      break;
    }
    case group_mode::dependent:
      throw error(
          errc::bad_input,
          "a dependent group is restored by its servers together: mpirun -n N icecore-server-mpi --restore ...");
  }
  print_restored(told, service::restore_snapshot(what));
  return 0;
}

int run_program(int count, const char* const* arguments, const std::function<int(const command_line& told)>& serve_told,
                const std::function<int(const command_line& told)>& restore_told) {
  try {
    const command_line told = read_command_line(count, arguments);
    if (told.action == command_line::kind::check || told.action == command_line::kind::run) {
      require_usable_files(told.configuration);
    }
    switch (told.action) {
      case command_line::kind::run:
        return serve_told(told);
      case command_line::kind::restore:
        return restore_told(told);
      case command_line::kind::check:
        return 0;
      case command_line::kind::print_configuration:
      case command_line::kind::help:
        std::cout << told.output;
        return 0;
    }
  } catch (const error& e) {
    std::cerr << "icecore-server: " << e.message() << '\n';
    return static_cast<int>(exit_of(e));
  } catch (const std::bad_alloc&) {
    std::cerr << "icecore-server: out of memory\n";
  } catch (const std::exception& e) {
    std::cerr << "icecore-server: " << e.what() << '\n';
  }
  return static_cast<int>(server_exit::failed);
}

}  // namespace icecore::server

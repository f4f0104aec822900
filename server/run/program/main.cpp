// The program icecore-server: reads what it is told, serves, and stops when a signal says so.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <thread>

#include "icecore/error.hpp"
#include "run/configuration/command_line.hpp"
#include "run/log/log.hpp"
#include "run/program/server.hpp"

namespace icecore::server {
namespace {

constexpr int exit_failed = 1;
constexpr int exit_bad_input = 2;

sigset_t awaited_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&all, number);
  return all;
}

// Waits for signals until one says that the server is to stop.
void wait_for_stop(running_server& server, const sigset_t& awaited) {
  for (;;) {
    int number = 0;
    if (sigwait(&awaited, &number) != 0) continue;
    if (number == SIGHUP) {
      server.reload();
      continue;
    }
    return;
  }
}

// A second signal while the server stops ends it at once: what was acknowledged is durable as promised, as after a
// crash.
void end_at_a_second_signal(const sigset_t& awaited) {
  std::thread([awaited] {
    for (;;) {
      int number = 0;
      if (sigwait(&awaited, &number) == 0 && number != SIGHUP) std::_Exit(128 + number);
    }
  }).detach();
}

int serve(const configuration& told) {
  // Before the first thread is made, so that all of them leave these signals to sigwait.
  const sigset_t awaited = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  log out({.format = told.log.format, .level = told.log.level, .file = told.log.file, .server = told.server.name});
  try {
    running_server server(told, out);
    wait_for_stop(server, awaited);
    end_at_a_second_signal(awaited);
    server.stop();
  } catch (const error& e) {
    out.write(log_level::error, "server.failed", {{"why", e.message()}, {"code", e.code().value()}});
    static_cast<void>(out.flush(std::chrono::seconds(2)));
    throw;
  }
  return 0;
}

int run(int count, const char* const* arguments) {
  try {
    const command_line told = read_command_line(count, arguments);
    switch (told.action) {
      case command_line::kind::run:
        return serve(told.configuration);
      case command_line::kind::restore:
        service::service::restore_snapshot(told.restore_from, told.configuration.server.data);
        std::cout << fmt::format("restored {} to {}\n", told.restore_from.native(),
                                 told.configuration.server.data.native());
        return 0;
      case command_line::kind::check:
        return 0;
      case command_line::kind::print_configuration:
      case command_line::kind::help:
        std::cout << told.output;
        return 0;
    }
  } catch (const error& e) {
    std::cerr << "icecore-server: " << e.message() << '\n';
    return e.code() == errc::bad_input ? exit_bad_input : exit_failed;
  } catch (const std::bad_alloc&) {
    std::cerr << "icecore-server: out of memory\n";
  } catch (const std::exception& e) {
    std::cerr << "icecore-server: " << e.what() << '\n';
  }
  return exit_failed;
}

}  // namespace
}  // namespace icecore::server

int main(int count, char** arguments) { return icecore::server::run(count, arguments); }

// What the programs icecore-server and icecore-server-mpi have in common.
//
//   int main(int count, char** arguments) {
//     return run_program(count, arguments, [](const command_line& told) { return serve(told.configuration, nullptr);
//     });
//   }
//
// Threads: main's alone.
#pragma once

#include <functional>

#include "run/configuration/command_line.hpp"
#include "run/lifecycle/process_signals.hpp"
#include "run/log/log.hpp"
#include "run/program/server.hpp"

namespace icecore::server {

/// Reads the arguments and does what they ask for: `serve`, `restore`, or what needs neither. Errors are printed.
/// Returns the process's exit code.
int run_program(int count, const char* const* arguments, const std::function<int(const command_line& told)>& serve,
                const std::function<int(const command_line& told)>& restore);

/// Makes the data folder of this server from snapshots.
int restore(const command_line& told);
void print_restored(const command_line& told, const service::restore_notes& notes);

/// How a server of a group begins to stop: called with SIGTERM, before its doors are closed. Empty: nothing to do.
using before_stopping = std::function<void()>;

/// Serves until a signal asks to stop.
int serve(const configuration& told, service::group_link* link, const before_stopping& first = {});

}  // namespace icecore::server

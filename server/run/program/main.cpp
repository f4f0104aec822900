// The program icecore-server: reads what it is told, serves, and stops when a signal says so.
#include <cstdlib>

#include "run/program/program.hpp"

int main(int count, char** arguments) {
  using namespace icecore::server;
  return run_program(
      count, arguments, [](const command_line& told) { return serve(told.configuration, nullptr); }, restore);
}

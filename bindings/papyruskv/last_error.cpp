#include "last_error.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "waiting.hpp"

namespace papyruskv {
namespace {

// A fixed size, so that storing a message never needs memory.
constexpr std::size_t message_size = 1024;
thread_local char message[message_size];

bool logs() noexcept {
  const char* const asked = std::getenv("PAPYRUSKV_LOG");
  return asked != nullptr && *asked != '\0' && std::strcmp(asked, "0") != 0;
}

int rank() noexcept {
  int number = -1;
  if (mpi_runs()) MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

}  // namespace

int failed(const char* function, const char* reason) noexcept {
  std::snprintf(message, message_size, "%s: %s", function, reason);
  if (logs()) std::fprintf(stderr, "[rank %d] %s\n", rank(), message);
  return PAPYRUSKV_ERR;
}

int refused(int result, bool same_on_all) noexcept {
  if (result == PAPYRUSKV_ERR && !logs() && !(same_on_all && rank() > 0)) {
    std::fprintf(stderr, "[rank %d] %s\n", rank(), message);
  }
  return result;
}

const char* last_error() noexcept { return message; }

}  // namespace papyruskv

// The program icecore-server-mpi: one server of a dependent group on each rank of an MPI job.
//
//   mpirun -n 4 icecore-server-mpi --data /var/lib/icecore --listen-grpc 127.0.0.1:7480
//
// The databases lie in DATA/group, the catalog of rank r in DATA/rank-r. Rank r listens on the ports that were told,
// plus r (0 stays: any free one). With --restore all ranks together make that folder from snapshots, and end.
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "group/mpi_link.hpp"
#include "group/restore.hpp"
#include "icecore/error.hpp"
#include "run/program/program.hpp"

namespace icecore::server {
namespace {

configuration of_rank(configuration told, int rank, int size) {
  told.server.data /= fmt::format("rank-{}", rank);
  told.server.name = fmt::format("{}-{}", told.server.name, rank);
  for (network_address* address : {&told.listen.grpc, &told.listen.http, &told.listen.ucx}) {
    if (!address->empty() && address->port != 0) address->port = static_cast<std::uint16_t>(address->port + rank);
  }
  if (!told.log.file.empty()) told.log.file += fmt::format(".{}", rank);
  told.group.mode = group_mode::dependent;
  if (told.group.name.empty()) told.group.name = "group";
  told.group.index = static_cast<unsigned>(rank);
  told.group.size = static_cast<unsigned>(size);
  return told;
}

void begin_mpi() {
  int given = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given) != MPI_SUCCESS || given < MPI_THREAD_MULTIPLE) {
    throw error(errc::mpi, "icecore-server-mpi needs an MPI with MPI_THREAD_MULTIPLE, and this one does not give it");
  }
}

int restore_on_ranks(const command_line& told) {
  begin_mpi();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int code = 0;
  try {
    const service::restore_notes notes =
        group::restore_group(MPI_COMM_WORLD, {.from = told.restore_from, .to = told.configuration.server.data});
    if (rank == 0) print_restored(told, notes);
  } catch (const error& e) {  // on all ranks
    if (rank == 0) std::cerr << "icecore-server-mpi: " << e.message() << std::endl;
    code = e.code() == errc::bad_input ? 2 : 1;
  }
  MPI_Finalize();
  return code;
}

int serve_on_ranks(const configuration& told) {
  // MPI has threads of its own: each of them inherits that the signals are blocked, or SIGTERM would end the process.
  const process_signals before_all_threads;
  begin_mpi();
  int code = 0;
  try {
    group::mpi_link link(MPI_COMM_WORLD, told.server.data);
    link.on_stop([] { ::kill(::getpid(), SIGTERM); });  // as if this rank had got the signal
    code = serve(of_rank(told, link.rank(), static_cast<int>(link.size())), &link, [&] {
      link.ask_to_stop();
      link.end();
    });
  } catch (const error& e) {
    // The others wait for this rank: an MPI job ends as a whole.
    std::cerr << "icecore-server-mpi: " << e.message() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, e.code() == errc::bad_input ? 2 : 1);
  }
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace icecore::server

int main(int count, char** arguments) {
  using namespace icecore::server;
  return run_program(
      count, arguments, [](const command_line& told) { return serve_on_ranks(told.configuration); }, restore_on_ranks);
}

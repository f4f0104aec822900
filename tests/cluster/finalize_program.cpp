// A program that leaves its cluster open: MPI_Finalize closes it, without a hang, and nothing that was written is lost.
//
//   mpirun -np N finalize_program
#include <mpi.h>
#include <stdlib.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "icecore/cluster.hpp"

int main(int argc, char** argv) {
  try {
    icecore::cluster(MPI_COMM_WORLD, "never");
    std::fputs("a cluster was opened before MPI_Init\n", stderr);
    return 1;
  } catch (const icecore::error& e) {
    if (e.code() != icecore::errc::mpi) return 1;
  }

  int level = 0;
  if (std::getenv("ICECORE_TEST_SINGLE") != nullptr) {
    MPI_Init(&argc, &argv);
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  }
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char folder[64] = "/dev/shm/icecore-finalize-XXXXXX";
  if (rank == 0 && mkdtemp(folder) == nullptr) return 1;
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);

  icecore::cluster_options options;
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  if (std::strstr(library, "MPICH") != nullptr) options.progress_thread = false;  // docs/cluster.md says why
  auto open = std::make_unique<icecore::cluster>(MPI_COMM_WORLD, folder, options);
  std::string to_me;  // of the rank before, which stages it
  std::string mine;
  for (int i = 0; to_me.empty() || mine.empty(); ++i) {
    const std::string key = "key-" + std::to_string(i);
    if (open->owner_of(key) == rank && to_me.empty()) to_me = key;
    if (open->owner_of(key) == (rank + 1) % ranks && mine.empty()) mine = key;
  }
  open->insert(mine, "staged");
  const std::filesystem::path pool = open->local().path();
  MPI_Finalize();

  bool lost = false;
  {
    const icecore::store store(pool);  // it is closed, so it can be opened
    lost = store.find(to_me) != "staged";
  }
  if (lost) std::fprintf(stderr, "rank %d: what was staged is lost\n", rank);
  try {
    open->insert("a", "b");
    lost = true;
  } catch (const icecore::error&) {  // as it must
  }
  open.reset();
  std::filesystem::remove(pool);
  if (rank == 0) std::filesystem::remove(std::filesystem::path(folder) / "manifest");
  std::error_code not_empty;  // the last rank succeeds
  std::filesystem::remove(folder, not_empty);
  return lost ? 1 : 0;
}

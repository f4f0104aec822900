// A job that is killed in the middle of its writes, and the next one, which finds all that a tag covered.
//
//   mpirun -np N killed_program write FOLDER        (is killed)
//   mpirun -np N killed_program check FOLDER
#include <mpi.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "icecore/cluster.hpp"

namespace {

constexpr int keys = 200;

std::string name(int rank, int number) { return std::to_string(rank) + "/" + std::to_string(number); }

void write(icecore::cluster& c) {
  for (int i = 0; i < keys; ++i) c.insert(name(c.rank(), i), "kept");
  c.tag("kept");
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  for (int i = 0;; ++i) {
    c.insert(name(c.rank(), i % keys), "later");
    if (i % 50 == 0) c.remove(name(c.rank(), (i + 7) % keys));
    if (c.rank() == c.size() - 1 && std::chrono::steady_clock::now() > until) raise(SIGKILL);
  }
}

bool whole(icecore::cluster& c) {
  bool good = c.local().verify().ok() && c.at("kept").size() == static_cast<std::uint64_t>(keys * c.size());
  for (int r = 0; r < c.size(); ++r) {
    for (int i = 0; i < keys; ++i) good = good && c.find(name(r, i), c.find_tag("kept")->version) == "kept";
  }
  c.insert(name(c.rank(), 0), "again");
  const icecore::version v = c.tag();
  c.barrier();
  for (int r = 0; r < c.size(); ++r) good = good && c.find(name(r, 0), v) == "again";
  c.barrier();
  return good && c.local().clock() == v + 1;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  bool good = argc == 3;
  if (good) {
    icecore::cluster c(MPI_COMM_WORLD, argv[2]);
    if (std::string_view(argv[1]) == "write") write(c);
    good = whole(c);
    c.close();
  }
  if (!good) std::fputs("the killed job left something that is not whole\n", stderr);
  MPI_Finalize();
  return good ? 0 : 1;
}

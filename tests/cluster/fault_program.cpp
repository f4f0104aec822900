// A fault of a program's own, of which the sanitizer that it is built with must tell, whatever is overlooked of the MPI
// under it: two threads that count without a lock, and a block of memory that is lost, both between calls of MPI.
//
//   mpirun -np N fault_program
#include <mpi.h>

#include <thread>

namespace {

int unguarded = 0;
int* lost = nullptr;

void count_unguarded(int tag) {
  for (int i = 0; i < 100; ++i) {
    const int sent = unguarded;
    int received = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, 0, tag, &received, 1, MPI_INT, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    unguarded = received + 1;
  }
}

void lose_memory() {
  for (int i = 0; i < 100; ++i) {
    lost = new int(i);
    MPI_Barrier(MPI_COMM_SELF);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  std::thread other(count_unguarded, 1);
  count_unguarded(2);
  other.join();
  lose_memory();
  MPI_Finalize();
}

/* Makes MPI_Init ask for MPI_THREAD_MULTIPLE, with which databases answer other ranks at any time. If the MPI library
 * gives less, the program ends with a message. Include it after mpi.h, or alone. */
#ifndef PAPYRUS_MPI_H
#define PAPYRUS_MPI_H

#include <mpi.h>
#include <stdio.h>

static inline int papyrus_mpi_init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  const int result = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  if (result == MPI_SUCCESS && provided != MPI_THREAD_MULTIPLE) {
    fprintf(stderr, "papyrus: this MPI gives thread level %d, and MPI_THREAD_MULTIPLE is needed\n", provided);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return result;
}

#define MPI_Init(argc, argv) papyrus_mpi_init(argc, argv)

#endif

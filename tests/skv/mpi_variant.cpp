// The variant of SKV's interfaces for programs with MPI: Init and SKV_Init take a communicator.
#include <mpi.h>
#include <skv/client/skv_client.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool good = argc == 2;
  {
    skv_client_t client;
    good = good && client.Init(0, MPI_COMM_WORLD, 0, argv[1]) == SKV_SUCCESS;
    good = good && client.Connect(nullptr, 0) == SKV_SUCCESS && client.Disconnect() == SKV_SUCCESS;
    skv_hdl_t handle = nullptr;
    good = good && SKV_Init(0, MPI_COMM_WORLD, 0, argv[1], &handle) == SKV_SUCCESS;
    good = good && SKV_Connect(handle, nullptr, 0) == SKV_SUCCESS && SKV_Finalize(handle) == SKV_SUCCESS;
  }
  MPI_Finalize();
  return good ? 0 : 1;
}

// The variant of SKV's interfaces for programs with MPI: Init and SKV_Init take a communicator. Each rank inserts a key
// by C++; the others retrieve it by C, with the identifier that the first rank has broadcast.
#include <mpi.h>
#include <skv/client/skv_client.hpp>

#include <cstdio>
#include <cstring>

static void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  must(argc == 2, "the call of this program");
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  skv_client_t client;
  must(client.Init(rank, MPI_COMM_WORLD, 0, argv[1]) == SKV_SUCCESS, "Init");
  must(client.Connect(nullptr, 0) == SKV_SUCCESS, "Connect");
  char name[SKV_MAX_PDS_NAME_SIZE] = "ranks";
  const auto both = static_cast<skv_pds_priv_t>(SKV_PDS_READ | SKV_PDS_WRITE);
  skv_pds_id_t pds{};
  if (rank == 0) must(client.Open(name, both, SKV_COMMAND_OPEN_FLAGS_CREATE, &pds) == SKV_SUCCESS, "Open");
  MPI_Bcast(&pds, sizeof pds, MPI_BYTE, 0, MPI_COMM_WORLD);
  char value[] = "of this rank";
  const auto size = static_cast<int>(sizeof value);
  must(client.Insert(&pds, reinterpret_cast<char*>(&rank), sizeof rank, value, size, 0, SKV_COMMAND_RIU_FLAGS_NONE) ==
           SKV_SUCCESS,
       "Insert");
  MPI_Barrier(MPI_COMM_WORLD);

  skv_hdl_t handle = nullptr;
  skv_pds_hdl_t opened = nullptr;
  must(SKV_Init(rank, MPI_COMM_WORLD, 0, argv[1], &handle) == SKV_SUCCESS, "SKV_Init");
  must(SKV_Connect(handle, nullptr, 0) == SKV_SUCCESS, "SKV_Connect");
  must(SKV_Open(handle, name, both, SKV_COMMAND_OPEN_FLAGS_NONE, &opened) == SKV_SUCCESS, "SKV_Open");
  for (int other = 0; other < ranks; ++other) {
    char got[64];
    int told = 0;
    must(SKV_Retrieve(handle, opened, reinterpret_cast<char*>(&other), sizeof other, got, sizeof got, &told, 0,
                      SKV_COMMAND_RIU_FLAGS_NONE) == SKV_SUCCESS,
         "SKV_Retrieve");
    must(told == size && std::memcmp(got, value, sizeof value) == 0, "the comparison");
  }
  must(SKV_Finalize(handle) == SKV_SUCCESS && client.Disconnect() == SKV_SUCCESS, "the end");
  MPI_Finalize();
}

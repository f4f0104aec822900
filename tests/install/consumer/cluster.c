/* cluster.cpp in C. */
#include <icecore/icecore_mpi.h>
#include <stdio.h>

static void check(int code) {
  if (code == ICECORE_OK) return;
  puts(icecore_last_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int count, char** arguments) {
  icecore_cluster* cluster = NULL;
  icecore_version then = 0;
  icecore_bytes before = {0};
  icecore_bytes after = {0};
  char own[32];
  char other[32];
  MPI_Init(&count, &arguments);
  check(icecore_cluster_open(MPI_COMM_WORLD, arguments[1], NULL, &cluster));
  const int rank = icecore_cluster_rank(cluster);
  const size_t own_size = (size_t)snprintf(own, sizeof own, "key/%d", rank);
  const size_t other_size = (size_t)snprintf(other, sizeof other, "key/%d", (rank + 1) % icecore_cluster_size(cluster));
  check(icecore_cluster_insert(cluster, own, own_size, "before", 6, NULL));
  check(icecore_cluster_tag_now(cluster, &then));
  check(icecore_cluster_insert(cluster, own, own_size, "after", 5, NULL));
  check(icecore_cluster_tag_now(cluster, NULL));
  check(icecore_cluster_find_at(cluster, other, other_size, then, &before));
  check(icecore_cluster_find(cluster, other, other_size, &after));
  if (rank == 0) {
    printf("icecore %s: %.*s, %.*s\n", icecore_library_version(), (int)before.size, (const char*)before.data,
           (int)after.size, (const char*)after.data);
  }
  icecore_cluster_values_free(&before, 1);
  icecore_cluster_values_free(&after, 1);
  check(icecore_cluster_close(cluster));
  MPI_Finalize();
  return 0;
}

/* Opening, options, ownership. */
#include "tests.h"

void a_cluster_opens_by_its_options(void) {
  const char* path = new_path();
  icecore_options store;
  icecore_options_init(&store, sizeof store);
  icecore_cluster_options options;
  icecore_cluster_options_init(&options, sizeof options);
  CHECK(options.struct_size == sizeof options && options.store == NULL && options.progress_thread == 1);
  CHECK(options.ownership == ICECORE_OWNERSHIP_BY_HASH && options.consistency == ICECORE_CONSISTENCY_RELAXED);
  CHECK(options.staging_bytes > 0 && options.cache_bytes > 0 && options.group_size == 0);
  options.store = &store;
  store.creation = ICECORE_OPEN_EXISTING;
  icecore_cluster* cluster = (icecore_cluster*)&options;
  FAILS(ICECORE_NO_SUCH_STORE, icecore_cluster_open(MPI_COMM_WORLD, path, &options, &cluster));
  CHECK(cluster == NULL);
  CHECK(strstr(icecore_last_error_message(), path) != NULL);

  store.creation = ICECORE_CREATE_NEW;
  options.consistency = ICECORE_CONSISTENCY_SEQUENTIAL;
  options.progress_thread = 0;
  OK(icecore_cluster_open(MPI_COMM_WORLD, path, &options, &cluster));
  CHECK(icecore_cluster_rank(cluster) == rank && icecore_cluster_size(cluster) == ranks);
  CHECK(strcmp(icecore_cluster_path(cluster), path) == 0);
  CHECK(icecore_cluster_has_progress_thread(cluster) == 0);
  int mode;
  OK(icecore_cluster_consistency(cluster, &mode));
  CHECK(mode == ICECORE_CONSISTENCY_SEQUENTIAL);
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT("1"), NULL));
  OK(icecore_cluster_close(cluster));

  FAILS(ICECORE_STORE_EXISTS, icecore_cluster_open(MPI_COMM_WORLD, path, &options, &cluster));
  OK(icecore_cluster_open_f(MPI_Comm_c2f(MPI_COMM_WORLD), path, NULL, &cluster));
  for (int other = 0; other < ranks; ++other) CHECK(finds(cluster, text("key %d", other), "1"));
  OK(icecore_cluster_close(cluster));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_NULL, path, NULL, &cluster));
  OK(icecore_cluster_close(NULL));
}

void structures_of_clusters_may_be_older_or_newer(void) {
  const char* path = new_path();
  icecore_cluster* cluster;
  struct {
    icecore_cluster_options known;
    size_t of_the_future;
  } newer;
  icecore_cluster_options_init(&newer.known, sizeof newer);
  CHECK(newer.known.struct_size == sizeof newer && newer.of_the_future == 0);
  OK(icecore_cluster_open(MPI_COMM_WORLD, path, &newer.known, &cluster));
  OK(icecore_cluster_close(cluster));
  newer.of_the_future = 1;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, path, &newer.known, &cluster));

  icecore_options store;
  icecore_options_init(&store, sizeof store);
  store.creation = ICECORE_OPEN_EXISTING;
  icecore_cluster_options older;
  memset(&older, 0x7f, sizeof older);
  older.struct_size = sizeof(size_t) + sizeof(void*); /* knows `store` only */
  older.store = &store;
  OK(icecore_cluster_open(MPI_COMM_WORLD, path, &older, &cluster));
  OK(icecore_cluster_close(cluster));

  icecore_cluster_options_init(&older, sizeof older);
  older.consistency = 2;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, path, &older, &cluster));
  icecore_cluster_options_init(&older, sizeof older);
  older.ownership = 3;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, path, &older, &cluster));
  icecore_cluster_options_init(&older, sizeof older);
  older.ownership = ICECORE_OWNERSHIP_BY_FUNCTION; /* and none is given */
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, path, &older, &cluster));
  older.owner_name = "mine";
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, path, &older, &cluster));
}

/* The first byte of the key, counted from the context's. */
static int by_first_byte(void* context, const void* key, size_t key_size, int of_ranks) {
  return key_size == 0 ? 0 : (*(const char*)key - *(const char*)context) % of_ranks;
}

void keys_belong_to_whom_the_program_says(void) {
  const char* path = new_path();
  char zero = '0';
  icecore_cluster_options options;
  icecore_cluster_options_init(&options, sizeof options);
  options.ownership = ICECORE_OWNERSHIP_BY_FUNCTION;
  options.owner_name = "first_byte";
  options.owner = by_first_byte;
  options.owner_context = &zero;
  icecore_cluster* cluster;
  OK(icecore_cluster_open(MPI_COMM_WORLD, path, &options, &cluster));
  int owner;
  for (int first = 0; first < 9; ++first) {
    OK(icecore_cluster_owner_of(cluster, TEXT(text("%d...", first)), &owner));
    CHECK(owner == first % ranks);
  }
  OK(icecore_cluster_close(cluster));
  FAILS(ICECORE_OTHER_CLUSTER, icecore_cluster_open(MPI_COMM_WORLD, path, NULL, &cluster));

  icecore_bytes splits[64];
  char split_keys[64];
  for (int r = 1; r < ranks && r < 64; ++r) {
    split_keys[r] = (char)('a' + r);
    splits[r - 1].data = &split_keys[r];
    splits[r - 1].size = 1;
  }
  icecore_cluster_options_init(&options, sizeof options);
  options.ownership = ICECORE_OWNERSHIP_BY_RANGES;
  options.splits = splits;
  options.split_count = (size_t)ranks - 1;
  OK(icecore_cluster_open(MPI_COMM_WORLD, new_path(), &options, &cluster));
  for (int r = 0; r < ranks; ++r) {
    const char key[2] = {(char)('a' + r), 'z'};
    OK(icecore_cluster_owner_of(cluster, key, sizeof key, &owner));
    CHECK(owner == r);
  }
  int group, direct;
  OK(icecore_cluster_group_of(cluster, 0, &group));
  CHECK(group == 0);
  OK(icecore_cluster_reaches_directly(cluster, rank, &direct));
  CHECK(direct == 1);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_group_of(cluster, ranks, &group));
  OK(icecore_cluster_close(cluster));
  options.split_count = (size_t)ranks; /* one too many */
  splits[ranks - 1].data = "zz";
  splits[ranks - 1].size = 2;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_open(MPI_COMM_WORLD, new_path(), &options, &cluster));
}

void a_checkpoint_is_restored_on_other_ranks(void) {
  icecore_cluster* cluster = new_cluster();
  static char folder_path[256];
  snprintf(folder_path, sizeof folder_path, "%s", new_path());
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT("1"), NULL));
  icecore_version closed;
  OK(icecore_cluster_tag_now(cluster, &closed));
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT("2"), NULL));
  icecore_cluster_event* event;
  OK(icecore_cluster_checkpoint(cluster, folder_path, &event));
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT("3"), NULL));
  int done;
  uint64_t bytes_done, bytes_total;
  OK(icecore_cluster_event_wait(event));
  OK(icecore_cluster_event_done(event, &done));
  CHECK(done == 1);
  OK(icecore_cluster_event_progress(event, &bytes_done, &bytes_total));
  CHECK(bytes_done == bytes_total && bytes_total > 0);
  OK(icecore_cluster_close(cluster));
  icecore_cluster_event_free(event);

  icecore_checkpoint_source from;
  icecore_checkpoint_source_init(&from, sizeof from);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_restore(MPI_COMM_WORLD, &from, "x", NULL, &cluster)); /* no folder */
  from.folder = folder_path;
  for (from.redistribute = 0; from.redistribute < 2; ++from.redistribute) {
    const char* path = new_path();
    OK(icecore_cluster_restore(MPI_COMM_WORLD, &from, path, NULL, &cluster));
    CHECK(strcmp(icecore_cluster_path(cluster), path) == 0);
    icecore_bytes value;
    for (int other = 0; other < ranks; ++other) {
      CHECK(finds(cluster, text("key %d", other), "2"));
      OK(icecore_cluster_find_at(cluster, TEXT(text("key %d", other)), closed, &value));
      CHECK(holds(value, "1"));
      icecore_cluster_values_free(&value, 1);
    }
    OK(icecore_cluster_barrier(cluster, ICECORE_BARRIER_MEMORY));
    OK(icecore_cluster_checkpoint(cluster, folder_path, NULL)); /* waits */
    OK(icecore_cluster_close(cluster));
    FAILS(ICECORE_STORE_EXISTS, icecore_cluster_restore(MPI_COMM_WORLD, &from, path, NULL, &cluster));
  }
  MPI_Comm alone; /* each rank by itself makes a cluster of one rank of it */
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
  static char own_path[256];
  snprintf(own_path, sizeof own_path, "%s-%d", new_path(), rank);
  OK(icecore_cluster_restore_f(MPI_Comm_c2f(alone), &from, own_path, NULL, &cluster));
  CHECK(icecore_cluster_size(cluster) == 1);
  for (int other = 0; other < ranks; ++other) CHECK(finds(cluster, text("key %d", other), "2"));
  OK(icecore_cluster_close(cluster));
  MPI_Comm_free(&alone);
  from.folder = "/nowhere";
  FAILS(ICECORE_OTHER_CLUSTER, icecore_cluster_restore(MPI_COMM_WORLD, &from, new_path(), NULL, &cluster));
}

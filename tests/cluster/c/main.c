/* test_cluster_c [TEST]: runs all tests, or one, on all ranks. A rank that fails ends the job. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdlib.h>

#include "tests.h"

int rank, ranks;
static char base[64] = "/dev/shm/icecore-cluster-c-XXXXXX";

const char* new_path(void) {
  static char path[128];
  static int count;
  snprintf(path, sizeof path, "%s/%d", base, ++count);
  return path;
}

icecore_cluster* new_cluster(void) {
  icecore_cluster* cluster;
  OK(icecore_cluster_open(MPI_COMM_WORLD, new_path(), NULL, &cluster));
  return cluster;
}

const char* text(const char* format, int number) {
  static char texts[256][64];
  static int next;
  char* made = texts[next++ % 256];
  snprintf(made, sizeof texts[0], format, number);
  return made;
}

const char* key_of(const icecore_cluster* cluster, int owner) {
  for (int tried = 0;; ++tried) {
    int found;
    const char* key = text("key-%d", tried);
    OK(icecore_cluster_owner_of(cluster, TEXT(key), &found));
    if (found == owner) return key;
  }
}

int finds(const icecore_cluster* cluster, const char* key, const char* expected) {
  icecore_bytes value;
  OK(icecore_cluster_find(cluster, TEXT(key), &value));
  const int as_expected = holds(value, expected);
  icecore_cluster_values_free(&value, 1);
  return as_expected;
}

uint64_t of_rank_0(uint64_t number) {
  MPI_Bcast(&number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return number;
}

static int remove_one(const char* path, const struct stat* status, int type, struct FTW* place) {
  (void)status, (void)type, (void)place;
  return remove(path);
}

#define TEST(name) \
  { #name, name }
static const struct {
  const char* name;
  void (*run)(void);
} tests[] = {
    TEST(a_cluster_opens_by_its_options),
    TEST(structures_of_clusters_may_be_older_or_newer),
    TEST(keys_belong_to_whom_the_program_says),
    TEST(every_rank_reads_what_every_rank_wrote),
    TEST(many_go_and_come_at_once),
    TEST(a_batch_takes_effect_at_its_one_owner),
    TEST(the_owner_decides_about_conditions),
    TEST(a_tag_is_the_same_on_all_ranks),
    TEST(a_snapshot_shows_one_version_of_all_ranks),
    TEST(cursors_walk_all_ranks_in_key_order),
    TEST(histories_of_clusters_run_from_either_end),
    TEST(columns_of_all_ranks_come_in_order_to_the_root),
    TEST(columns_of_ranges_are_put_behind_each_other),
    TEST(gathered_columns_hold_all_and_outlive_the_cluster),
    TEST(distributed_columns_are_a_stretch_of_each_rank),
    TEST(a_stream_hands_all_pairs_in_order_to_the_root_and_can_stop),
    TEST(a_find_by_broadcast_answers_the_root),
    TEST(extractions_that_cannot_be_fail_on_all_ranks),
    TEST(consistency_and_protection_change_on_all_ranks),
    TEST(a_signal_carries_what_was_written_before),
    TEST(a_cluster_is_packed_and_its_versions_expire_alike),
    TEST(a_checkpoint_is_restored_on_other_ranks),
    TEST(nothing_in_place_of_an_argument_is_an_error),
};

static int run_all(const char* only) {
  int run = 0;
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; ++i) {
    if (only != NULL && strcmp(only, tests[i].name) != 0) continue;
    tests[i].run();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("passed: %s\n", tests[i].name);
    ++run;
  }
  return run;
}

int main(int argc, char** argv) {
  int level;
  if (getenv("ICECORE_TEST_SINGLE") != NULL) {
    MPI_Init(&argc, &argv);
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0 && mkdtemp(base) == NULL) return 2;
  MPI_Bcast(base, sizeof base, MPI_CHAR, 0, MPI_COMM_WORLD);
  const int run = run_all(argc > 1 ? argv[1] : NULL);
  if (rank == 0) nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  MPI_Finalize();
  return run == 0 ? 2 : 0;
}

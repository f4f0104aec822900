/* workload: mixed gets and updates of keys that were put before.
 *
 *   mpirun -np 2 workload keylen vallen count update_ratio       update_ratio: puts in a hundred operations
 *
 * The folder is $PAPYRUSKV_REPOSITORY. Consistency is sequential, as in section 5.2 of PapyrusKV's paper (SC 2017),
 * unless $PAPYRUSKV_CONSISTENCY says otherwise; with an update_ratio of 0 the database is protected as read-only, which
 * turns its cache on. It prints the seconds of the first puts with their barrier (PUT) and of the mixed operations
 * (PGT). Every value is compared when it is read, and the updates are read again after the clock has stopped.
 */
#include <mpi.h>
#include <papyrus/kv.h>
#include <papyrus/mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

enum phase { put, mixed, phase_count };
enum generation { first, updated };

static void put_value(const struct setting* s, int db, const char* key, enum generation which, char* room) {
  make_value(s, key, which, room);
  must(papyruskv_put(db, key, s->keylen, room, s->vallen), "papyruskv_put");
}

/* Whether operation i of the second phase is an update. */
static int is_update(size_t i, size_t update_ratio) { return i % 100 < update_ratio; }

static void put_all(const struct setting* s, int db, const char* keys, char* value, double* seconds) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) put_value(s, db, keys + i * s->keylen, first, value);
  must(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "papyruskv_barrier");
  seconds[put] = MPI_Wtime() - begin;
}

/* Returns how many were puts. */
static size_t get_and_update(const struct setting* s, int db, const char* keys, size_t update_ratio, char* value,
                             char* found, double* seconds) {
  if (update_ratio == 0) must(papyruskv_protect(db, PAPYRUSKV_RDONLY), "papyruskv_protect");
  MPI_Barrier(MPI_COMM_WORLD);
  size_t puts = 0;
  const double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) {
    const char* const key = keys + i * s->keylen;
    if (is_update(i, update_ratio)) {
      put_value(s, db, key, updated, value);
      ++puts;
    } else {
      checked_get(s, db, key, updated, value, found);  // short keys may be another rank's too, who updates them
    }
  }
  seconds[mixed] = MPI_Wtime() - begin;
  return puts;
}

static void look_at_updates(const struct setting* s, int db, const char* keys, size_t update_ratio, char* value,
                            char* found) {
  must(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "papyruskv_barrier");
  for (size_t i = 0; i < s->count; ++i) {
    const char* const key = keys + i * s->keylen;
    if (is_update(i, update_ratio) && checked_get(s, db, key, updated, value, found) != updated) {
      fail("rank %d: key %s was updated, but still has its first value", s->rank, key);
    }
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) fail("usage: workload keylen vallen count update_ratio[0:100]");
  const struct setting s = setting_of(argv);
  const size_t update_ratio = number_of(argv[4], "update_ratio", 0);
  if (update_ratio > 100) fail("update_ratio is %zu, and must be 0 to 100", update_ratio);
  must(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"), "papyruskv_init");
  if (s.rank == 0) {
    printf("update_ratio[%zu%%] ", update_ratio);
    print_setting(&s);
    printf("\n");
  }
  papyruskv_option_t options = {s.keylen, s.vallen, NULL};
  const int consistency = getenv("PAPYRUSKV_CONSISTENCY") == NULL ? PAPYRUSKV_SEQUENTIAL : 0;
  int db = 0;
  must(papyruskv_open("mydb", PAPYRUSKV_CREATE | PAPYRUSKV_RDWR | consistency, &options, &db), "papyruskv_open");
  char* const keys = keys_of(&s, s.rank);
  char* const value = malloc(s.vallen);
  char* const found = malloc(s.vallen);
  double seconds[phase_count];
  put_all(&s, db, keys, value, seconds);
  const size_t puts = get_and_update(&s, db, keys, update_ratio, value, found, seconds);
  look_at_updates(&s, db, keys, update_ratio, value, found);
  must(papyruskv_close(db), "papyruskv_close");
  remove_database("mydb");
  const struct times t = gathered(&s, seconds, phase_count);
  if (s.rank == 0) {
    printf("ALL[%zu] PUT[%zu] GET[%zu] AVG[PUT,PGT] [%f,%f] [MIN,MAX,AVG]", s.count, puts, s.count - puts,
           t.average[put], t.average[mixed]);
    print_phase("PUT", &t, put);
    print_phase("PGT", &t, mixed);
    printf("\n");
  }
  free(found);
  free(value);
  free(keys);
  must(papyruskv_finalize(), "papyruskv_finalize");
  MPI_Finalize();
  return 0;
}

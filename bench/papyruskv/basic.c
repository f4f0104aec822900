/* basic: puts, a barrier, gets and deletes of random keys by all ranks.
 *
 *   mpirun -np 2 basic keylen vallen count [level]      level: 1 MEMTABLE, 2 SSTABLE (default) of the barrier
 *
 * The folder is $PAPYRUSKV_REPOSITORY. It prints thousands of operations and megabytes per second of all ranks
 * together, and the seconds of the ranks. BAR is puts and barrier together, as in figure 7 of PapyrusKV's paper (SC
 * 2017). Every value is compared when it is read, and the deletes are checked after the clock has stopped.
 */
#include <mpi.h>
#include <papyrus/kv.h>
#include <papyrus/mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

enum phase { put, barrier, get, del, phase_count };

/* Puts all keys, then waits for all ranks' puts. */
static void put_all(const struct setting* s, int db, const char* keys, int level, double* seconds) {
  char* const value = malloc(s->vallen);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) {
    const char* const key = keys + i * s->keylen;
    make_value(s, key, 0, value);
    must(papyruskv_put(db, key, s->keylen, value, s->vallen), "papyruskv_put");
  }
  seconds[put] = MPI_Wtime() - begin;
  must(papyruskv_barrier(db, level), "papyruskv_barrier");
  seconds[barrier] = MPI_Wtime() - begin;
  free(value);
}

static void get_all(const struct setting* s, int db, const char* keys, double* seconds) {
  char* const expected = malloc(s->vallen);
  char* const found = malloc(s->vallen);
  must(papyruskv_protect(db, PAPYRUSKV_RDONLY), "papyruskv_protect");
  const double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) checked_get(s, db, keys + i * s->keylen, 0, expected, found);
  seconds[get] = MPI_Wtime() - begin;
  must(papyruskv_protect(db, PAPYRUSKV_RDWR), "papyruskv_protect");
  free(expected);
  free(found);
}

static void delete_all(const struct setting* s, int db, const char* keys, double* seconds) {
  const double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) must(papyruskv_delete(db, keys + i * s->keylen, s->keylen), "papyruskv_delete");
  seconds[del] = MPI_Wtime() - begin;
  must(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "papyruskv_barrier");
  for (size_t i = 0; i < s->count; ++i) {
    size_t length = 0;
    if (papyruskv_get(db, keys + i * s->keylen, s->keylen, NULL, &length) == PAPYRUSKV_OK) {
      fail("rank %d: key %s was deleted, but is still there", s->rank, keys + i * s->keylen);
    }
  }
}

static void print_figures(const struct setting* s, const double* seconds) {
  static const char* const names[] = {"PUT", "BAR", "GET", "DEL"};
  const struct times t = gathered(s, seconds, phase_count);
  if (s->rank != 0) return;
  const double operations = (double)s->count * s->size;
  const double bytes = operations * (double)(s->keylen + s->vallen);
  double krps[phase_count];
  double mbps[phase_count];
  for (int i = 0; i < phase_count; ++i) {
    krps[i] = operations / t.average[i] / 1000;
    mbps[i] = bytes / t.average[i] / 0x1p20;
  }
  printf(
      "KRPS[PUT,BAR,GET,DEL] [%f,%f,%f,%f] MBPS[PUT,BAR,GET] [%f,%f,%f] AVG[PUT,BAR,GET,DEL] [%f,%f,%f,%f] "
      "[MIN,MAX,AVG]",
      krps[put], krps[barrier], krps[get], krps[del], mbps[put], mbps[barrier], mbps[get], t.average[put],
      t.average[barrier], t.average[get], t.average[del]);
  for (int i = 0; i < phase_count; ++i) print_phase(names[i], &t, i);
  printf("\n");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4 && argc != 5) fail("usage: basic keylen vallen count [1:MEMTABLE/2:SSTABLE]");
  const struct setting s = setting_of(argv);
  const size_t level = argc == 5 ? number_of(argv[4], "level", PAPYRUSKV_MEMTABLE) : PAPYRUSKV_SSTABLE;
  if (level > PAPYRUSKV_SSTABLE) fail("level is %zu, and must be 1 (MEMTABLE) or 2 (SSTABLE)", level);
  must(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"), "papyruskv_init");
  if (s.rank == 0) {
    print_setting(&s);
    printf(" level[%zu]\n", level);
  }
  papyruskv_option_t options = {s.keylen, s.vallen, NULL};
  int db = 0;
  must(papyruskv_open("mydb", PAPYRUSKV_CREATE | PAPYRUSKV_RDWR, &options, &db), "papyruskv_open");
  char* const keys = keys_of(&s, s.rank);
  double seconds[phase_count];
  put_all(&s, db, keys, (int)level, seconds);
  get_all(&s, db, keys, seconds);
  delete_all(&s, db, keys, seconds);
  must(papyruskv_close(db), "papyruskv_close");
  remove_database("mydb");
  print_figures(&s, seconds);
  free(keys);
  must(papyruskv_finalize(), "papyruskv_finalize");
  MPI_Finalize();
  return 0;
}

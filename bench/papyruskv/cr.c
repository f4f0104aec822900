/* cr: a checkpoint of a database of random keys, or the restart from one.
 *
 *   mpirun -np 4 cr keylen vallen count path c              puts, a barrier, a checkpoint into the folder `path`
 *   mpirun -np 2 cr keylen vallen count path r [ranks]      a restart; ranks: how many made the checkpoint (default: as
 *                                                           many as there are)
 *
 * The folder of the database is $PAPYRUSKV_REPOSITORY. It prints the seconds of the ranks: CR is the checkpoint or the
 * restart. After a restart every value is read and compared, outside the timing.
 */
#include <mpi.h>
#include <papyrus/kv.h>
#include <papyrus/mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

enum phase { put, barrier, cr, close_database, phase_count };

static void checkpoint(const struct setting* s, const char* path, double* seconds) {
  papyruskv_option_t options = {s->keylen, s->vallen, NULL};
  int db = 0;
  must(papyruskv_open("mydb", PAPYRUSKV_CREATE | PAPYRUSKV_RDWR, &options, &db), "papyruskv_open");
  char* const keys = keys_of(s, s->rank);
  char* const value = malloc(s->vallen);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (size_t i = 0; i < s->count; ++i) {
    make_value(s, keys + i * s->keylen, 0, value);
    must(papyruskv_put(db, keys + i * s->keylen, s->keylen, value, s->vallen), "papyruskv_put");
  }
  seconds[put] = MPI_Wtime() - begin;
  begin = MPI_Wtime();
  must(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), "papyruskv_barrier");
  seconds[barrier] = MPI_Wtime() - begin;
  begin = MPI_Wtime();
  must(papyruskv_checkpoint(db, path, NULL), "papyruskv_checkpoint");
  seconds[cr] = MPI_Wtime() - begin;
  begin = MPI_Wtime();
  must(papyruskv_close(db), "papyruskv_close");
  seconds[close_database] = MPI_Wtime() - begin;
  free(value);
  free(keys);
}

/* Reads the keys that `writers` ranks have put; each rank reads its share of them. */
static void look_at_all(const struct setting* s, int db, int writers) {
  char* const expected = malloc(s->vallen);
  char* const found = malloc(s->vallen);
  for (int writer = s->rank; writer < writers; writer += s->size) {
    char* const keys = keys_of(s, writer);
    for (size_t i = 0; i < s->count; ++i) checked_get(s, db, keys + i * s->keylen, 0, expected, found);
    free(keys);
  }
  free(expected);
  free(found);
}

static void restart(const struct setting* s, const char* path, int writers, double* seconds) {
  papyruskv_option_t options = {s->keylen, s->vallen, NULL};
  int db = 0;
  seconds[put] = seconds[barrier] = 0;
  double begin = MPI_Wtime();
  must(papyruskv_restart(path, "mydb", PAPYRUSKV_RDWR, &options, &db, NULL), "papyruskv_restart");
  seconds[cr] = MPI_Wtime() - begin;
  look_at_all(s, db, writers);
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  must(papyruskv_close(db), "papyruskv_close");
  seconds[close_database] = MPI_Wtime() - begin;
}

int main(int argc, char** argv) {
  static const char* const names[] = {"PUT", "BAR", "CR", "CLOSE"};
  MPI_Init(&argc, &argv);
  if (argc != 6 && argc != 7) fail("usage: cr keylen vallen count path [c/r] [ranks]");
  const struct setting s = setting_of(argv);
  const char* const path = argv[4];
  const char what = argv[5][0];
  if ((what != 'c' && what != 'r') || argv[5][1] != '\0') fail("'%s' must be c (checkpoint) or r (restart)", argv[5]);
  const int writers = argc == 7 ? (int)number_of(argv[6], "ranks", 1) : s.size;
  must(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"), "papyruskv_init");
  if (s.rank == 0) {
    printf("cr[%c] ", what);
    print_setting(&s);
    printf(" target[%s]\n", path);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds[phase_count];
  if (what == 'c') {
    checkpoint(&s, path, seconds);
  } else {
    restart(&s, path, writers, seconds);
  }
  remove_database("mydb");
  const struct times t = gathered(&s, seconds, phase_count);
  if (s.rank == 0) {
    printf("AVG[PUT,BAR,CR,CLOSE] [%f,%f,%f,%f] [MIN,MAX,AVG]", t.average[put], t.average[barrier], t.average[cr],
           t.average[close_database]);
    for (int i = 0; i < phase_count; ++i) print_phase(names[i], &t, i);
    printf("\n");
  }
  must(papyruskv_finalize(), "papyruskv_finalize");
  MPI_Finalize();
  return 0;
}

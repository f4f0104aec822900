/* A program for PapyrusKV in C: it knows PapyrusKV's headers and library alone.
 *
 *   program write FOLDER      puts, gets, deletes and updates, and writes a checkpoint to FOLDER/checkpoint
 *   program reopen FOLDER     opens what was written, on as many ranks, and checks everything: both runs with
 *                             PAPYRUSKV_DESTROY_REPOSITORY=0
 *   program read FOLDER       restarts from the checkpoint, on any number of ranks, and checks everything
 */
#include <papyrus/kv.h>
#include <papyrus/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs that were compiled for PapyrusKV have its numbers inside. */
_Static_assert(PAPYRUSKV_OK == 0 && PAPYRUSKV_ERR == -1, "results");
_Static_assert(PAPYRUSKV_MEMTABLE == 1 && PAPYRUSKV_SSTABLE == 2, "levels");
_Static_assert(PAPYRUSKV_SEQUENTIAL == 1 && PAPYRUSKV_RELAXED == 2, "consistencies");
_Static_assert(PAPYRUSKV_CREATE == 4, "PAPYRUSKV_CREATE");
_Static_assert(PAPYRUSKV_RDWR == 8 && PAPYRUSKV_WRONLY == 16, "protections");
_Static_assert(PAPYRUSKV_RDONLY == 32 && PAPYRUSKV_UDONLY == 64, "protections");

enum { keys = 500, key_size = 24 };

static int rank, size;

static void check(int result, const char* what) {
  if (result == PAPYRUSKV_OK) return;
  fprintf(stderr, "FAILED on rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(int truth, const char* what) { check(truth ? PAPYRUSKV_OK : PAPYRUSKV_ERR, what); }

static size_t make_key(char* key, int i) {
  memset(key, 0, key_size);
  return (size_t)snprintf(key, key_size, "key-%d", i);
}

static size_t make_value(char* value, size_t room, int i) {
  return (size_t)snprintf(value, room, "the value of %d", i);
}

static int count_up(const char* key, size_t keylen, char** val, size_t* vallen, void* userin, size_t userinlen,
                    void* userout, size_t useroutlen) {
  int count = 0;
  int by = 0;
  (void)key, (void)keylen;
  if (userinlen == sizeof by) memcpy(&by, userin, sizeof by);
  if (*vallen == sizeof count) memcpy(&count, *val, sizeof count);
  count += by;
  memcpy(*val, &count, sizeof count);
  *vallen = sizeof count;
  if (useroutlen == sizeof count) memcpy(userout, &count, sizeof count);
  return 1;
}

/* Keys 0 to keys - 1 in turn by rank, each seventh deleted; a counter to which each rank added its number plus 1. */
static void write_all(int db) {
  char key[key_size];
  char value[64];
  int by = rank + 1;
  int now = 0;
  for (int i = rank; i < keys; i += size) {
    const size_t length = make_value(value, sizeof value, i);
    check(papyruskv_put(db, key, make_key(key, i), value, length), "put");
    if (i % 7 == 0) check(papyruskv_delete(db, key, make_key(key, i)), "delete");
  }
  check(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "barrier");
  check(papyruskv_register_update(db, 1, count_up), "register_update");
  check(papyruskv_update(db, "counter", 7, NULL, 1, &by, sizeof by, &now, sizeof now), "update");
  expect(now >= by, "what the update returned");
  check(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), "barrier to storage");
}

static void read_all(int db, int writers) {
  char key[key_size];
  char expected[64];
  char buffer[64];
  for (int i = 0; i < keys; ++i) {
    const size_t length = make_key(key, i);
    const size_t expected_length = make_value(expected, sizeof expected, i);
    char* value = NULL;
    size_t found = 0;
    if (i % 7 == 0) {
      expect(papyruskv_get(db, key, length, &value, &found) == PAPYRUSKV_ERR, "a deleted key is gone");
      continue;
    }
    check(papyruskv_get(db, key, length, &value, &found), "get");
    expect(found == expected_length && memcmp(value, expected, found) == 0, "the value");
    check(papyruskv_free(&value), "free");
    value = buffer;
    found = sizeof buffer;
    check(papyruskv_get(db, key, length, &value, &found), "get to a buffer");
    expect(found == expected_length && memcmp(buffer, expected, found) == 0, "the value in the buffer");
  }
  int count = 0;
  char* value = buffer; /* of option.vallen bytes, as all buffers are: what `found` is before is not looked at */
  size_t found = 1;
  check(papyruskv_get(db, "counter", 7, &value, &found), "the counter");
  expect(found == sizeof count, "the length of the counter");
  memcpy(&count, buffer, sizeof count);
  expect(count == writers * (writers + 1) / 2, "no update was lost");
}

static void read_iterated(int db) {
  int here = 0;
  int everywhere = 0;
  papyruskv_iter_t at;
  check(papyruskv_iter_local(db, &at), "iter_local");
  for (; at != NULL; ++here) check(papyruskv_iter_next(db, &at), "iter_next");
  MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(everywhere == keys - (keys + 6) / 7 + 1, "all keys are at some rank, once");
}

/* What the program before left: all that was put, also after its checkpoint. */
static void read_reopened(int db) {
  char value[64];
  char* found = NULL;
  size_t length = 0;
  check(papyruskv_get(db, "key-1", 5, &found, &length), "get what was put last");
  expect(length == 7 && memcmp(found, "changed", 7) == 0, "what was put last");
  check(papyruskv_free(&found), "free");
  check(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "all have read it");
  check(papyruskv_put(db, "key-1", 5, value, make_value(value, sizeof value, 1)), "put it back");
  check(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), "all have put it back");
  read_all(db, size);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  expect(level == MPI_THREAD_MULTIPLE, "MPI_Init asks for threads");
  expect(argc == 3, "arguments: write, reopen or read, and a folder");

  char repository[4096];
  char checkpoint[4096];
  char writers_file[4096];
  snprintf(repository, sizeof repository, "%s/repository", argv[2]);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", argv[2]);
  snprintf(writers_file, sizeof writers_file, "%s/writers", argv[2]);
  check(papyruskv_init(&argc, &argv, repository), "init");

  papyruskv_option_t option = {key_size, 64, NULL};
  int db = 0;
  int event = 0;
  if (strcmp(argv[1], "write") == 0) {
    check(papyruskv_open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, &option, &db), "open");
    write_all(db);
    read_all(db, size);
    check(papyruskv_checkpoint(db, checkpoint, &event), "checkpoint");
    check(papyruskv_put(db, "key-1", 5, "changed", 7), "put meanwhile");
    check(papyruskv_wait(db, event), "wait");
    FILE* file = rank == 0 ? fopen(writers_file, "w") : NULL;
    if (file != NULL) fprintf(file, "%d", size), fclose(file);
  } else if (strcmp(argv[1], "reopen") == 0) {
    check(papyruskv_open("db", PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, &option, &db), "open what is there");
    read_reopened(db);
  } else {
    int writers = 0;
    FILE* file = fopen(writers_file, "r");
    expect(file != NULL && fscanf(file, "%d", &writers) == 1, "the number of writers");
    fclose(file);
    check(papyruskv_restart(checkpoint, "db", PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, &option, &db, &event), "restart");
    check(papyruskv_wait(db, event), "wait");
    check(papyruskv_protect(db, PAPYRUSKV_RDONLY), "protect");
    read_all(db, writers);
    read_iterated(db);
  }
  check(papyruskv_close(db), "close");
  check(papyruskv_finalize(), "finalize");
  MPI_Finalize();
  if (rank == 0) puts("all is right");
  return 0;
}

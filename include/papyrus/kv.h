/* PapyrusKV's interface, kept by icecore: programs written for PapyrusKV run with this header and libpapyruskv.
 *
 *   MPI_Init(&argc, &argv);                                     // papyrus/mpi.h makes it ask for threads
 *   papyruskv_init(&argc, &argv, "repository");                 // a folder; "$NAME": the one the environment names
 *   int db;
 *   papyruskv_open("weather", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, NULL, &db);
 *   papyruskv_put(db, "berlin", 6, "12.5", 4);
 *   papyruskv_barrier(db, PAPYRUSKV_MEMTABLE);
 *   char* value = NULL;                                         // NULL: the library allocates
 *   size_t length = 0;
 *   if (papyruskv_get(db, "berlin", 6, &value, &length) == PAPYRUSKV_OK) papyruskv_free(&value);
 *   papyruskv_close(db);
 *   papyruskv_finalize();       // removes the repository, as in PapyrusKV, unless PAPYRUSKV_DESTROY_REPOSITORY is 0
 *   MPI_Finalize();
 *
 * Results: every function returns PAPYRUSKV_OK or PAPYRUSKV_ERR; papyruskv_error_message() says what was wrong. Why
 *   init, open or restart failed is written to standard error, too.
 * Collective (all ranks, in the same order): init, finalize, open, close, barrier, consistency, protect, destroy,
 *   checkpoint, restart, hash, register_update. The others are called by any rank alone.
 * Events: where a function takes `int* event`, NULL means that it returns when all is done; otherwise *event is what
 *   papyruskv_wait waits for.
 * Threads: as icecore::cluster: any number, where MPI gives MPI_THREAD_MULTIPLE, but one at a time for what is
 *   collective.
 * Keys have 0 to 65,535 bytes, values less than 4 GiB (of other ranks less than 2 GiB); both may hold any bytes.
 * Source: PapyrusKV (SC 2017), table 1. What differs from it: docs/papyruskv.md.
 */
#ifndef PAPYRUS_KV_H
#define PAPYRUS_KV_H

#include <stddef.h>

#define PAPYRUSKV_OK 0
#define PAPYRUSKV_ERR (-1)

/* Levels of fences and barriers: seen by all ranks; and durable too. */
#define PAPYRUSKV_MEMTABLE 1
#define PAPYRUSKV_SSTABLE 2

/* Consistency: a put is seen by all when it returns; or after a fence or barrier. */
#define PAPYRUSKV_SEQUENTIAL 1
#define PAPYRUSKV_RELAXED 2

/* To be combined, for papyruskv_open: make the database if it is not there; and protection. */
#define PAPYRUSKV_CREATE 4
#define PAPYRUSKV_RDWR 8
#define PAPYRUSKV_WRONLY 16 /* gets are refused */
#define PAPYRUSKV_RDONLY 32 /* puts are refused; values of other ranks are cached */
#define PAPYRUSKV_UDONLY 64 /* puts of new keys and deletes are refused */

#ifdef __cplusplus
extern "C" {
#endif

/* The rank, 0 to nranks - 1, that holds a key. It must be the same on all ranks and in every run that opens the
 * database, and safe to be called by several threads. */
typedef int (*papyruskv_hash_fn_t)(const char* key, size_t keylen, size_t nranks);

/* How long keys and values of a database usually are, and its hash (NULL: a built-in one). Unless it is 0,
 * vallen is also how large every buffer is that the program gives papyruskv_get. */
typedef struct {
  size_t keylen;
  size_t vallen;
  papyruskv_hash_fn_t hash;
} papyruskv_option_t;

/* Where a key was found by papyruskv_get_pos: NULL if it was not. For papyruskv_update, which finds the key with or
 * without it. */
struct _papyruskv_pos_t {
  void* handle;
};
typedef struct _papyruskv_pos_t papyruskv_pos_t;

/* One key and value of the calling rank's part. Owned by the library; valid until the next papyruskv_iter_next. */
struct _papyruskv_iter_t {
  char* key;
  size_t keylen;
  char* val;
  size_t vallen;
  void* handle;
};
typedef struct _papyruskv_iter_t* papyruskv_iter_t;

/* What papyruskv_update runs at the key's owner, one at a time there. *val holds *vallen bytes (none, if the key is
 * new) in a buffer of at least 32 MiB, to be changed in place; or *val may be pointed elsewhere. `userin` and `userout`
 * are the caller's bytes, or copies that travel. Returns whether the value is to be written. It must not call this
 * library. */
typedef int (*papyruskv_update_fn_t)(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                                     size_t userinlen, void* userout, size_t useroutlen);

/* After MPI_Init, before all others. `repository` is a folder, made if it is not there. argc and argv are not used. */
int papyruskv_init(int* argc, char*** argv, const char* repository);
/* Closes databases that are still open, and removes all databases of the repository unless the environment's
 * PAPYRUSKV_DESTROY_REPOSITORY is 0. Checkpoints stay. */
int papyruskv_finalize(void);

/* Opens the database `name` of the repository, or makes it. `opt` may be NULL. */
int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db);
/* All that was put is durable then. */
int papyruskv_close(int db);
/* Removes the database and its files; only papyruskv_wait and papyruskv_close know the handle then. */
int papyruskv_destroy(int db, int* event);

int papyruskv_put(int db, const char* key, size_t keylen, const char* val, size_t vallen);
/* The newest value. If *val is NULL, it is allocated, and freed with papyruskv_free. Otherwise the caller's buffer at
 * *val has opt->vallen bytes, whatever *vallen is; where that was 0, or no opt was given at opening, it has *vallen. If
 * the value is longer, nothing is copied and the result is PAPYRUSKV_ERR. Either way *vallen is the value's length
 * then. If the key is not there the result is PAPYRUSKV_ERR, and *val and *vallen are as before. `val` may be NULL, to
 * ask for the length alone; so may `vallen`. */
int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen);
int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val, size_t* vallen, papyruskv_pos_t* pos);
/* Whether or not the key is there. */
int papyruskv_delete(int db, const char* key, size_t keylen);
/* Frees what papyruskv_get allocated and sets it to NULL. */
int papyruskv_free(char** val);

/* Returns when all that this rank put is seen by all, or (PAPYRUSKV_SSTABLE) durable. */
int papyruskv_fence(int db, int level);
/* The same for what any rank put before. */
int papyruskv_barrier(int db, int level);
/* Tells `count` ranks, or waits for one signal of that number from each of them. What this rank put before it told, in
 * any database, they see. For a rank that does not exist the result is PAPYRUSKV_ERR; the others are told, or waited
 * for, all the same. */
int papyruskv_signal_notify(int signum, int* ranks, int count);
int papyruskv_signal_wait(int signum, int* ranks, int count);
int papyruskv_consistency(int db, int consistency);
int papyruskv_protect(int db, int prot);

/* Writes the database as it is now to the folder `path`, while it may be changed already if `event` is not NULL. */
int papyruskv_checkpoint(int db, const char* path, int* event);
/* Makes the database `name` of a checkpoint and opens it, on any number of ranks, whatever number wrote it; one of that
 * name is replaced. */
int papyruskv_restart(const char* path, const char* name, int flags, papyruskv_option_t* opt, int* db, int* event);
/* Once for each event. */
int papyruskv_wait(int db, int event);

/* Sets the hash of a database that is empty still. NULL, or the hash it has: nothing happens. */
int papyruskv_hash(int db, papyruskv_hash_fn_t hfn);

/* The first, and the next, of the keys of this rank as they were when papyruskv_iter_local was called, in order. After
 * the last, *iter is NULL. */
int papyruskv_iter_local(int db, papyruskv_iter_t* iter);
int papyruskv_iter_next(int db, papyruskv_iter_t* iter);

/* Gives an update function a number; each number once, the same function on all ranks. */
int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t ufn);
/* Runs the function at the key's owner; of two updates of a key each sees what the other wrote. `userout` is what the
 * function put there. `pos` may be NULL. */
int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* pos, int fnid, void* userin,
                     size_t userinlen, void* userout, size_t useroutlen);

/* Not in PapyrusKV: what went wrong in this thread's last call that returned PAPYRUSKV_ERR. Valid until its next call.
 * Why init, open or restart failed is also written to standard error; with PAPYRUSKV_LOG=1 in the environment each
 * such message is. */
const char* papyruskv_error_message(void);

#ifdef __cplusplus
}
#endif

#endif

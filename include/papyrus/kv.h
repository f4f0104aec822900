/* PapyrusKV's interface, implemented by icecore: programs written for PapyrusKV run with this header and libpapyruskv.
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
 * Results: every function returns PAPYRUSKV_OK or PAPYRUSKV_ERR; papyruskv_error_message() describes the last error.
 *   The errors of init, open and restart are also written to standard error.
 * Collective (all ranks, in the same order): init, finalize, open, close, barrier, consistency, protect, destroy,
 *   checkpoint, restart, hash, register_update. Any rank alone may call the others.
 * Events: if a function takes `int* event`, NULL means that it returns when all is done; otherwise *event receives an
 *   event for papyruskv_wait.
 * Threads: as icecore::cluster: any number if MPI gives MPI_THREAD_MULTIPLE, but one at a time for collective calls.
 * Keys have 0 to 65,535 bytes, values less than 4 GiB (of other ranks less than 2 GiB); both may hold any bytes.
 * Source: PapyrusKV (SC 2017), table 1. What differs from it: docs/papyruskv.md.
 */
#ifndef PAPYRUS_KV_H
#define PAPYRUS_KV_H

#include <stddef.h>

#define PAPYRUSKV_OK 0
#define PAPYRUSKV_ERR (-1)

/* Levels of fences and barriers: all ranks see the puts; they are also durable. */
#define PAPYRUSKV_MEMTABLE 1
#define PAPYRUSKV_SSTABLE 2

/* Consistency: all ranks see a put when it returns; or after a fence or barrier. */
#define PAPYRUSKV_SEQUENTIAL 1
#define PAPYRUSKV_RELAXED 2

/* Flags for papyruskv_open, which can be combined: create the database if it does not exist; and protection. */
#define PAPYRUSKV_CREATE 4
#define PAPYRUSKV_RDWR 8
#define PAPYRUSKV_WRONLY 16 /* gets are refused */
#define PAPYRUSKV_RDONLY 32 /* puts are refused; values of other ranks are cached */
#define PAPYRUSKV_UDONLY 64 /* puts of new keys and deletes are refused */

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the rank, 0 to nranks - 1, that holds a key. It must return the same on all ranks and in every run that opens
 * the database, and several threads may call it at once. */
typedef int (*papyruskv_hash_fn_t)(const char* key, size_t keylen, size_t nranks);

/* The usual length of keys and values of a database, and its hash (NULL: a built-in one). Unless it is 0, vallen is
 * also the size of every buffer that the program passes to papyruskv_get. */
typedef struct {
  size_t keylen;
  size_t vallen;
  papyruskv_hash_fn_t hash;
} papyruskv_option_t;

/* Where papyruskv_get_pos found a key: NULL if it did not find it. For papyruskv_update, which finds the key with or
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

/* The function that papyruskv_update runs at the key's owner, one at a time there. *val holds *vallen bytes (none if
 * the key is new) in a buffer of at least 32 MiB. The function may change them in place, or point *val elsewhere.
 * `userin` and `userout` are the caller's bytes, or copies of them at the owner. It returns whether the value must be
 * written. It must not call this library. */
typedef int (*papyruskv_update_fn_t)(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                                     size_t userinlen, void* userout, size_t useroutlen);

/* Call it after MPI_Init and before all others. `repository` is a folder, created if it does not exist. argc and argv
 * are not used. */
int papyruskv_init(int* argc, char*** argv, const char* repository);
/* Closes databases that are still open, and removes all databases of the repository unless the environment has
 * PAPYRUSKV_DESTROY_REPOSITORY=0. Checkpoints stay. */
int papyruskv_finalize(void);

/* Opens the database `name` of the repository, or creates it. `opt` may be NULL. */
int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db);
/* Closes the database; all puts are durable afterwards. */
int papyruskv_close(int db);
/* Removes the database and its files. Afterwards only papyruskv_wait and papyruskv_close accept the handle. */
int papyruskv_destroy(int db, int* event);

int papyruskv_put(int db, const char* key, size_t keylen, const char* val, size_t vallen);
/* The newest value. If *val is NULL, the value is allocated; free it with papyruskv_free. Otherwise *val is the
 * caller's buffer. Its size is opt->vallen, whatever *vallen is; if that was 0, or no opt was passed at opening, its
 * size is *vallen. If the value is longer, nothing is copied and the result is PAPYRUSKV_ERR. In both cases *vallen
 * receives the value's length. If the key is absent, the result is PAPYRUSKV_ERR, and *val and *vallen do not change.
 * `val` may be NULL, to ask for the length only; `vallen` may be NULL too. */
int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen);
int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val, size_t* vallen, papyruskv_pos_t* pos);
/* Deletes the key; it may be absent. */
int papyruskv_delete(int db, const char* key, size_t keylen);
/* Frees what papyruskv_get allocated and sets it to NULL. */
int papyruskv_free(char** val);

/* Returns when all ranks see all that this rank put, or (PAPYRUSKV_SSTABLE) when it is durable. */
int papyruskv_fence(int db, int level);
/* The same for what any rank put before. */
int papyruskv_barrier(int db, int level);
/* Sends a signal to `count` ranks, or waits for one signal of that number from each of them. A rank that has waited
 * sees what this rank put in any database before it signalled. If one of the ranks does not exist, the result is
 * PAPYRUSKV_ERR; the others are still signalled, or waited for. */
int papyruskv_signal_notify(int signum, int* ranks, int count);
int papyruskv_signal_wait(int signum, int* ranks, int count);
int papyruskv_consistency(int db, int consistency);
int papyruskv_protect(int db, int prot);

/* Writes the database as it is now to the folder `path`. If `event` is not NULL, the database may be changed
 * meanwhile. */
int papyruskv_checkpoint(int db, const char* path, int* event);
/* Creates the database `name` from a checkpoint and opens it, on any number of ranks, whatever number wrote it. It
 * replaces a database of that name. */
int papyruskv_restart(const char* path, const char* name, int flags, papyruskv_option_t* opt, int* db, int* event);
/* Waits for an event; once for each. */
int papyruskv_wait(int db, int event);

/* Sets the hash of a database that is still empty. NULL, or the hash it has, changes nothing. */
int papyruskv_hash(int db, papyruskv_hash_fn_t hfn);

/* The first and the next of this rank's keys, in order, as they were when papyruskv_iter_local was called. After the
 * last, *iter is NULL. */
int papyruskv_iter_local(int db, papyruskv_iter_t* iter);
int papyruskv_iter_next(int db, papyruskv_iter_t* iter);

/* Gives an update function a number. A number can be used once, and must have the same function on all ranks. */
int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t ufn);
/* Runs the function at the key's owner; of two updates of a key, the later sees what the earlier wrote. `userout`
 * receives what the function wrote there. `pos` may be NULL. */
int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* pos, int fnid, void* userin,
                     size_t userinlen, void* userout, size_t useroutlen);

/* Not in PapyrusKV: describes the error of this thread's last call that returned PAPYRUSKV_ERR. Valid until the
 * thread's next call. The errors of init, open and restart are also written to standard error; with PAPYRUSKV_LOG=1 in
 * the environment, all are. */
const char* papyruskv_error_message(void);

#ifdef __cplusplus
}
#endif

#endif

/* icecore for C over MPI: one store over the ranks of a job; each rank owns a part of the keys, all read and write all.
 *
 *   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
 *   icecore_cluster* weather;
 *   if (icecore_cluster_open(MPI_COMM_WORLD, "/dev/shm/weather", NULL, &weather) != ICECORE_OK)
 *     return puts(icecore_last_error_message());
 *   icecore_version hour_1;
 *   icecore_cluster_insert(weather, "station/7", 9, "12.5", 4, NULL);
 *   icecore_cluster_tag_now(weather, &hour_1);                 // the same number and the same cut on all ranks
 *   icecore_bytes value;
 *   icecore_cluster_find_at(weather, "station/7", 9, hour_1, &value);
 *   icecore_cluster_values_free(&value, 1);                    // values of a cluster are copies
 *   icecore_cluster_close(weather);
 *
 * Codes, messages, "not found", bytes, structures and objects are as icecore.h says, with one difference: values that
 *   come back from a cluster are copies. They are given back to icecore_cluster_values_free(); what a cursor or a
 *   history shows belongs to it.
 * Collective: open, restore and close, tag_now and tag_with, barrier, set_consistency, protect, checkpoint, and of a
 *   snapshot columns, stream and find_by_broadcast. Every rank calls them, in the same order, one thread of each rank
 * at a time; what fails on one rank fails on all, and the message names the rank. An argument that is NULL or out of
 * its range is refused before the other ranks are asked: give it alike on all. Everything else is called by any rank
 * alone. Threads: with MPI_THREAD_MULTIPLE as in icecore.h; with less, one thread of the process at a time. MPI: never
 * started or ended here. The communicator is duplicated. Programs use the MPI that icecore_mpi was built with. Library:
 * icecore_mpi, besides icecore. Costs, guarantees and the meaning of each call: include/icecore/cluster.hpp and
 * docs/cluster.md.
 */
#ifndef ICECORE_ICECORE_MPI_H
#define ICECORE_ICECORE_MPI_H

#include <mpi.h>

#include "icecore/icecore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

typedef struct icecore_cluster icecore_cluster;

/* Which rank owns a key. A cluster is opened again with the rule it was made with, else ICECORE_OTHER_CLUSTER. */
enum icecore_ownership_rule {
  ICECORE_OWNERSHIP_BY_HASH = 0,     /* by a hash of the key's bytes */
  ICECORE_OWNERSHIP_BY_FUNCTION = 1, /* by a function of the program's, known by its name */
  ICECORE_OWNERSHIP_BY_RANGES = 2    /* by order: rank r holds the keys from splits[r - 1] on, before splits[r] */
};

/* The rank, from 0 to ranks - 1, that owns the key: the same for the same key on all ranks and always. May be called by
 * several threads at once, until the cluster is closed. */
typedef int (*icecore_owner_function)(void* context, const void* key, size_t key_size, int ranks);

enum icecore_consistency_mode {
  ICECORE_CONSISTENCY_RELAXED = 0,   /* other ranks see a write after the writer's fence, or a barrier */
  ICECORE_CONSISTENCY_SEQUENTIAL = 1 /* when it has returned */
};

/* What may be done at the moment; anything else is ICECORE_PROTECTION. */
enum icecore_protection_mode {
  ICECORE_PROTECTION_READ_WRITE = 0,
  ICECORE_PROTECTION_WRITE_ONLY = 1, /* finds of newest values are refused */
  ICECORE_PROTECTION_READ_ONLY = 2,  /* writes are refused; values of other ranks are kept in a cache */
  ICECORE_PROTECTION_UPDATE_ONLY = 3 /* inserts of new keys and removes are refused */
};

enum icecore_barrier_level {
  ICECORE_BARRIER_MEMORY = 0, /* all ranks see all writes */
  ICECORE_BARRIER_STORAGE = 1 /* and they are durable, as far as the medium can */
};

/* All ranks say the same. What is pointed to is copied, but for the owner function's context. */
typedef struct icecore_cluster_options {
  size_t struct_size;
  const icecore_options* store; /* how each rank's store is opened or made; NULL: the defaults */
  int ownership;                /* enum icecore_ownership_rule */
  const char* owner_name;       /* BY_FUNCTION: what the function is called, one word, kept in the cluster */
  icecore_owner_function owner; /* BY_FUNCTION */
  void* owner_context;          /* BY_FUNCTION: passed to it */
  const icecore_bytes* splits;  /* BY_RANGES: ascending keys, one fewer than ranks */
  size_t split_count;           /* BY_RANGES */
  int consistency;              /* enum icecore_consistency_mode */
  int group_size;       /* ranks in a storage group; 0: the environment's ICECORE_GROUP_SIZE, or a node's ranks */
  size_t staging_bytes; /* staged writes to one rank travel when they take so many bytes */
  size_t cache_bytes;   /* what the cache under ICECORE_PROTECTION_READ_ONLY may take */
  int progress_thread;  /* not 0 (default): a thread answers other ranks where MPI_THREAD_MULTIPLE is given */
} icecore_cluster_options;

/* Fills in the defaults. struct_size: sizeof(icecore_cluster_options). */
void icecore_cluster_options_init(icecore_cluster_options* options, size_t struct_size);

/* Opens, or makes, the cluster in the folder `path` (collective on `comm`). options: NULL for the defaults. Given back
 * by icecore_cluster_close(). The second form takes a communicator of Fortran's. */
int icecore_cluster_open(MPI_Comm comm, const char* path, const icecore_cluster_options* options,
                         icecore_cluster** cluster);
int icecore_cluster_open_f(MPI_Fint comm, const char* path, const icecore_cluster_options* options,
                           icecore_cluster** cluster);

/* Fences, makes everything durable and gives the cluster back (collective); it is gone, whatever is returned. No other
 * call may be running, and no object made from the cluster may be used afterwards but to give it back. Call it before
 * MPI_Finalize. */
int icecore_cluster_close(icecore_cluster* cluster);

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Sets the key's value in the open version. version: NULL, or receives the version the write belongs to. */
int icecore_cluster_insert(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                           size_t value_size, icecore_version* version);

/* Removes the key in the open version. version: NULL, or receives that version, whether or not the key was there. */
int icecore_cluster_remove(icecore_cluster* cluster, const void* key, size_t key_size, icecore_version* version);

/* Inserts `count` items, values[i] at keys[i], sent by owner; of equal keys the later wins. */
int icecore_cluster_insert_many(icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                const icecore_bytes* values, icecore_version* version);

/* Applies the batch at one instant; it stays as it is. ICECORE_INVALID_ARGUMENT unless all its keys have one owner. */
int icecore_cluster_apply(icecore_cluster* cluster, const icecore_batch* batch, icecore_version* version);

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The newest value; the value in a closed version. A copy, given back by icecore_cluster_values_free(). */
int icecore_cluster_find(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_bytes* value);
int icecore_cluster_find_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                            icecore_bytes* value);

/* *present: 1 if the key is there, else 0. */
int icecore_cluster_contains(const icecore_cluster* cluster, const void* key, size_t key_size, int* present);
int icecore_cluster_contains_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                                int* present);

/* Finds `count` keys at once, each owner asked in one message: values[i] answers keys[i]. All of them are given back by
 * icecore_cluster_values_free(values, count). */
int icecore_cluster_find_many(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                              icecore_bytes* values);
int icecore_cluster_find_many_at(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                 icecore_version at, icecore_bytes* values);

/* Frees `count` values that a cluster or a cluster's snapshot found, and sets them to nothing. Those that are nothing
 * may be among them. */
void icecore_cluster_values_free(icecore_bytes* values, size_t count);

/* The records of one key as they are now, copied at once; staged ones are sent to the owner before. Given back by
 * icecore_cluster_history_close(). order: enum icecore_history_order. */
typedef struct icecore_cluster_history icecore_cluster_history;

int icecore_cluster_history_open(const icecore_cluster* cluster, const void* key, size_t key_size, int order,
                                 icecore_cluster_history** history);
size_t icecore_cluster_history_count(const icecore_cluster_history* history);
/* Version 0 past the end. The value belongs to the history. */
int icecore_cluster_history_next(icecore_cluster_history* history, icecore_change* change);
void icecore_cluster_history_close(icecore_cluster_history* history);

/* ---- Tags and versions ------------------------------------------------------------------------------------------ */

/* Closes the open version of all ranks and tells its number, the same everywhere (collective): all writes that returned
 * on any rank before it called are in it. closed: NULL, or receives the version. */
int icecore_cluster_tag_now(icecore_cluster* cluster, icecore_version* closed);
/* The same, keeping the name, note and time that rank 0 says. ICECORE_TAG_EXISTS if the name is taken. */
int icecore_cluster_tag_with(icecore_cluster* cluster, const icecore_tag_options* options, icecore_version* closed);

/* The version that a write now belongs to, the same on all ranks between two collective calls. */
int icecore_cluster_clock(const icecore_cluster* cluster, icecore_version* clock);

/* The tag of this name; *tag is NULL if there is none. Given back by icecore_tag_free(). */
int icecore_cluster_find_tag(const icecore_cluster* cluster, const void* name, size_t name_size, icecore_tag** tag);

/* All named and timed tags as they are now, oldest version first. Read by icecore_tags_count() and icecore_tags_next(),
 * given back by icecore_tags_close(). */
int icecore_cluster_tags_open(const icecore_cluster* cluster, icecore_tags** tags);

/* ---- Snapshots -------------------------------------------------------------------------------------------------- */

/* One closed version of all ranks. Given back by icecore_cluster_snapshot_close(). */
typedef struct icecore_cluster_snapshot icecore_cluster_snapshot;

int icecore_cluster_at_version(const icecore_cluster* cluster, icecore_version closed,
                               icecore_cluster_snapshot** snapshot);
int icecore_cluster_at_tag(const icecore_cluster* cluster, const void* name, size_t name_size,
                           icecore_cluster_snapshot** snapshot);
void icecore_cluster_snapshot_close(icecore_cluster_snapshot* snapshot);

icecore_version icecore_cluster_snapshot_version(const icecore_cluster_snapshot* snapshot);
/* Values are given back by icecore_cluster_values_free(). */
int icecore_cluster_snapshot_find(const icecore_cluster_snapshot* snapshot, const void* key, size_t key_size,
                                  icecore_bytes* value);
int icecore_cluster_snapshot_find_many(const icecore_cluster_snapshot* snapshot, size_t count,
                                       const icecore_bytes* keys, icecore_bytes* values);
/* Keys present in this version. Every owner counts its own: O(keys of the largest store). */
int icecore_cluster_snapshot_size(const icecore_cluster_snapshot* snapshot, uint64_t* size);

/* A place among the items of a snapshot between bounds; nowhere until a seek; moves forward only. Given back by
 * icecore_cluster_cursor_close(). */
typedef struct icecore_cluster_cursor icecore_cluster_cursor;

/* Over from <= key < to (NULL: no bound), or over all keys that start with `prefix`. */
int icecore_cluster_cursor_open(const icecore_cluster_snapshot* snapshot, const void* from, size_t from_size,
                                const void* to, size_t to_size, icecore_cluster_cursor** cursor);
int icecore_cluster_cursor_open_prefix(const icecore_cluster_snapshot* snapshot, const void* prefix, size_t prefix_size,
                                       icecore_cluster_cursor** cursor);
void icecore_cluster_cursor_close(icecore_cluster_cursor* cursor);

/* Each goes nowhere (the cursor becomes invalid) if there is no such item within the bounds. */
int icecore_cluster_cursor_seek_first(icecore_cluster_cursor* cursor);
int icecore_cluster_cursor_seek(icecore_cluster_cursor* cursor, const void* key, size_t key_size); /* first >= key */
/* One step; past the end the cursor becomes invalid. ICECORE_INVALID_ARGUMENT if it is nowhere. */
int icecore_cluster_cursor_next(icecore_cluster_cursor* cursor);

/* 1 if the cursor is at an item, else 0; the code of the last seek or step. */
int icecore_cluster_cursor_valid(const icecore_cluster_cursor* cursor);
int icecore_cluster_cursor_status(const icecore_cluster_cursor* cursor);
/* The item's key and value, valid until the cursor moves; nothing if it is nowhere. */
icecore_bytes icecore_cluster_cursor_key(const icecore_cluster_cursor* cursor);
icecore_bytes icecore_cluster_cursor_value(const icecore_cluster_cursor* cursor);

/* ---- Extraction: every rank calls these, with the same arguments ------------------------------------------------- */

/* How the pairs of all ranks come together. */
enum icecore_extraction_method {
  ICECORE_EXTRACT_GATHER = 0,      /* rank after rank at the root: each rank's in order, the whole in none */
  ICECORE_EXTRACT_NAIVE_MERGE = 1, /* in order at the root: gathered, then merged from all ranks' parts at once */
  ICECORE_EXTRACT_OPT_MERGE = 2,   /* in order at the root: merged in pairs of ranks, in rounds, by several threads */
  ICECORE_EXTRACT_CONCATENATE = 3, /* in order at the root, without a merge: with ICECORE_OWNERSHIP_BY_RANGES only */
  ICECORE_EXTRACT_DISTRIBUTED = 4  /* in order over all ranks: each has a stretch, behind that of the rank before it */
};

typedef struct icecore_extraction_options {
  size_t struct_size;
  int root;           /* the rank that gets the result; ICECORE_EXTRACT_DISTRIBUTED has none */
  unsigned threads;   /* of each rank, to read and merge; 0: all its cores */
  icecore_bytes from; /* with from <= key < to; nothing: no bound */
  icecore_bytes to;
  icecore_bytes prefix;      /* keys that start with it; nothing: any. Not together with from or to */
  int linear_scan;           /* not 0: ICECORE_EXTRACT_NAIVE_MERGE compares the heads of all ranks for each pair */
  uint64_t memory_bytes_max; /* what each rank may take for its own pairs, and once more for what it receives */
} icecore_extraction_options;

/* Root 0, one thread, all keys, any memory. struct_size: sizeof(icecore_extraction_options). */
void icecore_extraction_options_init(icecore_extraction_options* options, size_t struct_size);

/* All pairs of the snapshot, at the root; elsewhere none (count 0), unless the method is ICECORE_EXTRACT_DISTRIBUTED.
 * method: enum icecore_extraction_method. options: NULL for the defaults. Given back by icecore_columns_free(), before
 * or after the cluster. ICECORE_INVALID_ARGUMENT, on all ranks: no such root, bounds out of order, arguments that
 * differ from rank to rank, a rank that needs more than memory_bytes_max. */
int icecore_cluster_snapshot_columns(const icecore_cluster_snapshot* snapshot, int method,
                                     const icecore_extraction_options* options, icecore_columns** columns);

/* Called with `count` pairs, values[i] at keys[i], valid during the call. Not 0 asks to stop. It may call the cluster,
 * but nothing collective. */
typedef int (*icecore_extraction_sink)(void* context, size_t count, const icecore_bytes* keys,
                                       const icecore_bytes* values);

/* Calls `sink` at the root with all pairs in order, some at a time: no rank holds more than two blocks of 64 KiB (or of
 * one pair) for each rank it deals with. ICECORE_STOPPED on all ranks if the sink asked to stop. Errors as above; the
 * sink may have got some pairs before. */
int icecore_cluster_snapshot_stream(const icecore_cluster_snapshot* snapshot, icecore_extraction_sink sink,
                                    void* context, const icecore_extraction_options* options);

/* Finds what the root asks for, at the root; elsewhere nothing. What other ranks give as key is not looked at. The
 * root's question goes to all ranks, and their answers are reduced to one: icecore_cluster_snapshot_find() asks the
 * owner alone. Given back by icecore_cluster_values_free(). */
int icecore_cluster_snapshot_find_by_broadcast(const icecore_cluster_snapshot* snapshot, const void* key,
                                               size_t key_size, int root, icecore_bytes* value);

/* ---- Synchronising ---------------------------------------------------------------------------------------------- */

/* Returns when all writes this rank has staged are made at their owners. Not collective. */
int icecore_cluster_fence(icecore_cluster* cluster);
/* Afterwards all ranks see all that any rank wrote before (collective). level: enum icecore_barrier_level. */
int icecore_cluster_barrier(icecore_cluster* cluster, int level);

/* From now on, on all ranks (collective). mode: enum icecore_consistency_mode, enum icecore_protection_mode. */
int icecore_cluster_set_consistency(icecore_cluster* cluster, int mode);
int icecore_cluster_protect(icecore_cluster* cluster, int mode);
int icecore_cluster_consistency(const icecore_cluster* cluster, int* mode);
int icecore_cluster_protection(const icecore_cluster* cluster, int* mode);

/* Tells each of `count` ranks that this one is as far as `signum` says, after a fence; waits for one such signal from
 * each of them. Signals are counted, so none is lost. */
int icecore_cluster_signal_notify(icecore_cluster* cluster, int signum, const int* ranks, size_t count);
int icecore_cluster_signal_wait(icecore_cluster* cluster, int signum, const int* ranks, size_t count);

/* ---- Checkpoints ------------------------------------------------------------------------------------------------ */

/* A checkpoint that is being written. Given back by icecore_cluster_event_free(), before or after the cluster. */
typedef struct icecore_cluster_event icecore_cluster_event;

/* Begins to write all of the cluster as it is now, every version and tag, to a folder that all ranks share, and
 * returns; writes go on meanwhile (collective). A checkpoint that is in the folder is replaced when the new one is
 * complete. event: receives the event; NULL: the call returns when the checkpoint is complete. */
int icecore_cluster_checkpoint(icecore_cluster* cluster, const char* folder, icecore_cluster_event** event);

/* *done: 1 if icecore_cluster_event_wait() would return at once, else 0. */
int icecore_cluster_event_done(const icecore_cluster_event* event, int* done);
/* Returns when the checkpoint is complete on all ranks, or why it is not. Not collective. */
int icecore_cluster_event_wait(const icecore_cluster_event* event);
/* What this rank has written of its file, and how large that will be. */
int icecore_cluster_event_progress(const icecore_cluster_event* event, uint64_t* bytes_done, uint64_t* bytes_total);
/* A checkpoint whose event is gone is completed all the same; icecore_cluster_close() waits for it. */
void icecore_cluster_event_free(icecore_cluster_event* event);

typedef struct icecore_checkpoint_source {
  size_t struct_size;
  const char* folder; /* what icecore_cluster_checkpoint() was told; all ranks can read it */
  int redistribute;   /* not 0: bring every record to its owner anew also where ranks and ownership are the same */
} icecore_checkpoint_source;

/* No folder, no redistribution. struct_size: sizeof(icecore_checkpoint_source). */
void icecore_checkpoint_source_init(icecore_checkpoint_source* source, size_t struct_size);

/* Makes a cluster at `path` of a checkpoint and opens it (collective): by any number of ranks and with any ownership.
 * ICECORE_OTHER_CLUSTER if the checkpoint is not complete, ICECORE_DAMAGED if bytes of it fail their check,
 * ICECORE_STORE_EXISTS if a cluster is at `path`. The second form takes a communicator of Fortran's. */
int icecore_cluster_restore(MPI_Comm comm, const icecore_checkpoint_source* from, const char* path,
                            const icecore_cluster_options* options, icecore_cluster** cluster);
int icecore_cluster_restore_f(MPI_Fint comm, const icecore_checkpoint_source* from, const char* path,
                              const icecore_cluster_options* options, icecore_cluster** cluster);

/* ---- The cluster itself ----------------------------------------------------------------------------------------- */

/* This rank and the number of ranks; -1 if cluster is NULL. */
int icecore_cluster_rank(const icecore_cluster* cluster);
int icecore_cluster_size(const icecore_cluster* cluster);
/* The rank that holds the key; the storage group of a rank, from 0. */
int icecore_cluster_owner_of(const icecore_cluster* cluster, const void* key, size_t key_size, int* rank);
int icecore_cluster_group_of(const icecore_cluster* cluster, int rank, int* group);
/* *direct: 1 if that rank's keys are read and written in its memory, without its taking part, else 0. */
int icecore_cluster_reaches_directly(const icecore_cluster* cluster, int rank, int* direct);
/* 1 if a thread answers other ranks while this one is outside the cluster's calls, else 0. */
int icecore_cluster_has_progress_thread(const icecore_cluster* cluster);
/* The folder of this rank's store. Valid until icecore_cluster_close(); NULL if cluster is NULL. */
const char* icecore_cluster_path(const icecore_cluster* cluster);

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ICECORE_MPI_H */

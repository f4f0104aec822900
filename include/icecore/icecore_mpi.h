/* icecore for C over MPI: one store over the ranks of a job. Each rank owns a part of the keys, and all ranks read and
 * write all keys.
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
 * Conventions: codes, messages, "not found", bytes, structures and objects are as in icecore.h, with one difference:
 *   values that a cluster returns are copies. Give them back to icecore_cluster_values_free(). The item of a cursor or
 *   a history belongs to it.
 * Collective: open, restore and close, tag_now and tag_with, barrier, set_consistency, protect, checkpoint, compact,
 *   set_retention, get_retention and forget, and of a snapshot columns, stream and find_by_broadcast. Every rank calls
 *   them, in the same order, one thread of each rank at a time. An error on one rank is an error on all, and the
 *   message names the rank. An argument that is NULL or out of range is refused before the other ranks are asked: it
 * must be wrong on all ranks or on none. Any rank alone may call everything else. Threads: with MPI_THREAD_MULTIPLE as
 * in icecore.h; with less, one thread of the process at a time. MPI: the library neither starts nor ends it, and
 * duplicates the communicator. Programs use the MPI that icecore_mpi was built with. Library: icecore_mpi, besides
 * icecore. Reference: include/icecore/cluster.hpp and docs/cluster.md describe costs, guarantees and the meaning of
 * each call.
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

/* Which rank owns a key. A cluster must be opened again with the rule it was made with; otherwise
 * ICECORE_OTHER_CLUSTER. */
enum icecore_ownership_rule {
  ICECORE_OWNERSHIP_BY_HASH = 0,     /* by a hash of the key's bytes */
  ICECORE_OWNERSHIP_BY_FUNCTION = 1, /* by a function of the program, which has a name */
  ICECORE_OWNERSHIP_BY_RANGES = 2    /* by order: rank r holds the keys from splits[r - 1] on, before splits[r] */
};

/* Returns the rank, from 0 to ranks - 1, that owns the key: always the same for the same key, on all ranks. Several
 * threads may call it at once, until the cluster is closed. */
typedef int (*icecore_owner_function)(void* context, const void* key, size_t key_size, int ranks);

enum icecore_consistency_mode {
  ICECORE_CONSISTENCY_RELAXED = 0,   /* other ranks see a write after the writer's fence, or a barrier */
  ICECORE_CONSISTENCY_SEQUENTIAL = 1 /* when it has returned */
};

/* What a cluster currently allows; any other call returns ICECORE_PROTECTION. */
enum icecore_protection_mode {
  ICECORE_PROTECTION_READ_WRITE = 0,
  ICECORE_PROTECTION_WRITE_ONLY = 1, /* finds of newest values are refused */
  ICECORE_PROTECTION_READ_ONLY = 2,  /* writes are refused; values of other ranks are kept in a cache */
  ICECORE_PROTECTION_UPDATE_ONLY = 3 /* inserts of new keys and removes are refused */
};

enum icecore_barrier_level {
  ICECORE_BARRIER_MEMORY = 0, /* all ranks see all writes */
  ICECORE_BARRIER_STORAGE = 1 /* and they are durable, as far as the medium allows */
};

/* All ranks must pass the same. What the pointers point to is copied, except the owner function's context. */
typedef struct icecore_cluster_options {
  size_t struct_size;
  const icecore_options* store; /* how each rank's store is opened or made; NULL: the defaults */
  int ownership;                /* enum icecore_ownership_rule */
  const char* owner_name;       /* BY_FUNCTION: the function's name, one word, kept in the cluster */
  icecore_owner_function owner; /* BY_FUNCTION */
  void* owner_context;          /* BY_FUNCTION: passed to the function */
  const icecore_bytes* splits;  /* BY_RANGES: ascending keys, one fewer than ranks */
  size_t split_count;           /* BY_RANGES */
  int consistency;              /* enum icecore_consistency_mode */
  int group_size;       /* ranks in a storage group; 0: the environment's ICECORE_GROUP_SIZE, or a node's ranks */
  size_t staging_bytes; /* staged writes to one rank are sent when they take this many bytes */
  size_t cache_bytes;   /* the most bytes that the cache under ICECORE_PROTECTION_READ_ONLY may take */
  int progress_thread;  /* not 0 (default): a thread answers other ranks where MPI_THREAD_MULTIPLE is given */
} icecore_cluster_options;

/* Fills in the defaults. struct_size: sizeof(icecore_cluster_options). */
void icecore_cluster_options_init(icecore_cluster_options* options, size_t struct_size);

/* Opens or creates the cluster in the folder `path` (collective on `comm`). options: NULL for the defaults. Given back
 * by icecore_cluster_close(). The second form takes a Fortran communicator. */
int icecore_cluster_open(MPI_Comm comm, const char* path, const icecore_cluster_options* options,
                         icecore_cluster** cluster);
int icecore_cluster_open_f(MPI_Fint comm, const char* path, const icecore_cluster_options* options,
                           icecore_cluster** cluster);

/* Fences, makes everything durable and gives the cluster back (collective); the cluster no longer exists, whatever the
 * result. No other call may be running. Objects made from the cluster may afterwards only be given back. Call it before
 * MPI_Finalize. */
int icecore_cluster_close(icecore_cluster* cluster);

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Sets the key's value in the open version. version: NULL, or receives the version the write belongs to. */
int icecore_cluster_insert(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                           size_t value_size, icecore_version* version);

/* Removes the key in the open version. version: NULL, or receives that version, even if the key is absent. */
int icecore_cluster_remove(icecore_cluster* cluster, const void* key, size_t key_size, icecore_version* version);

/* Inserts `count` items, values[i] at keys[i], sent by owner; of equal keys the later wins. */
int icecore_cluster_insert_many(icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                const icecore_bytes* values, icecore_version* version);

/* Applies the batch at one instant; the batch does not change. ICECORE_INVALID_ARGUMENT unless all its keys have one
 * owner. */
int icecore_cluster_apply(icecore_cluster* cluster, const icecore_batch* batch, icecore_version* version);

/* As icecore_insert_new(), icecore_replace() and icecore_apply_if(): the owner decides. ICECORE_INVALID_ARGUMENT unless
 * all keys of the batch have one owner. */
int icecore_cluster_insert_new(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                               size_t value_size, icecore_version* version);
int icecore_cluster_replace(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                            size_t value_size, icecore_version expected, icecore_version* version);
int icecore_cluster_apply_if(icecore_cluster* cluster, const icecore_batch* batch, icecore_version* version);

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* Finds the newest value, or the value in a closed version. It is a copy, given back by
 * icecore_cluster_values_free(). */
int icecore_cluster_find(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_bytes* value);
int icecore_cluster_find_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                            icecore_bytes* value);

/* *present: 1 if the key is there, else 0. */
int icecore_cluster_contains(const icecore_cluster* cluster, const void* key, size_t key_size, int* present);
int icecore_cluster_contains_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                                int* present);

/* Finds `count` keys at once and asks each owner in one message: values[i] answers keys[i]. All of them are given back
 * by icecore_cluster_values_free(values, count). */
int icecore_cluster_find_many(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                              icecore_bytes* values);
int icecore_cluster_find_many_at(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                 icecore_version at, icecore_bytes* values);

/* Frees `count` values that a cluster or a cluster's snapshot found, and sets them to nothing. Some of them may be
 * nothing already. */
void icecore_cluster_values_free(icecore_bytes* values, size_t count);

/* The records of one key as they are now, all copied by the call. Staged writes are sent to the owner first. Given back
 * by icecore_cluster_history_close(). order: enum icecore_history_order. */
typedef struct icecore_cluster_history icecore_cluster_history;

int icecore_cluster_history_open(const icecore_cluster* cluster, const void* key, size_t key_size, int order,
                                 icecore_cluster_history** history);
size_t icecore_cluster_history_count(const icecore_cluster_history* history);
/* Version 0 past the end. The value belongs to the history. */
int icecore_cluster_history_next(icecore_cluster_history* history, icecore_change* change);
void icecore_cluster_history_close(icecore_cluster_history* history);

/* ---- Tags and versions ------------------------------------------------------------------------------------------ */

/* Closes the open version of all ranks and reports its number, the same on all ranks (collective). The version contains
 * every write that returned on any rank before the call. closed: NULL, or receives the version. */
int icecore_cluster_tag_now(icecore_cluster* cluster, icecore_version* closed);
/* The same, with the name, note and time that rank 0 passes. ICECORE_TAG_EXISTS if the name is taken. */
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
/* The number of keys present in this version. Every owner counts its own: O(keys of the largest store). */
int icecore_cluster_snapshot_size(const icecore_cluster_snapshot* snapshot, uint64_t* size);

/* A position among the items of a snapshot between bounds. It has none until a seek, and moves forward only. Given back
 * by icecore_cluster_cursor_close(). */
typedef struct icecore_cluster_cursor icecore_cluster_cursor;

/* Opens a cursor over from <= key < to (NULL: no bound), or over all keys that start with `prefix`. */
int icecore_cluster_cursor_open(const icecore_cluster_snapshot* snapshot, const void* from, size_t from_size,
                                const void* to, size_t to_size, icecore_cluster_cursor** cursor);
int icecore_cluster_cursor_open_prefix(const icecore_cluster_snapshot* snapshot, const void* prefix, size_t prefix_size,
                                       icecore_cluster_cursor** cursor);
void icecore_cluster_cursor_close(icecore_cluster_cursor* cursor);

/* If there is no such item within the bounds, the cursor becomes invalid. */
int icecore_cluster_cursor_seek_first(icecore_cluster_cursor* cursor);
int icecore_cluster_cursor_seek(icecore_cluster_cursor* cursor, const void* key, size_t key_size); /* first >= key */
/* Moves by one; past the end the cursor becomes invalid. ICECORE_INVALID_ARGUMENT if it is invalid. */
int icecore_cluster_cursor_next(icecore_cluster_cursor* cursor);

/* 1 if the cursor is at an item, otherwise 0; the code of the last seek or step. */
int icecore_cluster_cursor_valid(const icecore_cluster_cursor* cursor);
int icecore_cluster_cursor_status(const icecore_cluster_cursor* cursor);
/* The item's key and value, valid until the cursor moves; nothing if the cursor is invalid. */
icecore_bytes icecore_cluster_cursor_key(const icecore_cluster_cursor* cursor);
icecore_bytes icecore_cluster_cursor_value(const icecore_cluster_cursor* cursor);

/* ---- Extraction: every rank calls these, with the same arguments ------------------------------------------------- */

/* How the pairs of all ranks are put together. */
enum icecore_extraction_method {
  ICECORE_EXTRACT_GATHER = 0,      /* rank after rank at the root: each rank's pairs are in order, the result is not */
  ICECORE_EXTRACT_NAIVE_MERGE = 1, /* in order at the root: gathered, then merged from all ranks' parts at once */
  ICECORE_EXTRACT_OPT_MERGE = 2,   /* in order at the root: merged in pairs of ranks, in rounds, by several threads */
  ICECORE_EXTRACT_CONCATENATE = 3, /* in order at the root, without a merge: with ICECORE_OWNERSHIP_BY_RANGES only */
  ICECORE_EXTRACT_DISTRIBUTED = 4  /* in order over all ranks: each has a section, after that of the rank before it */
};

typedef struct icecore_extraction_options {
  size_t struct_size;
  int root;           /* the rank that gets the result; ICECORE_EXTRACT_DISTRIBUTED has none */
  unsigned threads;   /* threads of each rank, for reading and merging; 0: all its cores */
  icecore_bytes from; /* keys with from <= key < to; nothing: no bound */
  icecore_bytes to;
  icecore_bytes prefix;      /* keys that start with it; nothing: any. Not together with from or to */
  int linear_scan;           /* not 0: ICECORE_EXTRACT_NAIVE_MERGE compares the heads of all ranks for each pair */
  uint64_t memory_bytes_max; /* the most bytes each rank may take for its own pairs, and again for what it receives */
} icecore_extraction_options;

/* Root 0, one thread, all keys, no memory limit. struct_size: sizeof(icecore_extraction_options). */
void icecore_extraction_options_init(icecore_extraction_options* options, size_t struct_size);

/* All pairs of the snapshot, at the root; none elsewhere (count 0), unless the method is ICECORE_EXTRACT_DISTRIBUTED.
 * method: enum icecore_extraction_method. options: NULL for the defaults. Given back by icecore_columns_free(), before
 * or after the cluster. ICECORE_INVALID_ARGUMENT, on all ranks: no such root, bounds out of order, arguments that
 * differ between ranks, a rank that needs more than memory_bytes_max. */
int icecore_cluster_snapshot_columns(const icecore_cluster_snapshot* snapshot, int method,
                                     const icecore_extraction_options* options, icecore_columns** columns);

/* Called with `count` pairs, values[i] at keys[i], valid during the call. A result other than 0 stops the stream. It
 * may call the cluster, but nothing collective. */
typedef int (*icecore_extraction_sink)(void* context, size_t count, const icecore_bytes* keys,
                                       const icecore_bytes* values);

/* Calls `sink` at the root with all pairs in order, some at a time. No rank holds more than two blocks of 64 KiB (or of
 * one pair) for each rank it communicates with. ICECORE_STOPPED on all ranks if the sink stopped the stream. Errors as
 * above; the sink may have got some pairs before. */
int icecore_cluster_snapshot_stream(const icecore_cluster_snapshot* snapshot, icecore_extraction_sink sink,
                                    void* context, const icecore_extraction_options* options);

/* Finds the root's key, at the root; nothing elsewhere. The keys that other ranks pass are ignored. The root's question
 * is sent to all ranks, and their answers are reduced to one; icecore_cluster_snapshot_find() asks only the owner.
 * Given back by icecore_cluster_values_free(). */
int icecore_cluster_snapshot_find_by_broadcast(const icecore_cluster_snapshot* snapshot, const void* key,
                                               size_t key_size, int root, icecore_bytes* value);

/* ---- Synchronising ---------------------------------------------------------------------------------------------- */

/* Returns when the owners have made all writes that this rank has staged. Not collective. */
int icecore_cluster_fence(icecore_cluster* cluster);
/* Afterwards all ranks see all that any rank wrote before (collective). level: enum icecore_barrier_level. */
int icecore_cluster_barrier(icecore_cluster* cluster, int level);

/* Packs the stores of all ranks while threads go on to read and write, as icecore_compact_open() (collective;
 * cluster::compact() says more). `whole`, `dry_run`, `only_if_expiring` and `compression_level` must be the same on all
 * ranks; all is merged at once. The report, which may be NULL, has the sums of all ranks. */
int icecore_cluster_compact(icecore_cluster* cluster, const icecore_compaction_options* how,
                            icecore_compaction_report* report);
/* Which closed versions icecore_cluster_compact() keeps, by the tags of the cluster, on all ranks alike: reading the
 * others is ICECORE_VERSION_EXPIRED from then on. As icecore_set_retention(); both are collective. */
int icecore_cluster_set_retention(icecore_cluster* cluster, const icecore_retention* retention);
int icecore_cluster_get_retention(icecore_cluster* cluster, icecore_retention* retention);

/* Holds a closed version, or ICECORE_VERSION_PRESENT, on all ranks, as icecore_hold_version(), and ends that; both are
 * collective, and all ranks pass the same. icecore_holds_close() releases the list, which is this rank's; any rank may
 * ask for it alone. */
int icecore_cluster_hold_version(icecore_cluster* cluster, const void* name, size_t name_size, icecore_version at,
                                 icecore_version* held);
int icecore_cluster_release_version(icecore_cluster* cluster, const void* name, size_t name_size);
int icecore_cluster_held_versions(const icecore_cluster* cluster, icecore_holds** holds);

/* Removes keys on the ranks that own them, and has the next icecore_cluster_compact() erase them from all versions, as
 * icecore_forget() (collective; all ranks pass the same). No rank writes meanwhile. `report`, which may be NULL, has
 * the keys of all ranks. ICECORE_PROTECTION while the ranks may not write. */
int icecore_cluster_forget(icecore_cluster* cluster, const icecore_bytes* keys, size_t key_count,
                           const icecore_bytes* prefixes, size_t prefix_count, const void* note, size_t note_size,
                           icecore_forget_report* report);

/* From now on, on all ranks (collective). mode: enum icecore_consistency_mode, enum icecore_protection_mode. */
int icecore_cluster_set_consistency(icecore_cluster* cluster, int mode);
int icecore_cluster_protect(icecore_cluster* cluster, int mode);
int icecore_cluster_consistency(const icecore_cluster* cluster, int* mode);
int icecore_cluster_protection(const icecore_cluster* cluster, int* mode);

/* Fences, then sends the signal `signum` to each of `count` ranks; waits for one such signal from each of them. Signals
 * are counted, so none is lost. */
int icecore_cluster_signal_notify(icecore_cluster* cluster, int signum, const int* ranks, size_t count);
int icecore_cluster_signal_wait(icecore_cluster* cluster, int signum, const int* ranks, size_t count);

/* ---- Checkpoints ------------------------------------------------------------------------------------------------ */

/* A checkpoint that is being written. Given back by icecore_cluster_event_free(), before or after the cluster. */
typedef struct icecore_cluster_event icecore_cluster_event;

/* Begins to write the cluster as it is now, with every version and tag, to a folder that all ranks share, and returns;
 * writes continue meanwhile (collective). The new checkpoint replaces one that is in the folder when it is complete.
 * event: receives the event; NULL: the call returns when the checkpoint is complete. */
int icecore_cluster_checkpoint(icecore_cluster* cluster, const char* folder, icecore_cluster_event** event);

/* *done: 1 if icecore_cluster_event_wait() would return at once, otherwise 0. */
int icecore_cluster_event_done(const icecore_cluster_event* event, int* done);
/* Returns when the checkpoint is complete on all ranks, or returns the code of its failure. Not collective. */
int icecore_cluster_event_wait(const icecore_cluster_event* event);
/* How many bytes of its file this rank has written, and how many it will have. */
int icecore_cluster_event_progress(const icecore_cluster_event* event, uint64_t* bytes_done, uint64_t* bytes_total);
/* Frees the event. Its checkpoint is still completed; icecore_cluster_close() waits for it. */
void icecore_cluster_event_free(icecore_cluster_event* event);

typedef struct icecore_checkpoint_source {
  size_t struct_size;
  const char* folder; /* the argument of icecore_cluster_checkpoint(); all ranks can read it */
  int redistribute;   /* not 0: send every record to its owner even if ranks and ownership are the same */
} icecore_checkpoint_source;

/* No folder, no redistribution. struct_size: sizeof(icecore_checkpoint_source). */
void icecore_checkpoint_source_init(icecore_checkpoint_source* source, size_t struct_size);

/* Creates a cluster at `path` from a checkpoint and opens it (collective), with any number of ranks and any ownership.
 * ICECORE_OTHER_CLUSTER if the checkpoint is not complete, ICECORE_DAMAGED if some of its bytes fail their check,
 * ICECORE_STORE_EXISTS if a cluster is at `path`. The second form takes a Fortran communicator. */
int icecore_cluster_restore(MPI_Comm comm, const icecore_checkpoint_source* from, const char* path,
                            const icecore_cluster_options* options, icecore_cluster** cluster);
int icecore_cluster_restore_f(MPI_Fint comm, const icecore_checkpoint_source* from, const char* path,
                              const icecore_cluster_options* options, icecore_cluster** cluster);

/* ---- The cluster itself ----------------------------------------------------------------------------------------- */

/* This rank and the number of ranks; -1 if cluster is NULL. */
int icecore_cluster_rank(const icecore_cluster* cluster);
int icecore_cluster_size(const icecore_cluster* cluster);
/* The rank that holds the key; the storage group of a rank, counted from 0. */
int icecore_cluster_owner_of(const icecore_cluster* cluster, const void* key, size_t key_size, int* rank);
int icecore_cluster_group_of(const icecore_cluster* cluster, int rank, int* group);
/* *direct: 1 if that rank's keys are read and written in its memory, without its participation, otherwise 0. */
int icecore_cluster_reaches_directly(const icecore_cluster* cluster, int rank, int* direct);
/* 1 if a thread answers other ranks while this one is outside the cluster's calls, otherwise 0. */
int icecore_cluster_has_progress_thread(const icecore_cluster* cluster);
/* The folder of this rank's store. Valid until icecore_cluster_close(); NULL if cluster is NULL. */
const char* icecore_cluster_path(const icecore_cluster* cluster);

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ICECORE_MPI_H */

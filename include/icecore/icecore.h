/* icecore for C (C11 and later, C++, and Fortran by ISO_C_BINDING): an ordered map that never forgets.
 *
 *   icecore_store* store;
 *   if (icecore_open("model.ice", NULL, &store) != ICECORE_OK) return puts(icecore_last_error_message());
 *   icecore_version v;
 *   icecore_insert(store, "bias", 4, "0.5", 3, NULL);
 *   icecore_tag_now(store, &v);
 *   icecore_insert(store, "bias", 4, "0.7", 3, NULL);
 *   icecore_bytes value;
 *   icecore_find_at(store, "bias", 4, v, &value);      // value: {"0.5", 3}, now and for ever
 *   icecore_close(store);
 *
 * Codes: every function that can fail returns ICECORE_OK (0) or what went wrong: a positive number is the same in C++
 *   (icecore::errc), in Python and on the wire; a negative one belongs to this interface alone. The outputs of a call
 *   that failed are set to nothing (NULL, 0). icecore_strerror(code) says what a code means;
 *   icecore_last_error_message() says what failed in this thread, where, and what to do about it.
 * Not found is an answer, not a failure: the call returns ICECORE_OK and the answer is nothing. Bytes that are not
 * there have data == NULL (an empty value has size 0 and data != NULL); a version that is not there is 0; an object
 * that is not there is NULL. Bytes are (pointer, size) pairs and hold anything; nothing is terminated by a zero but
 * paths and texts of type const char*. A pair given in may be (NULL, 0), the empty string. Ownership: what a caller
 * passes in is copied before the call returns, unless the comment says otherwise. Bytes that come back are views into
 * the store, valid until icecore_close(), and are never freed by the caller. Every object handed out (store, snapshot,
 * cursor, ...) is given back to the function that its comment names; each of these takes NULL and does nothing then.
 * Objects made from a store are given back before icecore_close() is called on it. Threads: all functions on a store or
 * a snapshot, but icecore_close(), may be called from any number of threads at once. Cursors, histories, diffs, tag
 * lists and batches belong to one thread at a time. Option and result structures begin with their size in bytes, which
 * the caller sets (the _init functions do it), so that a program goes on working with a library whose structures have
 * grown. Costs, guarantees and the meaning of versions: include/icecore/store.hpp and docs/guarantees.md.
 */
#ifndef ICECORE_ICECORE_H
#define ICECORE_ICECORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions, bytes, codes ------------------------------------------------------------------------------------- */

/* The version of this header; icecore_library_version() tells that of the library. */
#define ICECORE_VERSION_MAJOR 0
#define ICECORE_VERSION_MINOR 1
#define ICECORE_VERSION_PATCH 0

/* The version of the library that is linked, as "0.1.0". Static storage. */
const char* icecore_library_version(void);

/* Names one state of a store: 48 bits, from 1 upwards, one more with each tag. 0: no version. */
typedef uint64_t icecore_version;

/* Some bytes of somebody's. data == NULL: nothing there (not found, removed, past the end). */
typedef struct icecore_bytes {
  const void* data;
  size_t size;
} icecore_bytes;

enum icecore_code {
  ICECORE_OK = 0,
  ICECORE_INVALID_ARGUMENT = 1,    /* an argument is outside its documented range */
  ICECORE_KEY_TOO_LONG = 2,        /* a key of more than 65,535 bytes */
  ICECORE_VALUE_TOO_LARGE = 3,     /* a value of more than 4 GiB - 1 bytes */
  ICECORE_NOT_A_STORE = 4,         /* the file is no icecore pool, or the path is not a regular file */
  ICECORE_UNSUPPORTED_FORMAT = 5,  /* written by a newer icecore, or by a machine of other byte order */
  ICECORE_DAMAGED = 6,             /* bytes on media fail their check; the message names the place */
  ICECORE_TRUNCATED = 7,           /* the file is shorter than it says it must be */
  ICECORE_LOCKED = 8,              /* another process has the store open; the message names its pid */
  ICECORE_NO_SPACE = 9,            /* the device or its quota is full */
  ICECORE_IO = 10,                 /* a system call failed; the message names call, path and reason */
  ICECORE_NOT_DURABLE = 11,        /* the device cannot give the durability that was asked for */
  ICECORE_VERSION_NOT_CLOSED = 12, /* a version was read that no tag has closed yet */
  ICECORE_UNKNOWN_TAG = 13,        /* no tag has this name, or none is as old as this time */
  ICECORE_TAG_EXISTS = 14,         /* another version already carries this tag name */
  ICECORE_READ_ONLY = 15,          /* a write to a store opened for reading */
  ICECORE_CLOSED = 16,             /* the store was closed */
  ICECORE_FORKED = 17,             /* used in a child process after fork; open it again there */
  ICECORE_POISONED = 18,           /* an earlier sync failed: what is on media is unknown; reopen */
  ICECORE_COPIED = 19,             /* the file is a copy or was moved while a writer had it open */
  ICECORE_NO_SUCH_STORE = 20,      /* nothing is at this path and creating was not asked for */
  ICECORE_STORE_EXISTS = 21,       /* a new store was asked for and something is already there */
  ICECORE_BAD_INPUT = 22,          /* text or data given to load cannot be understood */
  ICECORE_PERMISSION = 23,         /* the file system denies access */
  ICECORE_OTHER_CLUSTER = 24,      /* a cluster of another number of ranks or ownership, or an incomplete one */
  ICECORE_PROTECTION = 25,         /* the cluster's protection does not allow this call at the moment */
  ICECORE_MPI = 26,                /* MPI is not running, a call of it failed, or ranks called different functions */
  ICECORE_MISSING_FILE = 27,       /* a file of a store of several is not there, or another store's or an old copy is */
  ICECORE_VERSION_LOST = 28,       /* a closed version was read that a power cut took: it was not durable */
  ICECORE_RANK_FAILED = 29,        /* a rank of the cluster failed: nobody can use the cluster any more */
  ICECORE_CRASH_UNKNOWN = 30,      /* nothing tells whether writes not yet durable survived a crash; say it: `crash` */

  ICECORE_NO_MEMORY = -1, /* the process is out of memory; a batch it hit half-way poisons the store */
  ICECORE_SYSTEM = -2,    /* the system denied something else, a thread for example; the message names it */
  ICECORE_STOPPED = -3    /* a callback asked to stop */
};

/* What a code means, in a few words. Static storage; never NULL, also for numbers that are no code. */
const char* icecore_strerror(int code);

/* What the last call that failed in this thread said: what failed, where, what to do. Valid until the next call fails
 * in this thread; "" if none has. */
const char* icecore_last_error_message(void);

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

typedef struct icecore_store icecore_store;

enum icecore_access {
  ICECORE_ACCESS_READ_WRITE = 0, /* one process at a time */
  ICECORE_ACCESS_READ_ONLY = 1,  /* any number of processes, while no one writes; the file is never changed */
  ICECORE_ACCESS_ATTACHED = 2    /* beside the process that has it open and shares it (`shared_as`): reads and writes */
};

enum icecore_creation {
  ICECORE_OPEN_OR_CREATE = 0,
  ICECORE_OPEN_EXISTING = 1, /* ICECORE_NO_SUCH_STORE if there is none */
  ICECORE_CREATE_NEW = 2     /* ICECORE_STORE_EXISTS if there is one */
};

/* What survives a power cut (a process crash loses nothing that was returned, in every mode). */
enum icecore_durability_mode {
  ICECORE_DURABILITY_BEST_AVAILABLE = 0, /* operation on persistent memory, tag on block devices, none on tmpfs */
  ICECORE_DURABILITY_NONE = 1,           /* only icecore_sync() and a clean close */
  ICECORE_DURABILITY_TAG = 2,            /* every returned tag, with all it covers */
  ICECORE_DURABILITY_OPERATION = 3       /* every returned write, and every value that was read */
};

enum icecore_index_kind {
  ICECORE_INDEX_BTREE = 1,
  ICECORE_INDEX_SKIP_LIST = 2,
  ICECORE_INDEX_PERSISTENT = 3 /* lies in the store's file: opens at once */
};

/* What ended the last session of a store that was not closed, where nothing else tells it: whether writes that were not
 * durable yet count. */
enum icecore_crash_kind {
  ICECORE_CRASH_FIND_OUT = 0, /* ICECORE_CRASH_UNKNOWN where it cannot be */
  ICECORE_CRASH_PROCESS = 1,  /* the process alone: all that it wrote is in the file, and counts */
  ICECORE_CRASH_MACHINE = 2   /* the machine stopped: the store goes back to its durable point */
};

/* Told at most some ten times a second while something long runs. `total` is 0 where it is not known. The texts are
 * valid during the call. */
typedef void (*icecore_progress_function)(void* context, const char* what, uint64_t done, uint64_t total,
                                          const char* unit);

/* A file of a store that has several, and the NUMA node whose threads are to write there (-1: any). */
typedef struct icecore_placement {
  const char* path;
  int node;
} icecore_placement;

typedef struct icecore_options {
  size_t struct_size;
  int access;                /* enum icecore_access */
  int creation;              /* enum icecore_creation */
  int durability;            /* enum icecore_durability_mode */
  int emulate_durability;    /* not 0: accept a mode that the medium cannot keep, and say so; for measuring */
  int accept_copy;           /* not 0: open a file that was copied while its writer, now dead, had it open */
  int huge_pages;            /* not 0 (default): ask for huge pages */
  int index;                 /* enum icecore_index_kind */
  unsigned recovery_threads; /* threads that read the pool at opening; 0: as many as there are cores */
  icecore_progress_function on_progress; /* NULL: silence */
  void* progress_context;
  int accept_damage; /* not 0: open a damaged store for reading; reads of what is lost give ICECORE_DAMAGED */
  /* The further files of a new store that is to have several, at most 15, each on a device or in the memory of a NUMA
   * node of its own; of a store that is there, where its files have been moved to. NULL: none. */
  const icecore_placement* placements;
  size_t placement_count;
  int change_index;            /* not 0: give a store that is there the index `index`, built anew; takes write access */
  uint64_t lookup_cache_bytes; /* at most, for a table of entries found lately, in front of the index; 0: none */
  /* A file on a memory file system such as /dev/shm. With ICECORE_ACCESS_READ_WRITE: nothing is there yet; the open
   * store is shared with other processes of this machine, and the file is gone when it is closed. With
   * ICECORE_ACCESS_ATTACHED: as what it is shared. What attached processes may do, and what a kill of one leaves:
   * icecore::options::shared_as. NULL: nobody else. */
  const char* shared_as;
  int crash; /* enum icecore_crash_kind */
} icecore_options;

/* Fills in the defaults. struct_size: sizeof(icecore_options). */
void icecore_options_init(icecore_options* options, size_t struct_size);

/* Opens the store at `path`, creating it unless the options say otherwise; after a crash it recovers first. options:
 * NULL for the defaults. Given back by icecore_close(). */
int icecore_open(const char* path, const icecore_options* options, icecore_store** store);

/* Makes everything durable, as the device can, and gives the store back; it is gone, whatever is returned. No other
 * call may be running, and no object made from the store may be used afterwards. */
int icecore_close(icecore_store* store);

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Sets the key's value in the open version. version: NULL, or receives the version the write belongs to. */
int icecore_insert(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                   icecore_version* version);

/* Removes the key in the open version. version: NULL, or receives the version of the removal, 0 if the key was not
 * there. */
int icecore_remove(icecore_store* store, const void* key, size_t key_size, icecore_version* version);

/* Inserts and removes that take effect at one instant: no reader and no crash ever sees a part of them. Later
 * operations on the same key win. */
typedef struct icecore_batch icecore_batch;

int icecore_batch_new(icecore_batch** batch); /* given back by icecore_batch_free() */
void icecore_batch_free(icecore_batch* batch);
int icecore_batch_insert(icecore_batch* batch, const void* key, size_t key_size, const void* value, size_t value_size);
int icecore_batch_remove(icecore_batch* batch, const void* key, size_t key_size);
int icecore_batch_clear(icecore_batch* batch);
size_t icecore_batch_size(const icecore_batch* batch); /* operations in it */

/* Applies the batch, which stays as it is. version: NULL, or receives the version it belongs to. */
int icecore_apply(icecore_store* store, const icecore_batch* batch, icecore_version* version);

/* Returns when all completed writes survive a power cut, as far as the medium can. Outside operation durability this
 * closes the open version, as a tag does. */
int icecore_sync(icecore_store* store);

/* ---- Tags and versions ------------------------------------------------------------------------------------------ */

/* A tag time of "now". */
#define ICECORE_TIME_NOW INT64_MIN

/* What a tag carries besides its version. */
typedef struct icecore_tag_options {
  size_t struct_size;
  icecore_bytes name; /* unique in the store, at most 65,535 bytes; size 0: none */
  icecore_bytes note; /* at most 65,535 bytes */
  int64_t time_ns;    /* nanoseconds since 1970-01-01 UTC, or ICECORE_TIME_NOW */
} icecore_tag_options;

/* No name, no note, now. struct_size: sizeof(icecore_tag_options). */
void icecore_tag_options_init(icecore_tag_options* options, size_t struct_size);

/* Closes the open version and tells its number: from now on it is an immutable snapshot of all writes completed before.
 * O(1). Under tag durability it returns when the snapshot is durable. closed: NULL, or receives the version. */
int icecore_tag_now(icecore_store* store, icecore_version* closed);
/* The same, keeping a name, a note and a time. ICECORE_TAG_EXISTS if the name is taken. */
int icecore_tag_with(icecore_store* store, const icecore_tag_options* options, icecore_version* closed);

/* The version that a write now belongs to; all smaller ones are closed. */
int icecore_clock(const icecore_store* store, icecore_version* clock);

typedef struct icecore_tag {
  icecore_version version;
  int64_t time_ns;    /* nanoseconds since 1970-01-01 UTC */
  icecore_bytes name; /* size 0: none */
  icecore_bytes note; /* size 0: none */
} icecore_tag;

/* The tag of this name, of this version, or with the greatest time that is not after `time_ns`; *tag is NULL if there
 * is none. Given back by icecore_tag_free(), its bytes with it. */
int icecore_find_tag(const icecore_store* store, const void* name, size_t name_size, icecore_tag** tag);
int icecore_find_tag_of_version(const icecore_store* store, icecore_version version, icecore_tag** tag);
int icecore_find_tag_at_time(const icecore_store* store, int64_t time_ns, icecore_tag** tag);
void icecore_tag_free(icecore_tag* tag);

/* All named and timed tags as they are now, oldest version first. */
typedef struct icecore_tags icecore_tags;

int icecore_tags_open(const icecore_store* store, icecore_tags** tags); /* given back by icecore_tags_close() */
size_t icecore_tags_count(const icecore_tags* tags);
/* The next tag, the first at first; NULL at the end. Owned by the list. */
const icecore_tag* icecore_tags_next(icecore_tags* tags);
void icecore_tags_close(icecore_tags* tags);

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The newest value; the value in a closed version. value->data == NULL: the key is not there. */
int icecore_find(const icecore_store* store, const void* key, size_t key_size, icecore_bytes* value);
int icecore_find_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at,
                    icecore_bytes* value);

/* *present: 1 if the key is there, else 0. */
int icecore_contains(const icecore_store* store, const void* key, size_t key_size, int* present);
int icecore_contains_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at, int* present);

/* Finds `count` keys at once, overlapping their memory accesses: several times the speed of single finds on large
 * stores. values[i] answers keys[i]. The second form has a version for each key. */
int icecore_find_many(const icecore_store* store, size_t count, const icecore_bytes* keys, icecore_version at,
                      icecore_bytes* values);
int icecore_find_many_at(const icecore_store* store, size_t count, const icecore_bytes* keys, const icecore_version* at,
                         icecore_bytes* values);

/* ---- Snapshots -------------------------------------------------------------------------------------------------- */

/* One version, to be read at any time. Costs two words. Given back by icecore_snapshot_close(). */
typedef struct icecore_snapshot icecore_snapshot;

int icecore_at_version(const icecore_store* store, icecore_version closed, icecore_snapshot** snapshot);
int icecore_at_tag(const icecore_store* store, const void* name, size_t name_size, icecore_snapshot** snapshot);
int icecore_at_time(const icecore_store* store, int64_t time_ns, icecore_snapshot** snapshot);
/* The present: closes the open version (without making it durable). */
int icecore_latest(const icecore_store* store, icecore_snapshot** snapshot);
void icecore_snapshot_close(icecore_snapshot* snapshot);

icecore_version icecore_snapshot_version(const icecore_snapshot* snapshot);
int icecore_snapshot_find(const icecore_snapshot* snapshot, const void* key, size_t key_size, icecore_bytes* value);
int icecore_snapshot_find_many(const icecore_snapshot* snapshot, size_t count, const icecore_bytes* keys,
                               icecore_bytes* values);

/* Keys present in this version. O(keys of the store) over `threads` threads (0: all cores). */
int icecore_snapshot_size(const icecore_snapshot* snapshot, unsigned threads, size_t* size);
/* Keys ever inserted, never less than the size; O(1). */
int icecore_snapshot_size_bound(const icecore_snapshot* snapshot, size_t* bound);

/* Where fixed-size keys and values go. */
typedef struct icecore_fixed_columns {
  size_t struct_size;
  void* keys;        /* capacity * key_size bytes; NULL: keys are not wanted */
  size_t key_size;   /* every key must have this size */
  void* values;      /* capacity * value_size bytes; NULL: values are not wanted */
  size_t value_size; /* every value must have this size */
  size_t capacity;   /* items there is room for */
} icecore_fixed_columns;

/* Everything 0. struct_size: sizeof(icecore_fixed_columns). */
void icecore_fixed_columns_init(icecore_fixed_columns* columns, size_t struct_size);

/* Copies all items, in key order, into the caller's memory and tells how many. ICECORE_INVALID_ARGUMENT if a key or
 * value has another size or the capacity does not suffice. threads: 0 for all cores. */
int icecore_snapshot_extract(const icecore_snapshot* snapshot, const icecore_fixed_columns* columns, unsigned threads,
                             size_t* count);

/* Items of any sizes: key i is key_bytes[key_offsets[i] .. key_offsets[i + 1]), values likewise. */
typedef struct icecore_columns {
  size_t count;
  const uint64_t* key_offsets; /* count + 1 of them */
  const char* key_bytes;
  const uint64_t* value_offsets; /* count + 1 of them */
  const char* value_bytes;
} icecore_columns;

/* Copies the items with from <= key < to (NULL: no bound) in key order. Given back by icecore_columns_free(). */
int icecore_snapshot_columns(const icecore_snapshot* snapshot, unsigned threads, const void* from, size_t from_size,
                             const void* to, size_t to_size, icecore_columns** columns);
void icecore_columns_free(icecore_columns* columns);

/* Called for each item; not 0 asks to stop. May be called by several threads at once. */
typedef int (*icecore_visit_function)(void* context, icecore_bytes key, icecore_bytes value);

/* Visits all items with `threads` threads (0: all cores), each in key order over its own part of the keys. Returns
 * ICECORE_STOPPED if a visit asked to stop; some visits may then still follow in other threads. */
int icecore_snapshot_for_each(const icecore_snapshot* snapshot, icecore_visit_function visit, void* context,
                              unsigned threads);

/* ---- Cursors: ranges, prefixes, both directions ----------------------------------------------------------------- */

/* A place among the items of a snapshot between bounds; nowhere until a seek. Given back by icecore_cursor_close().
 *
 *   for (icecore_cursor_seek_first(c); icecore_cursor_valid(c); icecore_cursor_next(c)) use(icecore_cursor_key(c));
 *   if (icecore_cursor_status(c) != ICECORE_OK) ...   // it ended early: damaged media, say
 */
typedef struct icecore_cursor icecore_cursor;

/* Over from <= key < to (NULL: no bound), or over all keys that start with `prefix`. */
int icecore_cursor_open(const icecore_snapshot* snapshot, const void* from, size_t from_size, const void* to,
                        size_t to_size, icecore_cursor** cursor);
int icecore_cursor_open_prefix(const icecore_snapshot* snapshot, const void* prefix, size_t prefix_size,
                               icecore_cursor** cursor);
void icecore_cursor_close(icecore_cursor* cursor);

/* Each goes nowhere (the cursor becomes invalid) if there is no such item within the bounds. O(log keys). */
int icecore_cursor_seek_first(icecore_cursor* cursor);
int icecore_cursor_seek_last(icecore_cursor* cursor);
int icecore_cursor_seek(icecore_cursor* cursor, const void* key, size_t key_size);        /* to the first key >= key */
int icecore_cursor_seek_after(icecore_cursor* cursor, const void* key, size_t key_size);  /* to the first key > key */
int icecore_cursor_seek_before(icecore_cursor* cursor, const void* key, size_t key_size); /* to the last key < key */

/* One step; past an end the cursor becomes invalid. Amortised O(1). ICECORE_INVALID_ARGUMENT if it is nowhere. */
int icecore_cursor_next(icecore_cursor* cursor);
int icecore_cursor_previous(icecore_cursor* cursor);

/* 1 if the cursor is at an item, else 0; the code of the last seek or step. */
int icecore_cursor_valid(const icecore_cursor* cursor);
int icecore_cursor_status(const icecore_cursor* cursor);
/* The item's key and value; nothing if the cursor is nowhere. */
icecore_bytes icecore_cursor_key(const icecore_cursor* cursor);
icecore_bytes icecore_cursor_value(const icecore_cursor* cursor);

/* ---- History of a key, difference of two versions --------------------------------------------------------------- */

typedef struct icecore_change {
  icecore_version version; /* 0: past the end */
  icecore_bytes value;     /* nothing: the key was removed */
} icecore_change;

/* The records of one key as they are now. Given back by icecore_history_close(). */
typedef struct icecore_history icecore_history;

enum icecore_history_order { ICECORE_NEWEST_FIRST = 0, ICECORE_OLDEST_FIRST = 1 };

/* order: enum icecore_history_order. Newest first costs O(1) a record; oldest first collects them all at once. */
int icecore_history_open(const icecore_store* store, const void* key, size_t key_size, int order,
                         icecore_history** history);
int icecore_history_next(icecore_history* history, icecore_change* change);
void icecore_history_close(icecore_history* history);

typedef struct icecore_difference {
  icecore_bytes key;    /* nothing: past the end */
  icecore_bytes before; /* nothing: not there before */
  icecore_bytes after;  /* nothing: not there after */
} icecore_difference;

/* The keys whose values differ between two closed versions, in key order, with from <= key < to (NULL: no bound). Given
 * back by icecore_diff_close(). The bytes of a difference are valid until icecore_close(). */
typedef struct icecore_diff icecore_diff;

int icecore_diff_open(const icecore_store* store, icecore_version before, icecore_version after, const void* from,
                      size_t from_size, const void* to, size_t to_size, icecore_diff** diff);
int icecore_diff_next(icecore_diff* diff, icecore_difference* difference);
void icecore_diff_close(icecore_diff* diff);

/* ---- The store itself ------------------------------------------------------------------------------------------- */

enum icecore_medium { ICECORE_PERSISTENT_MEMORY = 1, ICECORE_BLOCK_DEVICE = 2, ICECORE_MEMORY = 3 };

/* The durability a store really has. */
typedef struct icecore_durability_info {
  size_t struct_size;
  int mode;              /* enum icecore_durability_mode, never BEST_AVAILABLE */
  int medium;            /* enum icecore_medium */
  int emulated;          /* not 0: the mode's flushes are executed but the medium forgets at power off */
  char flush_method[16]; /* "clwb", "clflushopt", "clflush", "eADR", "fdatasync" or "none" */
  char filesystem[32];   /* "ext", "tmpfs", "xfs", ...; hexadecimal magic if unknown */
} icecore_durability_info;

/* info->struct_size is set by the caller: sizeof(icecore_durability_info). */
int icecore_durability(const icecore_store* store, icecore_durability_info* info);

/* Sizes and counts. Bytes are of the pool file unless they say otherwise. */
typedef struct icecore_statistics {
  size_t struct_size;
  uint64_t keys;            /* keys ever inserted (removed ones too) */
  uint64_t records;         /* inserts and removes of all versions */
  uint64_t removes;         /* of these, removes */
  uint64_t tags;            /* named or timed tags */
  icecore_version clock;    /* the version that a write now belongs to */
  uint64_t key_bytes;       /* key bytes, once a key */
  uint64_t value_bytes;     /* value bytes of all records */
  uint64_t used_bytes;      /* records with headers and padding, tags, batches, segment headers */
  uint64_t file_bytes;      /* size of the pool file */
  uint64_t index_bytes;     /* memory the index takes, with the table in front of it */
  uint64_t huge_page_bytes; /* of the process, in huge pages right now (0 if the kernel hides it) */
  double recovery_seconds;  /* what opening took */
  int recovered_from_crash; /* not 0: the last writer had not closed the store */
  int index;                /* enum icecore_index_kind */
  unsigned format_major;
  unsigned format_minor;
  char pool_id[33];    /* 32 hexadecimal digits */
  unsigned file_count; /* of the store; sizes are of all together */
  int opened_at_once;  /* not 0: without reading the records; the index was there */
} icecore_statistics;

/* statistics->struct_size is set by the caller: sizeof(icecore_statistics). */
int icecore_stats(const icecore_store* store, icecore_statistics* statistics);

/* The path the store was opened by. Valid until icecore_close(); NULL if store is NULL. */
const char* icecore_path(const icecore_store* store);
/* 1 if the store was opened for reading only, else 0. */
int icecore_is_read_only(const icecore_store* store);

/* All of a store as it was at one instant, every version and tag, to be written to a file of its own while writes go
 * on. Given back by icecore_checkpoint_free(). */
typedef struct icecore_checkpoint icecore_checkpoint;

/* Takes the instant, and closes the open version if anything was written in it and the store is not read only.
 * O(segments), for so long writers wait; nothing is copied yet. */
int icecore_checkpoint_now(icecore_store* store, icecore_checkpoint** checkpoint);
void icecore_checkpoint_free(icecore_checkpoint* checkpoint);

/* The newest closed version that is in it; the size of the file to be. 0 if checkpoint is NULL. */
icecore_version icecore_checkpoint_version(const icecore_checkpoint* checkpoint);
uint64_t icecore_checkpoint_bytes(const icecore_checkpoint* checkpoint);

/* Writes the file, a store like any other; it has its name when it is whole and on its device. Any thread may write,
 * several at once to different files. on_progress may be NULL. ICECORE_STORE_EXISTS if something is at `path`. */
int icecore_checkpoint_write(const icecore_checkpoint* checkpoint, const char* path,
                             icecore_progress_function on_progress, void* progress_context);

typedef struct icecore_damage {
  uint64_t offset;         /* byte in the pool file */
  const char* structure;   /* "root", "segment", "entry", "record", "tag", "batch", "index", "file" */
  const char* what;        /* what is wrong, in words */
  icecore_bytes key;       /* where it can be told, else nothing */
  icecore_version version; /* where it can be told, else 0 */
  const char* file;        /* the pool file */
} icecore_damage;

typedef struct icecore_verify_report {
  size_t damage_count; /* 0: all is well */
  const icecore_damage* damages;
  uint64_t segments;
  uint64_t entries;
  uint64_t records;
  uint64_t tags;
  uint64_t bytes; /* bytes whose checks were computed */
} icecore_verify_report;

/* Checks every structure of the open store against its checksums and against each other, beside readers and writers.
 * Damage is in the report, not in the code. on_progress may be NULL. Given back by icecore_verify_report_free(). */
int icecore_verify(const icecore_store* store, icecore_progress_function on_progress, void* progress_context,
                   icecore_verify_report** report);
/* Checks a store file that may be too damaged to open; changes nothing. */
int icecore_verify_file(const char* path, icecore_progress_function on_progress, void* progress_context,
                        icecore_verify_report** report);
/* The same; `moved`, an array of `moved_count`: further files that are not where the store knows them. */
int icecore_verify_files(const char* path, const icecore_placement* moved, size_t moved_count,
                         icecore_progress_function on_progress, void* progress_context, icecore_verify_report** report);
void icecore_verify_report_free(icecore_verify_report* report);

/* Versions of a key of which repair cannot tell what it held; in the new store the key is not there in them. */
typedef struct icecore_unknown_versions {
  icecore_bytes key;
  icecore_version first;
  icecore_version last; /* the open version, if nothing newer of the key is left */
} icecore_unknown_versions;

typedef struct icecore_repair_report {
  size_t loss_count; /* 0: the new store holds all that the old one did */
  const icecore_damage* losses;
  size_t mended_count;
  const icecore_damage* mended; /* damage that cost nothing */
  size_t unknown_count;
  const icecore_unknown_versions* unknown;
  uint64_t keys;         /* of the new store */
  uint64_t records;      /* inserts and removes that were taken over */
  uint64_t tags;         /* named or timed tags that were */
  icecore_version clock; /* the open version of both stores */
} icecore_repair_report;

/* Writes all that is intact of the store file `damaged`, which is not changed, to a new store at `repaired`, where
 * nothing may be (ICECORE_STORE_EXISTS). What was lost is in the report, not in the code. on_progress may be NULL.
 * Given back by icecore_repair_report_free(). ICECORE_CRASH_UNKNOWN where opening would ask: icecore repair --crash. */
int icecore_repair(const char* damaged, const char* repaired, icecore_progress_function on_progress,
                   void* progress_context, icecore_repair_report** report);
/* The same; `moved`: further files of the damaged store that are not where it knows them; what is in files that are not
 * there is lost. `placements`: the further files of the new one. */
int icecore_repair_files(const char* damaged, const icecore_placement* moved, size_t moved_count, const char* repaired,
                         const icecore_placement* placements, size_t placement_count,
                         icecore_progress_function on_progress, void* progress_context, icecore_repair_report** report);
void icecore_repair_report_free(icecore_repair_report* report);

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ICECORE_H */

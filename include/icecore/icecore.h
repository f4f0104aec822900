/* icecore for C (C11 and later, C++, and Fortran by ISO_C_BINDING): an ordered map that never forgets.
 *
 *   icecore_store* store;
 *   if (icecore_open("model.ice", NULL, &store) != ICECORE_OK) return puts(icecore_last_error_message());
 *   icecore_version v;
 *   icecore_insert(store, "bias", 4, "0.5", 3, NULL);
 *   icecore_tag_now(store, &v);
 *   icecore_insert(store, "bias", 4, "0.7", 3, NULL);
 *   icecore_value value;
 *   icecore_find_at(store, "bias", 4, v, &value);      // value: {"0.5", 3}, and it always will be
 *   icecore_value_release(&value);
 *   icecore_close(store);
 *
 * Codes: every function that can fail returns ICECORE_OK (0) or an error code. A positive code is the same in C++
 *   (icecore::errc), in Python and on the wire; a negative code exists only in this interface. A call that fails sets
 *   its outputs to NULL or 0. icecore_strerror(code) says what a code means; icecore_last_error_message() says what
 *   failed in this thread, where, and what to do about it.
 * Not found: this is an answer, not a failure. The call returns ICECORE_OK, and the output says that nothing is there:
 *   bytes have data == NULL (an empty value has size 0 and data != NULL), a version is 0, an object is NULL.
 * Bytes: (pointer, size) pairs that may hold any bytes. Only paths and texts of type const char* end with a zero. A
 *   caller may pass (NULL, 0) for the empty string.
 * Ownership: a call copies what the caller passes in before it returns, unless its comment says otherwise. The caller
 *   releases every returned object (store, snapshot, cursor, value, ...) with the function that the comment names; this
 *   function accepts NULL and does nothing then.
 * Lifetime of bytes: returned bytes are views into the store. They are valid until the object they came from is
 *   released: the icecore_value or icecore_pin of a find, the snapshot, cursor, history, diff or list. Closing the
 *   store does not end them: objects may be released after icecore_close(). Until then the memory behind their bytes
 *   stays mapped, but the file and its locks are free. Calls on them that would read on return ICECORE_CLOSED.
 * Threads: any number of threads may call functions on a store or a snapshot at once, except icecore_close(). Cursors,
 *   histories, diffs, tag lists and batches belong to one thread at a time. Any thread may release a value or pin.
 * Structures: option and result structures begin with their size in bytes, which the caller sets (the _init functions
 *   do it). So a program still works with a newer library whose structures are larger.
 * Costs, guarantees and the meaning of versions: include/icecore/store.hpp and docs/guarantees.md.
 */
#ifndef ICECORE_ICECORE_H
#define ICECORE_ICECORE_H

#include <stddef.h>
#include <stdint.h>

#include "icecore/icecore_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions, bytes, codes ------------------------------------------------------------------------------------- */

/* The version of this header; icecore_library_version() returns the version of the library. */
#define ICECORE_VERSION_MAJOR 0
#define ICECORE_VERSION_MINOR 1
#define ICECORE_VERSION_PATCH 0

/* The version of the library that is linked, as "0.1.0". Static storage. */
const char* icecore_library_version(void);

/* The number of one state of a store: 48 bits, from 1 upwards, one more with each tag. 0: no version. */
typedef uint64_t icecore_version;

/* A view of bytes. data == NULL: nothing is there (not found, removed, past the end). */
typedef struct icecore_bytes {
  const void* data;
  size_t size;
} icecore_bytes;

/* What keeps the answers of a call valid. Release it with icecore_pin_release(). */
typedef struct icecore_pin icecore_pin;

void icecore_pin_release(icecore_pin* pin);

/* A value that was found, and what keeps its bytes valid. data == NULL: not found; then pin is NULL, too. Release it
 * with icecore_value_release(), which sets all three to NULL or 0. */
typedef struct icecore_value {
  const void* data;
  size_t size;
  icecore_pin* pin;
} icecore_value;

void icecore_value_release(icecore_value* value);

/* What a code means, in a few words. Static storage; never NULL, even if the number is not a code. */
const char* icecore_strerror(int code);

/* The message of the last call that failed in this thread: what failed, where, what to do. Valid until the next call
 * fails in this thread; "" if none has failed. */
const char* icecore_last_error_message(void);

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

typedef struct icecore_store icecore_store;

enum icecore_access {
  ICECORE_ACCESS_READ_WRITE = 0, /* one process at a time */
  ICECORE_ACCESS_READ_ONLY = 1,  /* any number of processes, also beside one that writes; never changes the file */
  ICECORE_ACCESS_ATTACHED = 2    /* reads and writes a store that another process has open and shares (`shared_as`) */
};

enum icecore_creation {
  ICECORE_OPEN_OR_CREATE = 0,
  ICECORE_OPEN_EXISTING = 1, /* ICECORE_NO_SUCH_STORE if there is none */
  ICECORE_CREATE_NEW = 2     /* ICECORE_STORE_EXISTS if there is one */
};

/* What survives a power cut. In every mode, a process crash loses no write that has returned. */
enum icecore_durability_mode {
  ICECORE_DURABILITY_BEST_AVAILABLE = 0, /* operation on persistent memory, tag on block devices, none on tmpfs */
  ICECORE_DURABILITY_NONE = 1,           /* what icecore_sync() or a clean close has made durable */
  ICECORE_DURABILITY_TAG = 2,            /* every returned tag, with all writes it covers */
  ICECORE_DURABILITY_OPERATION = 3       /* every returned write, and every value that a reader has seen */
};

enum icecore_index_kind {
  ICECORE_INDEX_BTREE = 1,
  ICECORE_INDEX_SKIP_LIST = 2,
  ICECORE_INDEX_PERSISTENT = 3, /* lies in the store's file: instant recovery */
  ICECORE_INDEX_LIST = 4,       /* for small stores: finds take time with the number of keys */
  ICECORE_INDEX_HASH = 5        /* finds take the same time for any number of keys; key order is sorted when needed */
};

/* What ended the last session of a store that was not closed, if opening cannot find it out. It decides whether writes
 * that were not durable yet count. */
enum icecore_crash_kind {
  ICECORE_CRASH_FIND_OUT = 0, /* opening fails with ICECORE_CRASH_UNKNOWN if it cannot find out */
  ICECORE_CRASH_PROCESS = 1,  /* only the process died: everything it wrote is in the file, and counts */
  ICECORE_CRASH_MACHINE = 2   /* the machine stopped: the store goes back to its durable point */
};

/* Called during long operations, at most about ten times a second. `total` is 0 if it is not known. The texts are valid
 * during the call. */
typedef void (*icecore_progress_function)(void* context, const char* what, uint64_t done, uint64_t total,
                                          const char* unit);

/* One file of a store of several files, and the NUMA node whose threads write to it (-1: any). */
typedef struct icecore_placement {
  const char* path;
  int node;
} icecore_placement;

typedef struct icecore_options {
  size_t struct_size;
  int access;                /* enum icecore_access */
  int creation;              /* enum icecore_creation */
  int durability;            /* enum icecore_durability_mode */
  int emulate_durability;    /* not 0: accept a mode that the medium cannot provide, and report it; for measuring */
  int accept_copy;           /* not 0: open a file that was copied while its writer, now dead, had it open */
  int huge_pages;            /* not 0 (default): ask for huge pages */
  int index;                 /* enum icecore_index_kind */
  unsigned recovery_threads; /* threads that read the pool at opening; 0: as many as there are cores */
  icecore_progress_function on_progress; /* NULL: no progress reports */
  void* progress_context;
  int accept_damage; /* not 0: open a damaged store for reading; reads of lost data return ICECORE_DAMAGED */
  /* The secondary files of a new store of several files, at most 15, each on a device or in the memory of a NUMA node
   * of its own. For an existing store: where its files were moved to. NULL: none. */
  const icecore_placement* placements;
  size_t placement_count;
  int change_index;            /* not 0: give an existing store the index `index`, built anew; needs write access */
  uint64_t lookup_cache_bytes; /* maximum size of the lookup cache, a table of entries found lately; 0: none */
  /* A file on a memory file system such as /dev/shm. With ICECORE_ACCESS_READ_WRITE: opening creates the file, which
   * must not exist yet, and shares the store with other processes of this machine; closing removes it. With
   * ICECORE_ACCESS_ATTACHED: the file through which the opener shares the store. icecore::options::shared_as says what
   * attached processes may do, and what happens if one is killed. NULL: not shared. */
  const char* shared_as;
  int crash; /* enum icecore_crash_kind */
  /* not 0, with operation durability: no write waits until it is durable; icecore_sync() waits once for all before it,
   * and a read waits if it shows what no sync covers. icecore::options::deferred_durability says what a power cut
   * leaves. */
  int deferred_durability;
  /* not 0 (default): a thread takes memory before writers need it. icecore::options::grow_in_background says when, and
   * how much. */
  int grow_in_background;
  /* not 0 (default), with ICECORE_ACCESS_READ_ONLY: open the store even if another process has it open for writing, and
   * show its settled versions; icecore_refresh() shows what was settled since. 0: ICECORE_LOCKED. */
  int beside_writer;
  /* not 0 (default), with ICECORE_ACCESS_READ_WRITE: tell such readers which versions are settled. */
  int publish_settled;
  /* The memory for packed records that are compressed, inflated; 0 (default): an eighth of the machine's memory, but no
   * more than 1 GiB. icecore::options::block_cache_bytes says what goes beyond it. */
  uint64_t block_cache_bytes;
  /* not 0, with ICECORE_ACCESS_READ_ONLY: never keep a process out that would write. What is shown then, and with which
   * options this does not go: icecore::options::never_locks. */
  int never_locks;
  /* not 0, with ICECORE_ACCESS_READ_WRITE: the store is packed by a thread of its own when enough was written, while
   * others read and write. icecore::options::compaction and compaction_limits say more of these. */
  int compaction;
  unsigned compaction_threads;          /* 1 (default); 0: as many as there are cores */
  uint64_t compaction_bytes_per_second; /* 0 (default): no limit */
  uint64_t compaction_young_bytes;      /* it begins when so much was written, and half of what is packed */
  int compaction_compress;              /* not 0: with zstd */
} icecore_options;

/* Fills in the defaults. struct_size: sizeof(icecore_options). */
void icecore_options_init(icecore_options* options, size_t struct_size);

/* Opens the store at `path` and creates it if it does not exist, unless the options forbid that. After a crash it
 * recovers the store first. options: NULL for the defaults. Release the store with icecore_close(). */
int icecore_open(const char* path, const icecore_options* options, icecore_store** store);

/* Makes everything durable, as far as the device can, and releases the store, even if it returns an error. No other
 * call may be running. Objects made from the store may still be released; their bytes stay valid until then. */
int icecore_close(icecore_store* store);

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Sets the key's value in the open version. version: NULL, or receives the version the write belongs to. */
int icecore_insert(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                   icecore_version* version);

/* Removes the key in the open version. version: NULL, or receives the version of the removal, 0 if the key was not
 * there. */
int icecore_remove(icecore_store* store, const void* key, size_t key_size, icecore_version* version);

/* Inserts the key if it is not there. version: NULL, or receives the version the write belongs to, 0 if the key was
 * there: then nothing has changed. */
int icecore_insert_new(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                       icecore_version* version);

/* Sets the key's value if its newest record has version `expected`; *version is 0 if the key is not there or has
 * another one. Writes to the open version all have the same version. */
int icecore_replace(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                    icecore_version expected, icecore_version* version);

/* Inserts and removes that take effect at one instant: readers and crashes see all of them or none. If several
 * operations name one key, the last one counts. */
typedef struct icecore_batch icecore_batch;

int icecore_batch_new(icecore_batch** batch); /* release it with icecore_batch_free() */
void icecore_batch_free(icecore_batch* batch);
int icecore_batch_insert(icecore_batch* batch, const void* key, size_t key_size, const void* value, size_t value_size);
int icecore_batch_remove(icecore_batch* batch, const void* key, size_t key_size);
/* With a condition for the whole batch: the key is not there; its newest record has version `expected` (not 0). Such a
 * batch needs icecore_apply_if(). */
int icecore_batch_insert_new(icecore_batch* batch, const void* key, size_t key_size, const void* value,
                             size_t value_size);
int icecore_batch_replace(icecore_batch* batch, const void* key, size_t key_size, const void* value, size_t value_size,
                          icecore_version expected);
int icecore_batch_clear(icecore_batch* batch);
size_t icecore_batch_size(const icecore_batch* batch); /* operations in it */

/* Applies the batch and leaves it unchanged. version: NULL, or receives the version it belongs to. */
int icecore_apply(icecore_store* store, const icecore_batch* batch, icecore_version* version);

/* Applies the batch if all its conditions hold; if one does not, nothing happens, and *version is 0. */
int icecore_apply_if(icecore_store* store, const icecore_batch* batch, icecore_version* version);

/* Returns when all completed writes survive a power cut, as far as the medium allows. Where durability is deferred, and
 * in modes other than operation durability, it closes the open version if anything was written in it. */
int icecore_sync(icecore_store* store);

/* Of a store that is open beside the process that writes it: shows the versions that were settled since it was opened
 * or last refreshed. Snapshots stay what they were. version: NULL, or receives the newest version that can be read; for
 * any other store that is all that happens. Where the store was packed meanwhile, versions that the compaction gave up
 * are ICECORE_VERSION_EXPIRED from then on; what snapshots and values lead into is kept until they end, and all else
 * may be used again. After an error (ICECORE_DAMAGED, ICECORE_IO, ICECORE_NO_SPACE, ICECORE_LOCKED,
 * ICECORE_UNSUPPORTED_FORMAT) nothing has changed. */
int icecore_refresh(icecore_store* store, icecore_version* version);

/* ---- Tags and versions ------------------------------------------------------------------------------------------ */

/* In the place of a version that is to be read or held: the newest closed one. */
#define ICECORE_VERSION_PRESENT UINT64_MAX

/* A tag time of "now". */
#define ICECORE_TIME_NOW INT64_MIN

/* What a tag records besides its version. */
typedef struct icecore_tag_options {
  size_t struct_size;
  icecore_bytes name; /* unique in the store, at most 65,535 bytes; size 0: none */
  icecore_bytes note; /* at most 65,535 bytes */
  int64_t time_ns;    /* nanoseconds since 1970-01-01 UTC, or ICECORE_TIME_NOW */
} icecore_tag_options;

/* Sets no name, no note, and the time to now. struct_size: sizeof(icecore_tag_options). */
void icecore_tag_options_init(icecore_tag_options* options, size_t struct_size);

/* Closes the open version and returns its number. From then on that version is an immutable snapshot of all writes
 * completed before. O(1). Under tag durability it returns when the snapshot is durable. closed: NULL, or receives the
 * version. */
int icecore_tag_now(icecore_store* store, icecore_version* closed);
/* The same; stores a name, a note and a time with the tag. ICECORE_TAG_EXISTS if the name is taken. */
int icecore_tag_with(icecore_store* store, const icecore_tag_options* options, icecore_version* closed);

/* The version that a write now belongs to; all smaller ones are closed. */
int icecore_clock(const icecore_store* store, icecore_version* clock);

/* All versions up to this closed one survive a power cut, as far as the medium allows. Where durability is deferred:
 * those that icecore_sync() covered. */
int icecore_durable_version(const icecore_store* store, icecore_version* durable);

typedef struct icecore_tag {
  icecore_version version;
  int64_t time_ns;    /* nanoseconds since 1970-01-01 UTC */
  icecore_bytes name; /* size 0: none */
  icecore_bytes note; /* size 0: none */
} icecore_tag;

/* The tag of this name, of this version, or with the greatest time that is not after `time_ns`; *tag is NULL if there
 * is none. icecore_tag_free() releases the tag and its bytes. */
int icecore_find_tag(const icecore_store* store, const void* name, size_t name_size, icecore_tag** tag);
int icecore_find_tag_of_version(const icecore_store* store, icecore_version version, icecore_tag** tag);
int icecore_find_tag_at_time(const icecore_store* store, int64_t time_ns, icecore_tag** tag);
void icecore_tag_free(icecore_tag* tag);

/* All named and timed tags as they are now, oldest version first. */
typedef struct icecore_tags icecore_tags;

int icecore_tags_open(const icecore_store* store, icecore_tags** tags); /* release it with icecore_tags_close() */
size_t icecore_tags_count(const icecore_tags* tags);
/* The next tag; the first call returns the first tag. NULL at the end. The list owns the tag. */
const icecore_tag* icecore_tags_next(icecore_tags* tags);
void icecore_tags_close(icecore_tags* tags);

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The newest value; the value in a closed version. value->data == NULL: the key is not there. Release the value with
 * icecore_value_release(); the call does not release what `value` held before. */
int icecore_find(const icecore_store* store, const void* key, size_t key_size, icecore_value* value);
int icecore_find_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at,
                    icecore_value* value);

/* *present: 1 if the key is there, else 0. */
int icecore_contains(const icecore_store* store, const void* key, size_t key_size, int* present);
int icecore_contains_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at, int* present);

/* Finds `count` keys at once and overlaps their memory accesses (on large stores several times as fast as single
 * finds). values[i] is the answer for keys[i], valid until *pin is released with icecore_pin_release(). The second form
 * takes a version for each key. */
int icecore_find_many(const icecore_store* store, size_t count, const icecore_bytes* keys, icecore_version at,
                      icecore_bytes* values, icecore_pin** pin);
int icecore_find_many_at(const icecore_store* store, size_t count, const icecore_bytes* keys, const icecore_version* at,
                         icecore_bytes* values, icecore_pin** pin);

/* ---- Snapshots -------------------------------------------------------------------------------------------------- */

/* One version, which can be read at any time. Takes two words of memory. Release it with icecore_snapshot_close(); this
 * ends the validity of the bytes that it returned. */
typedef struct icecore_snapshot icecore_snapshot;

int icecore_at_version(const icecore_store* store, icecore_version closed, icecore_snapshot** snapshot);
int icecore_at_tag(const icecore_store* store, const void* name, size_t name_size, icecore_snapshot** snapshot);
int icecore_at_time(const icecore_store* store, int64_t time_ns, icecore_snapshot** snapshot);
/* The present: closes the open version if anything was written in it (without making it durable). */
int icecore_latest(const icecore_store* store, icecore_snapshot** snapshot);
void icecore_snapshot_close(icecore_snapshot* snapshot);

icecore_version icecore_snapshot_version(const icecore_snapshot* snapshot);
int icecore_snapshot_find(const icecore_snapshot* snapshot, const void* key, size_t key_size, icecore_bytes* value);
int icecore_snapshot_find_many(const icecore_snapshot* snapshot, size_t count, const icecore_bytes* keys,
                               icecore_bytes* values);

/* The number of keys present in this version. O(keys of the store), shared by `threads` threads (0: all cores). */
int icecore_snapshot_size(const icecore_snapshot* snapshot, unsigned threads, size_t* size);
/* The number of keys ever inserted, never less than the size. O(1). */
int icecore_snapshot_size_bound(const icecore_snapshot* snapshot, size_t* bound);

/* Where fixed-size keys and values go. */
typedef struct icecore_fixed_columns {
  size_t struct_size;
  void* keys;        /* capacity * key_size bytes; NULL: do not extract keys */
  size_t key_size;   /* every key must have this size */
  void* values;      /* capacity * value_size bytes; NULL: do not extract values */
  size_t value_size; /* every value must have this size */
  size_t capacity;   /* room, in items */
} icecore_fixed_columns;

/* Sets everything else to 0. struct_size: sizeof(icecore_fixed_columns). */
void icecore_fixed_columns_init(icecore_fixed_columns* columns, size_t struct_size);

/* Copies all items in key order into the caller's memory and returns their number in *count. ICECORE_INVALID_ARGUMENT
 * if a key or value does not have the column's size, or if the capacity is too small. threads: 0 for all cores. */
int icecore_snapshot_extract(const icecore_snapshot* snapshot, const icecore_fixed_columns* columns, unsigned threads,
                             size_t* count);

/* Copies the items from the first key >= `from` on (NULL: the first one), until the columns are full, and returns their
 * number in *count: less than the capacity at the snapshot's end. For short scans, and for pages: the next one begins
 * at the last key with a NUL byte behind it. Errors as above, but for the capacity. */
int icecore_snapshot_extract_page(const icecore_snapshot* snapshot, const void* from, size_t from_size,
                                  const icecore_fixed_columns* columns, size_t* count);

/* Items of any sizes: key i is key_bytes[key_offsets[i] .. key_offsets[i + 1]), values likewise. */
typedef struct icecore_columns {
  size_t count;
  const uint64_t* key_offsets; /* count + 1 elements */
  const char* key_bytes;
  const uint64_t* value_offsets; /* count + 1 elements */
  const char* value_bytes;
} icecore_columns;

/* Copies the items with from <= key < to (NULL: no bound) in key order. Release them with icecore_columns_free(). */
int icecore_snapshot_columns(const icecore_snapshot* snapshot, unsigned threads, const void* from, size_t from_size,
                             const void* to, size_t to_size, icecore_columns** columns);
void icecore_columns_free(icecore_columns* columns);

/* Called for each item; a result other than 0 asks to stop. Several threads may call it at once. */
typedef int (*icecore_visit_function)(void* context, icecore_bytes key, icecore_bytes value);

/* Visits all items with `threads` threads (0: all cores); each visits its own part of the keys in key order. Returns
 * ICECORE_STOPPED if a visit asked to stop; other threads may still make some visits after that. */
int icecore_snapshot_for_each(const icecore_snapshot* snapshot, icecore_visit_function visit, void* context,
                              unsigned threads);

/* ---- Cursors: ranges, prefixes, both directions ----------------------------------------------------------------- */

/* A position among the items of a snapshot between bounds. A new cursor has no position: seek first. Release it with
 * icecore_cursor_close().
 *
 *   for (icecore_cursor_seek_first(c); icecore_cursor_valid(c); icecore_cursor_next(c)) use(icecore_cursor_key(c));
 *   if (icecore_cursor_status(c) != ICECORE_OK) ...   // it ended early, for example because the media are damaged
 */
typedef struct icecore_cursor icecore_cursor;

/* A cursor over from <= key < to (NULL: no bound), or over all keys that start with `prefix`. */
int icecore_cursor_open(const icecore_snapshot* snapshot, const void* from, size_t from_size, const void* to,
                        size_t to_size, icecore_cursor** cursor);
int icecore_cursor_open_prefix(const icecore_snapshot* snapshot, const void* prefix, size_t prefix_size,
                               icecore_cursor** cursor);
void icecore_cursor_close(icecore_cursor* cursor);

/* Each makes the cursor invalid if there is no such item within the bounds. O(log keys). */
int icecore_cursor_seek_first(icecore_cursor* cursor);
int icecore_cursor_seek_last(icecore_cursor* cursor);
int icecore_cursor_seek(icecore_cursor* cursor, const void* key, size_t key_size);        /* to the first key >= key */
int icecore_cursor_seek_after(icecore_cursor* cursor, const void* key, size_t key_size);  /* to the first key > key */
int icecore_cursor_seek_before(icecore_cursor* cursor, const void* key, size_t key_size); /* to the last key < key */

/* Moves one step; past either end the cursor becomes invalid. Amortised O(1). ICECORE_INVALID_ARGUMENT if the cursor is
 * invalid. */
int icecore_cursor_next(icecore_cursor* cursor);
int icecore_cursor_previous(icecore_cursor* cursor);

/* Valid: 1 if the cursor is at an item, else 0. Status: the code of the last seek or step. */
int icecore_cursor_valid(const icecore_cursor* cursor);
int icecore_cursor_status(const icecore_cursor* cursor);
/* The item's key and value; NULL if the cursor is invalid. Valid until the cursor is closed, even if it moves on. */
icecore_bytes icecore_cursor_key(const icecore_cursor* cursor);
icecore_bytes icecore_cursor_value(const icecore_cursor* cursor);

/* ---- History of a key, difference of two versions --------------------------------------------------------------- */

typedef struct icecore_change {
  icecore_version version; /* 0: past the end */
  icecore_bytes value;     /* NULL: the key was removed */
} icecore_change;

/* The records of one key as they are now. Release it with icecore_history_close(). */
typedef struct icecore_history icecore_history;

enum icecore_history_order { ICECORE_NEWEST_FIRST = 0, ICECORE_OLDEST_FIRST = 1 };

/* order: enum icecore_history_order. Newest first takes O(1) per record; oldest first collects all records when it is
 * opened. */
int icecore_history_open(const icecore_store* store, const void* key, size_t key_size, int order,
                         icecore_history** history);
int icecore_history_next(icecore_history* history, icecore_change* change);
void icecore_history_close(icecore_history* history);

typedef struct icecore_difference {
  icecore_bytes key;    /* NULL: past the end */
  icecore_bytes before; /* NULL: not there before */
  icecore_bytes after;  /* NULL: not there after */
} icecore_difference;

/* The keys whose values differ between two closed versions, in key order, with from <= key < to (NULL: no bound).
 * Release it with icecore_diff_close(), which ends the validity of all its differences. */
typedef struct icecore_diff icecore_diff;

int icecore_diff_open(const icecore_store* store, icecore_version before, icecore_version after, const void* from,
                      size_t from_size, const void* to, size_t to_size, icecore_diff** diff);
int icecore_diff_next(icecore_diff* diff, icecore_difference* difference);
void icecore_diff_close(icecore_diff* diff);

/* ---- The store itself ------------------------------------------------------------------------------------------- */

enum icecore_medium { ICECORE_PERSISTENT_MEMORY = 1, ICECORE_BLOCK_DEVICE = 2, ICECORE_MEMORY = 3 };

/* The durability that a store really has. */
typedef struct icecore_durability_info {
  size_t struct_size;
  int mode;              /* enum icecore_durability_mode, never BEST_AVAILABLE */
  int medium;            /* enum icecore_medium */
  int emulated;          /* not 0: the mode's flushes are executed, but the medium loses its contents at power off */
  char flush_method[16]; /* "clwb", "clflushopt", "clflush", "eADR", "fdatasync" or "none" */
  char filesystem[32];   /* "ext", "tmpfs", "xfs", ...; hexadecimal magic if unknown */
  int deferred;          /* not 0: no write waits until it is durable */
} icecore_durability_info;

/* The caller sets info->struct_size to sizeof(icecore_durability_info). */
int icecore_durability(const icecore_store* store, icecore_durability_info* info);

/* Sizes and counts. Bytes are bytes of the pool file unless the comment says otherwise. */
typedef struct icecore_statistics {
  size_t struct_size;
  uint64_t keys;            /* keys ever inserted, including removed ones; no fewer than there are (options.hpp) */
  uint64_t records;         /* inserts and removes of all versions */
  uint64_t removes;         /* the removes among these records */
  uint64_t tags;            /* named or timed tags */
  icecore_version clock;    /* the version that a write now belongs to */
  uint64_t key_bytes;       /* key bytes, of `keys` */
  uint64_t value_bytes;     /* value bytes of all records */
  uint64_t used_bytes;      /* records with headers and padding, tags, batches, segment headers */
  uint64_t file_bytes;      /* size of the pool file */
  uint64_t index_bytes;     /* memory used by the index and the lookup cache */
  double recovery_seconds;  /* the time that opening took */
  int recovered_from_crash; /* not 0: the last writer had not closed the store */
  int index;                /* enum icecore_index_kind */
  unsigned format_major;
  unsigned format_minor;
  char pool_id[33];               /* 32 hexadecimal digits */
  unsigned file_count;            /* number of files of the store; the sizes above cover all of them */
  int recovered_instantly;        /* not 0: instant recovery; opening did not read the records */
  uint64_t pins;                  /* values, snapshots, cursors and the like of this process that hold memory */
  uint64_t packed_keys;           /* of `keys`, those that are packed: a key counts in each stratum that has it */
  uint64_t packed_records;        /* of `records`, those that are packed */
  uint64_t packed_bytes;          /* which these take, with what leads to them */
  uint64_t strata;                /* in which they lie */
  uint64_t packed_inflated_bytes; /* which they would take if nothing were compressed */
  uint64_t block_cache_bytes_max; /* the bound of what is inflated of them; 0: nothing is compressed */
  uint64_t block_cache_bytes;     /* inflated now, in memory */
  uint64_t block_cache_hits;      /* a block was read for the first time, and was inflated already */
  uint64_t block_cache_misses;    /* it had to be inflated */
  uint64_t keys_at_least;         /* no more keys than there are; equal to `keys` where that is exact */
  uint64_t free_bytes;            /* of file_bytes, what nothing has taken */
  uint64_t live_bytes;            /* of used_bytes, what is not garbage */
  uint64_t garbage_bytes;         /* of used_bytes, what no version shows, as far as it is known (options.hpp) */
  uint64_t waiting_bytes;         /* of garbage_bytes, what pins or readers beside the process hold */
  icecore_version oldest_pin;     /* open when the oldest of the pins was taken, or earlier; 0: there is none */
  double oldest_pin_seconds;      /* at most so long ago */
  int is_any_held;                /* not 0: a kept query, a kept feed or a hold needs versions */
  icecore_version oldest_held;    /* the oldest of these */
  uint64_t given_bytes;           /* keys and values of the writes since the store was opened */
  uint64_t written_bytes;         /* to the file by these, and by compactions since then */
  double write_amplification;     /* written_bytes for each of given_bytes; 0 if nothing was given */
} icecore_statistics;

/* The caller sets statistics->struct_size to sizeof(icecore_statistics). */
int icecore_stats(const icecore_store* store, icecore_statistics* statistics);

/* Memory of the whole process in huge pages now, bytes; 0 if the kernel hides it. The kernel counts the process's pages
   meanwhile, which takes milliseconds. */
uint64_t icecore_process_huge_page_bytes(void);

/* The path with which the store was opened. Valid until icecore_close(); NULL if store is NULL. */
const char* icecore_path(const icecore_store* store);
/* 1 if the store was opened for reading only, else 0. */
int icecore_is_read_only(const icecore_store* store);

#ifdef __cplusplus
}
#endif

#include "icecore/icecore_upkeep.h" /* part of this interface */

#endif /* ICECORE_ICECORE_H */

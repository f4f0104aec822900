/* Stores on a server, for C: icecore::remote (icecore/remote.hpp) as icecore.h does it for stores.
 *
 *   icecore_remote_options options;
 *   icecore_remote_options_init(&options, sizeof options);
 *   options.token = token;
 *   icecore_remote_client* client;
 *   icecore_remote_store* store;
 *   icecore_remote_value value;
 *   if (icecore_remote_connect("ucx://node7:4711", &options, &client) != ICECORE_OK) return puts(
 *       icecore_last_error_message());
 *   icecore_remote_open(client, "weights", &store);
 *   icecore_remote_insert(store, "bias", 4, "0.5", 3, NULL);
 *   icecore_remote_find_tag_value(store, "bias", 4, "epoch-1", 7, &value);       as it was at the tag
 *   icecore_remote_value_release(&value);
 *   icecore_remote_close(store);
 *   icecore_remote_disconnect(client);
 *
 * Codes, "not found", bytes, ownership and structures: as icecore.h says. What a broken connection and a deadline mean:
 *   icecore/remote.hpp.
 * Threads: any number may use one client and its stores and snapshots; rows, watches and pending results belong to one
 *   thread at a time.
 * Lifetime: every object may be released in any order; each keeps alive what it needs. Bytes of rows and of a watch are
 *   valid until the next call on them; those of a value until it is released.
 */
#ifndef ICECORE_ICECORE_REMOTE_H
#define ICECORE_ICECORE_REMOTE_H

#include "icecore/icecore.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct icecore_remote_client icecore_remote_client;
typedef struct icecore_remote_store icecore_remote_store;
typedef struct icecore_remote_snapshot icecore_remote_snapshot;
typedef struct icecore_remote_rows icecore_remote_rows;
typedef struct icecore_remote_watch icecore_remote_watch;
typedef struct icecore_remote_pending icecore_remote_pending;

/* ---- Connecting ------------------------------------------------------------------------------------------------- */

typedef struct icecore_remote_options {
  size_t struct_size;
  const char* token; /* of the job, at least 8 bytes; texts may be NULL */
  const char* user;
  const char* password;
  const char* name; /* of this program, for the server's log */
  const char* group;
  const char* network_devices;
  int independent; /* 1: the servers of the list are independent; 0: dependent, or one */
  uint32_t deadline_ms;
  uint32_t connect_limit_ms;
} icecore_remote_options;

void icecore_remote_options_init(icecore_remote_options* options, size_t struct_size);
int icecore_remote_connect(const char* address, const icecore_remote_options* options, icecore_remote_client** client);
void icecore_remote_disconnect(icecore_remote_client* client);

/* 0: as the server's configuration says. */
typedef struct icecore_remote_settings {
  size_t struct_size;
  int rule; /* 1 write, 2 every, 3 tag */
  uint64_t interval_ms;
  int durability;  /* icecore_durability_mode + 1 */
  int index;       /* icecore_index_kind */
  int compression; /* 1 none, 2 zstd */
  uint64_t quota_bytes;
} icecore_remote_settings;

void icecore_remote_settings_init(icecore_remote_settings* settings, size_t struct_size);
/* `settings` may be NULL. Release the store with icecore_remote_close(). */
int icecore_remote_create(icecore_remote_client* client, const char* name, const icecore_remote_settings* settings,
                          icecore_remote_store** store);
int icecore_remote_open(icecore_remote_client* client, const char* name, icecore_remote_store** store);
void icecore_remote_close(icecore_remote_store* store);
int icecore_remote_drop(icecore_remote_client* client, const char* name);
int icecore_remote_write_snapshot(icecore_remote_client* client, const char* folder);

/* ---- Writing: `version` may be NULL ------------------------------------------------------------------------------ */

int icecore_remote_insert(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                          size_t value_size, icecore_version* version);
/* The key ends with the lease. */
int icecore_remote_insert_with_lease(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                                     size_t value_size, uint64_t lease, icecore_version* version);
/* These four: version 0, and nothing has changed, if the key is there, not there, of another version, or a condition
 * does not hold. */
int icecore_remote_insert_new(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                              size_t value_size, icecore_version* version);
int icecore_remote_remove(icecore_remote_store* store, const void* key, size_t key_size, icecore_version* version);
int icecore_remote_replace(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                           size_t value_size, icecore_version expected, icecore_version* version);
int icecore_remote_apply_if(icecore_remote_store* store, const icecore_batch* batch, icecore_version* version);
int icecore_remote_apply(icecore_remote_store* store, const icecore_batch* batch, icecore_version* version);

enum icecore_remote_update_rule {
  ICECORE_REMOTE_IN_PLACE = 0,
  ICECORE_REMOTE_EXPAND = 1,
  ICECORE_REMOTE_EXPAND_OVERLAP = 2,
  ICECORE_REMOTE_REPLACE_FROM = 3,
  ICECORE_REMOTE_APPEND = 4
};
enum icecore_remote_update_state {
  ICECORE_REMOTE_DONE = 0,
  ICECORE_REMOTE_ABSENT = 1,
  ICECORE_REMOTE_EXISTS = 2,
  ICECORE_REMOTE_TOO_LARGE = 3,
  ICECORE_REMOTE_OVERLAP = 4,
  ICECORE_REMOTE_NO_NUMBER = 5
};
typedef struct icecore_remote_update_result {
  int state;
  icecore_version version;
  uint64_t size;
  int64_t number;
} icecore_remote_update_result;
int icecore_remote_update(icecore_remote_store* store, const void* key, size_t key_size, const void* part,
                          size_t part_size, int rule, uint64_t offset, int or_put,
                          icecore_remote_update_result* result);
int icecore_remote_increment(icecore_remote_store* store, const void* key, size_t key_size, int64_t by,
                             icecore_remote_update_result* result);
/* Many keys, not at one instant. `keep`: keys that are there keep their values. */
int icecore_remote_insert_many(icecore_remote_store* store, size_t count, const icecore_bytes* keys,
                               const icecore_bytes* values, int keep, uint64_t* written);
int icecore_remote_sync(icecore_remote_store* store);

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* data == NULL: not found. Release it with icecore_remote_value_release(). */
typedef struct icecore_remote_value {
  const void* data;
  size_t size;
  icecore_version version;
  void* owner;
} icecore_remote_value;
void icecore_remote_value_release(icecore_remote_value* value);

int icecore_remote_find(const icecore_remote_store* store, const void* key, size_t key_size,
                        icecore_remote_value* value);
int icecore_remote_find_at(const icecore_remote_store* store, const void* key, size_t key_size, icecore_version at,
                           icecore_remote_value* value);
int icecore_remote_find_tag_value(const icecore_remote_store* store, const void* key, size_t key_size, const void* tag,
                                  size_t tag_size, icecore_remote_value* value);

/* Release a snapshot with icecore_remote_snapshot_close(). */
int icecore_remote_at_version(const icecore_remote_store* store, icecore_version closed,
                              icecore_remote_snapshot** snapshot);
int icecore_remote_at_tag(const icecore_remote_store* store, const void* tag, size_t tag_size,
                          icecore_remote_snapshot** snapshot);
int icecore_remote_latest(const icecore_remote_store* store, icecore_remote_snapshot** snapshot);
void icecore_remote_snapshot_close(icecore_remote_snapshot* snapshot);
/* ICECORE_INVALID_ARGUMENT of several independent servers: each has its own version. */
int icecore_remote_snapshot_version(const icecore_remote_snapshot* snapshot, icecore_version* version);
/* The version of each server that has a part, in their order: the first `capacity` of them (`versions` may be NULL if
 * it is 0). `count`: how many there are; 1, but of several independent servers. */
int icecore_remote_snapshot_versions(const icecore_remote_snapshot* snapshot, icecore_version* versions,
                                     size_t capacity, size_t* count);
int icecore_remote_snapshot_find(const icecore_remote_snapshot* snapshot, const void* key, size_t key_size,
                                 icecore_remote_value* value);
/* from <= key < to; NULL means no bound. */
int icecore_remote_snapshot_count(const icecore_remote_snapshot* snapshot, const void* from, size_t from_size,
                                  const void* to, size_t to_size, uint64_t* count);

/* A row: of a snapshot key and value; of a history value (data == NULL: removed) and version; of differences key, value
 * before and after (data == NULL: not there); of changes key, value and version. */
typedef struct icecore_remote_row {
  icecore_bytes key;
  icecore_bytes value;
  icecore_bytes before;
  icecore_version version;
} icecore_remote_row;
/* Release rows with icecore_remote_rows_close(). */
int icecore_remote_range(const icecore_remote_snapshot* snapshot, const void* from, size_t from_size, const void* to,
                         size_t to_size, int reverse, icecore_remote_rows** rows);
int icecore_remote_history(const icecore_remote_store* store, const void* key, size_t key_size,
                           icecore_remote_rows** rows);
int icecore_remote_diff(const icecore_remote_store* store, icecore_version before, icecore_version after,
                        icecore_remote_rows** rows);
int icecore_remote_changes(const icecore_remote_store* store, icecore_version after, icecore_version up_to,
                           icecore_remote_rows** rows);
/* The same two between snapshots, which may be of several independent servers, whose versions have nothing to do with
 * each other: differences by key; changes by number of version, then by key, those of one key in their order. */
int icecore_remote_diff_between(const icecore_remote_store* store, const icecore_remote_snapshot* before,
                                const icecore_remote_snapshot* after, icecore_remote_rows** rows);
int icecore_remote_changes_between(const icecore_remote_store* store, const icecore_remote_snapshot* after,
                                   const icecore_remote_snapshot* up_to, icecore_remote_rows** rows);
/* `there`: 0 at the end. */
int icecore_remote_rows_next(icecore_remote_rows* rows, icecore_remote_row* row, int* there);
void icecore_remote_rows_close(icecore_remote_rows* rows);

/* Each change after `after` (UINT64_MAX: what comes), once. Release it with icecore_remote_watch_close(). */
int icecore_remote_watch_open(const icecore_remote_store* store, icecore_version after, icecore_remote_watch** watch);
/* The same after a version of each server that has a part: those of a snapshot, or what a watch has told of each. */
int icecore_remote_watch_open_each(const icecore_remote_store* store, const icecore_version* after, size_t count,
                                   icecore_remote_watch** watch);
/* The next change, if there is one within the time. `told`: all changes of the versions up to it were told; 0 while
 * others that came with the change are left, and of several independent servers. */
int icecore_remote_watch_next(icecore_remote_watch* watch, uint32_t wait_ms, icecore_remote_row* row, int* there,
                              icecore_version* told);
/* Up to which version of each server that has a part all changes were told, where another watch may go on; as
 * icecore_remote_snapshot_versions(). `count` is 0 before the first change and while others that came with it are
 * left. */
int icecore_remote_watch_told(const icecore_remote_watch* watch, icecore_version* versions, size_t capacity,
                              size_t* count);
void icecore_remote_watch_close(icecore_remote_watch* watch);

/* ---- Tags, versions, leases ------------------------------------------------------------------------------------- */

/* `name` and `note` may be (NULL, 0). */
int icecore_remote_tag(icecore_remote_store* store, const void* name, size_t name_size, const void* note,
                       size_t note_size, icecore_version* closed);
/* 0: no tag has this name. */
int icecore_remote_find_tag(const icecore_remote_store* store, const void* name, size_t name_size,
                            icecore_version* version);
int icecore_remote_compact(icecore_remote_store* store, icecore_version oldest_kept);
int icecore_remote_compact_snapshot(icecore_remote_store* store, const icecore_remote_snapshot* oldest_kept);
/* `wanted`: its number, or 0 for one that is free. */
int icecore_remote_grant_lease(icecore_remote_store* store, uint64_t time_ms, uint64_t wanted, uint64_t* lease);
int icecore_remote_keep_lease(icecore_remote_store* store, uint64_t lease, uint64_t* left_ms);
int icecore_remote_revoke_lease(icecore_remote_store* store, uint64_t lease, uint64_t* removed);

/* ---- What is under way: release it with icecore_remote_pending_free(), also before it is done -------------------- */

int icecore_remote_start_insert(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                                size_t value_size, icecore_remote_pending** pending);
int icecore_remote_start_find(icecore_remote_store* store, const void* key, size_t key_size,
                              icecore_remote_pending** pending);
/* `done`: 1 if the result is there within the time; 0 ms only looks. */
int icecore_remote_wait_for(icecore_remote_pending* pending, uint32_t wait_ms, int* done);
int icecore_remote_cancel(icecore_remote_pending* pending);
/* Waits, and takes the result: of an insert its version; of a find its value (NULL where it is the other one). */
int icecore_remote_wait(icecore_remote_pending* pending, icecore_version* version, icecore_remote_value* value);
void icecore_remote_pending_free(icecore_remote_pending* pending);

#ifdef __cplusplus
}
#endif

#endif

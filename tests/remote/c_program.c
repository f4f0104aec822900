/* The C interface of icecore::remote, called by c_test.cpp with the address of a server and its token. */
#include <stdio.h>
#include <string.h>

#include "icecore/icecore_remote.h"

#define CHECK(expression, expected)                                                                         \
  do {                                                                                                      \
    const int got = (expression);                                                                           \
    if (got != (expected)) {                                                                                \
      fprintf(stderr, "line %d: %s is %d: %s\n", __LINE__, #expression, got, icecore_last_error_message()); \
      return 1;                                                                                             \
    }                                                                                                       \
  } while (0)
#define OK(expression) CHECK(expression, ICECORE_OK)
#define TRUE(condition) CHECK((condition) ? 1 : 0, 1)

static int is(icecore_remote_value* value, const char* text) {
  const int same = value->data != NULL && value->size == strlen(text) && memcmp(value->data, text, value->size) == 0;
  icecore_remote_value_release(value);
  return same;
}

static int run(const char* address, const char* token) {
  icecore_remote_options options;
  icecore_remote_settings settings;
  icecore_remote_client* client = NULL;
  icecore_remote_store* store = NULL;
  icecore_remote_snapshot* snapshot = NULL;
  icecore_remote_rows* rows = NULL;
  icecore_remote_watch* watch = NULL;
  icecore_remote_pending* pending = NULL;
  icecore_remote_value value;
  icecore_remote_row row;
  icecore_remote_update_result updated;
  icecore_batch* batch = NULL;
  icecore_version first = 0, second = 0, told = 0;
  uint64_t number = 0, lease = 0;
  int there = 0;
  const icecore_bytes keys[2] = {{"m1", 2}, {"m2", 2}};

  icecore_remote_options_init(&options, sizeof options);
  options.token = token;
  options.deadline_ms = 10000;
  CHECK(icecore_remote_connect("nonsense", &options, &client), ICECORE_INVALID_ARGUMENT);
  CHECK(icecore_remote_connect(address, NULL, &client), ICECORE_UNAUTHENTICATED);
  TRUE(client == NULL);
  OK(icecore_remote_connect(address, &options, &client));
  icecore_remote_settings_init(&settings, sizeof settings);
  settings.rule = 9;
  CHECK(icecore_remote_create(client, "d", &settings, &store), ICECORE_INVALID_ARGUMENT);
  settings.rule = 3;
  OK(icecore_remote_create(client, "d", &settings, &store));
  CHECK(icecore_remote_create(client, "d", NULL, &store), ICECORE_DATABASE_EXISTS);
  OK(icecore_remote_open(client, "d", &store));

  OK(icecore_remote_insert(store, "bias", 4, "0.5", 3, NULL));
  OK(icecore_remote_tag(store, "epoch-1", 7, NULL, 0, &first));
  OK(icecore_remote_insert(store, "bias", 4, "0.7", 3, &second));
  TRUE(second == first + 1);
  OK(icecore_remote_find(store, "bias", 4, &value));
  TRUE(is(&value, "0.7"));
  OK(icecore_remote_find_at(store, "bias", 4, first, &value));
  TRUE(is(&value, "0.5"));
  OK(icecore_remote_find_tag_value(store, "bias", 4, "epoch-1", 7, &value));
  TRUE(is(&value, "0.5"));
  OK(icecore_remote_find(store, "none", 4, &value));
  TRUE(value.data == NULL);
  CHECK(icecore_remote_find(store, NULL, 4, &value), ICECORE_INVALID_ARGUMENT);
  OK(icecore_remote_find_tag(store, "epoch-1", 7, &told));
  TRUE(told == first);
  OK(icecore_remote_insert_new(store, "bias", 4, "x", 1, &told));
  TRUE(told == 0);
  OK(icecore_remote_replace(store, "bias", 4, "0.8", 3, second, &told));
  TRUE(told != 0);
  OK(icecore_remote_update(store, "log", 3, "one", 3, ICECORE_REMOTE_APPEND, 0, 1, &updated));
  TRUE(updated.state == ICECORE_REMOTE_DONE && updated.size == 3);
  OK(icecore_remote_increment(store, "n", 1, 5, &updated));
  TRUE(updated.number == 5);
  OK(icecore_remote_insert_many(store, 2, keys, keys, 0, &number));
  TRUE(number == 2);
  OK(icecore_batch_new(&batch));
  OK(icecore_batch_insert_new(batch, "bias", 4, "x", 1));
  OK(icecore_remote_apply_if(store, batch, &told));
  TRUE(told == 0);
  OK(icecore_batch_clear(batch));
  OK(icecore_batch_remove(batch, "n", 1));
  OK(icecore_remote_apply(store, batch, &told));
  icecore_batch_free(batch);
  OK(icecore_remote_remove(store, "log", 3, &told));
  TRUE(told != 0);

  OK(icecore_remote_latest(store, &snapshot));
  OK(icecore_remote_snapshot_version(snapshot, &second));
  OK(icecore_remote_snapshot_count(snapshot, NULL, 0, NULL, 0, &number));
  TRUE(number == 3);
  OK(icecore_remote_snapshot_find(snapshot, "m1", 2, &value));
  TRUE(is(&value, "m1"));
  OK(icecore_remote_range(snapshot, "m", 1, NULL, 0, 1, &rows));
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(there && row.key.size == 2 && memcmp(row.key.data, "m2", 2) == 0);
  OK(icecore_remote_rows_next(rows, &row, &there));
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(!there);
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(!there);
  icecore_remote_rows_close(rows);
  icecore_remote_snapshot_close(snapshot);
  OK(icecore_remote_history(store, "log", 3, &rows));
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(there && row.value.data == NULL);
  icecore_remote_rows_close(rows);
  OK(icecore_remote_diff(store, first, second, &rows));
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(there && memcmp(row.before.data, "0.5", 3) == 0 && memcmp(row.value.data, "0.8", 3) == 0);
  icecore_remote_rows_close(rows);
  OK(icecore_remote_watch_open(store, 0, &watch));
  OK(icecore_remote_watch_next(watch, 5000, &row, &there, &told));
  TRUE(there && row.version == first && memcmp(row.key.data, "bias", 4) == 0);
  icecore_remote_watch_close(watch);

  OK(icecore_remote_grant_lease(store, 60000, 0, &lease));
  OK(icecore_remote_insert_with_lease(store, "leased", 6, "x", 1, lease, NULL));
  OK(icecore_remote_keep_lease(store, lease, &number));
  TRUE(number > 1000);
  OK(icecore_remote_revoke_lease(store, lease, NULL));
  OK(icecore_remote_find(store, "leased", 6, &value));
  TRUE(value.data == NULL);

  OK(icecore_remote_start_insert(store, "later", 5, "yes", 3, &pending));
  OK(icecore_remote_wait_for(pending, 5000, &there));
  TRUE(there);
  OK(icecore_remote_wait(pending, &told, NULL));
  TRUE(told != 0);
  icecore_remote_pending_free(pending);
  OK(icecore_remote_start_find(store, "later", 5, &pending));
  OK(icecore_remote_wait(pending, NULL, &value));
  TRUE(is(&value, "yes"));
  icecore_remote_pending_free(pending);
  OK(icecore_remote_start_find(store, "later", 5, &pending));
  OK(icecore_remote_cancel(pending));
  CHECK(icecore_remote_wait(pending, NULL, &value), ICECORE_CANCELLED);
  icecore_remote_pending_free(pending);
  OK(icecore_remote_sync(store));
  OK(icecore_remote_compact(store, second));
  CHECK(icecore_remote_find_at(store, "bias", 4, first, &value), ICECORE_VERSION_EXPIRED);
  icecore_remote_close(store);
  OK(icecore_remote_drop(client, "d"));
  CHECK(icecore_remote_open(client, "d", &store), ICECORE_DENIED);
  icecore_remote_disconnect(client);
  icecore_remote_disconnect(NULL);
  return 0;
}

int icecore_remote_c_test(const char* address, const char* token) { return run(address, token); }

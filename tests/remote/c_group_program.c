/* Several independent servers as one store, in C: called by c_test.cpp with the addresses of two servers. */
#include "c_checks.h"

#define KEYS 100

static int insert(icecore_remote_store* store, int number, const char* value) {
  char key[16];
  snprintf(key, sizeof key, "k%03d", number);
  return icecore_remote_insert(store, key, 4, value, strlen(value), NULL);
}

/* Whether the row has the key of this number, and this value; NULL: none. */
static int row_is(const icecore_remote_row* row, int number, const char* value) {
  char key[16];
  snprintf(key, sizeof key, "k%03d", number);
  if (row->key.size != 4 || memcmp(row->key.data, key, 4) != 0) return 0;
  if (value == NULL) return row->value.data == NULL;
  return row->value.data != NULL && row->value.size == strlen(value) &&
         memcmp(row->value.data, value, row->value.size) == 0;
}

static int differences(icecore_remote_store* store, const icecore_remote_snapshot* before,
                       const icecore_remote_snapshot* after) {
  icecore_remote_rows* rows = NULL;
  icecore_remote_row row;
  int there = 0;
  int number;
  OK(icecore_remote_diff_between(store, before, after, &rows));
  for (number = 0; number < KEYS; ++number) {
    if (number % 2 != 0 && number != 1) continue;
    OK(icecore_remote_rows_next(rows, &row, &there));
    TRUE(there && row_is(&row, number, number == 1 ? NULL : number == 0 ? "3" : "2"));
    TRUE(row.before.size == 1 && memcmp(row.before.data, "1", 1) == 0);
  }
  OK(icecore_remote_rows_next(rows, &row, &there));
  TRUE(!there);
  icecore_remote_rows_close(rows);
  CHECK(icecore_remote_diff_between(store, NULL, after, &rows), ICECORE_INVALID_ARGUMENT);
  TRUE(rows == NULL);
  CHECK(icecore_remote_diff(store, 1, 2, &rows), ICECORE_INVALID_ARGUMENT); /* whose versions? */
  return 0;
}

static int changes(icecore_remote_store* store, const icecore_remote_snapshot* after,
                   const icecore_remote_snapshot* up_to) {
  icecore_remote_rows* rows = NULL;
  icecore_remote_row row;
  icecore_version last = 0;
  int there = 1;
  int count = 0;
  int of_first_key = 0;
  OK(icecore_remote_changes_between(store, after, up_to, &rows));
  for (;;) {
    OK(icecore_remote_rows_next(rows, &row, &there));
    if (!there) break;
    TRUE(row.version >= last);
    last = row.version;
    ++count;
    if (row.key.size == 4 && memcmp(row.key.data, "k000", 4) == 0)
      TRUE(row_is(&row, 0, ++of_first_key == 1 ? "2" : "3"));
  }
  TRUE(count == KEYS / 2 + 2 && of_first_key == 2);
  icecore_remote_rows_close(rows);
  CHECK(icecore_remote_changes_between(store, after, NULL, &rows), ICECORE_INVALID_ARGUMENT);
  CHECK(icecore_remote_changes(store, 1, 2, &rows), ICECORE_INVALID_ARGUMENT);
  return 0;
}

/* Takes so many changes, all with this value, and then where another watch goes on. */
static int take(icecore_remote_watch* watch, int count, const char* value, icecore_version told_each[2]) {
  icecore_remote_row row;
  size_t servers = 0;
  int there = 0;
  while (count > 0) {
    OK(icecore_remote_watch_next(watch, 10000, &row, &there, NULL));
    TRUE(there && row.value.size == 1 && memcmp(row.value.data, value, 1) == 0);
    --count;
  }
  OK(icecore_remote_watch_told(watch, told_each, 2, &servers));
  TRUE(servers == 2);
  return 0;
}

static int watches(icecore_remote_store* store, const icecore_remote_snapshot* from) {
  icecore_remote_watch* watch = NULL;
  icecore_remote_row row;
  icecore_version each[2] = {0, 0};
  size_t servers = 0;
  int there = 0;
  int number;
  OK(icecore_remote_snapshot_versions(from, NULL, 0, &servers));
  TRUE(servers == 2);
  OK(icecore_remote_snapshot_versions(from, each, 2, &servers));
  TRUE(servers == 2 && each[0] != 0 && each[1] != 0);
  CHECK(icecore_remote_snapshot_versions(from, NULL, 2, &servers), ICECORE_INVALID_ARGUMENT);
  CHECK(icecore_remote_watch_open(store, 1, &watch), ICECORE_INVALID_ARGUMENT);
  CHECK(icecore_remote_watch_open_each(store, each, 1, &watch), ICECORE_INVALID_ARGUMENT);
  CHECK(icecore_remote_watch_open_each(store, each, 0, &watch), ICECORE_INVALID_ARGUMENT);
  OK(icecore_remote_watch_open_each(store, each, 2, &watch));
  OK(icecore_remote_watch_told(watch, each, 2, &servers));
  TRUE(servers == 0);
  for (number = 0; number < KEYS; ++number) OK(insert(store, number, "4"));
  OK(icecore_remote_tag(store, NULL, 0, NULL, 0, NULL));
  CHECK(take(watch, KEYS, "4", each), 0);
  icecore_remote_watch_close(watch);
  OK(icecore_remote_watch_open_each(store, each, 2, &watch)); /* goes on there */
  for (number = 0; number < KEYS; ++number) OK(insert(store, number, "5"));
  OK(icecore_remote_tag(store, NULL, 0, NULL, 0, NULL));
  CHECK(take(watch, KEYS, "5", each), 0);
  OK(icecore_remote_watch_next(watch, 0, &row, &there, NULL));
  TRUE(!there);
  icecore_remote_watch_close(watch);
  return 0;
}

int icecore_remote_c_group_test(const char* addresses, const char* token) {
  icecore_remote_options options;
  icecore_remote_settings settings;
  icecore_remote_client* client = NULL;
  icecore_remote_store* store = NULL;
  icecore_remote_snapshot* before = NULL;
  icecore_remote_snapshot* after = NULL;
  icecore_remote_value value;
  icecore_version version = 0;
  int number;

  icecore_remote_options_init(&options, sizeof options);
  options.token = token;
  options.independent = 1;
  options.deadline_ms = 10000;
  OK(icecore_remote_connect(addresses, &options, &client));
  icecore_remote_settings_init(&settings, sizeof settings);
  settings.rule = 3;
  OK(icecore_remote_create(client, "d", &settings, &store));
  for (number = 0; number < KEYS; ++number) OK(insert(store, number, "1"));
  OK(icecore_remote_tag(store, "first", 5, NULL, 0, NULL));
  for (number = 0; number < KEYS; number += 2) OK(insert(store, number, "2"));
  OK(icecore_remote_remove(store, "k001", 4, NULL));
  OK(icecore_remote_latest(store, &after));
  icecore_remote_snapshot_close(after);
  OK(insert(store, 0, "3"));
  OK(icecore_remote_tag(store, "second", 6, NULL, 0, NULL));
  OK(icecore_remote_at_tag(store, "first", 5, &before));
  OK(icecore_remote_at_tag(store, "second", 6, &after));
  CHECK(icecore_remote_snapshot_version(before, &version), ICECORE_INVALID_ARGUMENT);
  CHECK(differences(store, before, after), 0);
  CHECK(changes(store, before, after), 0);
  CHECK(watches(store, after), 0);
  CHECK(icecore_remote_compact_snapshot(store, NULL), ICECORE_INVALID_ARGUMENT);
  OK(icecore_remote_compact_snapshot(store, after));
  CHECK(icecore_remote_snapshot_find(before, "k000", 4, &value), ICECORE_VERSION_EXPIRED);
  OK(icecore_remote_snapshot_find(after, "k000", 4, &value));
  TRUE(is(&value, "3"));
  icecore_remote_snapshot_close(before);
  icecore_remote_snapshot_close(after);
  icecore_remote_close(store);
  icecore_remote_disconnect(client);
  return 0;
}

/* Finds, snapshots, columns, visits, cursors, histories, differences. */
#include "check.h"
#include "tests.h"

/* Keys k00 .. k09; version 1 has the even ones removed again in version 2. */
static icecore_store* ten_keys(void) {
  icecore_store* store = new_store();
  char key[16];
  char value[16];
  for (int i = 0; i < 10; ++i) {
    snprintf(key, sizeof key, "k%02d", i);
    snprintf(value, sizeof value, "v%02d", i);
    OK(icecore_insert(store, TEXT(key), TEXT(value), NULL));
  }
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  label.name.data = "all";
  label.name.size = 3;
  label.time_ns = 5000;
  OK(icecore_tag_with(store, &label, NULL));
  for (int i = 0; i < 10; i += 2) {
    snprintf(key, sizeof key, "k%02d", i);
    OK(icecore_remove(store, TEXT(key), NULL));
  }
  OK(icecore_tag_now(store, NULL));
  return store;
}

void snapshots_are_found_by_version_tag_and_time(void) {
  icecore_store* store = ten_keys();
  icecore_snapshot* snapshot;
  OK(icecore_at_version(store, 1, &snapshot));
  CHECK(icecore_snapshot_version(snapshot) == 1);
  size_t size;
  OK(icecore_snapshot_size(snapshot, 2, &size));
  CHECK(size == 10);
  icecore_bytes value;
  OK(icecore_snapshot_find(snapshot, TEXT("k04"), &value));
  CHECK(holds(value, "v04"));
  icecore_snapshot_close(snapshot);
  OK(icecore_at_tag(store, TEXT("all"), &snapshot));
  CHECK(icecore_snapshot_version(snapshot) == 1);
  icecore_snapshot_close(snapshot);
  OK(icecore_at_time(store, 5001, &snapshot));
  CHECK(icecore_snapshot_version(snapshot) == 1);
  icecore_snapshot_close(snapshot);
  OK(icecore_insert(store, TEXT("late"), TEXT("1"), NULL));
  OK(icecore_latest(store, &snapshot));
  CHECK(icecore_snapshot_version(snapshot) == 3);
  OK(icecore_snapshot_size(snapshot, 0, &size));
  CHECK(size == 6);
  size_t bound;
  OK(icecore_snapshot_size_bound(snapshot, &bound));
  CHECK(bound == 11);
  icecore_snapshot_close(snapshot);
  icecore_snapshot_close(NULL);
  CHECK(icecore_snapshot_version(NULL) == 0);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_at_version(store, 4, &snapshot));
  CHECK(snapshot == NULL);
  FAILS(ICECORE_UNKNOWN_TAG, icecore_at_tag(store, TEXT("none"), &snapshot));
  FAILS(ICECORE_UNKNOWN_TAG, icecore_at_time(store, 4999, &snapshot));
  OK(icecore_close(store));
}

void many_keys_are_found_at_once(void) {
  icecore_store* store = new_store();
  enum { count = 1000 };
  static uint32_t numbers[count];
  static icecore_bytes keys[count];
  static icecore_bytes values[count];
  static icecore_version versions[count];
  for (uint32_t i = 0; i < count; ++i) {
    numbers[i] = i;
    keys[i].data = &numbers[i];
    keys[i].size = sizeof numbers[i];
    versions[i] = i % 2;
    if (i % 3 == 0) OK(icecore_insert(store, &i, sizeof i, &i, sizeof i, NULL));
  }
  OK(icecore_tag_now(store, NULL));
  icecore_pin* pin;
  OK(icecore_find_many(store, count, keys, 1, values, &pin));
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(i % 3 == 0 ? values[i].size == 4 && memcmp(values[i].data, &i, 4) == 0 : is_nothing(values[i]));
  }
  icecore_pin_release(pin);
  OK(icecore_find_many_at(store, count, keys, versions, values, &pin));
  for (uint32_t i = 0; i < count; ++i) CHECK((i % 6 == 3) == (values[i].data != NULL));
  icecore_pin_release(pin);
  icecore_snapshot* snapshot;
  OK(icecore_at_version(store, 1, &snapshot));
  OK(icecore_snapshot_find_many(snapshot, count, keys, values));
  for (uint32_t i = 0; i < count; ++i) CHECK((i % 3 == 0) == (values[i].data != NULL));
  icecore_snapshot_close(snapshot);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_find_many(store, count, keys, 2, values, &pin));
  for (uint32_t i = 0; i < count; ++i) CHECK(is_nothing(values[i]));
  versions[count - 1] = 99;
  CHECK(pin == NULL);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_find_many_at(store, count, keys, versions, values, &pin));
  CHECK(pin == NULL);
  for (uint32_t i = 0; i < count; ++i) CHECK(is_nothing(values[i]));
  OK(icecore_find_many(store, 0, NULL, 1, NULL, &pin));
  icecore_pin_release(pin);
  OK(icecore_close(store));
}

void bytes_outlive_their_store(void) {
  const char* path = fresh_path("outlived.ice");
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  OK(icecore_insert(store, TEXT("a"), TEXT("kept"), NULL));
  OK(icecore_insert(store, TEXT("b"), TEXT("first"), NULL));
  OK(icecore_tag_now(store, NULL));
  OK(icecore_insert(store, TEXT("b"), TEXT("second"), NULL));
  icecore_value value;
  OK(icecore_find(store, TEXT("a"), &value));
  const icecore_bytes keys[] = {{"a", 1}, {"b", 1}};
  icecore_bytes many[2];
  icecore_pin* pin;
  OK(icecore_find_many(store, 2, keys, 1, many, &pin));
  icecore_snapshot* snapshot;
  OK(icecore_at_version(store, 1, &snapshot));
  icecore_bytes seen;
  OK(icecore_snapshot_find(snapshot, TEXT("b"), &seen));
  icecore_cursor* cursor;
  OK(icecore_cursor_open(snapshot, NULL, 0, NULL, 0, &cursor));
  OK(icecore_cursor_seek_first(cursor));
  icecore_history* history;
  OK(icecore_history_open(store, TEXT("b"), ICECORE_OLDEST_FIRST, &history));
  icecore_change change;
  OK(icecore_history_next(history, &change));
  icecore_diff* diff;
  OK(icecore_diff_open(store, 0, 1, NULL, 0, NULL, 0, &diff));
  icecore_difference difference;
  OK(icecore_diff_next(diff, &difference));
  OK(icecore_close(store));

  /* the file is free: it is opened for writing, and written */
  OK(icecore_open(path, NULL, &store));
  for (int i = 0; i < 1000; ++i) OK(icecore_insert(store, TEXT("b"), TEXT("later"), NULL));
  OK(icecore_close(store));

  CHECK(holds(many[0], "kept") && holds(many[1], "first") && holds(seen, "first"));
  CHECK(holds(icecore_cursor_key(cursor), "a") && holds(icecore_cursor_value(cursor), "kept"));
  CHECK(holds(change.value, "first") && holds(difference.key, "a") && holds(difference.after, "kept"));
  FAILS(ICECORE_CLOSED, icecore_snapshot_find(snapshot, TEXT("b"), &seen));
  FAILS(ICECORE_CLOSED, icecore_cursor_next(cursor));
  icecore_diff_close(diff);
  icecore_history_close(history);
  icecore_cursor_close(cursor);
  icecore_snapshot_close(snapshot);
  icecore_pin_release(pin);
  CHECK(value_is(&value, "kept"));
}

void columns_of_fixed_and_of_any_size_are_extracted(void) {
  icecore_store* store = ten_keys();
  icecore_snapshot* snapshot;
  OK(icecore_at_tag(store, TEXT("all"), &snapshot));
  char keys[10][3];
  char values[10][3];
  icecore_fixed_columns out;
  icecore_fixed_columns_init(&out, sizeof out);
  CHECK(out.struct_size == sizeof out && out.keys == NULL && out.capacity == 0);
  out.keys = keys;
  out.key_size = 3;
  out.values = values;
  out.value_size = 3;
  out.capacity = 10;
  size_t count;
  OK(icecore_snapshot_extract(snapshot, &out, 2, &count));
  CHECK(count == 10 && memcmp(keys[7], "k07", 3) == 0 && memcmp(values[9], "v09", 3) == 0);
  out.capacity = 9;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_snapshot_extract(snapshot, &out, 2, &count));
  CHECK(count == 0);
  OK(icecore_snapshot_extract_page(snapshot, TEXT("k03"), &out, &count));
  CHECK(count == 7 && memcmp(keys[0], "k03", 3) == 0 && memcmp(values[6], "v09", 3) == 0);
  out.capacity = 2;
  OK(icecore_snapshot_extract_page(snapshot, NULL, 0, &out, &count));
  CHECK(count == 2 && memcmp(keys[1], "k01", 3) == 0 && memcmp(values[2], "v05", 3) == 0);

  icecore_columns* columns;
  OK(icecore_snapshot_columns(snapshot, 2, TEXT("k02"), TEXT("k05"), &columns));
  CHECK(columns->count == 3 && columns->key_offsets[3] == 9 && columns->value_offsets[3] == 9);
  CHECK(memcmp(columns->key_bytes, "k02k03k04", 9) == 0 && memcmp(columns->value_bytes, "v02v03v04", 9) == 0);
  icecore_columns_free(columns);
  OK(icecore_snapshot_columns(snapshot, 1, NULL, 0, NULL, 0, &columns));
  CHECK(columns->count == 10);
  icecore_columns_free(columns);
  icecore_columns_free(NULL);
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

struct visits {
  int stop_after;
  int seen; /* by one thread: the test visits with one */
};

static int visit(void* context, icecore_bytes key, icecore_bytes value) {
  struct visits* all = context;
  CHECK(key.size == 3 && value.size == 3);
  return ++all->seen == all->stop_after;
}

void visits_reach_every_item_and_can_stop(void) {
  icecore_store* store = ten_keys();
  icecore_snapshot* snapshot;
  OK(icecore_at_version(store, 1, &snapshot));
  struct visits all = {0, 0};
  OK(icecore_snapshot_for_each(snapshot, visit, &all, 1));
  CHECK(all.seen == 10);
  struct visits some = {4, 0};
  CHECK(icecore_snapshot_for_each(snapshot, visit, &some, 1) == ICECORE_STOPPED);
  CHECK(some.seen == 4);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_snapshot_for_each(snapshot, NULL, NULL, 1));
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

/* Walks from where the cursor is; the last digits of the keys it meets. */
static void walk(icecore_cursor* cursor, int (*step)(icecore_cursor*), char* met) {
  while (icecore_cursor_valid(cursor)) {
    const icecore_bytes key = icecore_cursor_key(cursor);
    const icecore_bytes value = icecore_cursor_value(cursor);
    CHECK(key.size == 3 && value.size == 3 && ((const char*)key.data)[2] == ((const char*)value.data)[2]);
    *met++ = ((const char*)key.data)[2];
    OK(step(cursor));
  }
  *met = '\0';
  CHECK(icecore_cursor_status(cursor) == ICECORE_OK);
}

void cursors_walk_both_ways_between_bounds(void) {
  icecore_store* store = ten_keys();
  icecore_snapshot* snapshot;
  OK(icecore_at_version(store, 1, &snapshot));
  icecore_cursor* cursor;
  char met[16];
  OK(icecore_cursor_open(snapshot, NULL, 0, NULL, 0, &cursor));
  CHECK(!icecore_cursor_valid(cursor) && is_nothing(icecore_cursor_key(cursor)));
  CHECK(is_nothing(icecore_cursor_value(cursor)));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cursor_next(cursor));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cursor_previous(cursor));
  OK(icecore_cursor_seek_first(cursor));
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "0123456789") == 0);
  OK(icecore_cursor_seek_last(cursor));
  walk(cursor, icecore_cursor_previous, met);
  CHECK(strcmp(met, "9876543210") == 0);
  OK(icecore_cursor_seek(cursor, TEXT("k07")));
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "789") == 0);
  OK(icecore_cursor_seek_after(cursor, TEXT("k07")));
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "89") == 0);
  OK(icecore_cursor_seek_before(cursor, TEXT("k02")));
  walk(cursor, icecore_cursor_previous, met);
  CHECK(strcmp(met, "10") == 0);
  icecore_cursor_close(cursor);

  OK(icecore_cursor_open(snapshot, TEXT("k03"), TEXT("k07"), &cursor));
  OK(icecore_cursor_seek_first(cursor));
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "3456") == 0);
  OK(icecore_cursor_seek_last(cursor));
  walk(cursor, icecore_cursor_previous, met);
  CHECK(strcmp(met, "6543") == 0);
  OK(icecore_cursor_seek(cursor, TEXT("a"))); /* before the bounds: their first */
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "3456") == 0);
  OK(icecore_cursor_seek_after(cursor, TEXT("k02")));
  walk(cursor, icecore_cursor_next, met);
  CHECK(strcmp(met, "3456") == 0);
  OK(icecore_cursor_seek_before(cursor, TEXT("z"))); /* behind the bounds: their last */
  walk(cursor, icecore_cursor_previous, met);
  CHECK(strcmp(met, "6543") == 0);
  OK(icecore_cursor_seek(cursor, TEXT("k07")));
  CHECK(!icecore_cursor_valid(cursor));
  OK(icecore_cursor_seek_before(cursor, TEXT("k03")));
  CHECK(!icecore_cursor_valid(cursor));
  icecore_cursor_close(cursor);

  OK(icecore_cursor_open_prefix(snapshot, TEXT("k0"), &cursor));
  OK(icecore_cursor_seek_last(cursor));
  CHECK(holds(icecore_cursor_key(cursor), "k09") && holds(icecore_cursor_value(cursor), "v09"));
  icecore_cursor_close(cursor);
  OK(icecore_cursor_open_prefix(snapshot, TEXT("x"), &cursor));
  OK(icecore_cursor_seek_first(cursor));
  CHECK(!icecore_cursor_valid(cursor));
  icecore_cursor_close(cursor);
  icecore_cursor_close(NULL);
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

void histories_run_from_either_end(void) {
  icecore_store* store = ten_keys();
  OK(icecore_insert(store, TEXT("k00"), TEXT("again"), NULL));
  for (int order = ICECORE_NEWEST_FIRST; order <= ICECORE_OLDEST_FIRST; ++order) {
    icecore_history* history;
    OK(icecore_history_open(store, TEXT("k00"), order, &history));
    icecore_change changes[3];
    for (int i = 0; i < 3; ++i) OK(icecore_history_next(history, &changes[order == ICECORE_OLDEST_FIRST ? i : 2 - i]));
    CHECK(changes[0].version == 1 && holds(changes[0].value, "v00"));
    CHECK(changes[1].version == 2 && is_nothing(changes[1].value));
    CHECK(changes[2].version == 3 && holds(changes[2].value, "again"));
    for (int i = 0; i < 2; ++i) {
      icecore_change end;
      OK(icecore_history_next(history, &end));
      CHECK(end.version == 0 && is_nothing(end.value));
    }
    icecore_history_close(history);
    OK(icecore_history_open(store, TEXT("never"), order, &history));
    OK(icecore_history_next(history, &changes[0]));
    CHECK(changes[0].version == 0);
    icecore_history_close(history);
  }
  icecore_history* history;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_history_open(store, TEXT("k00"), 2, &history));
  CHECK(history == NULL);
  icecore_history_close(NULL);
  OK(icecore_close(store));
}

void differences_come_in_key_order(void) {
  icecore_store* store = ten_keys();
  icecore_diff* diff;
  icecore_difference one;
  OK(icecore_diff_open(store, 1, 2, TEXT("k02"), TEXT("k08"), &diff));
  for (int i = 2; i < 8; i += 2) {
    OK(icecore_diff_next(diff, &one));
    CHECK(one.key.size == 3 && ((const char*)one.key.data)[2] == '0' + i);
    CHECK(one.before.size == 3 && is_nothing(one.after));
  }
  for (int i = 0; i < 2; ++i) {
    OK(icecore_diff_next(diff, &one));
    CHECK(is_nothing(one.key));
  }
  icecore_diff_close(diff);
  OK(icecore_diff_open(store, 2, 1, NULL, 0, NULL, 0, &diff));
  OK(icecore_diff_next(diff, &one));
  CHECK(holds(one.key, "k00") && is_nothing(one.before) && holds(one.after, "v00"));
  icecore_diff_close(diff);
  icecore_diff_close(NULL);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_diff_open(store, 1, 3, NULL, 0, NULL, 0, &diff));
  CHECK(diff == NULL);
  OK(icecore_close(store));
}

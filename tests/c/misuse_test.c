/* Codes, messages, and arguments that are no arguments. */
#include "check.h"
#include "tests.h"

void codes_have_texts_and_the_library_a_version(void) {
  CHECK(strcmp(icecore_strerror(ICECORE_OK), "success") == 0);
  for (int code = ICECORE_INVALID_ARGUMENT; code <= ICECORE_UNKNOWN_FUNCTION; ++code) {
    CHECK(strlen(icecore_strerror(code)) > 3);
    for (int other = ICECORE_STOPPED; other < code; ++other) {
      CHECK(strcmp(icecore_strerror(code), icecore_strerror(other)) != 0);
    }
  }
  CHECK(strlen(icecore_strerror(ICECORE_NO_MEMORY)) > 0 && strlen(icecore_strerror(ICECORE_SYSTEM)) > 0);
  CHECK(icecore_strerror(9999) != NULL && icecore_strerror(-9999) != NULL);
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", ICECORE_VERSION_MAJOR, ICECORE_VERSION_MINOR, ICECORE_VERSION_PATCH);
  CHECK(strcmp(icecore_library_version(), version) == 0);
}

void nothing_where_something_must_be_is_an_error(void) {
  icecore_store* store;
  icecore_snapshot* snapshot;
  icecore_version version;
  icecore_bytes value;
  icecore_bytes keys[1] = {{NULL, 3}};
  size_t size;
  int present;
  const int wrong = ICECORE_INVALID_ARGUMENT;
  FAILS(wrong, icecore_open(NULL, NULL, &store));
  CHECK(store == NULL);
  FAILS(wrong, icecore_open("x", NULL, NULL));
  store = new_store();
  FAILS(wrong, icecore_insert(NULL, "a", 1, "b", 1, &version));
  FAILS(wrong, icecore_insert(store, NULL, 1, "b", 1, NULL));
  FAILS(wrong, icecore_insert(store, "a", 1, NULL, 1, NULL));
  FAILS(wrong, icecore_remove(NULL, "a", 1, NULL));
  FAILS(wrong, icecore_remove(store, NULL, 1, NULL));
  FAILS(wrong, icecore_insert_new(NULL, "a", 1, "b", 1, &version));
  FAILS(wrong, icecore_insert_new(store, NULL, 1, "b", 1, NULL));
  FAILS(wrong, icecore_replace(NULL, "a", 1, "b", 1, 1, &version));
  FAILS(wrong, icecore_replace(store, "a", 1, NULL, 1, 1, NULL));
  FAILS(wrong, icecore_batch_new(NULL));
  FAILS(wrong, icecore_batch_insert_new(NULL, "a", 1, "b", 1));
  FAILS(wrong, icecore_batch_replace(NULL, "a", 1, "b", 1, 1));
  FAILS(wrong, icecore_batch_insert(NULL, "a", 1, "b", 1));
  FAILS(wrong, icecore_batch_remove(NULL, "a", 1));
  FAILS(wrong, icecore_batch_clear(NULL));
  CHECK(icecore_batch_size(NULL) == 0);
  FAILS(wrong, icecore_apply(store, NULL, NULL));
  FAILS(wrong, icecore_apply_if(store, NULL, NULL));
  FAILS(wrong, icecore_sync(NULL));
  FAILS(wrong, icecore_refresh(NULL, NULL));
  FAILS(wrong, icecore_tag_now(NULL, NULL));
  FAILS(wrong, icecore_tag_with(store, NULL, NULL));
  FAILS(wrong, icecore_clock(store, NULL));
  FAILS(wrong, icecore_durable_version(store, NULL));
  icecore_tag* tag;
  icecore_tags* tags;
  FAILS(wrong, icecore_find_tag(NULL, "a", 1, &tag));
  FAILS(wrong, icecore_find_tag(store, "a", 1, NULL));
  FAILS(wrong, icecore_find_tag_of_version(NULL, 1, &tag));
  FAILS(wrong, icecore_find_tag_at_time(NULL, 1, &tag));
  FAILS(wrong, icecore_tags_open(NULL, &tags));
  CHECK(icecore_tags_next(NULL) == NULL && icecore_tags_count(NULL) == 0);
  FAILS(wrong, icecore_find(store, "a", 1, NULL));
  icecore_value found_value = {"", 1, NULL};
  FAILS(wrong, icecore_find(NULL, "a", 1, &found_value));
  CHECK(value_is(&found_value, NULL));
  FAILS(wrong, icecore_find_at(NULL, "a", 1, 0, &found_value));
  icecore_value_release(&found_value);
  icecore_value_release(NULL);
  icecore_pin* pin;
  FAILS(wrong, icecore_contains(store, "a", 1, NULL));
  FAILS(wrong, icecore_contains_at(NULL, "a", 1, 0, &present));
  FAILS(wrong, icecore_find_many(store, 1, NULL, 0, &value, &pin));
  FAILS(wrong, icecore_find_many(store, 1, keys, 0, NULL, &pin));
  FAILS(wrong, icecore_find_many(store, 1, keys, 0, &value, &pin));
  FAILS(wrong, icecore_find_many(store, 0, NULL, 0, NULL, NULL));
  FAILS(wrong, icecore_find_many_at(store, 1, keys, NULL, &value, &pin));
  CHECK(pin == NULL);
  icecore_pin_release(NULL);
  FAILS(wrong, icecore_at_version(NULL, 0, &snapshot));
  FAILS(wrong, icecore_at_version(store, 0, NULL));
  FAILS(wrong, icecore_at_tag(NULL, "a", 1, &snapshot));
  FAILS(wrong, icecore_at_time(NULL, 0, &snapshot));
  FAILS(wrong, icecore_latest(NULL, &snapshot));
  FAILS(wrong, icecore_snapshot_find(NULL, "a", 1, &value));
  FAILS(wrong, icecore_snapshot_find_many(NULL, 1, keys, &value));
  FAILS(wrong, icecore_snapshot_size(NULL, 1, &size));
  FAILS(wrong, icecore_snapshot_size_bound(NULL, &size));
  icecore_fixed_columns fixed;
  icecore_fixed_columns_init(&fixed, sizeof fixed);
  icecore_columns* columns;
  FAILS(wrong, icecore_snapshot_extract(NULL, &fixed, 1, &size));
  FAILS(wrong, icecore_snapshot_extract_page(NULL, NULL, 0, &fixed, &size));
  FAILS(wrong, icecore_snapshot_columns(NULL, 1, NULL, 0, NULL, 0, &columns));
  icecore_cursor* cursor;
  FAILS(wrong, icecore_cursor_open(NULL, NULL, 0, NULL, 0, &cursor));
  FAILS(wrong, icecore_cursor_open_prefix(NULL, NULL, 0, &cursor));
  FAILS(wrong, icecore_cursor_seek_first(NULL));
  FAILS(wrong, icecore_cursor_seek_last(NULL));
  FAILS(wrong, icecore_cursor_seek(NULL, "a", 1));
  FAILS(wrong, icecore_cursor_seek_after(NULL, "a", 1));
  FAILS(wrong, icecore_cursor_seek_before(NULL, "a", 1));
  FAILS(wrong, icecore_cursor_next(NULL));
  FAILS(wrong, icecore_cursor_previous(NULL));
  CHECK(icecore_cursor_valid(NULL) == 0 && icecore_cursor_status(NULL) == wrong);
  icecore_history* history;
  icecore_diff* diff;
  icecore_change change;
  icecore_difference difference;
  FAILS(wrong, icecore_history_open(NULL, "a", 1, ICECORE_NEWEST_FIRST, &history));
  FAILS(wrong, icecore_history_next(NULL, &change));
  FAILS(wrong, icecore_diff_open(NULL, 0, 0, NULL, 0, NULL, 0, &diff));
  FAILS(wrong, icecore_diff_next(NULL, &difference));
  icecore_verify_report* report;
  FAILS(wrong, icecore_verify(NULL, NULL, NULL, &report));
  FAILS(wrong, icecore_verify_file(NULL, NULL, NULL, &report));
  icecore_checkpoint* checkpoint;
  FAILS(wrong, icecore_checkpoint_now(NULL, &checkpoint));
  CHECK(checkpoint == NULL);
  FAILS(wrong, icecore_checkpoint_now(store, NULL));
  FAILS(wrong, icecore_checkpoint_write(NULL, "x", NULL, NULL));
  OK(icecore_checkpoint_now(store, &checkpoint));
  FAILS(wrong, icecore_checkpoint_write(checkpoint, NULL, NULL, NULL));
  icecore_checkpoint_free(checkpoint);
  CHECK(icecore_checkpoint_version(NULL) == 0 && icecore_checkpoint_bytes(NULL) == 0);
  FAILS(wrong, icecore_durability(store, NULL));
  FAILS(wrong, icecore_stats(store, NULL));
  CHECK(icecore_path(NULL) == NULL && icecore_is_read_only(NULL) == 0);
  OK(icecore_latest(store, &snapshot));
  FAILS(wrong, icecore_cursor_open(snapshot, NULL, 4, NULL, 0, &cursor));
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

void an_unfinished_cursor_step_shows_in_its_status(void) {
  icecore_store* store = new_store();
  OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
  icecore_snapshot* snapshot;
  OK(icecore_latest(store, &snapshot));
  icecore_cursor* cursor;
  OK(icecore_cursor_open(snapshot, NULL, 0, NULL, 0, &cursor));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cursor_seek(cursor, NULL, 9));
  CHECK(icecore_cursor_status(cursor) == ICECORE_INVALID_ARGUMENT && !icecore_cursor_valid(cursor));
  OK(icecore_cursor_seek_first(cursor));
  CHECK(icecore_cursor_status(cursor) == ICECORE_OK && icecore_cursor_valid(cursor));
  icecore_cursor_close(cursor);
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

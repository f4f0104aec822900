/* Consistency, protection, signals, and arguments that are no arguments. */
#include "tests.h"

void consistency_and_protection_change_on_all_ranks(void) {
  icecore_cluster* cluster = new_cluster();
  int mode;
  const int next = (rank + 1) % ranks;
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT("1"), NULL));
  OK(icecore_cluster_set_consistency(cluster, ICECORE_CONSISTENCY_SEQUENTIAL));
  OK(icecore_cluster_consistency(cluster, &mode));
  CHECK(mode == ICECORE_CONSISTENCY_SEQUENTIAL);
  CHECK(finds(cluster, text("key %d", next), "1")); /* changing it fenced */
  OK(icecore_cluster_set_consistency(cluster, ICECORE_CONSISTENCY_RELAXED));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_set_consistency(cluster, 2));

  icecore_bytes value;
  OK(icecore_cluster_protect(cluster, ICECORE_PROTECTION_WRITE_ONLY));
  FAILS(ICECORE_PROTECTION, icecore_cluster_find(cluster, TEXT("key 0"), &value));
  CHECK(is_nothing(value));
  OK(icecore_cluster_protect(cluster, ICECORE_PROTECTION_READ_ONLY));
  OK(icecore_cluster_protection(cluster, &mode));
  CHECK(mode == ICECORE_PROTECTION_READ_ONLY);
  CHECK(finds(cluster, text("key %d", next), "1"));
  FAILS(ICECORE_PROTECTION, icecore_cluster_insert(cluster, TEXT("key 0"), TEXT("2"), NULL));
  OK(icecore_cluster_protect(cluster, ICECORE_PROTECTION_UPDATE_ONLY));
  FAILS(ICECORE_PROTECTION, icecore_cluster_insert(cluster, TEXT(text("new %d", rank)), TEXT("2"), NULL));
  OK(icecore_cluster_insert(cluster, TEXT(text("key %d", next)), TEXT("2"), NULL));
  OK(icecore_cluster_protect(cluster, ICECORE_PROTECTION_READ_WRITE));
  CHECK(finds(cluster, text("key %d", rank), "2"));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_protect(cluster, 4));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_barrier(cluster, 2));
  OK(icecore_cluster_close(cluster));
}

void a_signal_carries_what_was_written_before(void) {
  icecore_cluster* cluster = new_cluster();
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 20; ++round) {
    OK(icecore_cluster_insert(cluster, TEXT(text("of %d", rank)), TEXT(text("%d", round)), NULL));
    if (round % 2 == 0) OK(icecore_cluster_fence(cluster));
    OK(icecore_cluster_signal_notify(cluster, 7, &next, 1));
    OK(icecore_cluster_signal_wait(cluster, 7, &previous, 1));
    CHECK(finds(cluster, text("of %d", previous), text("%d", round)));
    OK(icecore_cluster_signal_notify(cluster, 8, &previous, 1));
    OK(icecore_cluster_signal_wait(cluster, 8, &next, 1));
  }
  OK(icecore_cluster_signal_notify(cluster, 7, NULL, 0));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_signal_notify(cluster, 7, &ranks, 1));
  OK(icecore_cluster_close(cluster));
}

void a_cluster_is_packed_and_its_versions_expire_alike(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_version version;
  icecore_tag_options two;
  icecore_tag_options_init(&two, sizeof two);
  two.name.data = "two";
  two.name.size = 3;
  for (int v = 1; v <= 3; ++v) {
    OK(icecore_cluster_insert(cluster, TEXT(text("key %d", rank)), TEXT(text("%d", v)), NULL));
    OK(v == 2 ? icecore_cluster_tag_with(cluster, &two, &version) : icecore_cluster_tag_now(cluster, &version));
  }
  icecore_retention kept = {sizeof kept, 1, 0, 0, 0, 0, 0};
  OK(icecore_cluster_set_retention(cluster, &kept));
  icecore_retention told = {sizeof told, 0, 9, 9, 9, 9, 9};
  OK(icecore_cluster_get_retention(cluster, &told));
  CHECK(told.tagged == 1 && told.newest == 0 && told.younger_than_seconds == 0);
  icecore_compaction_report report;
  report.struct_size = sizeof report;
  icecore_version held;
  OK(icecore_cluster_hold_version(cluster, TEXT("one"), 1, &held));
  CHECK(held == 1);
  FAILS(ICECORE_QUERY_EXISTS, icecore_cluster_hold_version(cluster, TEXT("one"), 2, &held));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_hold_version(NULL, TEXT("one"), 2, &held));
  icecore_holds* all;
  OK(icecore_cluster_held_versions(cluster, &all));
  CHECK(icecore_holds_count(all) == 1 && icecore_holds_next(all)->version == 1);
  icecore_holds_close(all);
  icecore_compaction_options how = {.struct_size = sizeof how, .only_if_expiring = 1, .threads = 1};
  OK(icecore_cluster_compact(cluster, &how, &report));
  CHECK(!report.packed && report.versions_expired == 0);
  OK(icecore_cluster_release_version(cluster, TEXT("one")));
  FAILS(ICECORE_NO_SUCH_QUERY, icecore_cluster_release_version(cluster, TEXT("one")));
  how.dry_run = 1;
  OK(icecore_cluster_compact(cluster, &how, &report));
  CHECK(!report.packed && report.versions_expired == 1);
  how.only_if_expiring = 0;
  OK(icecore_cluster_compact(cluster, &how, &report));
  CHECK(!report.packed && report.versions_expired == 1);
  how = (icecore_compaction_options){.struct_size = sizeof how, .whole = 1, .threads = 1, .compression_level = 3};
  OK(icecore_cluster_compact(cluster, &how, &report));
  CHECK(report.packed && report.versions_expired == 1 && report.keys == (uint64_t)ranks && report.up_to == 3);
  icecore_bytes value;
  const char* key = text("key %d", (rank + 1) % ranks);
  FAILS(ICECORE_VERSION_EXPIRED, icecore_cluster_find_at(cluster, TEXT(key), 1, &value));
  OK(icecore_cluster_find_at(cluster, TEXT(key), 2, &value));
  CHECK(holds(value, "2"));
  icecore_cluster_values_free(&value, 1);
  CHECK(finds(cluster, key, "3"));
  how.compression_level = 20;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_compact(cluster, &how, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_compact(NULL, NULL, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_set_retention(cluster, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_get_retention(cluster, NULL));
  const icecore_bytes prefix = {"key ", 4};
  icecore_forget_report gone;
  gone.struct_size = sizeof gone;
  OK(icecore_cluster_forget(cluster, NULL, 0, &prefix, 1, "a note", 6, &gone));
  CHECK(gone.keys == (uint64_t)ranks && strcmp(gone.tag, "forgotten-1") == 0);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_forget(cluster, NULL, 0, NULL, 0, NULL, 0, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_forget(cluster, NULL, 1, NULL, 0, NULL, 0, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_forget(NULL, NULL, 0, &prefix, 1, NULL, 0, NULL));
  OK(icecore_cluster_close(cluster));
}

void nothing_in_place_of_an_argument_is_an_error(void) {
  icecore_cluster* cluster;
  const int wrong = ICECORE_INVALID_ARGUMENT;
  FAILS(wrong, icecore_cluster_open(MPI_COMM_WORLD, NULL, NULL, &cluster));
  FAILS(wrong, icecore_cluster_open(MPI_COMM_WORLD, "x", NULL, NULL));
  cluster = new_cluster();
  icecore_version version = 5;
  icecore_bytes value;
  const icecore_bytes bad[1] = {{NULL, 3}};
  int number;
  FAILS(wrong, icecore_cluster_insert(NULL, "a", 1, "b", 1, &version));
  CHECK(version == 0);
  FAILS(wrong, icecore_cluster_insert(cluster, NULL, 1, "b", 1, NULL));
  FAILS(wrong, icecore_cluster_insert(cluster, "a", 1, NULL, 1, NULL));
  FAILS(wrong, icecore_cluster_remove(NULL, "a", 1, NULL));
  FAILS(wrong, icecore_cluster_insert_many(cluster, 1, NULL, bad, NULL));
  FAILS(wrong, icecore_cluster_insert_many(cluster, 1, bad, bad, NULL));
  FAILS(wrong, icecore_cluster_apply(cluster, NULL, NULL));
  FAILS(wrong, icecore_cluster_find(cluster, "a", 1, NULL));
  FAILS(wrong, icecore_cluster_find(NULL, "a", 1, &value));
  FAILS(wrong, icecore_cluster_find_at(NULL, "a", 1, 0, &value));
  FAILS(wrong, icecore_cluster_contains(cluster, "a", 1, NULL));
  FAILS(wrong, icecore_cluster_contains_at(NULL, "a", 1, 0, &number));
  FAILS(wrong, icecore_cluster_find_many(cluster, 1, NULL, &value));
  FAILS(wrong, icecore_cluster_find_many(cluster, 1, bad, NULL));
  FAILS(wrong, icecore_cluster_find_many(cluster, 1, bad, &value));
  FAILS(wrong, icecore_cluster_find_many_at(NULL, 1, bad, 0, &value));
  icecore_cluster_values_free(NULL, 3);
  FAILS(wrong, icecore_cluster_tag_now(NULL, NULL));
  FAILS(wrong, icecore_cluster_tag_with(cluster, NULL, NULL));
  FAILS(wrong, icecore_cluster_clock(cluster, NULL));
  icecore_tag* tag;
  icecore_tags* tags;
  FAILS(wrong, icecore_cluster_find_tag(NULL, "a", 1, &tag));
  FAILS(wrong, icecore_cluster_tags_open(NULL, &tags));
  icecore_cluster_snapshot* snapshot;
  uint64_t size;
  FAILS(wrong, icecore_cluster_at_version(NULL, 0, &snapshot));
  FAILS(wrong, icecore_cluster_at_tag(cluster, NULL, 1, &snapshot));
  FAILS(wrong, icecore_cluster_snapshot_find(NULL, "a", 1, &value));
  FAILS(wrong, icecore_cluster_snapshot_find_many(NULL, 1, bad, &value));
  FAILS(wrong, icecore_cluster_snapshot_size(NULL, &size));
  CHECK(icecore_cluster_snapshot_version(NULL) == 0);
  icecore_cluster_cursor* cursor;
  FAILS(wrong, icecore_cluster_cursor_open(NULL, NULL, 0, NULL, 0, &cursor));
  FAILS(wrong, icecore_cluster_cursor_open_prefix(NULL, NULL, 0, &cursor));
  FAILS(wrong, icecore_cluster_cursor_seek_first(NULL));
  FAILS(wrong, icecore_cluster_cursor_seek(NULL, "a", 1));
  FAILS(wrong, icecore_cluster_cursor_next(NULL));
  CHECK(icecore_cluster_cursor_valid(NULL) == 0 && icecore_cluster_cursor_status(NULL) == wrong);
  CHECK(is_nothing(icecore_cluster_cursor_value(NULL)));
  icecore_cluster_history* history;
  icecore_change change;
  FAILS(wrong, icecore_cluster_history_open(NULL, "a", 1, 0, &history));
  FAILS(wrong, icecore_cluster_history_next(NULL, &change));
  CHECK(icecore_cluster_history_count(NULL) == 0);
  FAILS(wrong, icecore_cluster_fence(NULL));
  FAILS(wrong, icecore_cluster_barrier(NULL, 0));
  FAILS(wrong, icecore_cluster_set_consistency(NULL, 0));
  FAILS(wrong, icecore_cluster_protect(NULL, 0));
  FAILS(wrong, icecore_cluster_consistency(cluster, NULL));
  FAILS(wrong, icecore_cluster_protection(NULL, &number));
  FAILS(wrong, icecore_cluster_signal_notify(cluster, 1, NULL, 1));
  FAILS(wrong, icecore_cluster_signal_wait(cluster, 1, NULL, 1));
  icecore_cluster_event* event;
  uint64_t bytes;
  FAILS(wrong, icecore_cluster_checkpoint(cluster, NULL, &event));
  FAILS(wrong, icecore_cluster_checkpoint(NULL, "x", NULL));
  FAILS(wrong, icecore_cluster_event_wait(NULL));
  FAILS(wrong, icecore_cluster_event_done(NULL, &number));
  FAILS(wrong, icecore_cluster_event_progress(NULL, &bytes, &bytes));
  icecore_cluster_event_free(NULL);
  icecore_cluster* restored;
  FAILS(wrong, icecore_cluster_restore(MPI_COMM_WORLD, NULL, "x", NULL, &restored));
  FAILS(wrong, icecore_cluster_owner_of(cluster, NULL, 1, &number));
  FAILS(wrong, icecore_cluster_group_of(cluster, 0, NULL));
  FAILS(wrong, icecore_cluster_reaches_directly(NULL, 0, &number));
  CHECK(icecore_cluster_rank(NULL) == -1 && icecore_cluster_size(NULL) == -1 && icecore_cluster_path(NULL) == NULL);
  CHECK(icecore_cluster_has_progress_thread(NULL) == 0);
  icecore_cluster_options_init(NULL, 8);
  OK(icecore_cluster_close(cluster));
}

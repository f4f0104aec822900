/* Packing a store, and what it tells of that. */
#include "check.h"
#include "tests.h"

static void count_progress(void* context, const char* what, uint64_t done, uint64_t total, const char* unit) {
  CHECK(what != NULL && unit != NULL && (total == 0 || done <= total));
  ++*(int*)context;
}

static int insert_number(icecore_store* store, int number, const char* value) {
  return icecore_insert(store, &number, sizeof number, TEXT(value), NULL);
}

static int value_at_is(icecore_store* store, int number, icecore_version at, const char* text) {
  icecore_value value;
  OK(icecore_find_at(store, &number, sizeof number, at, &value));
  return value_is(&value, text);
}

/* 1,000 keys in version 1, every third of them removed and every fifth set again in version 2. */
static void fill(icecore_store* store) {
  for (int i = 0; i < 1000; ++i) OK(insert_number(store, i, "first"));
  OK(icecore_tag_now(store, NULL));
  for (int i = 0; i < 1000; i += 3) OK(icecore_remove(store, &i, sizeof i, NULL));
  for (int i = 1; i < 1000; i += 3) OK(insert_number(store, i, "second"));
}

static void check_filled(icecore_store* store) {
  for (int i = 0; i < 1000; ++i) {
    CHECK(value_at_is(store, i, 1, "first"));
    CHECK(value_at_is(store, i, 2, i % 3 == 0 ? NULL : i % 3 == 1 ? "second" : "first"));
  }
}

void a_packed_store_shows_what_it_did(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("packed.ice"));
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  icecore_statistics before = {.struct_size = sizeof before};
  OK(icecore_stats(store, &before));
  CHECK(before.strata == 0 && before.packed_keys == 0 && before.packed_records == 0 && before.packed_bytes == 0);
  icecore_compaction_report report = {.struct_size = sizeof report, .records = 7};
  FAILS(ICECORE_LOCKED, icecore_compact(path, NULL, NULL, &report));
  CHECK(report.records == 0);
  OK(icecore_close(store));

  icecore_compaction_options how;
  icecore_compaction_options_init(&how, sizeof how);
  how.threads = 1;
  OK(icecore_compact(path, NULL, &how, &report));
  CHECK(report.packed == 1 && report.keys == 1000 && report.records == before.records && report.strata == 1);
  CHECK(report.up_to == 2 && report.bytes_written > 0 && report.bytes_after > 0 && report.bytes_before > 0);
  CHECK(report.struct_size == sizeof report);
  OK(icecore_compact(path, NULL, NULL, &report));
  CHECK(report.packed == 0 && report.keys == 0 && report.records == 0 && report.strata == 1 && report.up_to == 2);

  OK(icecore_open(path, NULL, &store));
  check_filled(store);
  icecore_statistics after = {.struct_size = sizeof after};
  OK(icecore_stats(store, &after));
  CHECK(after.strata == 1 && after.packed_keys == 1000 && after.packed_records == before.records);
  CHECK(after.packed_bytes > 0 && after.records == before.records && after.removes == before.removes);
  CHECK(after.keys == before.keys && after.clock == 3 && after.format_major == 7);
  CHECK(after.keys_at_least == 1000 && after.free_bytes + after.used_bytes < after.file_bytes);
  OK(insert_number(store, 0, "third"));
  OK(icecore_stats(store, &after));
  CHECK(after.keys == 1001 && after.keys_at_least == 1000);
  CHECK(after.given_bytes == sizeof(int) + strlen("third") && after.written_bytes > after.given_bytes);
  CHECK(after.write_amplification * (double)after.given_bytes == (double)after.written_bytes);
  CHECK(after.garbage_bytes == 0 && after.waiting_bytes == 0 && after.live_bytes == after.used_bytes);
  CHECK(after.oldest_pin == 0 && after.oldest_pin_seconds == 0 && after.is_any_held == 0 && after.oldest_held == 0);
  OK(insert_number(store, 0, "third"));
  OK(icecore_tag_now(store, NULL));
  OK(icecore_stats(store, &after));
  CHECK(after.garbage_bytes == strlen("third") && after.live_bytes == after.used_bytes - after.garbage_bytes);
  icecore_snapshot* pinned;
  OK(icecore_latest(store, &pinned));
  OK(icecore_stats(store, &after));
  CHECK(after.pins == 1 && after.oldest_pin == 4 && after.oldest_pin_seconds > 0);
  icecore_snapshot_close(pinned);
  OK(icecore_close(store));

  /* The large stratum stays as it is, unless the whole store is to be packed. */
  OK(icecore_compact(path, NULL, NULL, NULL));
  how.whole = 1;
  how.threads = 2;
  OK(icecore_compact(path, NULL, &how, &report));
  CHECK(report.packed == 1 && report.strata == 1 && report.records == before.records + 1 && report.keys == 1000);
  OK(icecore_open(path, NULL, &store));
  check_filled(store);
  CHECK(value_at_is(store, 0, 3, "third"));
  OK(icecore_close(store));
}

void packing_tells_its_progress_and_takes_options(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("progress.ice"));
  icecore_compaction_report report = {.struct_size = sizeof report};
  FAILS(ICECORE_NO_SUCH_STORE, icecore_compact(path, NULL, NULL, &report));
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  options.access = ICECORE_ACCESS_READ_ONLY; /* neither this nor creation says how packing opens */
  options.creation = ICECORE_CREATE_NEW;
  FAILS(ICECORE_NO_SUCH_STORE, icecore_compact(path, &options, NULL, &report));
  options.access = ICECORE_ACCESS_READ_WRITE;
  icecore_store* store;
  OK(icecore_open(path, &options, &store));
  for (int i = 0; i < 200000; ++i) OK(insert_number(store, i, "v"));
  OK(icecore_close(store));
  options.access = ICECORE_ACCESS_READ_ONLY;
  int calls = 0;
  icecore_compaction_options how = {
      .struct_size = sizeof how, .threads = 1, .on_progress = count_progress, .progress_context = &calls};
  OK(icecore_compact(path, &options, &how, &report));
  CHECK(calls > 0 && report.records == 200000);

  options.durability = 9;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact(path, &options, NULL, &report));
  CHECK(report.records == 0 && strstr(icecore_last_error_message(), "icecore_compact") != NULL);
  icecore_options_init(&options, sizeof options);
  options.shared_as = fresh_path("common");
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact(path, &options, NULL, &report));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact(NULL, NULL, NULL, &report));
  report.struct_size = 3;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact(path, NULL, NULL, &report));

  /* An older program knows the beginning of the report alone. */
  memset(&report, 0x7f, sizeof report);
  report.struct_size = 2 * sizeof(size_t);
  OK(icecore_compact(path, NULL, NULL, &report));
  CHECK(report.packed == 0 && report.keys == 0x7f7f7f7f7f7f7f7fU);
}

void an_open_store_is_packed(void) {
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.compaction == 0 && options.compaction_threads == 1 && options.compaction_young_bytes > 0);
  options.compaction = 1;
  icecore_store* store;
  const char* const path = fresh_path("open.ice");
  OK(icecore_open(path, &options, &store));
  fill(store);
  OK(icecore_pause_compaction(store));
  icecore_compaction_report report = {.struct_size = sizeof report};
  icecore_compaction_options how = {.struct_size = sizeof how, .threads = 1, .compression_level = 3};
  OK(icecore_compact_open(store, &how, &report));
  CHECK(report.packed == 1 && report.records > 0 && report.strata == 1 && report.erased == 1);
  CHECK(value_at_is(store, 1, 2, "second"));
  OK(icecore_resume_compaction(store));
  OK(icecore_compact_open(store, NULL, NULL));
  how.compression_level = 99;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact_open(store, &how, &report));
  CHECK(strstr(icecore_last_error_message(), "compression_level") != NULL && report.records == 0);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact_open(NULL, NULL, &report));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_pause_compaction(NULL));
  icecore_store* reader;
  options.access = ICECORE_ACCESS_READ_ONLY;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &reader));
  options.compaction = 0;
  OK(icecore_open(path, &options, &reader));
  FAILS(ICECORE_READ_ONLY, icecore_pause_compaction(reader));
  FAILS(ICECORE_READ_ONLY, icecore_resume_compaction(reader));
  OK(icecore_close(reader));
  OK(icecore_close(store));
}

void a_store_keeps_the_versions_that_its_retention_says(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("kept.ice"));
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  OK(icecore_tag_now(store, NULL));
  icecore_retention kept = {.struct_size = sizeof kept, .newest = 9};
  OK(icecore_get_retention(store, &kept));
  CHECK(kept.newest == 0 && kept.tagged == 0 && kept.struct_size == sizeof kept);
  kept.newest = 1;
  kept.weekly = 3;
  OK(icecore_set_retention(store, &kept));
  kept.younger_than_seconds = UINT64_MAX;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_set_retention(store, &kept));
  CHECK(strstr(icecore_last_error_message(), "younger_than_seconds") != NULL);
  OK(icecore_get_retention(store, &kept));
  CHECK(kept.newest == 1 && kept.weekly == 3 && kept.younger_than_seconds == 0);
  OK(icecore_close(store));

  icecore_compaction_report told = {.struct_size = sizeof told};
  const icecore_compaction_options counts = {.struct_size = sizeof counts, .dry_run = 1};
  OK(icecore_compact(path, NULL, &counts, &told));
  CHECK(told.packed == 0 && told.versions_expired == 1 && told.records_dropped > 0);
  icecore_compaction_report report = {.struct_size = sizeof report};
  OK(icecore_compact(path, NULL, NULL, &report));
  CHECK(report.packed == 1 && report.versions_expired == 1 && report.records_dropped == told.records_dropped);
  CHECK(report.erased == 1);

  OK(icecore_open(path, NULL, &store));
  int expired = 7;
  OK(icecore_is_expired(store, 1, &expired));
  CHECK(expired == 1);
  OK(icecore_is_expired(store, 2, &expired));
  CHECK(expired == 0);
  icecore_value value;
  int key = 1;
  FAILS(ICECORE_VERSION_EXPIRED, icecore_find_at(store, &key, sizeof key, 1, &value));
  CHECK(value_at_is(store, 1, 2, "second"));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_is_expired(store, 2, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_set_retention(store, NULL));
  OK(icecore_close(store));
}

void a_version_that_is_held_does_not_expire(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("held.ice"));
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  icecore_version held = 9;
  OK(icecore_hold_version(store, TEXT("paper"), 1, &held));
  CHECK(held == 1);
  OK(icecore_hold_version(store, TEXT("now"), ICECORE_VERSION_PRESENT, &held));
  CHECK(held == 2);
  OK(icecore_tag_now(store, NULL));
  OK(icecore_hold_version(store, TEXT("again"), 1, NULL));
  FAILS(ICECORE_QUERY_EXISTS, icecore_hold_version(store, TEXT("paper"), 2, &held));
  CHECK(held == 0 && strstr(icecore_last_error_message(), "a hold is named 'paper' already") != NULL);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_hold_version(store, TEXT("open"), 99, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_hold_version(store, "", 0, 1, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_hold_version(NULL, TEXT("paper"), 1, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_held_versions(store, NULL));
  FAILS(ICECORE_NO_SUCH_QUERY, icecore_release_version(store, TEXT("none")));
  OK(icecore_release_version(store, TEXT("again")));
  icecore_retention kept = {.struct_size = sizeof kept, .newest = 1};
  OK(icecore_set_retention(store, &kept));
  OK(icecore_close(store));

  icecore_compaction_report report = {.struct_size = sizeof report};
  OK(icecore_compact(path, NULL, NULL, &report));
  CHECK(report.packed == 1 && report.versions_expired == 0);
  OK(icecore_open(path, NULL, &store));
  check_filled(store);
  icecore_holds* holds;
  OK(icecore_held_versions(store, &holds));
  CHECK(icecore_holds_count(holds) == 2 && icecore_holds_count(NULL) == 0 && icecore_holds_next(NULL) == NULL);
  const icecore_hold* first = icecore_holds_next(holds);
  CHECK(first->version == 1 && first->name.size == 5 && memcmp(first->name.data, "paper", 5) == 0);
  CHECK(first->created_ns > 0);
  CHECK(icecore_holds_next(holds)->version == 2 && icecore_holds_next(holds) == NULL);
  icecore_holds_close(holds);
  icecore_holds_close(NULL);
  icecore_statistics statistics = {.struct_size = sizeof statistics};
  OK(icecore_stats(store, &statistics));
  CHECK(statistics.is_any_held != 0 && statistics.oldest_held == 1);
  OK(icecore_release_version(store, TEXT("paper")));
  OK(icecore_close(store));

  icecore_repair_report* repaired;
  OK(icecore_repair(path, fresh_path("repaired.ice"), NULL, NULL, &repaired));
  CHECK(repaired->holds == 1 && repaired->queries == 0);
  icecore_repair_report_free(repaired);
  OK(icecore_compact(path, NULL, NULL, &report));
  CHECK(report.packed == 1 && report.versions_expired == 1);
}

void a_store_is_packed_only_if_versions_expire(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("expiring.ice"));
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  icecore_compaction_report report = {.struct_size = sizeof report};
  icecore_compaction_options how = {.struct_size = sizeof how, .only_if_expiring = 1, .threads = 1};
  OK(icecore_compact_open(store, &how, &report));
  CHECK(report.packed == 0 && report.strata == 0);
  OK(icecore_tag_now(store, NULL));
  OK(icecore_close(store));
  OK(icecore_compact(path, NULL, &how, &report));
  CHECK(report.packed == 0);
  OK(icecore_open(path, NULL, &store));
  icecore_retention kept = {.struct_size = sizeof kept, .newest = 1};
  OK(icecore_set_retention(store, &kept));
  how.dry_run = 1;
  OK(icecore_compact_open(store, &how, &report));
  CHECK(report.packed == 0 && report.versions_expired > 0);
  OK(icecore_close(store));
  icecore_compaction_report told = {.struct_size = sizeof told};
  OK(icecore_compact(path, NULL, &how, &told));
  CHECK(told.packed == 0 && told.versions_expired == report.versions_expired);
  int calls = 0;
  how = (icecore_compaction_options){.struct_size = sizeof how,
                                     .whole = 1,
                                     .only_if_expiring = 1,
                                     .threads = 1,
                                     .compression_level = 3,
                                     .on_progress = count_progress,
                                     .progress_context = &calls};
  OK(icecore_compact(path, NULL, &how, &report));
  CHECK(report.packed == 1 && report.versions_expired == told.versions_expired && report.records_dropped > 0);
  CHECK(calls > 0);
  OK(icecore_open(path, NULL, &store));
  icecore_statistics packed = {.struct_size = sizeof packed};
  OK(icecore_stats(store, &packed));
  CHECK(packed.format_major == 8);
  OK(icecore_tag_now(store, NULL));
  OK(icecore_compact_open(store, &how, &report));
  CHECK(report.packed == 1 && report.versions_expired == 1);
  OK(icecore_close(store));
}

/* How much it writes, of a packed store of which a tenth was written anew. */
static uint64_t written_by(const icecore_compaction_options* how) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("ranges.ice"));
  char value[200];
  memset(value, 'v', sizeof value);
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  for (int i = 0; i < 1000; ++i) OK(icecore_insert(store, &i, sizeof i, value, sizeof value, NULL));
  OK(icecore_close(store));
  const icecore_compaction_options small = {.struct_size = sizeof small, .threads = 1, .bytes_at_once = 16384};
  OK(icecore_compact(path, NULL, &small, NULL));
  OK(icecore_open(path, NULL, &store));
  for (int i = 0; i < 1000; i += 10) OK(icecore_insert(store, &i, sizeof i, value, sizeof value, NULL));
  OK(icecore_close(store));
  icecore_compaction_report report = {.struct_size = sizeof report};
  OK(icecore_compact(path, NULL, how, &report));
  CHECK(report.packed == 1 && report.strata == 1);
  return report.bytes_written;
}

void a_store_is_packed_by_ranges(void) {
  icecore_compaction_options how;
  memset(&how, 0x7f, sizeof how);
  icecore_compaction_options_init(&how, sizeof how);
  CHECK(how.bytes_at_once == 0 && how.threads == 0 && how.whole == 0 && how.on_progress == NULL);
  how.whole = 1;
  how.threads = 1;
  const uint64_t at_once = written_by(&how);
  how.bytes_at_once = 16384;
  /* what was not packed yet is written twice */
  CHECK(written_by(&how) > at_once + 100 * 200);
  /* an older program knows the beginning of the structure alone */
  how.struct_size = offsetof(icecore_compaction_options, bytes_at_once);
  CHECK(written_by(&how) == at_once);
  how.struct_size = 3;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_compact(fresh_path("none.ice"), NULL, &how, NULL));
}

void forgotten_keys_are_in_no_version(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("forgotten.ice"));
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  OK(icecore_insert(store, TEXT("user/1"), TEXT("one"), NULL));
  OK(icecore_insert(store, TEXT("user/2"), TEXT("two"), NULL));
  OK(icecore_insert(store, TEXT("other"), TEXT("stays"), NULL));
  OK(icecore_tag_now(store, NULL));
  const icecore_bytes key = {"other/none", 10};
  const icecore_bytes prefix = {"user/", 5};
  icecore_forget_report report = {.struct_size = sizeof report};
  OK(icecore_forget(store, &key, 1, &prefix, 1, TEXT("why"), &report));
  CHECK(report.keys == 2 && strcmp(report.tag, "forgotten-1") == 0 && report.up_to >= 1);
  icecore_value value;
  OK(icecore_find(store, TEXT("user/1"), &value));
  CHECK(value_is(&value, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_forget(store, NULL, 0, NULL, 0, NULL, 0, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_forget(store, NULL, 1, NULL, 0, NULL, 0, NULL));
  OK(icecore_close(store));
  OK(icecore_compact(path, NULL, NULL, NULL));
  OK(icecore_open(path, NULL, &store));
  OK(icecore_find_at(store, TEXT("user/1"), 1, &value));
  CHECK(value_is(&value, NULL));
  OK(icecore_find_at(store, TEXT("other"), 1, &value));
  CHECK(value_is(&value, "stays"));
  OK(icecore_close(store));
}

/* Opening, writing, batches, tags, and what a store says of itself. */
#include <dirent.h>
#include <unistd.h>

#include "check.h"
#include "tests.h"

void opens_by_options_and_closes(void) {
  const char* path = fresh_path("options.ice");
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.struct_size == sizeof options);
  CHECK(options.access == ICECORE_ACCESS_READ_WRITE && options.huge_pages == 1 && options.index == ICECORE_INDEX_BTREE);
  CHECK(options.durability == ICECORE_DURABILITY_BEST_AVAILABLE && options.on_progress == NULL);
  icecore_store* store = (icecore_store*)&options;
  options.creation = ICECORE_OPEN_EXISTING;
  FAILS(ICECORE_NO_SUCH_STORE, icecore_open(path, &options, &store));
  CHECK(store == NULL);
  CHECK(strstr(icecore_last_error_message(), path) != NULL);
  options.creation = ICECORE_CREATE_NEW;
  OK(icecore_open(path, &options, &store));
  CHECK(strcmp(icecore_path(store), path) == 0);
  CHECK(icecore_is_read_only(store) == 0);
  icecore_store* second;
  FAILS(ICECORE_LOCKED, icecore_open(path, NULL, &second));
  OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
  FAILS(ICECORE_STORE_EXISTS, icecore_open(path, &options, &second));
  OK(icecore_close(store));
  options.creation = ICECORE_OPEN_OR_CREATE;
  options.access = ICECORE_ACCESS_READ_ONLY;
  options.recovery_threads = 2;
  OK(icecore_open(path, &options, &store));
  CHECK(icecore_is_read_only(store) == 1);
  icecore_version version = 5;
  FAILS(ICECORE_READ_ONLY, icecore_insert(store, TEXT("a"), TEXT("2"), &version));
  CHECK(version == 0);
  icecore_value value;
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, "1"));
  OK(icecore_close(store));
  OK(icecore_close(NULL));
}

static int threads_of_this_process(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count;
}

void a_large_store_grows_on_a_thread_that_can_be_turned_off(void) {
  static char value[100000];
  for (int on = 0; on < 2; ++on) {
    icecore_options options;
    icecore_options_init(&options, sizeof options);
    CHECK(options.grow_in_background == 1);
    options.grow_in_background = on;
    CHECK(options.publish_settled == 1);
    options.publish_settled = 0;
    const int before = threads_of_this_process();
    icecore_store* store;
    OK(icecore_open(fresh_path("grows.ice"), &options, &store));
    for (int i = 0; i < 100; ++i) OK(icecore_insert(store, &i, sizeof i, value, sizeof value, NULL));
    CHECK(threads_of_this_process() == before + on);
    OK(icecore_close(store));
  }
}

void a_store_of_several_files_is_opened_by_its_first(void) {
  char path[4096];
  char secondary[4096];
  char moved[4096];
  snprintf(path, sizeof path, "%s", fresh_path("several.ice"));
  snprintf(secondary, sizeof secondary, "%s", fresh_path("several-1.ice"));
  snprintf(moved, sizeof moved, "%s", fresh_path("several-moved.ice"));
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.placements == NULL && options.placement_count == 0);
  options.placement_count = 1;
  icecore_store* store;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
  CHECK(strstr(icecore_last_error_message(), "placements") != NULL);
  icecore_placement placement = {NULL, -1};
  options.placements = &placement;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
  placement.path = secondary;
  placement.node = 4096;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
  placement.node = -1;
  OK(icecore_open(path, &options, &store));
  OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
  icecore_statistics reported = {.struct_size = sizeof reported};
  OK(icecore_stats(store, &reported));
  CHECK(reported.file_count == 2);
  CHECK(icecore_process_huge_page_bytes() % ((uint64_t)2 << 20) == 0);
  OK(icecore_close(store));
  CHECK(rename(secondary, moved) == 0);
  FAILS(ICECORE_MISSING_FILE, icecore_open(path, NULL, &store));
  CHECK(strstr(icecore_last_error_message(), secondary) != NULL);
  placement.path = moved;
  OK(icecore_open(path, &options, &store));
  OK(icecore_close(store));
  OK(icecore_open(path, NULL, &store)); /* it is remembered */
  icecore_value value;
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, "1"));
  OK(icecore_close(store));
}

void a_store_is_shared_with_who_attaches_to_it(void) {
  char path[4096];
  char common[128];
  snprintf(path, sizeof path, "%s", fresh_path("shared.ice"));
  snprintf(common, sizeof common, "/dev/shm/icecore-c-%ld", (long)getpid());
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.shared_as == NULL);
  options.access = ICECORE_ACCESS_ATTACHED;
  icecore_store* other;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &other));
  options.shared_as = common;
  FAILS(ICECORE_NO_SUCH_STORE, icecore_open(path, &options, &other));
  options.access = ICECORE_ACCESS_READ_WRITE;
  options.index = ICECORE_INDEX_PERSISTENT;
  icecore_store* store;
  OK(icecore_open(path, &options, &store));
  options.access = ICECORE_ACCESS_ATTACHED;
  OK(icecore_open(path, &options, &other));
  OK(icecore_insert(other, TEXT("a"), TEXT("1"), NULL));
  icecore_value value;
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, "1"));
  OK(icecore_sync(other));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_pause_compaction(other));
  OK(icecore_close(store));
  FAILS(ICECORE_CLOSED, icecore_find(other, TEXT("a"), &value));
  icecore_close(other);
  options.access = 3;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
}

void an_index_is_chosen_and_changed(void) {
  const char* path = fresh_path("index.ice");
  static const int kinds[] = {ICECORE_INDEX_PERSISTENT, ICECORE_INDEX_BTREE, ICECORE_INDEX_SKIP_LIST,
                              ICECORE_INDEX_PERSISTENT, ICECORE_INDEX_PERSISTENT};
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.change_index == 0);
  icecore_store* store;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    options.index = kinds[i];
    options.change_index = i > 0;
    OK(icecore_open(path, &options, &store));
    if (i == 0) OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
    OK(icecore_close(store));
    OK(icecore_open(path, NULL, &store));
    icecore_statistics now;
    now.struct_size = sizeof now;
    OK(icecore_stats(store, &now));
    CHECK(now.index == kinds[i] && now.recovered_instantly == (kinds[i] == ICECORE_INDEX_PERSISTENT));
    icecore_value value;
    OK(icecore_find(store, TEXT("a"), &value));
    CHECK(value_is(&value, "1"));
    OK(icecore_close(store));
  }
  options.access = ICECORE_ACCESS_READ_ONLY;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
  options.access = ICECORE_ACCESS_READ_WRITE;
  options.index = 99;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
}

void structures_may_be_older_or_newer_than_the_library(void) {
  const char* path = fresh_path("sizes.ice");
  struct {
    icecore_options known;
    int of_the_future;
    int padding;
  } newer;
  icecore_store* store;
  icecore_options_init(&newer.known, sizeof newer);
  CHECK(newer.known.struct_size == sizeof newer && newer.of_the_future == 0);
  OK(icecore_open(path, &newer.known, &store));
  OK(icecore_close(store));
  newer.of_the_future = 1;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &newer.known, &store));

  icecore_options older;
  memset(&older, 0x7f, sizeof older);
  older.struct_size = sizeof(size_t) + sizeof(int); /* knows `access` only */
  older.access = ICECORE_ACCESS_READ_ONLY;
  OK(icecore_open(path, &older, &store));
  CHECK(icecore_is_read_only(store) == 1);

  icecore_statistics part;
  memset(&part, 0x7f, sizeof part);
  part.struct_size = sizeof(size_t) + sizeof(uint64_t);
  OK(icecore_stats(store, &part));
  CHECK(part.keys == 0 && part.records == 0x7f7f7f7f7f7f7f7fU);
  part.struct_size = 3;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_stats(store, &part));
  OK(icecore_close(store));

  older.struct_size = 0;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &older, &store));
  icecore_options_init(&older, sizeof older);
  older.durability = 9;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &older, &store));
  icecore_options_init(&older, sizeof older);
  older.access = -1;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &older, &store));
  icecore_options_init(&older, sizeof older);
  CHECK(older.crash == ICECORE_CRASH_FIND_OUT);
  older.crash = ICECORE_CRASH_MACHINE + 1;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &older, &store));
}

void writes_are_found_and_report_their_version(void) {
  icecore_store* store = new_store();
  icecore_version version;
  OK(icecore_insert(store, TEXT("a"), TEXT("1"), &version));
  CHECK(version == 1);
  OK(icecore_insert(store, NULL, 0, NULL, 0, NULL)); /* the empty key with an empty value */
  icecore_version closed;
  OK(icecore_tag_now(store, &closed));
  CHECK(closed == 1);
  OK(icecore_remove(store, TEXT("a"), &version));
  CHECK(version == 2);
  OK(icecore_remove(store, TEXT("a"), &version));
  CHECK(version == 0);
  OK(icecore_remove(store, TEXT("never there"), NULL));
  icecore_value value;
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, NULL));
  OK(icecore_find_at(store, TEXT("a"), 1, &value));
  CHECK(value_is(&value, "1"));
  OK(icecore_find(store, "", 0, &value));
  CHECK(value_is(&value, ""));
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_find_at(store, TEXT("a"), 2, &value));
  CHECK(value_is(&value, NULL));
  int present;
  OK(icecore_contains(store, TEXT("a"), &present));
  CHECK(present == 0);
  OK(icecore_contains_at(store, TEXT("a"), 1, &present));
  CHECK(present == 1);
  OK(icecore_close(store));
}

void conditions_decide_whether_a_write_happens(void) {
  icecore_store* store = new_store();
  icecore_version version;
  icecore_value value;
  OK(icecore_insert_new(store, TEXT("a"), TEXT("1"), &version));
  CHECK(version == 1);
  OK(icecore_insert_new(store, TEXT("a"), TEXT("2"), &version));
  CHECK(version == 0);
  OK(icecore_tag_now(store, NULL));
  OK(icecore_replace(store, TEXT("a"), TEXT("3"), 2, &version));
  CHECK(version == 0);
  OK(icecore_replace(store, TEXT("absent"), TEXT("3"), 1, NULL));
  OK(icecore_replace(store, TEXT("a"), TEXT("3"), 1, &version));
  CHECK(version == 2);
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, "3"));

  icecore_batch* batch;
  OK(icecore_batch_new(&batch));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_batch_replace(batch, TEXT("a"), TEXT("4"), 0));
  OK(icecore_batch_replace(batch, TEXT("a"), TEXT("4"), 2));
  OK(icecore_batch_insert_new(batch, TEXT("b"), TEXT("4")));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_apply(store, batch, &version));
  OK(icecore_apply_if(store, batch, &version));
  CHECK(version == 2);
  OK(icecore_apply_if(store, batch, &version));
  CHECK(version == 0);
  icecore_batch_free(batch);
  OK(icecore_find(store, TEXT("b"), &value));
  CHECK(value_is(&value, "4"));
  OK(icecore_close(store));
}

void every_index_can_be_asked_for(void) {
  for (int index = ICECORE_INDEX_BTREE; index <= ICECORE_INDEX_HASH; ++index) {
    icecore_options options;
    icecore_options_init(&options, sizeof options);
    options.index = index;
    icecore_store* store;
    OK(icecore_open(fresh_path("index.ice"), &options, &store));
    OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
    icecore_statistics now = {.struct_size = sizeof now};
    OK(icecore_stats(store, &now));
    CHECK(now.index == index);
    OK(icecore_close(store));
  }
}

void a_batch_is_applied_at_once(void) {
  icecore_store* store = new_store();
  OK(icecore_insert(store, TEXT("gone"), TEXT("1"), NULL));
  icecore_batch* batch;
  OK(icecore_batch_new(&batch));
  OK(icecore_batch_insert(batch, TEXT("a"), TEXT("1")));
  OK(icecore_batch_clear(batch));
  CHECK(icecore_batch_size(batch) == 0);
  OK(icecore_batch_insert(batch, TEXT("b"), TEXT("2")));
  OK(icecore_batch_remove(batch, TEXT("gone")));
  CHECK(icecore_batch_size(batch) == 2);
  static char long_key[65536];
  FAILS(ICECORE_KEY_TOO_LONG, icecore_batch_insert(batch, long_key, sizeof long_key, "", 0));
  FAILS(ICECORE_KEY_TOO_LONG, icecore_batch_remove(batch, long_key, sizeof long_key));
  icecore_version version;
  OK(icecore_apply(store, batch, &version));
  CHECK(version == 1);
  icecore_batch_free(batch);
  icecore_batch_free(NULL);
  icecore_value value;
  OK(icecore_find(store, TEXT("b"), &value));
  CHECK(value_is(&value, "2"));
  OK(icecore_find(store, TEXT("gone"), &value));
  CHECK(value_is(&value, NULL));
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, NULL));
  OK(icecore_close(store));
}

void tags_carry_name_note_and_time(void) {
  icecore_store* store = new_store();
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  CHECK(label.time_ns == ICECORE_TIME_NOW && label.name.size == 0 && label.note.size == 0);
  label.name.data = "epoch-1";
  label.name.size = 7;
  label.note.data = "the note";
  label.note.size = 8;
  label.time_ns = 1000;
  icecore_version closed;
  OK(icecore_tag_with(store, &label, &closed));
  CHECK(closed == 1);
  FAILS(ICECORE_TAG_EXISTS, icecore_tag_with(store, &label, &closed));
  CHECK(closed == 0);
  label.name.data = "epoch-2";
  label.note.size = 0;
  label.time_ns = ICECORE_TIME_NOW;
  OK(icecore_tag_with(store, &label, NULL));
  icecore_version clock;
  OK(icecore_clock(store, &clock));
  CHECK(clock == 3);

  icecore_tag* tag;
  OK(icecore_find_tag(store, TEXT("epoch-1"), &tag));
  CHECK(tag->version == 1 && tag->time_ns == 1000 && holds(tag->name, "epoch-1") && holds(tag->note, "the note"));
  icecore_tag_free(tag);
  OK(icecore_find_tag(store, TEXT("epoch-3"), &tag));
  CHECK(tag == NULL);
  icecore_tag_free(tag);
  OK(icecore_find_tag_of_version(store, 2, &tag));
  CHECK(holds(tag->name, "epoch-2") && tag->time_ns > 1700000000000000000 && tag->note.size == 0);
  icecore_tag_free(tag);
  OK(icecore_find_tag_at_time(store, 1001, &tag));
  CHECK(tag->version == 1);
  icecore_tag_free(tag);
  OK(icecore_find_tag_at_time(store, 999, &tag));
  CHECK(tag == NULL);

  icecore_tags* tags;
  OK(icecore_tags_open(store, &tags));
  CHECK(icecore_tags_count(tags) == 2);
  CHECK(holds(icecore_tags_next(tags)->name, "epoch-1"));
  CHECK(holds(icecore_tags_next(tags)->name, "epoch-2"));
  CHECK(icecore_tags_next(tags) == NULL && icecore_tags_next(tags) == NULL);
  icecore_tags_close(tags);
  icecore_tags_close(NULL);
  OK(icecore_close(store));
}

void a_store_describes_itself(void) {
  icecore_store* store = new_store();
  OK(icecore_insert(store, TEXT("key"), TEXT("value"), NULL));
  OK(icecore_insert(store, TEXT("key"), TEXT("values"), NULL));
  OK(icecore_remove(store, TEXT("key"), NULL));
  OK(icecore_sync(store));
  icecore_statistics now;
  now.struct_size = sizeof now;
  OK(icecore_stats(store, &now));
  CHECK(now.struct_size == sizeof now);
  CHECK(now.keys == 1 && now.records == 3 && now.removes == 1 && now.tags == 0 && now.clock == 2);
  CHECK(now.key_bytes == 3 && now.value_bytes == 11 && now.used_bytes > 14 && now.file_bytes >= now.used_bytes);
  CHECK(now.index == ICECORE_INDEX_BTREE && now.format_major >= 1 && strlen(now.pool_id) == 32);
  CHECK(now.recovered_from_crash == 0 && now.recovery_seconds >= 0);
  icecore_durability_info info;
  info.struct_size = sizeof info;
  OK(icecore_durability(store, &info));
  CHECK(info.mode >= ICECORE_DURABILITY_NONE && info.mode <= ICECORE_DURABILITY_OPERATION && info.emulated == 0);
  CHECK(info.medium >= ICECORE_PERSISTENT_MEMORY && info.medium <= ICECORE_MEMORY);
  CHECK(strlen(info.filesystem) > 0 && strlen(info.flush_method) > 0);
  OK(icecore_close(store));

  const char* path = fresh_path("emulated.ice");
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  options.durability = ICECORE_DURABILITY_OPERATION;
  options.emulate_durability = 1;
  OK(icecore_open(path, &options, &store));
  OK(icecore_durability(store, &info));
  CHECK(info.mode == ICECORE_DURABILITY_OPERATION && info.emulated == (info.medium == ICECORE_MEMORY));
  CHECK(info.deferred == 0);
  OK(icecore_close(store));

  options.deferred_durability = 1;
  OK(icecore_open(path, &options, &store));
  OK(icecore_durability(store, &info));
  CHECK(info.deferred == 1);
  icecore_version written;
  icecore_version durable;
  OK(icecore_insert(store, TEXT("key"), TEXT("value"), &written));
  OK(icecore_durable_version(store, &durable));
  CHECK(durable < written);
  OK(icecore_sync(store));
  OK(icecore_durable_version(store, &durable));
  CHECK(durable == written);
  OK(icecore_close(store));
  options.durability = ICECORE_DURABILITY_TAG;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &store));
}

static void count_progress(void* context, const char* what, uint64_t done, uint64_t total, const char* unit) {
  CHECK(what != NULL && unit != NULL && (total == 0 || done <= total));
  ++*(int*)context;
}

void verify_finds_damage_and_names_it(void) {
  const char* path = fresh_path("verify.ice");
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  for (int i = 0; i < 100; ++i) OK(icecore_insert(store, &i, sizeof i, TEXT("a value to be damaged"), NULL));
  icecore_verify_report* report;
  int calls = 0;
  OK(icecore_verify(store, count_progress, &calls, &report));
  CHECK(report->damage_count == 0 && report->records == 100 && report->entries == 100 && report->segments > 0);
  CHECK(report->bytes > 0 && report->tags == 0);
  icecore_verify_report_free(report);
  OK(icecore_verify_file(path, NULL, NULL, &report)); /* beside the writer */
  icecore_verify_report_free(report);
  FAILS(ICECORE_NO_SUCH_STORE, icecore_verify_file("/no store here", NULL, NULL, &report));
  CHECK(report == NULL);
  OK(icecore_close(store));
  OK(icecore_verify_file(path, count_progress, &calls, &report));
  CHECK(report->damage_count == 0);
  icecore_verify_report_free(report);

  FILE* file = fopen(path, "r+b");
  static char content[4 << 20];
  const size_t size = fread(content, 1, sizeof content, file);
  size_t place = 0;
  while (place + 8 < size && memcmp(content + place, "a value ", 8) != 0) ++place;
  fseek(file, (long)place, SEEK_SET);
  fputc('A', file);
  fclose(file);
  OK(icecore_verify_file(path, NULL, NULL, &report));
  CHECK(report->damage_count > 0);
  CHECK(report->damages[0].offset <= place && strlen(report->damages[0].what) > 0);
  CHECK(strlen(report->damages[0].structure) > 0);
  icecore_verify_report_free(report);
  icecore_verify_report_free(NULL);
  FAILS(ICECORE_DAMAGED, icecore_open(path, NULL, &store));

  icecore_options options;
  icecore_options_init(&options, sizeof options);
  options.access = ICECORE_ACCESS_READ_ONLY;
  options.accept_damage = 1;
  OK(icecore_open(path, &options, &store));
  OK(icecore_close(store));
  char damaged[4096]; /* the next fresh path takes this one's place */
  snprintf(damaged, sizeof damaged, "%s", path);
  const char* repaired = fresh_path("repaired.ice");
  icecore_repair_report* outcome;
  OK(icecore_repair(damaged, repaired, count_progress, &calls, &outcome));
  CHECK(outcome->loss_count == 1 && outcome->keys == 99 && outcome->records == 99 && outcome->tags == 0);
  CHECK(outcome->losses[0].offset <= place && strlen(outcome->losses[0].what) > 0 &&
        outcome->losses[0].key.data == NULL);
  CHECK(outcome->repaired_count == 0 && outcome->unknown_count == 0 && outcome->clock == 1);
  icecore_repair_report_free(outcome);
  icecore_repair_report_free(NULL);
  FAILS(ICECORE_STORE_EXISTS, icecore_repair(damaged, repaired, NULL, NULL, &outcome));
  CHECK(outcome == NULL);
  OK(icecore_verify_file(repaired, NULL, NULL, &report));
  CHECK(report->damage_count == 0 && report->records == 99);
  icecore_verify_report_free(report);

  char secondary[4096];
  snprintf(secondary, sizeof secondary, "%s", fresh_path("repaired-1.ice"));
  const icecore_placement placement = {secondary, -1};
  const char* of_two = fresh_path("of-two.ice");
  OK(icecore_repair_files(damaged, NULL, 0, of_two, &placement, 1, NULL, NULL, &outcome));
  CHECK(outcome->keys == 99);
  icecore_repair_report_free(outcome);
  char moved[4200];
  snprintf(moved, sizeof moved, "%s.moved", secondary);
  CHECK(rename(secondary, moved) == 0);
  OK(icecore_verify_file(of_two, NULL, NULL, &report));
  CHECK(report->damage_count > 0);
  icecore_verify_report_free(report);
  const icecore_placement there = {moved, -1};
  OK(icecore_verify_files(of_two, &there, 1, NULL, NULL, &report));
  CHECK(report->damage_count == 0);
  icecore_verify_report_free(report);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_verify_files(of_two, NULL, 1, NULL, NULL, &report));
  const icecore_placement nowhere = {NULL, -1};
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_repair_files(of_two, &nowhere, 1, moved, NULL, 0, NULL, NULL, &outcome));
  FAILS(ICECORE_NO_SUCH_STORE, icecore_verify_file(fresh_path("nothing.ice"), NULL, NULL, &report));
}

void a_checkpoint_holds_one_instant_and_nothing_later(void) {
  icecore_store* store = new_store();
  icecore_checkpoint* checkpoint;
  OK(icecore_insert(store, TEXT("a"), TEXT("1"), NULL));
  OK(icecore_tag_now(store, NULL));
  OK(icecore_insert(store, TEXT("a"), TEXT("2"), NULL));
  OK(icecore_checkpoint_now(store, &checkpoint));
  OK(icecore_insert(store, TEXT("a"), TEXT("3"), NULL));
  CHECK(icecore_checkpoint_version(checkpoint) == 2 && icecore_checkpoint_bytes(checkpoint) > 0);
  const char* path = fresh_path("checkpoint.ice");
  int calls = 0;
  OK(icecore_checkpoint_write(checkpoint, path, count_progress, &calls));
  CHECK(calls > 0);
  FAILS(ICECORE_STORE_EXISTS, icecore_checkpoint_write(checkpoint, path, NULL, NULL));
  icecore_store* copy;
  icecore_value value;
  OK(icecore_open(path, NULL, &copy)); /* while the other is open */
  OK(icecore_find(copy, TEXT("a"), &value));
  CHECK(value_is(&value, "2"));
  OK(icecore_find_at(copy, TEXT("a"), 1, &value));
  CHECK(value_is(&value, "1"));
  icecore_version clock;
  OK(icecore_clock(copy, &clock));
  CHECK(clock == 3);
  OK(icecore_close(copy));
  char nowhere[4200];
  snprintf(nowhere, sizeof nowhere, "%s/nowhere/x.ice", folder());
  FAILS(ICECORE_IO, icecore_checkpoint_write(checkpoint, nowhere, NULL, NULL));
  icecore_checkpoint_free(checkpoint);
  icecore_checkpoint_free(NULL);
  OK(icecore_find(store, TEXT("a"), &value));
  CHECK(value_is(&value, "3"));
  OK(icecore_close(store));
}

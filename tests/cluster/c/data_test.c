/* Writing and finding, tags, snapshots, cursors, histories. */
#include "tests.h"

void every_rank_reads_what_every_rank_wrote(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_version version, clock;
  icecore_bytes value;
  int present;
  const char* mine = text("key %d", rank);
  OK(icecore_cluster_insert(cluster, TEXT(mine), TEXT(text("value %d", rank)), &version));
  OK(icecore_cluster_clock(cluster, &clock));
  CHECK(version == clock && version > 0);
  CHECK(finds(cluster, mine, text("value %d", rank)));                        /* the writer's own, staged or not */
  if (rank == 0) OK(icecore_cluster_insert(cluster, NULL, 0, NULL, 0, NULL)); /* the empty key, an empty value */
  OK(icecore_cluster_barrier(cluster, ICECORE_BARRIER_MEMORY));
  for (int other = 0; other < ranks; ++other) {
    CHECK(finds(cluster, text("key %d", other), text("value %d", other)));
    OK(icecore_cluster_contains(cluster, TEXT(text("key %d", other)), &present));
    CHECK(present == 1);
  }
  OK(icecore_cluster_find(cluster, NULL, 0, &value));
  CHECK(value.data != NULL && value.size == 0);
  icecore_cluster_values_free(&value, 1);
  CHECK(is_nothing(value));
  OK(icecore_cluster_find(cluster, TEXT("nobody's"), &value));
  CHECK(is_nothing(value));
  icecore_cluster_values_free(&value, 1);

  icecore_version closed;
  OK(icecore_cluster_tag_now(cluster, &closed));
  const char* others = text("key %d", (rank + 1) % ranks);
  OK(icecore_cluster_remove(cluster, TEXT(others), &version));
  CHECK(version == closed + 1);
  OK(icecore_cluster_barrier(cluster, ICECORE_BARRIER_STORAGE));
  OK(icecore_cluster_contains(cluster, TEXT(mine), &present));
  CHECK(present == 0);
  OK(icecore_cluster_contains_at(cluster, TEXT(mine), closed, &present));
  CHECK(present == 1);
  OK(icecore_cluster_find_at(cluster, TEXT(mine), closed, &value));
  CHECK(holds(value, text("value %d", rank)));
  icecore_cluster_values_free(&value, 1);
  OK(icecore_cluster_clock(cluster, &clock));
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_cluster_find_at(cluster, TEXT(mine), clock, &value));
  CHECK(is_nothing(value));
  OK(icecore_cluster_close(cluster));
}

enum { many = 1000 };
static char keys_room[many][16], values_room[many][16];
static icecore_bytes keys[many + 1], values[many + 1], found[many + 1];

void many_go_and_come_at_once(void) {
  icecore_cluster* cluster = new_cluster();
  for (int i = 0; i < many; ++i) {
    keys[i].data = keys_room[i];
    keys[i].size = (size_t)snprintf(keys_room[i], sizeof keys_room[i], "k%d", i);
    values[i].data = values_room[i];
    values[i].size = (size_t)snprintf(values_room[i], sizeof values_room[i], "v%d", i);
  }
  keys[many].data = "missing";
  keys[many].size = 7;
  if (rank == ranks - 1) OK(icecore_cluster_insert_many(cluster, many, keys, values, NULL));
  icecore_version closed;
  OK(icecore_cluster_tag_now(cluster, &closed));
  for (int round = 0; round < 2; ++round) {
    if (round == 0) OK(icecore_cluster_find_many(cluster, many + 1, keys, found));
    if (round == 1) OK(icecore_cluster_find_many_at(cluster, many + 1, keys, closed, found));
    for (int i = 0; i < many; ++i) CHECK(holds(found[i], values_room[i]));
    CHECK(is_nothing(found[many]));
    icecore_cluster_values_free(found, many + 1);
    CHECK(is_nothing(found[0]));
  }
  OK(icecore_cluster_find_many(cluster, 0, NULL, NULL));
  OK(icecore_cluster_insert_many(cluster, 0, NULL, NULL, NULL));
  OK(icecore_cluster_close(cluster));
}

void a_batch_takes_effect_at_its_one_owner(void) {
  icecore_cluster* cluster = new_cluster();
  const int owner = (rank + 1) % ranks;
  const char* key = key_of(cluster, owner);
  icecore_batch* batch;
  icecore_version version;
  OK(icecore_batch_new(&batch));
  OK(icecore_batch_insert(batch, TEXT(key), TEXT("1")));
  OK(icecore_cluster_apply(cluster, batch, &version));
  CHECK(version > 0 && finds(cluster, key, "1"));
  OK(icecore_batch_insert(batch, TEXT(key_of(cluster, rank)), TEXT("2")));
  if (ranks > 1) {
    FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_apply(cluster, batch, &version));
    CHECK(version == 0);
  }
  icecore_batch_free(batch);
  OK(icecore_cluster_close(cluster));
}

void the_owner_decides_about_conditions(void) {
  icecore_cluster* cluster = new_cluster();
  const char* key = key_of(cluster, (rank + 1) % ranks);
  icecore_version first, version;
  OK(icecore_cluster_insert_new(cluster, TEXT(key), TEXT("1"), &first));
  CHECK(first > 0);
  OK(icecore_cluster_insert_new(cluster, TEXT(key), TEXT("2"), &version));
  CHECK(version == 0 && finds(cluster, key, "1"));
  OK(icecore_cluster_replace(cluster, TEXT(key), TEXT("3"), first + 1, &version));
  CHECK(version == 0);
  OK(icecore_cluster_replace(cluster, TEXT(key), TEXT("3"), first, &version));
  CHECK(version > 0 && finds(cluster, key, "3"));
  icecore_batch* batch;
  OK(icecore_batch_new(&batch));
  OK(icecore_batch_insert_new(batch, TEXT(key), TEXT("4")));
  OK(icecore_batch_insert(batch, TEXT(key), TEXT("5")));
  OK(icecore_cluster_apply_if(cluster, batch, &version));
  CHECK(version == 0 && finds(cluster, key, "3"));
  icecore_batch_free(batch);
  OK(icecore_cluster_close(cluster));
}

void a_tag_is_the_same_on_all_ranks(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_version first, second;
  OK(icecore_cluster_tag_now(cluster, &first));
  CHECK(first > 0 && first == of_rank_0(first));
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  label.name.data = "noon";
  label.name.size = 4;
  label.note.data = "warm";
  label.note.size = 4;
  label.time_ns = 12;
  OK(icecore_cluster_tag_with(cluster, &label, &second));
  CHECK(second == first + 1);
  FAILS(ICECORE_TAG_EXISTS, icecore_cluster_tag_with(cluster, &label, &second));
  CHECK(second == 0);
  icecore_tag* tag;
  OK(icecore_cluster_find_tag(cluster, TEXT("noon"), &tag));
  CHECK(tag->version == first + 1 && tag->time_ns == 12 && holds(tag->name, "noon") && holds(tag->note, "warm"));
  icecore_tag_free(tag);
  OK(icecore_cluster_find_tag(cluster, TEXT("night"), &tag));
  CHECK(tag == NULL);
  icecore_tags* tags;
  OK(icecore_cluster_tags_open(cluster, &tags));
  CHECK(icecore_tags_count(tags) == 1);
  CHECK(holds(icecore_tags_next(tags)->name, "noon") && icecore_tags_next(tags) == NULL);
  icecore_tags_close(tags);
  OK(icecore_cluster_close(cluster));
}

void a_snapshot_shows_one_version_of_all_ranks(void) {
  icecore_cluster* cluster = new_cluster();
  const char* mine = text("key %d", rank);
  OK(icecore_cluster_insert(cluster, TEXT(mine), TEXT("old"), NULL));
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  label.name.data = "before";
  label.name.size = 6;
  icecore_version closed;
  OK(icecore_cluster_tag_with(cluster, &label, &closed));
  OK(icecore_cluster_insert(cluster, TEXT(mine), TEXT("new"), NULL));
  OK(icecore_cluster_insert(cluster, TEXT(text("another %d", rank)), TEXT("new"), NULL));

  icecore_cluster_snapshot *by_version, *by_tag;
  OK(icecore_cluster_at_version(cluster, closed, &by_version));
  OK(icecore_cluster_at_tag(cluster, TEXT("before"), &by_tag));
  CHECK(icecore_cluster_snapshot_version(by_tag) == closed);
  CHECK(icecore_cluster_snapshot_version(by_version) == closed);
  uint64_t size;
  OK(icecore_cluster_snapshot_size(by_tag, &size));
  CHECK(size == (uint64_t)ranks);
  icecore_bytes wanted[3] = {{mine, strlen(mine)}, {"x", 1}, {"key 0", 5}}, values_found[3];
  OK(icecore_cluster_snapshot_find(by_tag, wanted[2].data, wanted[2].size, values_found));
  CHECK(holds(values_found[0], "old"));
  icecore_cluster_values_free(values_found, 1);
  OK(icecore_cluster_snapshot_find_many(by_version, 3, wanted, values_found));
  CHECK(holds(values_found[0], "old") && is_nothing(values_found[1]) && holds(values_found[2], "old"));
  icecore_cluster_values_free(values_found, 3);
  icecore_cluster_snapshot_close(by_version);
  icecore_cluster_snapshot_close(by_tag);
  FAILS(ICECORE_UNKNOWN_TAG, icecore_cluster_at_tag(cluster, TEXT("after"), &by_tag));
  CHECK(by_tag == NULL);
  FAILS(ICECORE_VERSION_NOT_CLOSED, icecore_cluster_at_version(cluster, closed + 1, &by_tag));
  icecore_cluster_snapshot_close(NULL);
  OK(icecore_cluster_close(cluster));
}

void cursors_walk_all_ranks_in_key_order(void) {
  icecore_cluster* cluster = new_cluster();
  for (int i = rank; i < 100; i += ranks) {
    OK(icecore_cluster_insert(cluster, TEXT(text("item %02d", i)), TEXT(text("%d", i)), NULL));
  }
  icecore_version closed;
  icecore_cluster_snapshot* snapshot;
  icecore_cluster_cursor* cursor;
  OK(icecore_cluster_tag_now(cluster, &closed));
  OK(icecore_cluster_at_version(cluster, closed, &snapshot));
  OK(icecore_cluster_cursor_open(snapshot, TEXT("item 10"), TEXT("item 20"), &cursor));
  CHECK(icecore_cluster_cursor_valid(cursor) == 0 && is_nothing(icecore_cluster_cursor_key(cursor)));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_cursor_next(cursor));
  int next = 10;
  OK(icecore_cluster_cursor_seek_first(cursor));
  for (; icecore_cluster_cursor_valid(cursor); ++next) {
    CHECK(holds(icecore_cluster_cursor_key(cursor), text("item %02d", next)));
    CHECK(holds(icecore_cluster_cursor_value(cursor), text("%d", next)));
    OK(icecore_cluster_cursor_next(cursor));
  }
  CHECK(next == 20 && icecore_cluster_cursor_status(cursor) == ICECORE_OK);
  OK(icecore_cluster_cursor_seek(cursor, TEXT("item 155")));
  CHECK(holds(icecore_cluster_cursor_key(cursor), "item 16"));
  OK(icecore_cluster_cursor_seek(cursor, TEXT("a")));
  CHECK(holds(icecore_cluster_cursor_key(cursor), "item 10"));
  icecore_cluster_cursor_close(cursor);
  OK(icecore_cluster_cursor_open_prefix(snapshot, TEXT("item 9"), &cursor));
  OK(icecore_cluster_cursor_seek_first(cursor));
  CHECK(holds(icecore_cluster_cursor_key(cursor), "item 90"));
  icecore_cluster_cursor_close(cursor);
  OK(icecore_cluster_cursor_open(snapshot, NULL, 0, NULL, 0, &cursor));
  OK(icecore_cluster_cursor_seek(cursor, TEXT("j")));
  CHECK(icecore_cluster_cursor_valid(cursor) == 0);
  icecore_cluster_cursor_close(cursor);
  icecore_cluster_cursor_close(NULL);
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

void histories_of_clusters_run_from_either_end(void) {
  icecore_cluster* cluster = new_cluster();
  const int writer = ranks - 1;
  if (rank == writer) OK(icecore_cluster_insert(cluster, TEXT("key"), TEXT("1"), NULL));
  icecore_version first;
  OK(icecore_cluster_tag_now(cluster, &first));
  if (rank == writer) OK(icecore_cluster_remove(cluster, TEXT("key"), NULL));
  OK(icecore_cluster_barrier(cluster, ICECORE_BARRIER_MEMORY));
  icecore_cluster_history* history;
  icecore_change change;
  for (int order = ICECORE_NEWEST_FIRST; order <= ICECORE_OLDEST_FIRST; ++order) {
    OK(icecore_cluster_history_open(cluster, TEXT("key"), order, &history));
    CHECK(icecore_cluster_history_count(history) == 2);
    for (int i = 0; i < 2; ++i) {
      OK(icecore_cluster_history_next(history, &change));
      const int removed = i == order;
      CHECK(change.version == first + (removed ? 1 : 0));
      CHECK(removed ? is_nothing(change.value) : holds(change.value, "1"));
    }
    OK(icecore_cluster_history_next(history, &change));
    CHECK(change.version == 0 && is_nothing(change.value));
    icecore_cluster_history_close(history);
  }
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_history_open(cluster, TEXT("key"), 2, &history));
  icecore_cluster_history_close(NULL);
  OK(icecore_cluster_close(cluster));
}

/* Changes and feeds. */
#include "check.h"
#include "tests.h"

enum { versions = 5, keys_of_version = 40 };

static void write_version(icecore_store* store, int number) {
  for (int i = 0; i < keys_of_version; ++i) {
    char key[16];
    snprintf(key, sizeof key, "k%03d", (i * 7 + number) % 60);
    OK(icecore_insert(store, TEXT(key), key + 1, 3, NULL));
  }
  OK(icecore_remove(store, "k001", 4, NULL));
  OK(icecore_tag_now(store, NULL));
  OK(icecore_sync(store));
}

/* Tells what is there; returns how many changes there are, and checks their order. */
static int tell(icecore_feed* feed, size_t max, int acknowledge) {
  int count = 0;
  icecore_version last = 0;
  for (;;) {
    icecore_feed_batch* batch;
    OK(icecore_feed_next(feed, max, 0, &batch));
    const size_t n = batch->count;
    CHECK(n <= max);
    for (size_t i = 0; i < n; ++i) {
      CHECK(batch->changes[i].version >= last && batch->changes[i].key.size == 4);
      CHECK(batch->changes[i].value.data != NULL || batch->changes[i].before.data != NULL);
      last = batch->changes[i].version;
    }
    if (acknowledge) OK(icecore_feed_acknowledge(feed, batch->token.data, batch->token.size));
    icecore_feed_batch_free(batch);
    count += (int)n;
    if (n == 0 || acknowledge) return count;
  }
}

static int changes_between(icecore_store* store, icecore_version after, icecore_version up_to,
                           const icecore_filter* filter) {
  icecore_changes* changes;
  OK(icecore_changes_open(store, after, up_to, filter, &changes));
  int count = 0;
  for (icecore_key_change change;; ++count) {
    OK(icecore_changes_next(changes, &change));
    if (change.key.data == NULL) break;
    CHECK(change.version > after && change.version <= up_to);
  }
  icecore_changes_close(changes);
  return count;
}

void changes_match_by_what_they_change(void) {
  icecore_store* store = new_store();
  for (int v = 1; v <= versions; ++v) write_version(store, v);
  icecore_filter* filter;
  OK(icecore_filter_new("removed", NULL, &filter));
  const int removed = changes_between(store, 0, versions, filter);
  CHECK(removed > 0 && removed < versions + 1);
  icecore_filter_free(filter);
  OK(icecore_filter_new("first", NULL, &filter));
  CHECK(changes_between(store, 0, versions, filter) == 60);
  icecore_filter_free(filter);
  CHECK(changes_between(store, 2, 3, NULL) >= keys_of_version);
  icecore_changes* changes;
  CHECK(icecore_changes_open(store, 3, 2, NULL, &changes) == ICECORE_INVALID_ARGUMENT && changes == NULL);
  OK(icecore_close(store));
}

void a_feed_goes_on_where_it_was_acknowledged(void) {
  const char* path = fresh_path("fed.ice");
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  for (int v = 1; v <= versions; ++v) write_version(store, v);
  const int all = changes_between(store, 0, versions, NULL);
  icecore_feed_request what;
  icecore_feed_request_init(&what, sizeof what);
  CHECK(what.after == ICECORE_VERSION_PRESENT);
  what.name.data = "mirror";
  what.name.size = 6;
  what.after = 0;
  icecore_feed* feed;
  OK(icecore_feed_open(store, &what, &feed));
  CHECK(tell(feed, 50, 1) == 50);
  icecore_feed_close(feed);
  OK(icecore_close(store));
  OK(icecore_open(path, NULL, &store));
  OK(icecore_feed_open(store, &what, &feed));
  CHECK(tell(feed, 30, 0) == all - 50);
  icecore_feed_batch* batch;
  CHECK(icecore_feed_next(feed, 0, 0, &batch) == ICECORE_INVALID_ARGUMENT && batch == NULL);
  icecore_feed_close(feed);
  OK(icecore_feed_drop(store, "mirror", 6));
  CHECK(icecore_feed_drop(store, "mirror", 6) == ICECORE_NO_SUCH_QUERY);
  OK(icecore_close(store));
}

void a_feed_without_a_name_goes_on_behind_its_token(void) {
  icecore_store* store = new_store();
  write_version(store, 1);
  icecore_feed_request what;
  icecore_feed_request_init(&what, sizeof what);
  what.after = 1;
  what.snapshot = 1;
  icecore_feed* feed;
  OK(icecore_feed_open(store, &what, &feed));
  icecore_feed_batch* batch;
  OK(icecore_feed_next(feed, 1000, 0, &batch));
  CHECK(batch->is_snapshot && batch->count > 0 && batch->count <= keys_of_version);
  icecore_feed_close(feed);
  write_version(store, 2);
  what.token = batch->token;
  OK(icecore_feed_open(store, &what, &feed));
  CHECK(tell(feed, 7, 0) == changes_between(store, 1, 2, NULL));
  CHECK(icecore_feed_acknowledge(feed, batch->token.data, batch->token.size) == ICECORE_INVALID_ARGUMENT);
  icecore_feed_close(feed);
  what.secret.data = "secret";
  what.secret.size = 6;
  CHECK(icecore_feed_open(store, &what, &feed) == ICECORE_BAD_TOKEN && feed == NULL); /* it is not signed */
  icecore_feed_batch_free(batch);
  what.token.size = 0;
  OK(icecore_feed_open(store, &what, &feed));
  OK(icecore_feed_next(feed, 1, 0, &batch));
  icecore_feed_close(feed);
  what.token = batch->token;
  OK(icecore_feed_open(store, &what, &feed));
  icecore_feed_close(feed);
  what.secret.size = 5;
  CHECK(icecore_feed_open(store, &what, &feed) == ICECORE_BAD_TOKEN && feed == NULL);
  icecore_feed_batch_free(batch);
  what.secret.size = 0;
  what.token.data = "no token";
  what.token.size = 8;
  CHECK(icecore_feed_open(store, &what, &feed) == ICECORE_BAD_TOKEN && feed == NULL);
  OK(icecore_close(store));
}

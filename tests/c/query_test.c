/* Kept queries. */
#include "check.h"
#include "tests.h"

enum { key_count = 3000 };

static void fill(icecore_store* store) {
  icecore_batch* batch;
  OK(icecore_batch_new(&batch));
  for (int i = 0; i < key_count; ++i) {
    char key[16];
    snprintf(key, sizeof key, "k%05d", i);
    OK(icecore_batch_insert(batch, TEXT(key), key + 5, 1));
  }
  OK(icecore_apply(store, batch, NULL));
  icecore_batch_free(batch);
  OK(icecore_tag_now(store, NULL));
}

/* Starts a query for the keys whose value is less than '3': three of ten. */
static icecore_query* started(icecore_store* store, const char* name) {
  icecore_filter* filter;
  OK(icecore_filter_new("value < '3'", NULL, &filter));
  icecore_query_request what;
  icecore_query_request_init(&what, sizeof what);
  CHECK(what.at == ICECORE_VERSION_PRESENT && what.keep == ICECORE_QUERY_KEEPS_KEYS);
  what.name.data = name;
  what.name.size = strlen(name);
  what.at = 1;
  what.where = filter;
  icecore_query* query;
  OK(icecore_query_start(store, &what, &query));
  icecore_filter_free(filter);
  return query;
}

static icecore_query_progress progress_of(const icecore_query* query) {
  icecore_query_progress progress;
  progress.struct_size = sizeof progress;
  OK(icecore_query_read_progress(query, &progress));
  return progress;
}

static int pauses(void* context, const icecore_query_progress* progress) {
  ++*(int*)context;
  CHECK(progress->state == ICECORE_QUERY_RUNNING);
  return 1;
}

void a_query_is_kept_and_goes_on_in_the_next_opening(void) {
  const char* path = fresh_path("kept.ice");
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  icecore_query* query = started(store, "audit");
  CHECK(progress_of(query).state == ICECORE_QUERY_READY);
  icecore_run_options how;
  icecore_run_options_init(&how, sizeof how);
  how.keys = 1000;
  icecore_query_progress progress;
  progress.struct_size = sizeof progress;
  OK(icecore_query_run(query, &how, &progress));
  CHECK(progress.state == ICECORE_QUERY_PAUSED && progress.examined >= 1000 && progress.examined < key_count);
  const uint64_t before = progress.rows;
  icecore_query_rows* rows;
  icecore_query_row row;
  OK(icecore_query_results(query, before, 1, &rows));
  OK(icecore_query_rows_next(rows, &row));
  CHECK(is_nothing(row.key));
  OK(icecore_query_acknowledge(query, 7));
  icecore_query_rows_close(rows);
  OK(icecore_close(store));
  CHECK(holds(icecore_query_name(query), "audit"));
  FAILS(ICECORE_CLOSED, icecore_query_run(query, NULL, NULL));
  icecore_query_free(query);

  OK(icecore_open(path, NULL, &store));
  OK(icecore_query_open(store, TEXT("audit"), NULL, 0, &query));
  CHECK(icecore_query_version(query) == 1 && icecore_query_keep(query) == ICECORE_QUERY_KEEPS_KEYS);
  CHECK(icecore_query_created_ns(query) > 0);
  uint64_t acknowledged;
  OK(icecore_query_acknowledged(query, &acknowledged));
  CHECK(acknowledged == 7 && progress_of(query).rows == before && progress_of(query).left_us >= 0);
  OK(icecore_query_results(query, before, 1, &rows));
  OK(icecore_query_rows_next(rows, &row));
  CHECK(is_nothing(row.key));
  OK(icecore_query_run(query, NULL, NULL));
  CHECK(progress_of(query).state == ICECORE_QUERY_FINISHED && progress_of(query).left_us == -1);
  uint64_t number = before; /* rows that were open before show what was found since */
  while (icecore_query_rows_next(rows, &row) == ICECORE_OK && row.key.data != NULL) {
    char wanted[16];
    snprintf(wanted, sizeof wanted, "k%05d", (int)(number / 3 * 10 + number % 3));
    CHECK(row.number == number++ && holds(row.key, wanted) && holds(row.value, wanted + 5));
  }
  CHECK(number == key_count * 3 / 10);
  icecore_query_rows_close(rows);
  OK(icecore_query_results(query, 899, 0, &rows));
  OK(icecore_query_rows_next(rows, &row));
  CHECK(holds(row.key, "k02992") && is_nothing(row.value));
  icecore_query_rows_close(rows);
  icecore_query_rows_close(NULL);
  icecore_query_free(query);
  icecore_query_free(NULL);
  OK(icecore_close(store));
}

void a_progress_function_pauses_a_query(void) {
  icecore_store* store = new_store();
  fill(store);
  icecore_query* query = started(store, "slow");
  int calls = 0;
  icecore_run_options how;
  icecore_run_options_init(&how, sizeof how);
  how.keys_per_second = 5000;
  how.on_progress = pauses;
  how.progress_context = &calls;
  FAILS(ICECORE_STOPPED, icecore_query_run(query, &how, NULL));
  CHECK(calls == 1 && progress_of(query).state == ICECORE_QUERY_PAUSED);
  OK(icecore_query_pause(query));
  OK(icecore_query_run(query, NULL, NULL));
  CHECK(progress_of(query).rows == 900 && progress_of(query).runs == 2);
  icecore_query_free(query);
  OK(icecore_close(store));
}

static int all_match(void* context, size_t count, const icecore_item* items, unsigned char* flags) {
  (void)items;
  memset(flags, 1, count);
  return *(int*)context;
}

void a_query_of_a_function_needs_it_again(void) {
  const char* path = fresh_path("function.ice");
  icecore_store* store;
  OK(icecore_open(path, NULL, &store));
  fill(store);
  int stops = 1;
  icecore_filter* all;
  icecore_filter* newer;
  OK(icecore_filter_of_function("all", 3, 1, all_match, &stops, &all));
  OK(icecore_filter_of_function("all", 3, 2, all_match, &stops, &newer));
  icecore_query_request what;
  icecore_query_request_init(&what, sizeof what);
  what.name.data = "f";
  what.name.size = 1;
  what.where = all;
  icecore_query* query;
  OK(icecore_query_start(store, &what, &query));
  FAILS(ICECORE_STOPPED, icecore_query_run(query, NULL, NULL));
  icecore_query_free(query);
  OK(icecore_close(store));

  OK(icecore_open(path, NULL, &store));
  const icecore_filter* functions[] = {newer, all};
  FAILS(ICECORE_UNKNOWN_FUNCTION, icecore_query_open(store, "f", 1, functions, 1, &query));
  OK(icecore_query_open(store, "f", 1, NULL, 0, &query));
  FAILS(ICECORE_UNKNOWN_FUNCTION, icecore_query_run(query, NULL, NULL));
  icecore_query_free(query);
  OK(icecore_query_open(store, "f", 1, functions, 2, &query));
  stops = 0;
  OK(icecore_query_run(query, NULL, NULL));
  CHECK(progress_of(query).rows == key_count);
  icecore_query_free(query);
  icecore_filter_free(all);
  icecore_filter_free(newer);
  OK(icecore_close(store));
}

void queries_are_listed_cancelled_and_dropped(void) {
  icecore_store* store = new_store();
  fill(store);
  icecore_query* one = started(store, "one");
  icecore_query_request what;
  icecore_query_request_init(&what, sizeof what);
  what.name.data = "one";
  what.name.size = 3;
  icecore_query* two;
  FAILS(ICECORE_QUERY_EXISTS, icecore_query_start(store, &what, &two));
  CHECK(two == NULL);
  what.name.data = "two";
  what.keep = ICECORE_QUERY_KEEPS_COUNT;
  OK(icecore_query_start(store, &what, &two));
  what.keep = 7;
  icecore_query* three;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_start(store, &what, &three));
  OK(icecore_query_run(two, NULL, NULL));
  CHECK(progress_of(two).rows == key_count);
  icecore_query_rows* rows;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_results(two, 0, 1, &rows));
  OK(icecore_query_cancel(one));
  CHECK(progress_of(one).state == ICECORE_QUERY_CANCELLED);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_run(one, NULL, NULL));

  icecore_queries* queries;
  OK(icecore_queries_open(store, &queries));
  CHECK(icecore_queries_count(queries) == 2);
  CHECK(holds(icecore_query_name(icecore_queries_next(queries)), "one"));
  icecore_query* listed = icecore_queries_next(queries);
  CHECK(holds(icecore_query_name(listed), "two") && icecore_queries_next(queries) == NULL);
  OK(icecore_query_drop(listed));
  icecore_queries_close(queries);
  icecore_queries_close(NULL);
  FAILS(ICECORE_NO_SUCH_QUERY, icecore_query_open(store, TEXT("two"), NULL, 0, &three));
  icecore_query_progress progress;
  progress.struct_size = sizeof progress;
  FAILS(ICECORE_NO_SUCH_QUERY, icecore_query_read_progress(two, &progress));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_cancel(NULL));
  icecore_query_free(one);
  icecore_query_free(two);
  OK(icecore_close(store));
}

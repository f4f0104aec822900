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

void columns_and_totals_are_kept(void) {
  icecore_store* store = new_store();
  fill(store);
  icecore_filter* filter;
  OK(icecore_filter_new("digit < 0x33", "digit u8", &filter));
  const char* const select[] = {"key", "digit - 0x30 as digit", "i64(substr(key, 2)) as number"};
  const icecore_query_aggregate aggregates[] = {{ICECORE_SUM, "digit - 0x30"}, {ICECORE_MIN, "f64(digit) / 3.0"}};
  icecore_query_request what;
  icecore_query_request_init(&what, sizeof what);
  what.name.data = "rows";
  what.name.size = 4;
  what.where = filter;
  what.select = select;
  what.select_count = 3;
  what.aggregates = aggregates;
  what.aggregate_count = 2;
  icecore_query* query;
  OK(icecore_query_start(store, &what, &query));
  CHECK(icecore_query_keep(query) == ICECORE_QUERY_KEEPS_ROWS);
  icecore_number number;
  OK(icecore_query_total(query, 0, &number));
  CHECK(number.type == ICECORE_NUMBER_NONE);
  OK(icecore_query_run(query, NULL, NULL));
  OK(icecore_query_total(query, 0, &number));
  CHECK(number.type == ICECORE_NUMBER_I64 && number.i64 == key_count / 10 * 3);
  OK(icecore_query_total(query, 1, &number));
  CHECK(number.type == ICECORE_NUMBER_F64 && number.f64 == 48.0 / 3.0);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_total(query, 2, &number));

  struct ArrowSchema schema;
  struct ArrowArray batch;
  OK(icecore_query_read_arrow(query, 10, 20, NULL, &schema, &batch));
  CHECK(schema.n_children == 3 && strcmp(schema.children[2]->name, "number") == 0);
  CHECK(batch.length == 20 && ((const int64_t*)batch.children[2]->buffers[1])[0] == 31);
  schema.release(&schema);
  batch.release(&batch);
  OK(icecore_query_read_arrow(query, 0, UINT64_MAX, "number >= 1000 and digit = 2", &schema, &batch));
  CHECK(batch.length == 200 && ((const int64_t*)batch.children[2]->buffers[1])[0] == 1002);
  schema.release(&schema);
  batch.release(&batch);
  FAILS(ICECORE_BAD_INPUT, icecore_query_read_arrow(query, 0, 1, "prize > 1", &schema, &batch));
  CHECK(schema.release == NULL && batch.release == NULL);
  icecore_query_rows* rows;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_results(query, 0, 1, &rows));
  icecore_query_free(query);
  what.name.size = 3;
  what.keep = 4;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_start(store, &what, &query));
  icecore_filter_free(filter);
  OK(icecore_close(store));
}

/* Fails for the key k01234, else matches all. */
static int fails_for_one(void* context, size_t count, const icecore_item* items, unsigned char* flags) {
  (void)context;
  for (size_t i = 0; i < count; ++i) {
    flags[i] = 1;
    if (holds(items[i].key, "k01234")) return 1;
  }
  return 0;
}

void a_key_that_fails_is_told_and_can_be_passed(void) {
  icecore_store* store = new_store();
  fill(store);
  icecore_filter* filter;
  icecore_filter* newer;
  OK(icecore_filter_of_function("f", 1, 1, fails_for_one, NULL, &filter));
  OK(icecore_filter_of_function("f", 1, 2, fails_for_one, NULL, &newer));
  icecore_query_request what;
  icecore_query_request_init(&what, sizeof what);
  what.name.data = "f";
  what.name.size = 1;
  what.where = filter;
  icecore_query* query;
  OK(icecore_query_start(store, &what, &query));
  icecore_query_failure failure;
  OK(icecore_query_read_failure(query, &failure));
  CHECK(is_nothing(failure.key));
  FAILS(ICECORE_STOPPED, icecore_query_run(query, NULL, NULL));
  OK(icecore_query_read_failure(query, &failure));
  CHECK(holds(failure.key, "k01234") && failure.message.size > 10 && !failure.damaged);
  icecore_run_options how;
  icecore_run_options_init(&how, sizeof how);
  how.skip_failed = 1;
  OK(icecore_query_run(query, &how, NULL));
  CHECK(progress_of(query).rows == key_count - 1);
  const icecore_query_failure* skipped;
  size_t count;
  OK(icecore_query_read_skipped(query, &skipped, &count));
  CHECK(count == 1 && holds(skipped[0].key, "k01234"));
  int rebound;
  const icecore_filter* functions[] = {newer};
  OK(icecore_query_rebound(query, &rebound));
  CHECK(!rebound);
  OK(icecore_query_rebind(query, functions, 1));
  OK(icecore_query_rebound(query, &rebound));
  CHECK(rebound);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_query_restart_part(query, 7));
  OK(icecore_query_restart_part(query, 0));
  CHECK(progress_of(query).state == ICECORE_QUERY_PAUSED && progress_of(query).rows == 0);
  OK(icecore_query_run(query, &how, NULL));
  CHECK(progress_of(query).rows == key_count - 1);
  OK(icecore_queries_prune(store, 3600, 1, &count));
  CHECK(count == 0);
  OK(icecore_queries_prune(store, 0, 0, &count));
  CHECK(count == 1);
  icecore_query_free(query);
  icecore_filter_free(filter);
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

/* Filters and what they find in a snapshot: walks, totals, columns, pages. */
#include "check.h"
#include "tests.h"

/* price f64, qty u32: keys eu/000 .. eu/199 and us/000 .. us/199; price i / 2, qty i. */
static const char* const trade = "price f64, qty u32";

static icecore_snapshot* trades(icecore_store* store) {
  icecore_batch* batch;
  OK(icecore_batch_new(&batch));
  for (uint32_t i = 0; i < 400; ++i) {
    char key[16];
    char value[12];
    const uint32_t qty = i % 200;
    const double price = qty * 0.5;
    snprintf(key, sizeof key, "%s/%03u", i < 200 ? "eu" : "us", qty);
    memcpy(value, &price, sizeof price);
    memcpy(value + 8, &qty, sizeof qty);
    OK(icecore_batch_insert(batch, TEXT(key), value, sizeof value));
  }
  OK(icecore_batch_insert(batch, TEXT("zz"), TEXT("short")));
  OK(icecore_apply(store, batch, NULL));
  icecore_batch_free(batch);
  icecore_snapshot* snapshot;
  OK(icecore_latest(store, &snapshot));
  return snapshot;
}

static icecore_filter* filter_of(const char* text) {
  icecore_filter* filter;
  OK(icecore_filter_new(text, trade, &filter));
  return filter;
}

/* Keys that end with an even digit; *context counts the calls. */
static int even_keys(void* context, size_t count, const icecore_item* items, unsigned char* flags) {
  ++*(int*)context;
  for (size_t i = 0; i < count; ++i) {
    const char last = ((const char*)items[i].key.data)[items[i].key.size - 1];
    CHECK(flags[i] == 0);
    flags[i] = (last - '0') % 2 == 0;
  }
  return 0;
}
static int stops(void* context, size_t count, const icecore_item* items, unsigned char* flags) {
  (void)context, (void)count, (void)items, (void)flags;
  return 1;
}

void filters_are_made_of_texts_functions_and_each_other(void) {
  icecore_filter* dear = filter_of("price > 10");
  char value[12] = {0};
  const double price = 10.5;
  memcpy(value, &price, sizeof price);
  int matches;
  OK(icecore_filter_matches(dear, TEXT("k"), value, sizeof value, &matches));
  CHECK(matches == 1);
  OK(icecore_filter_matches(dear, TEXT("k"), value, 7, &matches));
  CHECK(matches == 0);

  int calls = 0;
  icecore_filter* even;
  OK(icecore_filter_of_function("even", 4, 1, even_keys, &calls, &even));
  const icecore_filter* both[] = {dear, even};
  icecore_filter* joined;
  OK(icecore_filter_all_of(both, 2, &joined));
  OK(icecore_filter_matches(joined, TEXT("k2"), value, sizeof value, &matches));
  CHECK(matches == 1 && calls == 1);
  OK(icecore_filter_matches(joined, TEXT("k3"), value, sizeof value, &matches));
  CHECK(matches == 0 && calls == 2);
  icecore_filter_free(joined);
  OK(icecore_filter_any_of(both, 2, &joined));
  OK(icecore_filter_matches(joined, TEXT("k3"), value, sizeof value, &matches));
  CHECK(matches == 1);
  icecore_filter* named;
  OK(icecore_filter_with_layout(joined, trade, &named));
  icecore_filter_free(named);

  char* text;
  OK(icecore_filter_explain(joined, &text));
  CHECK(strstr(text, "even") != NULL);
  icecore_text_free(text);
  icecore_text_free(NULL);
  icecore_filter_free(joined);
  icecore_filter_free(even);
  icecore_filter_free(dear);
  icecore_filter_free(NULL);

  FAILS(ICECORE_BAD_INPUT, icecore_filter_new("prise > 10", trade, &dear));
  CHECK(dear == NULL && strstr(icecore_last_error_message(), "price") != NULL);
  FAILS(ICECORE_BAD_INPUT, icecore_filter_new("key > 'a'", "price f65", &dear));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_filter_new(NULL, NULL, &dear));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_filter_of_function("f", 1, 1, NULL, NULL, &dear));
}

void a_filtered_walk_and_totals_agree(void) {
  icecore_store* store = new_store();
  icecore_snapshot* snapshot = trades(store);
  icecore_filter* filter = filter_of("starts_with(key, 'eu/') and qty >= 190");
  icecore_filtered_items* items;
  OK(icecore_snapshot_where(snapshot, filter, &items));
  icecore_item item;
  uint64_t found = 0;
  uint32_t sum = 0;
  while (icecore_filtered_items_next(items, &item) == ICECORE_OK && item.key.data != NULL) {
    uint32_t qty;
    memcpy(&qty, (const char*)item.value.data + 8, sizeof qty);
    CHECK(qty == 190 + found++);
    sum += qty;
  }
  OK(icecore_filtered_items_next(items, &item));
  CHECK(is_nothing(item.key) && found == 10);
  icecore_filtered_items_close(items);
  char* text;
  OK(icecore_snapshot_explain(snapshot, filter, &text));
  CHECK(strstr(text, "order: by key") != NULL);
  icecore_text_free(text);
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_snapshot_explain(snapshot, NULL, &text));
  CHECK(text == NULL);
  for (unsigned threads = 0; threads < 3; ++threads) {
    uint64_t count;
    OK(icecore_snapshot_count(snapshot, filter, threads, &count));
    CHECK(count == found);
    icecore_number number;
    OK(icecore_snapshot_sum(snapshot, filter, "qty", threads, &number));
    CHECK(number.type != ICECORE_NUMBER_F64 && number.i64 == sum && number.u64 == sum && number.f64 == sum);
    OK(icecore_snapshot_min(snapshot, filter, "-qty", threads, &number));
    CHECK(number.type == ICECORE_NUMBER_I64 && number.i64 == -199 && number.u64 == 0);
    OK(icecore_snapshot_max(snapshot, filter, "price", threads, &number));
    CHECK(number.type == ICECORE_NUMBER_F64 && number.f64 == 99.5);
    FAILS(ICECORE_BAD_INPUT, icecore_snapshot_max(snapshot, filter, "prise", threads, &number));
    CHECK(number.type == ICECORE_NUMBER_NONE);
  }
  icecore_filter* none = filter_of("key < ''");
  icecore_number number;
  OK(icecore_snapshot_sum(snapshot, none, "qty", 1, &number));
  CHECK(number.type == ICECORE_NUMBER_NONE);
  icecore_filter_free(none);
  OK(icecore_snapshot_where(snapshot, filter, &items));
  OK(icecore_close(store));
  FAILS(ICECORE_CLOSED, icecore_filtered_items_next(items, &item));
  FAILS(ICECORE_CLOSED, icecore_filtered_items_next(items, &item));
  icecore_filtered_items_close(items);
  icecore_filter_free(filter);
  icecore_snapshot_close(snapshot);
}

void columns_are_arrow_record_batches(void) {
  icecore_store* store = new_store();
  icecore_snapshot* snapshot = trades(store);
  icecore_filter* filter = filter_of("key >= 'us/198'");
  const char* const select[] = {"key", "price", "qty", "-qty as less", "qty > 198 as many"};
  struct ArrowSchema schema;
  struct ArrowArray batch;
  OK(icecore_snapshot_extract_arrow(snapshot, filter, select, 5, 2, &schema, &batch));
  OK(icecore_close(store)); /* what was exported stays */
  CHECK(strcmp(schema.format, "+s") == 0 && schema.n_children == 5 && batch.n_children == 5 && batch.length == 3);
  static const char* const formats[] = {"Z", "g", "", "l", "b"};
  for (int i = 0; i < 5; ++i) {
    CHECK(strcmp(schema.children[i]->format, formats[i]) == 0 || i == 2);
    CHECK(schema.children[i]->flags == ARROW_FLAG_NULLABLE && batch.children[i]->length == 3);
    CHECK(batch.children[i]->null_count == (i == 0 ? 0 : 1));
  }
  CHECK(strcmp(schema.children[3]->name, "less") == 0);
  const int64_t* ends = batch.children[0]->buffers[1];
  CHECK(ends[0] == 0 && ends[3] == 14 && memcmp(batch.children[0]->buffers[2], "us/198us/199zz", 14) == 0);
  CHECK(batch.children[0]->buffers[0] == NULL);
  CHECK((*(const unsigned char*)batch.children[1]->buffers[0] & 7) == 3);
  CHECK(((const double*)batch.children[1]->buffers[1])[1] == 99.5);
  CHECK(((const int64_t*)batch.children[3]->buffers[1])[0] == -198);
  CHECK((*(const unsigned char*)batch.children[4]->buffers[1] & 3) == 2);

  struct ArrowArray moved = *batch.children[1]; /* a child may outlive its parent */
  batch.children[1]->release = NULL;
  batch.release(&batch);
  CHECK(batch.release == NULL);
  CHECK(((const double*)moved.buffers[1])[0] == 99);
  moved.release(&moved);
  schema.release(&schema);
  CHECK(schema.release == NULL);

  FAILS(ICECORE_CLOSED, icecore_snapshot_extract_arrow(snapshot, filter, select, 5, 2, &schema, &batch));
  CHECK(schema.release == NULL && batch.release == NULL);
  icecore_filter_free(filter);
  icecore_snapshot_close(snapshot);
}

void pages_follow_each_other_by_tokens(void) {
  icecore_store* store = new_store();
  icecore_snapshot* snapshot = trades(store);
  icecore_filter* filter = filter_of("qty < 10");
  icecore_page_limits limits;
  icecore_page_limits_init(&limits, sizeof limits);
  CHECK(limits.matches == 1000);
  for (limits.reverse = 0; limits.reverse < 2; ++limits.reverse) {
    limits.matches = 3;
    char token[256];
    size_t token_size = 0;
    size_t count = 0;
    for (int end = 0; !end;) {
      icecore_page* page;
      OK(icecore_snapshot_page(snapshot, filter, &limits, token, token_size, &page));
      CHECK(page->count <= 3 && page->token.size <= sizeof token);
      if (count == 0) CHECK(holds(page->items[0].key, limits.reverse ? "us/009" : "eu/000"));
      count += page->count;
      memcpy(token, page->token.data, token_size = page->token.size);
      end = page->end;
      CHECK(end == (token_size == 0));
      icecore_page_free(page);
    }
    CHECK(count == 20);
  }
  icecore_page* page;
  OK(icecore_snapshot_page(snapshot, filter, NULL, NULL, 0, &page));
  CHECK(page->count == 20 && page->end && page->examined >= 20);
  icecore_page_free(page);
  icecore_page_free(NULL);
  limits.reverse = 0;
  limits.examined = 5;
  OK(icecore_snapshot_page(snapshot, filter, &limits, NULL, 0, &page));
  CHECK(page->examined == 3 || page->examined == 5);
  icecore_filter* other = filter_of("qty < 11");
  icecore_page* refused;
  FAILS(ICECORE_BAD_TOKEN,
        icecore_snapshot_page(snapshot, other, &limits, page->token.data, page->token.size, &refused));
  CHECK(refused == NULL);
  icecore_page_free(page);
  icecore_filter_free(other);
  icecore_filter_free(filter);
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

void a_filter_function_can_stop_a_scan(void) {
  icecore_store* store = new_store();
  icecore_snapshot* snapshot = trades(store);
  int calls = 0;
  icecore_filter* even;
  OK(icecore_filter_of_function("even", 4, 1, even_keys, &calls, &even));
  uint64_t count;
  OK(icecore_snapshot_count(snapshot, even, 1, &count));
  CHECK(count == 201 && calls > 0 && calls < 100);
  icecore_filter_free(even);
  icecore_filter* stopping;
  OK(icecore_filter_of_function("stops", 5, 1, stops, NULL, &stopping));
  FAILS(ICECORE_STOPPED, icecore_snapshot_count(snapshot, stopping, 2, &count));
  icecore_filtered_items* items;
  icecore_item item;
  OK(icecore_snapshot_where(snapshot, stopping, &items));
  FAILS(ICECORE_STOPPED, icecore_filtered_items_next(items, &item));
  FAILS(ICECORE_STOPPED, icecore_filtered_items_next(items, &item));
  icecore_filtered_items_close(items);
  icecore_page* page;
  FAILS(ICECORE_STOPPED, icecore_snapshot_page(snapshot, stopping, NULL, NULL, 0, &page));
  icecore_filter_free(stopping);
  icecore_snapshot_close(snapshot);
  OK(icecore_close(store));
}

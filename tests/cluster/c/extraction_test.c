/* Extraction: columns by every method, streams, finds by broadcast. */
#include "tests.h"

enum { items = 300 };

/* All items of 0 to 299, each inserted by one rank; keys of one size, values of several. */
static icecore_cluster_snapshot* filled(icecore_cluster* cluster) {
  for (int i = rank; i < items; i += ranks) {
    OK(icecore_cluster_insert(cluster, TEXT(text("item %03d", i)), TEXT(text("%d", i)), NULL));
  }
  icecore_version closed;
  icecore_cluster_snapshot* snapshot;
  OK(icecore_cluster_tag_now(cluster, &closed));
  OK(icecore_cluster_insert(cluster, TEXT(text("later %d", rank)), TEXT("1"), NULL));
  OK(icecore_cluster_at_version(cluster, closed, &snapshot));
  return snapshot;
}

static icecore_extraction_options defaults(void) {
  icecore_extraction_options options;
  icecore_extraction_options_init(&options, sizeof options);
  return options;
}

static icecore_bytes key_at(const icecore_columns* columns, size_t i) {
  const icecore_bytes key = {columns->key_bytes + columns->key_offsets[i],
                             columns->key_offsets[i + 1] - columns->key_offsets[i]};
  return key;
}

static icecore_bytes value_at(const icecore_columns* columns, size_t i) {
  const icecore_bytes value = {columns->value_bytes + columns->value_offsets[i],
                               columns->value_offsets[i + 1] - columns->value_offsets[i]};
  return value;
}

static int is_item(icecore_bytes key, icecore_bytes value, int number) {
  return holds(key, text("item %03d", number)) && holds(value, text("%d", number));
}

/* The columns are the items from `first` to before `end`, in order. */
static int are_items(const icecore_columns* columns, int first, int end) {
  if (columns->count != (size_t)(end - first)) return 0;
  for (int i = first; i < end; ++i) {
    if (!is_item(key_at(columns, (size_t)(i - first)), value_at(columns, (size_t)(i - first)), i)) return 0;
  }
  return 1;
}

static int at_root(const icecore_cluster_snapshot* snapshot, int method, const icecore_extraction_options* options,
                   int first, int end) {
  icecore_columns* columns;
  OK(icecore_cluster_snapshot_columns(snapshot, method, options, &columns));
  const int root = options == NULL ? 0 : options->root;
  const int as_expected = rank == root ? are_items(columns, first, end) : columns->count == 0;
  icecore_columns_free(columns);
  return as_expected;
}

void columns_of_all_ranks_come_in_order_to_the_root(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  icecore_extraction_options options = defaults();
  CHECK(options.root == 0 && options.threads == 1 && options.memory_bytes_max == UINT64_MAX);
  CHECK(at_root(snapshot, ICECORE_EXTRACT_OPT_MERGE, NULL, 0, items));
  for (int method = ICECORE_EXTRACT_NAIVE_MERGE; method <= ICECORE_EXTRACT_OPT_MERGE; ++method) {
    options = defaults();
    options.root = ranks - 1;
    options.threads = 2;
    options.linear_scan = 1;
    CHECK(at_root(snapshot, method, &options, 0, items));
    options.from.data = "item 010";
    options.from.size = 8;
    CHECK(at_root(snapshot, method, &options, 10, items));
    options.to.data = "item 020";
    options.to.size = 8;
    CHECK(at_root(snapshot, method, &options, 10, 20));
    options = defaults();
    options.prefix.data = "item 1";
    options.prefix.size = 6;
    CHECK(at_root(snapshot, method, &options, 100, 200));
    options.prefix.data = "nobody's";
    CHECK(at_root(snapshot, method, &options, 0, 0));
  }
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

void columns_of_ranges_are_put_behind_each_other(void) {
  icecore_bytes splits[64];
  for (int r = 1; r < ranks; ++r) {
    splits[r - 1].data = text("item %03d", items * r / ranks);
    splits[r - 1].size = 8;
  }
  icecore_cluster_options by_ranges;
  icecore_cluster_options_init(&by_ranges, sizeof by_ranges);
  by_ranges.ownership = ICECORE_OWNERSHIP_BY_RANGES;
  by_ranges.splits = splits;
  by_ranges.split_count = (size_t)ranks - 1;
  icecore_cluster* cluster;
  OK(icecore_cluster_open(MPI_COMM_WORLD, new_path(), &by_ranges, &cluster));
  icecore_cluster_snapshot* snapshot = filled(cluster);
  CHECK(at_root(snapshot, ICECORE_EXTRACT_CONCATENATE, NULL, 0, items));
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

void gathered_columns_hold_all_and_outlive_the_cluster(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  icecore_columns* columns;
  OK(icecore_cluster_snapshot_columns(snapshot, ICECORE_EXTRACT_GATHER, NULL, &columns));
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
  CHECK(columns->count == (rank == 0 ? items : 0));
  int seen[items] = {0};
  for (size_t i = 0; i < columns->count; ++i) {
    char digits[4] = {0};
    CHECK(key_at(columns, i).size == 8);
    memcpy(digits, (const char*)key_at(columns, i).data + 5, 3);
    CHECK(is_item(key_at(columns, i), value_at(columns, i), atoi(digits)));
    CHECK(++seen[atoi(digits)] == 1);
  }
  icecore_columns_free(columns);
}

void distributed_columns_are_a_stretch_of_each_rank(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  icecore_columns* columns;
  OK(icecore_cluster_snapshot_columns(snapshot, ICECORE_EXTRACT_DISTRIBUTED, NULL, &columns));
  const int count = (int)columns->count;
  int before = 0, total = 0;
  MPI_Exscan(&count, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&count, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(total == items);
  CHECK(are_items(columns, rank == 0 ? 0 : before, (rank == 0 ? 0 : before) + count));
  icecore_columns_free(columns);
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

struct seen {
  int next;
  int calls;
  int stop_at; /* the call that asks to stop; 0: none */
  const icecore_cluster_snapshot* snapshot;
};

static int see(void* context, size_t count, const icecore_bytes* keys, const icecore_bytes* values) {
  struct seen* seen = context;
  for (size_t i = 0; i < count; ++i) CHECK(is_item(keys[i], values[i], seen->next++));
  icecore_bytes found;
  OK(icecore_cluster_snapshot_find(seen->snapshot, keys[0].data, keys[0].size, &found));
  CHECK(found.size == values[0].size && memcmp(found.data, values[0].data, found.size) == 0);
  icecore_cluster_values_free(&found, 1);
  return ++seen->calls == seen->stop_at;
}

void a_stream_hands_all_pairs_in_order_to_the_root_and_can_stop(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  icecore_extraction_options options = defaults();
  options.root = ranks - 1;
  options.memory_bytes_max = 1024 * (2 * (uint64_t)ranks + 2); /* blocks of 1 KiB */
  struct seen seen = {0, 0, 0, snapshot};
  OK(icecore_cluster_snapshot_stream(snapshot, see, &seen, &options));
  CHECK(rank == options.root ? seen.next == items && seen.calls > 1 : seen.calls == 0);
  struct seen stopped = {0, 0, 2, snapshot};
  FAILS(ICECORE_STOPPED, icecore_cluster_snapshot_stream(snapshot, see, &stopped, &options));
  CHECK(rank == options.root ? stopped.calls == 2 && stopped.next < items : stopped.calls == 0);
  CHECK(at_root(snapshot, ICECORE_EXTRACT_OPT_MERGE, NULL, 0, items)); /* and all goes on */
  struct seen all = {0, 0, 0, snapshot};
  OK(icecore_cluster_snapshot_stream(snapshot, see, &all, NULL));
  CHECK(all.next == (rank == 0 ? items : 0));
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

void a_find_by_broadcast_answers_the_root(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  icecore_bytes value;
  for (int i = 0; i < items; i += 7) {
    const int root = i % ranks;
    const char* asked = rank == root ? text("item %03d", i) : "not looked at";
    OK(icecore_cluster_snapshot_find_by_broadcast(snapshot, TEXT(asked), root, &value));
    CHECK(rank == root ? holds(value, text("%d", i)) : is_nothing(value));
    icecore_cluster_values_free(&value, 1);
  }
  OK(icecore_cluster_snapshot_find_by_broadcast(snapshot, TEXT("later 0"), 0, &value));
  CHECK(is_nothing(value));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_snapshot_find_by_broadcast(snapshot, "a", 1, ranks, &value));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_snapshot_find_by_broadcast(snapshot, NULL, 1, 0, &value));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_snapshot_find_by_broadcast(snapshot, "a", 1, 0, NULL));
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_cluster_snapshot_find_by_broadcast(NULL, "a", 1, 0, &value));
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

void extractions_that_cannot_be_fail_on_all_ranks(void) {
  icecore_cluster* cluster = new_cluster();
  icecore_cluster_snapshot* snapshot = filled(cluster);
  const int wrong = ICECORE_INVALID_ARGUMENT;
  icecore_columns* columns;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, ICECORE_EXTRACT_CONCATENATE, NULL, &columns));
  CHECK(columns == NULL);
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, -1, NULL, &columns));
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 5, NULL, &columns));
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, NULL, NULL));
  FAILS(wrong, icecore_cluster_snapshot_columns(NULL, 0, NULL, &columns));
  FAILS(wrong, icecore_cluster_snapshot_stream(snapshot, NULL, NULL, NULL));
  FAILS(wrong, icecore_cluster_snapshot_stream(NULL, see, NULL, NULL));
  icecore_extraction_options options = defaults();
  options.root = ranks;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  options = defaults();
  options.from.data = "b";
  options.to.data = "a";
  options.from.size = options.to.size = 1;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  options.prefix = options.from;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  CHECK(strstr(icecore_last_error_message(), "prefix") != NULL);
  options = defaults();
  options.memory_bytes_max = 100;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  FAILS(wrong, icecore_cluster_snapshot_stream(snapshot, see, NULL, &options));
  if (ranks > 1) {
    options = defaults();
    options.root = rank == 0 ? 0 : 1;
    FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  }
  options = defaults();
  options.struct_size = 1;
  FAILS(wrong, icecore_cluster_snapshot_columns(snapshot, 0, &options, &columns));
  CHECK(at_root(snapshot, ICECORE_EXTRACT_NAIVE_MERGE, NULL, 0, items));
  icecore_cluster_snapshot_close(snapshot);
  OK(icecore_cluster_close(cluster));
}

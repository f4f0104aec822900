/* Filters, what they find in a snapshot, kept queries, changes and feeds, for C: stands beside icecore.h, whose
 * conventions hold.
 *
 *   icecore_filter* dear;
 *   if (icecore_filter_new("price > 100.0 and name ~ 'GmbH$'", "price f64, qty u32, name bytes", &dear) != ICECORE_OK)
 *     return puts(icecore_last_error_message());
 *   uint64_t count;
 *   icecore_snapshot_count(snapshot, dear, 1, &count);
 *
 *   icecore_query_request what;                              // a query that a crash does not set back
 *   icecore_query_request_init(&what, sizeof what);
 *   what.name.data = "audit";
 *   what.name.size = 5;
 *   what.where = dear;
 *   icecore_query* query;
 *   icecore_query_start(store, &what, &query);
 *   icecore_query_run(query, NULL, NULL);                    // killed anywhere; in the next process:
 *   icecore_query_open(store, "audit", 5, NULL, 0, &query);
 *   icecore_query_run(query, NULL, NULL);                    // goes on where it was
 *
 * Expressions: docs/filters.md. ICECORE_BAD_INPUT says the position, what was expected, and the nearest name.
 * Threads: any number of threads may use a filter or a query at once. Walks, rows, feeds and lists belong to one thread
 * at a time; pages may be read by any. Callbacks: one that returns something else than 0 ends the call that evaluates
 * the filter or runs the query, which then returns ICECORE_STOPPED. A query is paused by that; icecore_query_run() goes
 * on. Costs and durability: include/icecore/filtered.hpp, include/icecore/query.hpp, include/icecore/feed.hpp.
 */
#ifndef ICECORE_ICECORE_QUERY_H
#define ICECORE_ICECORE_QUERY_H

#include "icecore/arrow.h"
#include "icecore/icecore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Filters ---------------------------------------------------------------------------------------------------- */

/* A condition on keys and values, which never changes. Release it with icecore_filter_free(): at any time, because what
 * was made with it does not need it any more. */
typedef struct icecore_filter icecore_filter;

typedef struct icecore_item {
  icecore_bytes key;
  icecore_bytes value;
} icecore_item;

/* A function of the caller that filters: sets flags[i] to 1 for each of the `count` items that match; all are 0 before.
 * Returns 0, or something else to stop. Several threads may call it at once. The items are valid during the call. */
typedef int (*icecore_filter_function)(void* context, size_t count, const icecore_item* items, unsigned char* flags);

/* The filter of an expression. layout: the columns of a value, as "price f64, qty u32, name bytes"; NULL for none. */
int icecore_filter_new(const char* expression, const char* layout, icecore_filter** filter);
/* The filter of a function, under the name and revision by which stored queries refer to it. Raise the revision
 * whenever its answers change. The context must stay valid as long as anything that was made with the filter. */
int icecore_filter_of_function(const void* name, size_t name_size, uint64_t revision, icecore_filter_function function,
                               void* context, icecore_filter** filter);
/* The filter of what all (any) of these match. Functions are asked about rows alone that cheaper filters leave open. */
int icecore_filter_all_of(const icecore_filter* const* filters, size_t count, icecore_filter** filter);
int icecore_filter_any_of(const icecore_filter* const* filters, size_t count, icecore_filter** filter);
/* The same filter with these columns for the expressions of totals and selections, if it is not of a text. */
int icecore_filter_with_layout(const icecore_filter* given, const char* layout, icecore_filter** filter);
void icecore_filter_free(icecore_filter* filter);

/* *matches: 1 if the key and the value match, else 0. Scans are many times as fast for many items. */
int icecore_filter_matches(const icecore_filter* filter, const void* key, size_t key_size, const void* value,
                           size_t value_size, int* matches);
/* The expression in normal form, the ranges of keys that are sought, and the order of evaluation, as a text that ends
 * with a zero. Release it with icecore_text_free(). */
int icecore_filter_explain(const icecore_filter* filter, char** text);
/* The same, and how this snapshot's store goes through the keys: whether it sorts them first. */
int icecore_snapshot_explain(const icecore_snapshot* snapshot, const icecore_filter* filter, char** text);
void icecore_text_free(char* text);

/* ---- What a filter finds in a snapshot -------------------------------------------------------------------------- */

/* The items that match, in key order, found as the walk goes on. Release it with icecore_filtered_items_close(), which
 * ends the validity of all its items. */
typedef struct icecore_filtered_items icecore_filtered_items;

int icecore_snapshot_where(const icecore_snapshot* snapshot, const icecore_filter* filter,
                           icecore_filtered_items** items);
/* The next match; at the end item->key.data is NULL. A walk that has failed fails again. */
int icecore_filtered_items_next(icecore_filtered_items* items, icecore_item* item);
void icecore_filtered_items_close(icecore_filtered_items* items);

/* How many items match. threads, here and below: 0 for all cores. */
int icecore_snapshot_count(const icecore_snapshot* snapshot, const icecore_filter* filter, unsigned threads,
                           uint64_t* count);

enum icecore_number_type {
  ICECORE_NUMBER_NONE = 0, /* null for each match, no match, or a sum that is out of range */
  ICECORE_NUMBER_I64 = 1,
  ICECORE_NUMBER_U64 = 2,
  ICECORE_NUMBER_F64 = 3
};

/* A number: exact in the field of its type, converted in `f64`. What does not fit into a field is 0 there. */
typedef struct icecore_number {
  int type; /* enum icecore_number_type */
  int64_t i64;
  uint64_t u64;
  double f64;
} icecore_number;

/* The sum, the least and the greatest value of an expression over the matches. It may name the columns of the filter's
 * layout. */
int icecore_snapshot_sum(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* sum);
int icecore_snapshot_min(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* least);
int icecore_snapshot_max(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* greatest);

/* A column for each of the `select_count` expressions ("key", "price * qty as total") with a value for each match, in
 * key order, as a record batch of Arrow. The caller releases both structures with their `release`; they do not need the
 * store any more. If the call fails, `release` of both is NULL. */
int icecore_snapshot_extract_arrow(const icecore_snapshot* snapshot, const icecore_filter* filter,
                                   const char* const* select, size_t select_count, unsigned threads,
                                   struct ArrowSchema* schema, struct ArrowArray* batch);

/* How much one page may take: whichever limit comes first. */
typedef struct icecore_page_limits {
  size_t struct_size;
  uint64_t matches;  /* default: 1000 */
  uint64_t examined; /* keys looked at; 0: no limit */
  uint64_t time_us;  /* microseconds; at least one key is looked at in any case; 0: no limit */
  int reverse;       /* not 0: from the last key to the first */
  /* Size not 0: tokens are signed with these bytes (HMAC-SHA-256), and others are refused. */
  const void* secret;
  size_t secret_size;
} icecore_page_limits;

/* Fills in the defaults. struct_size: sizeof(icecore_page_limits). */
void icecore_page_limits_init(icecore_page_limits* limits, size_t struct_size);

typedef struct icecore_page {
  size_t count;
  const icecore_item* items;
  icecore_bytes token; /* where the next page begins; size 0 at the end */
  uint64_t examined;   /* keys looked at for this page */
  int end;             /* not 0: nothing is left */
} icecore_page;

/* The matches behind a token's place; (NULL, 0) begins at the first key. The same token and the same limits of matches
 * and keys give the same page each time. A token never expires: it is good after a restart, on stores opened for
 * reading, and in later releases. limits: NULL for the defaults. ICECORE_BAD_TOKEN if the token is damaged, or another
 * store's, version's, filter's or direction's. Release the page with icecore_page_free(), which ends the validity of
 * its items and its token. */
int icecore_snapshot_page(const icecore_snapshot* snapshot, const icecore_filter* filter,
                          const icecore_page_limits* limits, const void* token, size_t token_size, icecore_page** page);
void icecore_page_free(icecore_page* page);

/* ---- Kept queries ----------------------------------------------------------------------------------------------- */

/* A filter over one closed version, whose progress and rows are in the store and survive a crash. Release it with
 * icecore_query_free(); the query stays in the store until icecore_query_drop(). */
typedef struct icecore_query icecore_query;

enum icecore_query_keeps {
  ICECORE_QUERY_KEEPS_COUNT = 1, /* only how many matches there are */
  ICECORE_QUERY_KEEPS_KEYS = 2,  /* the keys; a value is looked up when the row is read */
  ICECORE_QUERY_KEEPS_ROWS = 3   /* the selected columns, copied */
};

enum icecore_query_state {
  ICECORE_QUERY_READY = 1,    /* it never ran */
  ICECORE_QUERY_RUNNING = 2,  /* in this process or another one */
  ICECORE_QUERY_PAUSED = 3,   /* it ran, and can go on */
  ICECORE_QUERY_FINISHED = 4, /* all keys were examined */
  ICECORE_QUERY_CANCELLED = 5 /* it will not go on; its rows stay */
};

enum icecore_aggregate {
  ICECORE_COUNT = 1, /* values that are not null */
  ICECORE_SUM = 2,
  ICECORE_MIN = 3,
  ICECORE_MAX = 4
};

/* A total that a query keeps over its matches. */
typedef struct icecore_query_aggregate {
  int how;                /* enum icecore_aggregate */
  const char* expression; /* a number; of ICECORE_COUNT anything */
} icecore_query_aggregate;

typedef struct icecore_query_request {
  size_t struct_size;
  icecore_bytes name;          /* unique among the store's queries, 1 to 65,535 bytes */
  icecore_version at;          /* a closed version; default: ICECORE_VERSION_PRESENT */
  const icecore_filter* where; /* NULL: every key matches */
  int keep;                    /* enum icecore_query_keeps; default: keys, or rows if columns are selected */
  const char* const* select;   /* the columns that are kept: "key", "price * qty as total"; at most 256 */
  size_t select_count;
  const icecore_query_aggregate* aggregates; /* totals that are kept, whatever else is; at most 64 */
  size_t aggregate_count;
} icecore_query_request;

/* Fills in the defaults. struct_size: sizeof(icecore_query_request). */
void icecore_query_request_init(icecore_query_request* request, size_t struct_size);

/* Starts a query: when it returns, the version and the query are durable. icecore_query_run() runs it.
 * ICECORE_QUERY_EXISTS if the name is taken. ICECORE_INVALID_ARGUMENT in a process that is attached to the store,
 * unless every write is durable by itself. */
int icecore_query_start(icecore_store* store, const icecore_query_request* request, icecore_query** query);
/* The query of this name. functions: filters of functions, among which are those that the query's filter calls; the
 * process that started it has given them already. ICECORE_NO_SUCH_QUERY names the nearest name;
 * ICECORE_UNKNOWN_FUNCTION if functions are given, and one that the query calls is not among them. */
int icecore_query_open(const icecore_store* store, const void* name, size_t name_size,
                       const icecore_filter* const* functions, size_t function_count, icecore_query** query);
void icecore_query_free(icecore_query* query);

/* All queries of the store, oldest first. */
typedef struct icecore_queries icecore_queries;

int icecore_queries_open(const icecore_store* store, icecore_queries** queries); /* icecore_queries_close() releases */
size_t icecore_queries_count(const icecore_queries* queries);
/* The next query; the first call returns the first one. NULL at the end. The list owns the query. */
icecore_query* icecore_queries_next(icecore_queries* queries);
void icecore_queries_close(icecore_queries* queries);

/* What a query is; this needs no open store. */
icecore_bytes icecore_query_name(const icecore_query* query);      /* valid until the query is released */
icecore_version icecore_query_version(const icecore_query* query); /* whose answer it gives */
int icecore_query_keep(const icecore_query* query);                /* enum icecore_query_keeps */
int64_t icecore_query_created_ns(const icecore_query* query);      /* nanoseconds since 1970-01-01 UTC */

typedef struct icecore_query_progress {
  size_t struct_size;
  int state;          /* enum icecore_query_state */
  uint64_t examined;  /* keys looked at so far */
  uint64_t expected;  /* keys of the store when the query was started: about as many are to be looked at */
  uint64_t rows;      /* matches so far */
  uint64_t repeated;  /* evaluations that happened again, because a crash came before they were durable */
  uint64_t runs;      /* how often it was begun or continued */
  uint64_t worked_us; /* the time of all runs, in microseconds */
  int64_t left_us;    /* an estimate; -1: there is none */
} icecore_query_progress;

/* The caller sets progress->struct_size to sizeof(icecore_query_progress). O(parts). */
int icecore_query_read_progress(const icecore_query* query, icecore_query_progress* progress);

/* Called by the thread that runs the query, at most about ten times a second. Returns 0, or something else to pause. */
typedef int (*icecore_query_function)(void* context, const icecore_query_progress* progress);

typedef struct icecore_run_options {
  size_t struct_size;
  unsigned threads;         /* 0: all cores; default: 1 */
  uint64_t every_us;        /* progress is durable at least this often; 0: 1 ms where lines are flushed, else 100 ms */
  int every_item;           /* not 0: a chunk for each key; a crash repeats at most one evaluation a thread */
  uint64_t time_us;         /* pauses after this time; 0: no limit */
  uint64_t keys;            /* pauses after this many keys; 0: no limit */
  uint64_t keys_per_second; /* at most as many, by all threads; 0: no limit */
  icecore_query_function on_progress; /* NULL: no reports */
  void* progress_context;
  int skip_failed;  /* not 0: passes keys for which a function fails, or whose columns are too long, and lists them */
  int skip_damaged; /* not 0: passes keys whose records are damaged, and lists them */
} icecore_run_options;

/* Fills in the defaults. struct_size: sizeof(icecore_run_options). */
void icecore_run_options_init(icecore_run_options* options, size_t struct_size);

/* Runs the query, or goes on, until it is finished, paused or cancelled, and reports the progress then. Does nothing if
 * it is finished. options: NULL for the defaults. progress: NULL, or with its struct_size set. ICECORE_QUERY_BUSY,
 * naming the pid, if it runs already; ICECORE_INVALID_ARGUMENT if it was cancelled. */
int icecore_query_run(icecore_query* query, const icecore_run_options* options, icecore_query_progress* progress);

/* Ask the runner, in whatever process, to stop within 10 ms and a block of evaluations. The rows stay. */
int icecore_query_pause(icecore_query* query);
int icecore_query_cancel(icecore_query* query);
/* Takes the query out of the store and gives its space back, once no rows of it are open in this process.
 * ICECORE_QUERY_BUSY while it runs. */
int icecore_query_drop(icecore_query* query);

typedef struct icecore_query_row {
  uint64_t number;     /* from 0, in key order */
  icecore_bytes key;   /* NULL: past the last row whose number is final; valid until the rows move on */
  icecore_bytes value; /* NULL unless values were asked for; valid until the rows are closed */
} icecore_query_row;

/* The rows in key order, from the row of this number on. with_values: 0 to leave the values out. Release them with
 * icecore_query_rows_close(). ICECORE_INVALID_ARGUMENT if the query keeps no rows. */
typedef struct icecore_query_rows icecore_query_rows;

int icecore_query_results(const icecore_query* query, uint64_t from_row, int with_values, icecore_query_rows** rows);
int icecore_query_rows_next(icecore_query_rows* rows, icecore_query_row* row);
void icecore_query_rows_close(icecore_query_rows* rows);

/* What an aggregate has come to over all rows whose numbers are final: once the query is finished, over all matches.
 * Doubles are the same to the last bit for any number of threads, whatever crashed. index: in the order of the request.
 * ICECORE_INVALID_ARGUMENT if it has none of this number. O(parts). */
int icecore_query_total(const icecore_query* query, size_t index, icecore_number* total);

/* Rows [from_row, from_row + row_count) of a query that keeps columns, or as many of them as there are, as a record
 * batch of Arrow. where: NULL, or a condition over these columns by their names, such as "total > 100": then those of
 * the rows that match. The caller releases both structures; if the call fails, `release` of both is NULL. */
int icecore_query_read_arrow(const icecore_query* query, uint64_t from_row, uint64_t row_count, const char* where,
                             struct ArrowSchema* schema, struct ArrowArray* batch);

/* Keys that could not be examined. */
typedef struct icecore_query_failure {
  icecore_bytes key;     /* NULL: there is none */
  icecore_bytes message; /* what failed */
  int damaged;           /* not 0: the record is damaged; else a function failed, or the columns were too long */
} icecore_query_failure;

/* The key before which a failure has paused the query. Its texts are valid until the next call for this query, or its
 * release. */
int icecore_query_read_failure(icecore_query* query, icecore_query_failure* failure);
/* The keys that were passed, in key order; valid likewise. */
int icecore_query_read_skipped(icecore_query* query, const icecore_query_failure** failures, size_t* count);

/* Accepts functions whatever their revisions, for runs of this process; icecore_query_rebound() tells ever after. */
int icecore_query_rebind(icecore_query* query, const icecore_filter* const* functions, size_t function_count);
int icecore_query_rebound(const icecore_query* query, int* rebound);
/* Forgets what a part has kept, which is damaged (the error names it), so that icecore_query_run() computes it again.
 * ICECORE_QUERY_BUSY while it runs. */
int icecore_query_restart_part(icecore_query* query, size_t part);

/* Drops queries that were started more than older_than_s seconds ago (0: any time) and are finished or cancelled, or,
 * with unfinished not 0, do not run. dropped: NULL, or how many. */
int icecore_queries_prune(icecore_store* store, uint64_t older_than_s, int unfinished, size_t* dropped);

/* Notes durably that the consumer has done with all rows before this one; and what was noted. */
int icecore_query_acknowledge(icecore_query* query, uint64_t row);
int icecore_query_acknowledged(const icecore_query* query, uint64_t* row);

/* ---- Changes and feeds ------------------------------------------------------------------------------------------ */

/* An insert or a removal of a key. What filters read of it: docs/feeds.md. */
typedef struct icecore_key_change {
  icecore_bytes key;
  icecore_version version;
  icecore_bytes value;  /* NULL: the key was removed */
  icecore_bytes before; /* what the key showed before; NULL: it was not there */
  int first;            /* not 0: the key never had a value before */
} icecore_key_change;

/* What was written after version `after` up to `up_to` and matches, by key, then by version. filter: NULL for all.
 * Release it with icecore_changes_close(), which ends the validity of all its changes. */
typedef struct icecore_changes icecore_changes;

int icecore_changes_open(const icecore_store* store, icecore_version after, icecore_version up_to,
                         const icecore_filter* filter, icecore_changes** changes);
/* The next change; at the end change->key.data is NULL. A walk that has failed fails again. */
int icecore_changes_next(icecore_changes* changes, icecore_key_change* change);
void icecore_changes_close(icecore_changes* changes);

/* The changes from a version on, by version, then by key, each told once. One thread at a time may use a feed. Release
 * it with icecore_feed_close(); one with a name stays in the store until icecore_feed_drop(). */
typedef struct icecore_feed icecore_feed;

typedef struct icecore_feed_request {
  size_t struct_size;
  icecore_bytes name;          /* size 0: the store keeps nothing; else at most 65,535 bytes */
  icecore_version after;       /* where a new feed begins; default: ICECORE_VERSION_PRESENT, the newest closed one */
  const icecore_filter* where; /* NULL: every change matches */
  int snapshot;                /* not 0: a new feed tells the items of version `after` first */
  int unsynced;                /* not 0: tells versions that a power cut may still take */
  icecore_bytes token;         /* of a feed without a name: goes on behind it */
  /* Size not 0: tokens are signed with these bytes (HMAC-SHA-256), and others are refused. The store does not keep it.
   */
  icecore_bytes secret;
} icecore_feed_request;

/* Fills in the defaults. struct_size: sizeof(icecore_feed_request). */
void icecore_feed_request_init(icecore_feed_request* request, size_t struct_size);

/* The feed of this name goes on where it was acknowledged; if there is none, it is made. ICECORE_QUERY_EXISTS if it has
 * another filter; ICECORE_BAD_TOKEN, ICECORE_VERSION_NOT_CLOSED, ICECORE_VERSION_LOST. */
int icecore_feed_open(const icecore_store* store, const icecore_feed_request* request, icecore_feed** feed);
void icecore_feed_close(icecore_feed* feed);

typedef struct icecore_feed_batch {
  size_t count;
  const icecore_key_change* changes;
  icecore_version told; /* all changes of versions up to this one are told; 0 while the snapshot is being told */
  int is_snapshot;      /* not 0: these are items of the snapshot */
  icecore_bytes token;  /* the place behind this batch */
} icecore_feed_batch;

/* At most `max` changes that match. If there are none, waits for them at most so many microseconds, asleep; the batch
 * is then empty. Release it with icecore_feed_batch_free(), which ends the validity of its changes and its token. */
int icecore_feed_next(icecore_feed* feed, size_t max, uint64_t timeout_us, icecore_feed_batch** batch);
void icecore_feed_batch_free(icecore_feed_batch* batch);

/* Notes durably that the consumer has done with everything up to the place of this token. A place before the one that
 * is noted already changes nothing. ICECORE_INVALID_ARGUMENT if the feed has no name. */
int icecore_feed_acknowledge(icecore_feed* feed, const void* token, size_t token_size);
/* Takes the feed of this name out of the store. ICECORE_NO_SUCH_QUERY. */
int icecore_feed_drop(icecore_store* store, const void* name, size_t name_size);

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ICECORE_QUERY_H */

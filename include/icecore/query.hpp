// Queries that are kept: a filter over one closed version, whose progress and rows are in the store and survive a
// crash.
//
//   icecore::query q = s.start({.name = "audit", .at = 7, .where = dear});
//   q.run({.threads = 2});                        // killed anywhere; in the next process:
//   icecore::query again = s.query("audit");      // state, progress, rows so far: nothing is read again
//   again.run();
//   for (const auto& row : again.results()) use(row.key, row.value);
//
//   icecore::query r = s.start({.name = "sales", .where = dear, .select = {"key", "price * qty as total"},
//                               .aggregates = {{icecore::aggregate::sum, "price * qty"}}});
//   r.run();
//   r.totals();                                   // kept as it runs: the same to the last bit, whatever crashed
//   const auto columns = r.rows().read();         // as Arrow lays them out
//
// Threads: any number of threads may use one query; one of them, or of another process, runs it at a time.
// Lifetime: a query holds a pin on the store. Rows are valid as long as the range that they came from is at them.
// Durability: what was read from a query (rows, counts, progress, acknowledgements) is there after a kill, in every
//   mode, and after a power cut with operation durability on persistent memory. On block devices rows are handed out
//   when they are durable.
// Errors: errc::query_busy if it runs elsewhere, no_such_query, query_exists, no_space (paused, nothing is lost),
//   damaged, unknown_function; what a function of the caller throws pauses the query and is thrown on.
// Cost: starting O(parts log keys), at most 512 parts; running that of the scan, a chunk of rows and one fence every
//   8,192 keys; continuing O(parts), whatever was done before.
// Source: FILTER of Sa and Sutra, "Efficient Resumable Filter Queries", with versions in place of its helping.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/filter.hpp"
#include "icecore/filtered.hpp"
#include "icecore/pin.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace detail {
class kept_query;
}  // namespace detail

/// What a query keeps of each match.
enum class query_keeps : std::uint8_t {
  count = 1,  ///< only how many there are
  keys = 2,   ///< the key; its value is looked up when the row is read
  rows = 3,   ///< the selected columns, copied
};

/// How a query folds an expression over its matches; nulls are left out, and so is NaN by min and max.
enum class aggregate : std::uint8_t { count = 1, sum = 2, min = 3, max = 4 };

/// A total that a query keeps as it runs.
struct aggregate_of {
  aggregate how = aggregate::count;
  std::string expression = "true";  ///< a number; of count anything
};

enum class query_state : std::uint8_t {
  ready = 1,      ///< it never ran
  running = 2,    ///< in this process or another one
  paused = 3,     ///< it ran, and can go on
  finished = 4,   ///< all keys were examined
  cancelled = 5,  ///< it will not go on; its rows stay
};

/// What a query asks. All of it is stored; only `name` and `where` must be given.
struct query_request {
  std::string name;                      ///< unique among the store's queries, at most 65,535 bytes, not empty
  std::optional<icecore::version> at{};  ///< a closed version; empty: the present, as latest()
  filter where{};                        ///< empty: every key matches
  query_keeps keep = query_keeps::keys;  ///< `rows` if columns are selected
  /// The columns that are kept, as extract() takes them: at most 256. They may name the columns of the filter's layout.
  std::vector<std::string> select{};
  std::vector<aggregate_of> aggregates{};  ///< totals that are kept, whatever else is: at most 64
};

/// What an aggregate has come to.
struct query_total {
  aggregate how;
  std::string expression;              ///< in normal form
  std::optional<result_number> value;  ///< empty: nothing to fold, or a whole number out of -2^63 to 2^64 - 1
};

/// A column that a query keeps.
struct selected_column {
  std::string name;
  result_type type;
};

/// Which queries store::prune_queries() drops.
struct prune_options {
  std::optional<std::chrono::seconds> older_than{};  ///< only those that were started longer ago
  bool finished = true;                              ///< only those that are finished or cancelled
};

/// A key that a query could not examine.
struct query_failure {
  std::string key;
  std::string message;  ///< what the function of the caller threw, or what is damaged; at most 1,024 bytes: else its
                        ///< beginning and end
  bool damaged;         ///< the store's record is; else a function of the caller threw, or the row was too long
};

struct query_progress {
  query_state state;
  std::uint64_t examined;  ///< keys looked at so far
  std::uint64_t expected;  ///< keys of the store when the query was started: about as many are to be looked at
  std::uint64_t rows;      ///< matches so far
  std::uint64_t repeated;  ///< evaluations that happened again, because a crash came before their chunk was durable
  std::uint64_t runs;      ///< how often it was begun or continued
  std::chrono::microseconds worked;               ///< the time of all runs
  std::optional<std::chrono::microseconds> left;  ///< an estimate; empty before the first chunk
};

struct run_options {
  unsigned threads = 1;  ///< 0: all cores
  /// Progress is durable at least this often. Zero: the default, 1 ms where lines are flushed and 100 ms elsewhere.
  std::chrono::microseconds every{0};
  bool every_item = false;  ///< a chunk for each key: no evaluation but one a thread happens again after a crash
  /// Stops after this time, or after this many keys were examined (paused); empty: runs to the end.
  std::optional<std::chrono::microseconds> time{};
  std::optional<std::uint64_t> keys{};
  std::uint64_t keys_per_second = 0;  ///< at most as many, by all threads; 0: no limit
  /// Passes keys for which a function of the caller throws, or whose selected columns are too long, and lists them in
  /// query::skipped(). Else they pause the query. To find such a key, the items of a block are asked about one by one
  /// again; a failure that does not happen again then pauses the query all the same.
  bool skip_failed = false;
  bool skip_damaged = false;  ///< the same for keys whose records are damaged
  /// Called by the calling thread, at most about ten times a second. What it throws pauses the query.
  std::function<void(const query_progress&)> on_progress{};
};

/// A row of a query.
struct query_row {
  std::uint64_t number;                   ///< from 0, in key order
  std::string_view key;                   ///< valid until the iterator moves
  std::optional<std::string_view> value;  ///< as long as the range lives; empty if values were not asked for
};

/// The rows of a query, from one on: a C++ input range. Ends behind the last row whose number is final: all rows before
/// it are known. A range that was read to its end shows later rows after begin().
class query_rows : public std::ranges::view_interface<query_rows> {
 public:
  using iterator = range_iterator<query_rows, query_row>;

  query_rows(pin holds, std::shared_ptr<detail::kept_query> of, std::uint64_t from, bool with_values);
  ~query_rows();
  query_rows(query_rows&&) noexcept;
  query_rows& operator=(query_rows&&) noexcept;

  /// Seeks the first row. O(parts + log chunks).
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct reading;
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const query_row& current() const noexcept;

  std::unique_ptr<reading> reading_;
};

/// The rows of a query that keeps columns. It may be read while the query runs: rows are those whose numbers are final.
class selected_rows {
 public:
  selected_rows(pin holds, std::shared_ptr<detail::kept_query> of) noexcept
      : holds_(std::move(holds)), of_(std::move(of)) {}

  [[nodiscard]] std::vector<selected_column> columns() const;
  /// O(parts).
  [[nodiscard]] std::uint64_t size() const;
  /// Copies rows [from, from + at_most), or as many of them as there are: what export_to_arrow() takes. After where():
  /// those of them that match. O(parts + log chunks + rows).
  [[nodiscard]] std::vector<result_values> read(std::uint64_t from = 0, std::uint64_t at_most = UINT64_MAX) const;

  /// The columns by name, for filters over them: those whose names are words, such as `key` or `total`.
  [[nodiscard]] layout names() const;
  /// Of these rows those that match a filter over the columns that were kept, as where("total > 100") makes one too.
  /// The store's keys are not looked at. errc::bad_input as of a filter; invalid_argument if it reads something else.
  [[nodiscard]] selected_rows where(const filter& condition) const;
  [[nodiscard]] selected_rows where(std::string_view condition) const { return where(filter(condition, names())); }

  /// As those of a snapshot: expressions name the columns that were kept. threads: 0 for all cores. Doubles are added
  /// up in key order within the parts of the query, then over the parts, so that a sum does not depend on the threads.
  [[nodiscard]] std::uint64_t count(unsigned threads = 1) const;
  [[nodiscard]] std::optional<result_number> sum(std::string_view expression, unsigned threads = 1) const;
  [[nodiscard]] std::optional<result_number> min(std::string_view expression, unsigned threads = 1) const;
  [[nodiscard]] std::optional<result_number> max(std::string_view expression, unsigned threads = 1) const;
  [[nodiscard]] std::vector<result_values> extract(const std::vector<std::string>& select, unsigned threads = 1) const;

 private:
  [[nodiscard]] detail::kept_query& usable() const;

  pin holds_;
  std::shared_ptr<detail::kept_query> of_;
  std::optional<filter> condition_;
};

class query {
 public:
  query(pin holds, std::shared_ptr<detail::kept_query> of) noexcept : holds_(std::move(holds)), of_(std::move(of)) {}

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] icecore::version version() const;  ///< whose answer it gives
  /// errc::unknown_function if it calls a function that nobody has given in this process.
  [[nodiscard]] filter where() const;
  [[nodiscard]] query_keeps keeps() const;
  [[nodiscard]] std::chrono::system_clock::time_point created() const;
  /// Bytes from which store::start_stored() starts a query that asks the same, in any store that has its version.
  [[nodiscard]] std::vector<std::byte> stored() const;
  [[nodiscard]] query_state state() const;
  /// O(parts).
  [[nodiscard]] query_progress progress() const;

  /// Runs it, or goes on, until it is finished, paused or cancelled; returns the progress then. Does nothing if it is
  /// finished. errc::query_busy, naming the pid, if it runs already; errc::invalid_argument if it was cancelled.
  query_progress run(const run_options& how = {});

  /// The key before which it is paused, if a failure has paused it: the first one in key order. It is kept in the store
  /// until the part goes on. O(parts).
  [[nodiscard]] std::optional<query_failure> failure() const;
  /// The keys that were passed, in key order. O(chunks).
  [[nodiscard]] std::vector<query_failure> skipped() const;

  /// Accepts functions of the caller whatever their revisions, for runs of this process. rebound() tells ever after
  /// that answers of several revisions may be among the rows. errc::unknown_function if one is not given at all,
  /// query_busy while it runs.
  void rebind(const function_resolver& functions);
  [[nodiscard]] bool rebound() const;
  /// How many parts of the keys it has; errc::damaged names one by its number.
  [[nodiscard]] std::size_t parts() const noexcept;
  /// Forgets what a part has kept, so that run() computes it again; its rows are the same. errc::query_busy while it
  /// runs, invalid_argument if there is no such part, or the query was cancelled.
  void restart_part(std::size_t part);

  /// Asks the runner, in whatever process, to stop within 10 ms and a block of evaluations. The rows stay.
  void pause();
  void cancel();
  /// Takes the query away. Ranges over its rows end with errc::no_such_query when they read on; their current rows stay
  /// valid. Its space is used again once no range over rows of queries is left in any process.
  /// errc::query_busy while it runs.
  void drop();

  /// The totals over all rows whose numbers are final; once it is finished, over all matches. Whole numbers are exact.
  /// Doubles are added up in key order within a part, then over the parts: the result depends on no thread and no
  /// crash. O(parts).
  [[nodiscard]] std::vector<query_total> totals() const;

  /// The selected columns. errc::invalid_argument unless it keeps them.
  [[nodiscard]] selected_rows rows() const;
  /// Rows in key order, from the row of this number on. errc::invalid_argument unless it keeps keys.
  [[nodiscard]] query_rows results(std::uint64_t from_row = 0, bool with_values = true) const;
  /// Notes durably that the consumer has done with all rows before this one.
  void acknowledge(std::uint64_t row);
  [[nodiscard]] std::uint64_t acknowledged() const;

 private:
  [[nodiscard]] detail::kept_query& usable() const;

  pin holds_;
  std::shared_ptr<detail::kept_query> of_;
};

}  // namespace icecore

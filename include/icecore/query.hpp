// Queries that are kept: a filter over one closed version, whose progress and rows are in the store and survive a
// crash.
//
//   icecore::query q = s.start({.name = "audit", .at = 7, .where = dear});
//   q.run({.threads = 2});                        // killed anywhere; in the next process:
//   icecore::query again = s.query("audit");      // state, progress, rows so far: nothing is read again
//   again.run();
//   for (const auto& row : again.results()) use(row.key, row.value);
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
  query_keeps keep = query_keeps::keys;
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
  class iterator {
   public:
    using value_type = query_row;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit iterator(query_rows* range) noexcept : range_(range) {}
    [[nodiscard]] const query_row& operator*() const noexcept { return range_->current(); }
    [[nodiscard]] const query_row* operator->() const noexcept { return &range_->current(); }
    iterator& operator++() {
      range_->step();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.at_end(); }

   private:
    [[nodiscard]] bool at_end() const noexcept { return range_->at_end(); }

    query_rows* range_;
  };

  query_rows(pin holds, std::shared_ptr<detail::kept_query> of, std::uint64_t from, bool with_values);
  ~query_rows();
  query_rows(query_rows&&) noexcept;
  query_rows& operator=(query_rows&&) noexcept;

  /// Seeks the first row. O(parts + log chunks).
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct reading;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const query_row& current() const noexcept;

  std::unique_ptr<reading> reading_;
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
  [[nodiscard]] query_state state() const;
  /// O(parts).
  [[nodiscard]] query_progress progress() const;

  /// Runs it, or goes on, until it is finished, paused or cancelled; returns the progress then. Does nothing if it is
  /// finished. errc::query_busy, naming the pid, if it runs already; errc::invalid_argument if it was cancelled.
  query_progress run(const run_options& how = {});

  /// Asks the runner, in whatever process, to stop within 10 ms and a block of evaluations. The rows stay.
  void pause();
  void cancel();
  /// Takes the query away. Its space is used again once no range over rows of queries is left in any process.
  /// errc::query_busy while it runs.
  void drop();

  /// Rows in key order, from the row of this number on. errc::invalid_argument if it keeps no rows.
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

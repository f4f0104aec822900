// One kept query of an open store, as this process knows it.
//
// Threads: any; see catalog.hpp for what processes share.
// Lifetime: the open store's; whoever may hold it longer asks the store's pin first (query.cpp).
// Invariants:
//   R4. Rows are in key order: part by part. The number of a row is final once all parts before its own are complete.
//   R5. Aggregates are folded within a part in key order, then over the parts in order: they depend on no thread, crash
//       or machine.
#pragma once

#include <atomic>
#include <memory>

#include "query/kept/catalog.hpp"
#include "query/media/gathered.hpp"

namespace icecore::detail {

class [[gnu::visibility("hidden")]] kept_query : public std::enable_shared_from_this<kept_query> {
 public:
  kept_query(query_catalog& in, link head, std::array<std::uint64_t, 2> id, query_definition what,
             std::optional<filter> where);

  [[nodiscard]] const query_definition& definition() const noexcept { return what_; }
  /// The filter. errc::unknown_function if it calls a function that `resolve` and earlier callers do not know.
  [[nodiscard]] filter where(const function_resolver& resolve = {});
  /// What it keeps of each match.
  [[nodiscard]] kept_of_matches kept() const noexcept {
    return {what_.keeps, select_ ? &*select_ : nullptr, totals_ ? &*totals_ : nullptr,
            in_->store().hold()->index().orders_keys()};
  }
  /// Totals over the rows whose numbers are final (R5); empty if it keeps none. errc::damaged.
  [[nodiscard]] std::vector<fold_state> totals() const;
  [[nodiscard]] link head_place() const noexcept { return head_; }
  /// errc::no_such_query once it was dropped. It may be so right behind this call, but not while the lock that
  /// processes share is held; nor is its space used again while a range over its rows is there.
  void require_there() const;
  [[nodiscard]] query_catalog& catalog() const noexcept { return *in_; }

  [[nodiscard]] query_state state() const;
  /// The same of a query that is there.
  [[nodiscard]] query_state state_now() const;
  [[nodiscard]] query_phase phase() const;
  [[nodiscard]] query_progress progress() const;
  /// A range over its rows begins and ends: no query that was dropped is freed meanwhile.
  void begin_reading() const;
  void end_reading() const noexcept { readers_->end(); }
  class range {
   public:
    explicit range(const kept_query& of) : of_(&of) { of.begin_reading(); }
    ~range() { of_->end_reading(); }
    range(const range&) = delete;
    range& operator=(const range&) = delete;

   private:
    const kept_query* of_;
  };
  /// Asks the runner to stop, or sets the phase of a query that nobody runs.
  void pause();
  void cancel();
  void drop();
  [[nodiscard]] std::optional<query_failure> failure() const;
  [[nodiscard]] std::vector<query_failure> skipped() const;
  void rebind(const function_resolver& resolve);
  void restart_part(std::size_t part);
  void acknowledge(std::uint64_t row);
  [[nodiscard]] std::uint64_t acknowledged() const;
  [[nodiscard]] bool rebound() const;

  /// Rows of this part that may be shown, and whether it is complete. errc::damaged. Call this, and the two below,
  /// while a range is there, or a run.
  struct part_rows {
    std::uint64_t rows = 0;
    bool complete = false;
  };
  [[nodiscard]] part_rows rows_of(std::size_t part) const;
  [[nodiscard]] chunk_source chunks() const noexcept { return {in_->space(), head_, &checked_}; }
  [[nodiscard]] format::query_head& head() const noexcept { return in_->space().head_at(head_); }
  /// All rows of the query whose numbers are final, and whether that is all of them.
  [[nodiscard]] part_rows final_rows() const;

  /// Which query of this place it is: places are used again.
  const std::array<std::uint64_t, 2> id;
  std::atomic<bool> dropped{false};

 private:
  void require_stopped() const;

  query_catalog* in_;
  std::shared_ptr<own_readers> readers_;  // ranges may end when the store is closed already
  link head_;
  mutable checked_chunks checked_;
  query_definition what_;
  std::optional<projection> select_;
  std::optional<aggregation> totals_;
  std::optional<filter> where_;  // empty until somebody knows its functions; under the catalog's mutex
};

}  // namespace icecore::detail

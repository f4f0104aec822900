// Kept queries of a cluster: each rank keeps the part of its own keys, in its own store.
//
//   icecore::cluster_query q = c.start({.name = "audit", .where = dear});     // collective, as run() and drop() are
//   q.run({.threads = 2});                                                     // each rank runs its part
//   for (auto rows = q.results(); const auto& row : rows) ...                  // this rank's rows, in key order
//   icecore::cluster_query same = c.query("audit");                            // in a later run of the program
//
// Either all ranks have a query or none: what a crash amid start() leaves on some ranks is dropped by the next call
// that meets it. Checkpoints keep queries, and a cluster that is restored with the same ranks and ownership goes on
// where they were.
//
// Threads: one thread of each rank makes the collective calls; any thread all else.
// Lifetime: valid while the cluster is open.
// Errors: those of icecore::query; if a rank fails, all ranks throw its error, and a rank that could go on has done so.
#pragma once

#include "icecore/query.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class cluster_core;
}  // namespace mpi

class cluster_query {
 public:
  cluster_query(mpi::cluster_core& core, query part) : core_(&core), part_(std::move(part)) {}

  [[nodiscard]] const std::string& name() const { return part_.name(); }
  [[nodiscard]] icecore::version version() const { return part_.version(); }
  [[nodiscard]] filter where() const { return part_.where(); }
  [[nodiscard]] query_keeps keeps() const { return part_.keeps(); }

  /// Runs the parts of all ranks, or goes on (collective), and returns the progress of all. Limits (threads, time,
  /// keys, keys_per_second) are each rank's own, and so is on_progress.
  query_progress run(const run_options& how = {});
  /// Of all ranks together (collective): sums of keys, rows, evaluations and times worked; the greatest number of runs
  /// and time left. Finished when all parts are.
  [[nodiscard]] query_progress progress() const;
  /// Stops all parts for good; rows stay (collective).
  void cancel();
  /// Takes the query away on all ranks (collective). Do not use it afterwards.
  void drop();

  // ---- This rank's part --------------------------------------------------------------------------------------------

  /// Asks the runner of this rank's part to stop; the others go on.
  void pause() { part_.pause(); }
  [[nodiscard]] query_progress local_progress() const { return part_.progress(); }
  /// The rows of this rank's keys, numbered from 0.
  [[nodiscard]] query_rows results(std::uint64_t from_row = 0, bool with_values = true) const {
    return part_.results(from_row, with_values);
  }
  [[nodiscard]] selected_rows rows() const { return part_.rows(); }
  [[nodiscard]] std::vector<query_total> local_totals() const { return part_.totals(); }
  [[nodiscard]] std::optional<query_failure> failure() const { return part_.failure(); }
  void acknowledge(std::uint64_t row) { part_.acknowledge(row); }
  [[nodiscard]] std::uint64_t acknowledged() const { return part_.acknowledged(); }

 private:
  mpi::cluster_core* core_;
  query part_;
};

}  // namespace icecore

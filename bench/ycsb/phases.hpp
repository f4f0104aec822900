// The phases of YCSB on one map: records are loaded, then operations run. Every read is checked: it must find a value
// that was written to that key. A scan must find all pairs there are, in order, beginning with the requested key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../stores/map.hpp"
#include "histogram.hpp"
#include "workload.hpp"

namespace icecore::bench::ycsb {

struct settings {
  std::vector<std::string> workloads;    ///< names; none: all
  std::vector<std::uint64_t> records;    ///< number of loaded records; `ycsb` takes one number, empty: N
  std::uint64_t operations = 0;          ///< number for all threads in a run; 0: as many as records
  double seconds = 0;                    ///< length of a run, instead of a number of operations; 0: use that number
  std::optional<distribution> chosen{};  ///< instead of the workloads' own
  double theta = theta_default;
  std::size_t value_size = 8;
  bool settled = false;  ///< what was loaded is first brought into the form that the store reads best
};

/// By kind of operation.
using latencies = std::array<histogram, operation_kind_count>;

/// The operations of the threads of a run, prepared before the clock starts.
struct plan {
  plan(const workload& work, unsigned threads, std::uint64_t records, const settings& chosen);

  std::vector<stream> of_thread;
  std::uint64_t last_full_scan;  ///< a scan from a greater key may find fewer pairs than it asks for
};

/// One map under load.
class loaded_map {
 public:
  loaded_map(map& of, unsigned threads, std::uint64_t records, const settings& chosen);

  /// Inserts all records; returns the seconds.
  double load();

  /// A tenth of the plan.
  void warm_up(const plan& does);

  struct ran {
    double operations, seconds;
  };
  /// Runs the plan once, or repeats it for this many seconds. Single operations are not timed.
  ran run(const plan& does);
  /// The same operations again, each timed by two clock readings, so it takes longer than run().
  latencies run_timed(const plan& does);
  /// Repeats the plan for as many tenths of a second as the result has elements; returns the operations in each.
  void run_in_tenths(const plan& does, std::span<double> counts);

  /// Inserts further records until the process ends; `inserted` becomes the last inserted record plus one.
  [[noreturn]] void insert_until_killed(unsigned thread, std::uint64_t& inserted);

  /// Throws unless one thread, while no other writes, reads exactly what it has written.
  void check_writes_are_seen();

 private:
  template <typename Work>
  double in_threads(const Work& work);

  map& map_;
  unsigned threads_;
  std::uint64_t records_;
  const settings& chosen_;
  insert_counter inserts_;
};

/// Throws unless the record is there.
void check_there(map& in, std::uint64_t record, std::size_t value_size);

}  // namespace icecore::bench::ycsb

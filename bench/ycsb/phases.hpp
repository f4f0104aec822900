// The phases of YCSB on one map: records are loaded, then operations run. Every read is checked: it finds a value that
// was written to that key; a scan, as many pairs as there are, in order, beginning with the key it was asked for.
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
  std::vector<std::uint64_t> records;    ///< that are loaded; of `ycsb` one number, empty: N
  std::uint64_t operations = 0;          ///< of all threads in a run; 0: as many as records
  double seconds = 0;                    ///< of a run, in place of a number of operations; 0: that number
  std::optional<distribution> chosen{};  ///< in place of the workloads' own
  double theta = theta_default;
  std::size_t value_size = 8;
};

/// By kind of operation.
using latencies = std::array<histogram, operation_kind_count>;

/// What the threads of a run do: laid out before the clock starts.
struct plan {
  plan(const workload& work, unsigned threads, std::uint64_t records, const settings& chosen);

  std::vector<stream> of_thread;
  std::uint64_t last_full_scan;  ///< a scan from a greater key may find fewer pairs than it asks for
};

/// One map under load.
class loaded_map {
 public:
  loaded_map(map& of, unsigned threads, std::uint64_t records, const settings& chosen);

  /// Inserts all records; seconds.
  double load();

  /// A tenth of the plan.
  void warm_up(const plan& does);

  struct ran {
    double operations, seconds;
  };
  /// The plan, or for so many seconds, over and over. The clock is not looked at for single operations.
  ran run(const plan& does);
  /// The same operations again, each timed by two readings of the clock: so it takes longer than run() does.
  latencies run_timed(const plan& does);
  /// For so many tenths of a second as there are places, over and over; operations in each.
  void run_in_tenths(const plan& does, std::span<double> counts);

  /// Inserts further records until the process ends; `inserted` becomes the last that was, plus one.
  [[noreturn]] void insert_until_killed(unsigned thread, std::uint64_t& inserted);

  /// Throws unless what one thread writes while nobody else does is what it then reads.
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

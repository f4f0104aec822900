#include "suite.hpp"

#include <algorithm>
#include <stdexcept>

namespace icecore::bench {

figure& figures::add(std::string_view workload, std::uint64_t n, double operations, double seconds) {
  if (count == capacity || workload.size() >= all[0].workload.size()) {
    throw std::logic_error("too many workloads in a suite, or too long a name");
  }
  figure& added = all[count++];
  added = {.workload = {},
           .n = n,
           .operations = operations,
           .seconds = seconds,
           .bytes_per_key = 0,
           .latencies = {},
           .per_tenth = {},
           .unit = {}};
  std::ranges::copy(workload, added.workload.begin());
  return added;
}

figure& figures::add_value(std::string_view workload, std::uint64_t n, double value, std::string_view unit) {
  figure& added = add(workload, n, value, 1);
  if (unit.size() >= added.unit.size()) throw std::logic_error("too long a unit");
  std::ranges::copy(unit, added.unit.begin());
  return added;
}

std::unique_ptr<store> run::open(std::uint64_t records, std::size_t key_size, std::size_t value_size) const {
  return kind.open(
      {.folder = folder, .threads = threads, .records = records, .key_size = key_size, .value_size = value_size});
}

std::vector<suite> all_suites(const ycsb::settings& chosen) {
  return {paper_suite(),      depth_suite(), paths_suite(),      values_suite(),
          sequential_suite(), mixed_suite(), ycsb_suite(chosen), recovery_suite(chosen),
          query_suite(),      waits_suite(), deep_key_suite(),   difference_suite()};
}

}  // namespace icecore::bench

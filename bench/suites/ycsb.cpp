// YCSB's workloads: a process per workload loads records and runs operations. Measures the throughput of both phases,
// and the latencies of each kind of operation in a second run that times them.
#include "../ycsb/phases.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "suite.hpp"

namespace icecore::bench {
namespace {

using ycsb::operation_kind;

/// The approximate number of writes in the warm-up and both runs; for timed runs, more than any store here makes.
std::uint64_t operations_at_most(const ycsb::settings& chosen, std::uint64_t records, unsigned threads) {
  constexpr double rate_max = 4e6;
  if (chosen.seconds > 0) return static_cast<std::uint64_t>(2 * chosen.seconds * rate_max * threads) + records;
  const std::uint64_t operations = chosen.operations == 0 ? records : chosen.operations;
  return operations * 2 + operations / 5;
}

opening opening_for(const run& r, const ycsb::workload& work, std::uint64_t records, const ycsb::settings& chosen) {
  const auto percent = [&](operation_kind kind) { return work.percent[static_cast<std::size_t>(kind)]; };
  const std::uint64_t operations = operations_at_most(chosen, records, r.threads);
  const std::uint64_t inserts = operations * percent(operation_kind::insert) / 100;
  const std::uint64_t updates =
      operations * (percent(operation_kind::update) + percent(operation_kind::read_modify_write)) / 100;
  constexpr std::uint64_t some = 10'000;  // for the check at the end and for random variation
  return {.folder = r.folder,
          .threads = r.threads,
          .records = records + inserts + updates + some,
          .keys = records + inserts + some,
          .key_size = sizeof(std::uint64_t),
          .value_size = chosen.value_size};
}

void keep(const ycsb::latencies& taken, figure& in) {
  for (std::size_t kind = 0; kind < taken.size(); ++kind) {
    latency_figure& kept = in.latencies[kind];
    kept.count = taken[kind].count();
    for (std::size_t i = 0; i < kept.ns.size(); ++i) {
      kept.ns[i] = static_cast<double>(taken[kind].percentile(latency_figure::percents[i]));
    }
  }
}

/// Touches memory for this many records of any store: after it is freed, the host takes it back within a second or two.
void touch_for(const run& r, std::uint64_t records, const opening& how) noexcept {
  constexpr std::uint64_t of_a_record = 256, base = std::uint64_t{512} << 20;
  r.touch(base + records * (of_a_record + how.value_size));
}

/// The load is reported once, for the first workload. In each phase, every store finds memory that was touched just
/// before.
void measure(const ycsb::workload& work, std::uint64_t records, const ycsb::settings& chosen, bool tells_load,
             const run& r) {
  const opening how = opening_for(r, work, records, chosen);
  touch_for(r, records, how);
  const auto store = r.kind.open_map(how);
  ycsb::loaded_map loaded(*store, r.threads, records, chosen);
  const double load_s = loaded.load();
  if (chosen.settled) store->settle();
  if (tells_load) r.out.add("load", records, static_cast<double>(records), load_s);
  const ycsb::plan does(work, r.threads, records, chosen);
  loaded.warm_up(does);
  const std::uint64_t more = how.records - records;
  touch_for(r, more, how);
  const auto ran = loaded.run(does);
  figure& told = r.out.add(work.name, records, ran.operations, ran.seconds);
  touch_for(r, more, how);
  keep(loaded.run_timed(does), told);
  loaded.check_writes_are_seen();
}

std::vector<stage> stages(const ycsb::settings& chosen, std::uint64_t n) {
  if (chosen.records.size() > 1) throw std::invalid_argument("the suite ycsb takes one number of --records");
  const std::uint64_t records = chosen.records.empty() ? n : chosen.records.front();
  std::vector<stage> made;
  for (const ycsb::workload& work : ycsb::all_workloads()) {
    const auto& names = chosen.workloads;
    if (!names.empty() && std::ranges::find(names, work.name) == names.end()) continue;
    const bool first = made.empty();
    made.push_back(
        {.work = [&work, records, chosen, first](const run& r) { measure(work, records, chosen, first, r); }});
  }
  return made;
}

}  // namespace

suite ycsb_suite(const ycsb::settings& chosen) {
  return {.name = "ycsb",
          .what = "YCSB's workloads A to F, and updates alone, on newest values: throughput and latencies",
          .form = store_form::map,
          .prepare = [chosen](std::uint64_t n) { return stages(chosen, n); }};
}

}  // namespace icecore::bench

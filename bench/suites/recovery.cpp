// The cost of a kill: a store is filled and its process is killed during inserts; a new process opens the store.
// Measures the seconds from there to the first correct answer, then the operations in the first second compared with
// those before the kill (workload B, in tenths of a second; with more updates, stores with versions would hold several
// times as many records as keys). After S. Chowdhury, as in stores/pmemobj_skip_list.cpp, section 5.2.5.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "../ycsb/phases.hpp"
#include "suite.hpp"

namespace icecore::bench {
namespace {

constexpr unsigned threads_max = 1024;
/// More than a store writes while it is opened and in the measured second.
constexpr std::uint64_t touched_bytes = std::uint64_t{512} << 20;

struct inputs {
  inputs(std::uint64_t count, const ycsb::settings& given) : records(count), chosen(given), inserted(threads_max) {
    chosen.operations = 1'000'000;  // a second does some of them, or repeats all of them
  }

  std::uint64_t records;
  ycsb::settings chosen;
  shared_array<std::uint64_t> inserted;  // by each thread before the kill: the last record plus one
};

opening opening_for(const run& r, const inputs& in) {
  constexpr std::uint64_t updates = 2'000'000;  // in the measured seconds
  constexpr std::uint64_t inserts = 2'000'000;  // before the kill
  return {.folder = r.folder,
          .threads = r.threads,
          .records = in.records + updates + inserts,
          .keys = in.records + inserts,
          .key_size = sizeof(std::uint64_t),
          .value_size = in.chosen.value_size};
}

ycsb::plan plan_of(const inputs& in, const run& r) {
  return {ycsb::workload_of_name("B"), r.threads, in.records, in.chosen};
}

void measure_second(const inputs& in, const run& r, const char* name, ycsb::loaded_map& loaded,
                    const ycsb::plan& does) {
  constexpr double second = 1;
  figure& told = r.out.add(fmt::format("{}_{}", name, in.records), in.records, 0, second);
  loaded.run_in_tenths(does, told.per_tenth);
  told.operations = std::accumulate(told.per_tenth.begin(), told.per_tenth.end(), 0.0);
}

void fill_and_be_killed(const inputs& in, const run& r) {
  std::ranges::fill(in.inserted.all(), 0);
  // Never closed, and its threads are never joined: this process is killed when the function returns.
  map* const store = r.kind.open_map(opening_for(r, in)).release();
  auto* const loaded = new ycsb::loaded_map(*store, r.threads, in.records, in.chosen);
  loaded->load();
  const ycsb::plan does = plan_of(in, r);
  loaded->warm_up(does);
  r.touch(touched_bytes);
  measure_second(in, r, "before_kill", *loaded, does);
  for (unsigned thread = 0; thread < r.threads; ++thread) {
    std::thread([&in, loaded, thread] { loaded->insert_until_killed(thread, in.inserted[thread]); }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void reopen(const inputs& in, const run& r) {
  const opening how = opening_for(r, in);
  const ycsb::plan does = plan_of(in, r);
  r.touch(touched_bytes);
  const auto begin = std::chrono::steady_clock::now();
  const auto store = r.kind.open_map(how);
  ycsb::check_there(*store, in.records / 2, in.chosen.value_size);
  r.out.add(fmt::format("recovery_{}", in.records), in.records, 1, seconds_since(begin));
  store->check_recovered();
  ycsb::loaded_map loaded(*store, r.threads, in.records, in.chosen);
  measure_second(in, r, "after_kill", loaded, does);
  for (unsigned thread = 0; thread < r.threads; ++thread) {
    if (in.inserted[thread] != 0) ycsb::check_there(*store, in.inserted[thread] - 1, in.chosen.value_size);
  }
}

std::vector<stage> stages(const ycsb::settings& chosen, std::uint64_t n) {
  std::vector<stage> made;
  const std::vector<std::uint64_t> one = {n};
  for (const std::uint64_t records : chosen.records.empty() ? one : chosen.records) {
    const auto in = std::make_shared<const inputs>(records, chosen);
    made.push_back({.work = [in](const run& r) { fill_and_be_killed(*in, r); }});
    made.push_back({.work = [in](const run& r) { reopen(*in, r); }, .reopens = true});
  }
  return made;
}

}  // namespace

suite recovery_suite(const ycsb::settings& chosen) {
  return {.name = "recovery",
          .what = "a kill among inserts: seconds from opening to the first answer, and the first second after it",
          .form = store_form::map,
          .prepare = [chosen](std::uint64_t n) { return stages(chosen, n); }};
}

}  // namespace icecore::bench

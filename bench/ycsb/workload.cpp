#include "workload.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace icecore::bench::ycsb {
namespace {

constexpr unsigned scan_length_max = 100;

/// Draws records among as many as there are by now.
class record_chooser {
 public:
  record_chooser(distribution chosen, std::uint64_t records, std::uint64_t records_in_the_end, double theta)
      : chosen_(chosen), popular_(records_in_the_end, theta), newest_(records, theta) {}

  [[nodiscard]] std::uint64_t choose(std::uint64_t records, random_numbers& random) {
    switch (chosen_) {
      case distribution::uniform:
        return random.below(records);
      case distribution::latest:
        newest_.grow(records);
        return newest_(random);
      case distribution::zipfian:
        break;
    }
    // The popular ones do not change while records become more: as in YCSB, those not yet there are drawn again.
    for (;;) {
      if (const std::uint64_t record = popular_(random); record < records) return record;
    }
  }

 private:
  distribution chosen_;
  scrambled_zipfian popular_;
  zipfian newest_;
};

operation_kind kind_of(const workload& work, std::uint64_t percent) {
  for (std::size_t kind = 0; kind < operation_kind_count; ++kind) {
    if (percent < work.percent[kind]) return static_cast<operation_kind>(kind);
    percent -= work.percent[kind];
  }
  throw std::logic_error("the percentages of a workload do not add up to 100");
}

}  // namespace

const char* name_of(operation_kind kind) noexcept {
  constexpr std::array<const char*, operation_kind_count> names = {"read", "update", "insert", "scan",
                                                                   "read_modify_write"};
  return names[static_cast<std::size_t>(kind)];
}

const char* name_of(distribution chosen) noexcept {
  constexpr std::array<const char*, 3> names = {"uniform", "zipfian", "latest"};
  return names[static_cast<std::size_t>(chosen)];
}

const std::vector<workload>& all_workloads() {
  static const std::vector<workload> all = {
      {"A", {50, 50, 0, 0, 0}, distribution::zipfian},       {"B", {95, 5, 0, 0, 0}, distribution::zipfian},
      {"C", {100, 0, 0, 0, 0}, distribution::zipfian},       {"D", {95, 0, 5, 0, 0}, distribution::latest},
      {"E", {0, 0, 5, 95, 0}, distribution::zipfian},        {"F", {50, 0, 0, 0, 50}, distribution::zipfian},
      {"updates", {0, 100, 0, 0, 0}, distribution::zipfian},
  };
  return all;
}

const workload& workload_of_name(std::string_view name) {
  const auto found = std::ranges::find(all_workloads(), name, &workload::name);
  if (found == all_workloads().end()) throw std::invalid_argument("no such workload: " + std::string(name));
  return *found;
}

stream operations_of(const workload& work, const stream_options& how) {
  const distribution chosen = how.chosen.value_or(work.chosen);
  const std::uint64_t inserts =
      how.operations * how.threads * work.percent[static_cast<std::size_t>(operation_kind::insert)] / 100;
  const std::uint64_t in_the_end = how.records + 2 * inserts;  // YCSB's estimate of the final number
  record_chooser choose(chosen, how.records, in_the_end, how.theta);
  random_numbers random(how.seed);
  stream made{.operations = {}, .from_newest = chosen == distribution::latest};
  made.operations.reserve(how.operations);
  std::uint64_t records = how.records;
  for (std::uint64_t i = 0; i < how.operations; ++i) {
    const operation_kind kind = kind_of(work, random.below(100));
    operation next{.record = 0, .kind = kind, .scan_length = 0};
    if (kind == operation_kind::insert) {
      records = std::min(records + how.threads, in_the_end);
    } else {
      next.record = static_cast<std::uint32_t>(choose.choose(records, random));
    }
    if (kind == operation_kind::scan) next.scan_length = static_cast<std::uint8_t>(1 + random.below(scan_length_max));
    made.operations.push_back(next);
  }
  return made;
}

std::uint64_t insert_counter::next() noexcept {
  const std::uint64_t record = next_.fetch_add(1, std::memory_order_relaxed);  // no other data depends on the number
  while (record - acknowledged() >= window) std::this_thread::yield();
  return record;
}

void insert_counter::acknowledge(std::uint64_t record) noexcept {
  done_[record % window].store(true, std::memory_order_release);      // a thread that finds it true sees the insert
  if (advancing_.test_and_set(std::memory_order_acquire)) return;     // its owner, or the next one, continues
  std::uint64_t all = acknowledged_.load(std::memory_order_relaxed);  // only the flag's owner writes it
  while (done_[all % window].load(std::memory_order_acquire)) {       // passes on what its writer released
    done_[all % window].store(false, std::memory_order_relaxed);      // the flag orders it before the next owner
    ++all;
  }
  acknowledged_.store(all, std::memory_order_release);
  advancing_.clear(std::memory_order_release);
}

}  // namespace icecore::bench::ycsb

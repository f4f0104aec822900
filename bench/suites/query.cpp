// Filters and queries that are kept: the same condition by every store; what keeping costs beside filtering; what a
// kill costs. Every answer is compared with the keys that must come out.
#include "query.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <memory>

#include "../measure.hpp"
#include "../stores/icecore_filtered.hpp"
#include "phases.hpp"

namespace icecore::bench {

query_inputs::query_inputs(std::uint64_t n) : pairs_(n) {
  random_numbers random(17);
  for (std::uint64_t i = 0; i < n; ++i) {
    pairs_[i] = {random_key(i), static_cast<std::int64_t>(random.below(1'000'000))};
    if (i % 2 == 0) older_.push_back({pairs_[i].key, 999'999 - pairs_[i].number});
  }
  sorted_ = pairs_;
  std::ranges::sort(sorted_, {}, &filtered_pair::key);
}

std::string query_inputs::percent_of(std::uint64_t thousandth) {
  return thousandth < 10 ? fmt::format("0.{}", thousandth) : fmt::format("{}", thousandth / 10);
}

void query_inputs::load(filtered_store& into) const {
  into.load(older_);
  into.load(pairs_);
}

std::string query_inputs::expected(std::int64_t below) const {
  std::string keys;
  for (const filtered_pair& p : sorted_) {
    if (p.number < below) keys.append(text_of(p.key_bytes()));
  }
  return keys;
}

double cpu_seconds_so_far() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

paired_costs in_turns(unsigned pairs, const std::function<cost()>& first, const std::function<cost()>& second) {
  std::vector<double> firsts;
  std::vector<double> seconds;
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  for (unsigned i = 0; i < pairs; ++i) {
    const cost early = i % 2 == 0 ? first() : second();
    const cost late = i % 2 == 0 ? second() : first();
    const cost& one = i % 2 == 0 ? early : late;
    const cost& other = i % 2 == 0 ? late : early;
    firsts.push_back(one.seconds);
    seconds.push_back(other.seconds);
    ratios.push_back(other.seconds / one.seconds);
    cpu_ratios.push_back(other.cpu_seconds / one.cpu_seconds);
  }
  return {median(firsts), median(seconds), median(ratios), median(cpu_ratios)};
}

namespace {

constexpr unsigned scans = 3;  // of which the median counts

void filter(const query_inputs& in, const run& r, filtered_store& s) {
  std::string keys;
  for (const std::uint64_t thousandth : query_inputs::thousandths) {
    const std::int64_t below = query_inputs::bound_of(thousandth);
    std::vector<double> seconds;
    std::vector<double> cpu_seconds;
    for (unsigned i = 0; i < scans; ++i) {
      const cost took = timed([&] { s.find_below(below, r.threads, keys); });
      seconds.push_back(took.seconds);
      cpu_seconds.push_back(took.cpu_seconds);
      expect(keys == in.expected(below), "the keys of a filter");
    }
    const std::string name = "filter_" + query_inputs::percent_of(thousandth);
    r.out.add(name, in.n(), static_cast<double>(in.n()), median(seconds));
    r.out.add(name + "_cpu", in.n(), static_cast<double>(in.n()), median(cpu_seconds));
  }
}

void measure(const query_inputs& in, const run& r) {
  if (r.threads > 1 && !r.kind.parallel_extract) return;
  const auto s =
      r.kind.open_filtered({.folder = r.folder, .threads = r.threads, .records = 2 * in.n(), .keys = in.n()});
  in.load(*s);
  filter(in, r, *s);
  auto* const ours = dynamic_cast<icecore_filtered*>(s.get());
  if (ours == nullptr) return;
  measure_kept_queries(in, r, *ours);
  measure_filter_costs(in, r, *ours);
  measure_writers_beside(in, r, *ours);
}

}  // namespace

suite query_suite() {
  return {.name = "query",
          .what = "filters beside other stores', queries that are kept beside filters, and kills among them",
          .form = store_form::filtered,
          .prepare = [](std::uint64_t n) {
            const auto in = std::make_shared<const query_inputs>(n);
            std::vector<stage> stages = {{.work = [in](const run& r) { measure(*in, r); }}};
            std::ranges::move(killed_query_stages(in), std::back_inserter(stages));
            return stages;
          }};
}

}  // namespace icecore::bench

// What a kill costs a query that is kept: from opening to its first new key, killed at 10, 50 and 90 %; and the whole
// time with a kill at half. The store has the persistent index, which opens at once.
//
// After such an opening each record is checked when it is first shown, and the memory is mapped as it is touched. So
// the uninterrupted query that others are compared with runs in a process that has just opened the store, as they do.
//
// A function of the filter counts the evaluations, notes when the first one happens, and, where the kill is to come,
// lets nothing go on until the process is killed.
#include <fmt/format.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "../stores/icecore_filtered.hpp"
#include "icecore/icecore.hpp"
#include "phases.hpp"
#include "query.hpp"

namespace icecore::bench {
namespace {

constexpr std::int64_t below = 100'000;  // a tenth matches
constexpr std::uint64_t chunk_keys_max = 8192;
constexpr std::array<std::uint64_t, 3> percents = {10, 50, 90};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Moments by the clock of the machine, which all processes share.
struct moments {
  double uninterrupted;  // seconds of the whole query
  double to_the_kill;    // seconds from its start
};

/// The filter's function.
class probe {
 public:
  explicit probe(std::uint64_t stop_at) : stop_at_(stop_at) {}

  [[nodiscard]] block_function function() {
    return [this](std::span<const item> items, std::span<bool> flags) {
      // relaxed: a count; the semaphores order the rest
      const std::uint64_t before = evaluated_.fetch_add(items.size(), std::memory_order_relaxed);
      if (before == 0) first_.store(now_s(), std::memory_order_relaxed);
      if (before >= stop_at_) {
        stopped_.release();
        forever_.acquire();
      }
      for (std::size_t i = 0; i < items.size(); ++i) flags[i] = signed_number_of(items[i].value) < below;
    };
  }
  void wait_until_stopped() { stopped_.acquire(); }
  [[nodiscard]] double first() const { return first_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t evaluated() const { return evaluated_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t stop_at_;
  std::atomic<std::uint64_t> evaluated_{0};
  std::atomic<double> first_{0};
  std::counting_semaphore<> stopped_{0}, forever_{0};
};
constexpr std::uint64_t never = ~std::uint64_t{0};

std::string name_of(std::uint64_t percent) { return fmt::format("killed at {} %", percent); }

filter counted(probe& p) { return filter::of("counted", 1, p.function()); }

icecore_filtered* opened(const run& r) {
  return new icecore_filtered(r.folder, index_kind::persistent, r.threads);  // never closed: the process is killed
}

/// Runs a query in a thread of its own until `percent` of the keys are evaluated; then the caller returns, and the
/// process is killed. Returns the seconds from the start.
double run_until_killed(const query_inputs& in, const run& r, icecore::store& s, std::uint64_t percent) {
  auto* const p = new probe(in.n() * percent / 100);
  const double begin = now_s();
  std::thread([&s, p, threads = r.threads, name = name_of(percent)] {
    query q = s.start({.name = name, .where = counted(*p)});
    q.run({.threads = threads});
  }).detach();
  p->wait_until_stopped();
  return now_s() - begin;
}

void load_and_be_killed(const query_inputs& in, const run& r) {
  icecore_filtered* const s = opened(r);
  in.load(*s);
  run_until_killed(in, r, s->store(), percents.front());
}

void run_uninterrupted(const run& r, moments& known) {
  icecore_filtered* const s = opened(r);
  auto* const all = new probe(never);
  const double begin = now_s();
  query q = s->store().start({.name = "uninterrupted", .where = counted(*all)});
  q.run({.threads = r.threads});
  known.uninterrupted = now_s() - begin;
  q.drop();
}

void run_into_kill(const query_inputs& in, const run& r, moments& known, std::uint64_t percent) {
  known.to_the_kill = run_until_killed(in, r, opened(r)->store(), percent);
}

/// After the kill at so many percent: goes on, to the end.
void go_on(const query_inputs& in, const run& r, const moments& known, std::uint64_t percent) {
  auto* const p = new probe(never);
  const auto functions = [p](std::string_view name, std::uint64_t revision) {
    return caller_function{std::string(name), revision, p->function()};
  };
  const double begin = now_s();
  icecore_filtered* const s = opened(r);
  const double open = now_s();
  query q = s->store().query(name_of(percent), functions);
  const query_progress done = q.run({.threads = r.threads});
  const double end = now_s();
  r.out.add(fmt::format("resume_{}", percent), in.n(), 1, p->first() - begin);
  expect(done.state == query_state::finished && done.repeated <= r.threads * chunk_keys_max, "what was repeated");
  std::string keys;
  auto rows = q.results(0, false);
  for (const auto& row : rows) keys.append(row.key);
  expect(keys == in.expected(below), "the rows of a query that was killed");
  r.out.add_value(fmt::format("repeated_{}", percent), in.n(),
                  static_cast<double>(std::max<std::uint64_t>(done.repeated, 1)), "evaluations");
  if (percent == 50) {
    const double whole = known.to_the_kill + (end - open);
    r.out.add_value("killed_over_uninterrupted", in.n(), whole / known.uninterrupted, "ratio");
    r.out.add_value("from_scratch_over_killed", in.n(), (known.to_the_kill + known.uninterrupted) / whole, "ratio");
  }
  q.drop();
}

}  // namespace

std::vector<stage> killed_query_stages(const std::shared_ptr<const query_inputs>& in) {
  const auto known = std::make_shared<shared_array<moments>>(1);
  const auto of_icecore = [](const auto& work) {
    return [work](const run& r) {
      if (r.kind.name == "icecore") work(r);
    };
  };
  std::vector<stage> stages;
  stages.push_back({.work = of_icecore([in](const run& r) { load_and_be_killed(*in, r); })});
  const auto reopen = [&](const auto& work) { stages.push_back({.work = of_icecore(work), .reopens = true}); };
  for (const std::uint64_t percent : percents) {
    if (percent != percents.front()) {
      reopen([in, known, percent](const run& r) { run_into_kill(*in, r, (*known)[0], percent); });
    }
    reopen([in, known, percent](const run& r) { go_on(*in, r, (*known)[0], percent); });
    if (percent == percents.front()) reopen([known](const run& r) { run_uninterrupted(r, (*known)[0]); });
  }
  return stages;
}

}  // namespace icecore::bench
